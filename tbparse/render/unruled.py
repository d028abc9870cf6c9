"""For a failure that no rule knows: the command that drafts one, ready to be pasted."""

from __future__ import annotations

import shlex

from tbparse.render.layout import Sheet
from tbparse.render.report import Report
from tbparse.ruleset.draft import AREAS, name_of


def command(report: Report) -> tuple[str, str]:
    """Two lines of a shell command: ``tbparse rules new`` with the log and its line, and the rule's id and verdict."""
    answer = report.answer
    decision = report.job.decision if report.job is not None else None
    line = answer.evidence[-1].line
    if decision is not None and decision.cause is not None:
        link = decision.cause.root.link
        line = (link.line or decision.cause.failure.first).no
    source = answer.evidence[0].source or report.name
    log = "-" if source in (None, "standard input") else shlex.quote(str(source))
    rule_id = f"{AREAS[answer.category or 'unknown']}/{name_of(answer.exception, answer.message or answer.evidence[-1].text)}"
    return f"tbparse rules new {log} --line {line} \\", f"  --id {rule_id} --verdict {answer.verdict}"


def put_command(sheet: Sheet, report: Report) -> None:
    """How to write the missing rule."""
    if report.answer.verdict != "clean":
        sheet.item("draft", [(line, "dim") for line in command(report)])
