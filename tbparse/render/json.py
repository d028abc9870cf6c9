"""The contract: the answer as one line of JSON."""

from __future__ import annotations

from tbparse.render.report import Report


def render(report: Report, *, width: int = 80, colour: bool = False) -> str:
    """The answer's JSON and a newline; ``tbparse.RootCause.from_json`` reads it back."""
    del width, colour
    return report.answer.to_json() + "\n"
