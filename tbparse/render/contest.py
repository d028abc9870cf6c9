"""``--why`` and ``--all``: everything that was weighed, and why it lost."""

from __future__ import annotations

from tbparse.attribute.cascade import TIER_WORDS, Candidate
from tbparse.attribute.job import Decision, Job
from tbparse.render.layout import Sheet, cut
from tbparse.render.safe import printable
from tbparse.render.words import call, count

SHOWN = 60
"""Rows of ``--why`` before the rest is counted; ``--all`` shows everything."""


def put_contest(sheet: Sheet, job: Job | None) -> None:
    """What competed, strongest first, and the rules that fitted the chosen one."""
    decision = job.decision if job is not None else None
    if decision is None:
        return
    _put_witnesses(sheet, decision)
    sheet.blank()
    sheet.row(("What competed, strongest first", "bold"))
    ranked = sorted(decision.candidates, key=lambda c: (not _chosen(c, decision), c.tier, c.start))
    if not ranked:
        sheet.row(("  nothing that looks like a failure", ""))
    for c in ranked[:SHOWN]:
        won = _chosen(c, decision)
        _row(sheet, c, f"chosen: {_cause_why(decision)}" if won else f"lost: {c.why}", "green" if won else "")
    if len(ranked) > SHOWN:
        sheet.row((f"  … {count(len(ranked) - SHOWN, 'more failure')}: see --all", "dim"))
    _put_rules(sheet, decision)


def _put_witnesses(sheet: Sheet, decision: Decision) -> None:
    """What each witness saw, in the order of evidence, and on whose word the cause was chosen."""
    if not decision.statements:
        return
    sheet.blank()
    sheet.row(("What the witnesses say, strongest first", "bold"))
    heard = False
    for s in decision.statements:
        decided = not heard and s.accuses is not None
        heard = heard or decided
        where = f"line {s.line.no}" if s.line is not None else ""
        where += f" of {s.source}" if where and s.source else ""
        tail = f" ({where})" if where else ""
        mark = " ← decides" if decided else ""
        sheet.row((f"  {s.witness}", "bold green" if decided else "bold"), (mark, "green"))
        sheet.text(f"{s.claim}{tail}", "" if decided else "dim", indent=4)


def put_failures(sheet: Sheet, job: Job | None) -> None:
    """Each failure of the log, in its order."""
    decision = job.decision if job is not None else None
    if decision is None:
        return
    sheet.blank()
    sheet.row((f"All failures of the log ({len(decision.candidates)})", "bold"))
    for c in decision.candidates:
        _row(sheet, c, TIER_WORDS[c.tier], "green" if _chosen(c, decision) else "")
        for twin in c.twins:
            who = f"rank {twin.rank}" if twin.rank is not None else "a copy"
            sheet.row((f"  {'line ' + str(twin.first.no):<11} {who:<8} the same", "dim"))


def _chosen(c: Candidate, decision: Decision) -> bool:
    return decision.cause is not None and (c is decision.cause or c.failure is decision.cause.failure)


def _cause_why(decision: Decision) -> str:
    cause = decision.cause
    return "" if cause is None else f"{cause.why}; {cause.root.why}" if cause.root.why != "the exception" else cause.why


def _row(sheet: Sheet, c: Candidate, why: str, style: str) -> None:
    line = c.root.link.line or c.failure.first
    rank = f"rank {c.failure.rank}" if c.failure.rank is not None else ""
    name = call(c.failure, c.root.link)
    message = (c.root.link.message or "").strip().split("\n", 1)[0]
    what = f"{name}: {message}" if message else name
    lead = f"  {'line ' + str(line.no):<11} {rank:<8} "
    sheet.row((lead, "dim"), (cut(printable(what), sheet.width - len(lead)), style))
    sheet.text(why, "dim", indent=len(lead))
    if c.failure.source:
        sheet.text(f"in {c.failure.source}", "dim", indent=len(lead))


def _put_rules(sheet: Sheet, decision: Decision) -> None:
    cause = decision.cause
    if cause is None:
        return
    sheet.blank()
    match = cause.root.match
    if match is None:
        sheet.text("No rule knows it; `tbparse rules list` shows what is known", "bold")
        return
    sheet.row(("Rules that fitted, most specific first", "bold"))
    sheet.row((f"  {match.specificity:>4}  ", "dim"), (match.rule.id, "green"), (f"  by {match.by}", "dim"))
    for m in cause.root.runners:
        generic = ", generic" if m.rule.generic else ""
        sheet.row((f"  {m.specificity:>4}  ", "dim"), (m.rule.id, ""), (f"  by {m.by}{generic}", "dim"))
