"""The answer on one line: for a note on an exception, a log record, a list."""

from __future__ import annotations

from tbparse.model import RootCause
from tbparse.render.layout import cut
from tbparse.render.safe import printable
from tbparse.render.words import ends

MAX_CELLS = 300
_MEANING = {
    "real": "will fail again until something is changed",
    "transient": "running it again may well work",
    "unknown": "whether running it again would help is not known",
    "clean": "nothing failed",
}


def one_line(answer: RootCause) -> str:
    """``ValueError: the real cause, at train.py:1 in <module>, on rank 3 [real: …]``: no control characters."""
    if answer.verdict == "clean":
        return f"{_MEANING['clean']} [clean]"
    first = (answer.message or "").strip("\n").split("\n", 1)[0].strip()
    head = ": ".join(x for x in (answer.exception, first) if x)
    parts = [cut(printable(head), MAX_CELLS) if head else ends(answer) or answer.title or "it failed, and the log does not say how"]
    site = answer.site
    if site is not None:
        number = f":{site.line}" if site.line is not None else ""
        function = f" in {printable(site.function)}" if site.function else ""
        parts.append(f"at {printable(site.path)}{number}{function}")
    if answer.rank is not None:
        parts.append(f"on rank {answer.rank}" + (f" ({printable(answer.host)})" if answer.host is not None else ""))
    return f"{', '.join(parts)} [{answer.verdict}: {_MEANING[answer.verdict]}]"
