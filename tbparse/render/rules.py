"""Rules for a person: a list, and the page of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tbparse.render.layout import Sheet, cells, cut
from tbparse.ruleset.match import default_retry
from tbparse.ruleset.schema import Matcher, Rule

STYLES = {"real": "red", "transient": "yellow", "unknown": "magenta"}
EXAMPLE_LINES = 12


def listing(rules: Sequence[Mapping[str, Any]], *, width: int, colour: bool) -> str:
    """One row a rule: verdict, id, title."""
    sheet = Sheet(width)
    room = max((cells(r["id"]) for r in rules), default=0)
    for r in rules:
        row = [(f"{r['verdict']:<10} ", STYLES[r["verdict"]]), (f"{r['id']:<{room}}  ", "bold")]
        title = sheet.width - 13 - room
        if title >= 20:
            row.append((cut(r["title"], title), ""))
        sheet.row(*row)
    sheet.row((f"{len(rules)} rule{'' if len(rules) == 1 else 's'}", "dim"))
    return sheet.written(colour)


def page(rule_id: str, rule: Rule, path: Path, *, width: int, colour: bool) -> str:
    """A rule's documentation."""
    sheet = Sheet(width)
    sheet.row((rule.title, "bold"))
    kind = f", {rule.category}, {rule.stability}"
    sheet.row((rule_id, "cyan"), (f"  {rule.verdict}", STYLES[rule.verdict]), (kind, ""))
    sheet.blank()
    sheet.text(" ".join(rule.summary.split()))
    _section(sheet, "Matches when any of these holds" if len(rule.match) > 1 else "Matches when")
    for m in rule.match:
        _matcher(sheet, m)
    if rule.unless:
        _section(sheet, "Unless")
        for m in rule.unless:
            _matcher(sheet, m)
    kinds = (
        ("only ever an effect of another failure", rule.symptom),
        ("such a line ends a job by itself", rule.fatal),
        ("gives way to any other rule", rule.generic),
    )
    marks = [words for words, on in kinds if on]
    if rule.over:
        marks.append(f"goes over {', '.join(rule.over)}")
    for mark in marks:
        sheet.text(mark, "dim", indent=2)
    if rule.qualifiers:
        _section(sheet, "The verdict turns when")
        for q in rule.qualifiers:
            sheet.text(f"{q.because} → {q.verdict or rule.verdict}", indent=4, first="  - ")
    _section(sheet, "What to do")
    for line in rule.advice:
        sheet.text(line, indent=4, first="  - ")
    retry = rule.retry or default_retry(rule.verdict)
    often = f", after {retry.delay_s:g} s, at most {retry.max} times" if retry.action != "stop" else ""
    sheet.text(f"retry: {retry.action}{often}", indent=4, first="  - ")
    example = rule.examples[0]
    _section(sheet, f"Example ({example.source})")
    lines = example.text.rstrip("\n").split("\n")
    for line in lines[:EXAMPLE_LINES]:
        sheet.row(("  ", ""), (cut(line, sheet.width - 2), "dim"))
    if len(lines) > EXAMPLE_LINES:
        sheet.row((f"  … {len(lines) - EXAMPLE_LINES} more lines", "dim"))
    for title, words in (("Related", rule.related), ("References", rule.references)):
        if words:
            _section(sheet, title)
            for word in words:
                sheet.row((f"  {word}", ""))
    sheet.blank()
    sheet.row((str(path), "dim"))
    return sheet.written(colour)


def _section(sheet: Sheet, title: str) -> None:
    sheet.blank()
    sheet.text(title, "bold")


def _matcher(sheet: Sheet, matcher: Matcher) -> None:
    for i, (key, value) in enumerate(matcher.model_dump(exclude_none=True).items()):
        shown = " or ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        sheet.text(f"{key}: {shown}", indent=4, first="  - " if i == 0 else "    ")
