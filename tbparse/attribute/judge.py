"""The judge: hears the witnesses in the order of evidence and says which failure began it.

Order of evidence: a scheduler's or the kernel's line beats a local error, a local error beats a worker that died by a signal, and
that beats an error of communication; a wrapper speaks only when nothing else does. What was logged and survived, what ended
a thread, and what the interpreter swallowed come last of all. Among equals the first began it: by place within a log, by time
across logs, and where no time tells by attempt and rank, so that the order in which logs are read never matters.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from tbparse.attribute.cascade import Candidate, Tier
from tbparse.attribute.clocks import Clocks, Moment, scale, time_in
from tbparse.attribute.handled import may_have_ended
from tbparse.attribute.sameness import fingerprint
from tbparse.attribute.survived import PROGRESS_LINES
from tbparse.attribute.unwrap import blame, short
from tbparse.attribute.witnesses import Case, Statement
from tbparse.dialects import frames as f
from tbparse.records import Failure, Line, RankExit
from tbparse.text.blocks import LINES_AFTER

if TYPE_CHECKING:
    from tbparse.attribute.hang import Absence

VAIN = re.compile(
    r"(?i)timed? ?out|timeout|failed to pass monitoredBarrier|clients joined|missing[_ ]ranks|detected by watchdog"
    r"|deadline.exceeded"
)
"""Texts of a rank that waited for others and gave up."""
_OWN = (Tier.LOCAL, Tier.CRASH, Tier.BARE)


def failure_times(failures: Iterable[Failure], exits: Sequence[RankExit], clocks: Clocks) -> dict[int, float]:
    """When failures (by ``id``) happened at the earliest: seconds on one scale, for those of which the log tells."""
    hosts = {e.rank: e.host for e in exits if e.rank is not None and e.host is not None}
    known: list[tuple[int, Moment | None]] = []
    for x in failures:
        time = x.tags.time or time_in(x.first.text) or x.after
        known.append((id(x), clocks.at(time, x.tags.host or (hosts.get(x.rank) if x.rank is not None else None))))
    values = scale([m for _, m in known])
    return {i: t for (i, _), t in zip(known, values, strict=True) if t is not None}


def in_order(failures: Sequence[Failure], times: Mapping[int, float]) -> list[Failure]:
    """Failures as they are believed to have happened: by place in a single log; across logs by attempt, time, rank and name."""
    sources = {x.source for x in failures}
    if len(sources) <= 1:
        return sorted(failures, key=lambda x: x.first.start)
    # A time that some of them lack orders nothing: then the rank and the log's name do, which are the same in any order of files.
    told = all(id(x) in times for x in failures if not x.in_summary)
    far = float("inf")

    def key(x: Failure) -> tuple[object, ...]:
        rank = x.rank if x.rank is not None else far
        return (x.attempt or 0, times.get(id(x), far) if told else 0.0, x.source is not None, rank, x.source or "", x.first.start)

    return sorted(failures, key=key)


def rank_order(candidates: Sequence[Candidate], times: Mapping[int, float]) -> list[Candidate]:
    """Candidates strongest first: by tier, and within a tier as they are believed to have happened."""
    out: list[Candidate] = []
    for tier in sorted({c.tier for c in candidates}):
        found = {id(c.failure): c for c in candidates if c.tier is tier}
        same = [c for c in candidates if c.tier is tier]
        if len(found) == len(same):
            out += [found[id(x)] for x in in_order([c.failure for c in same], times)]
        else:
            out += sorted(same, key=lambda c: c.start)
    return out


def weigh(
    candidates: Sequence[Candidate],
    exits: Sequence[RankExit],
    closed: set[int],
    times: Mapping[int, float],
    lines: Sequence[Line] = (),
) -> None:
    """Correct tiers by what only the whole job shows. ``lines``: what was kept of the log beside the failures."""
    locals_ = [c for c in candidates if c.tier is Tier.LOCAL]
    progress: list[tuple[int, str]] | None = None
    for c in candidates:
        rule = c.root.match.rule if c.root.match else None
        if c.tier is not Tier.SYSTEM or (rule is not None and rule.category != "scheduler"):
            continue
        if progress is None:
            progress = _progress(lines) if any(map(_lasts, locals_)) else []
        if any(_went_on_between(c, own, progress) for own in locals_):
            c.tier, c.why = Tier.EFFECT, "the work went on after it, until an error of its own that lasts"
            continue
        # A scheduler's line that comes after a rank's own error reports the end of a job that was already dying, and one that
        # ended an earlier attempt does not explain what a later one raised.
        for own in locals_:
            # What only a rule knows as a scheduler's line may be another job's: it gives way to what a rerun raises again.
            if c.failure.kind != "scheduler" and not _lasts(own):
                continue
            if not _interrupted(own) and (why := _before(own, c, times)) is not None:
                c.tier, c.why = Tier.EFFECT, why
                break
    if not locals_ and any(e.exit_code is not None and e.exit_code > 0 for e in exits):
        # Some process ended with a Python exception: what looked survived in a console of many ranks may be it.
        for c in candidates:
            if c.tier is not Tier.DEMOTED or c.failure.kind != "traceback" or c.failure.fate_why == RESTARTED:
                continue
            if may_have_ended(c, candidates, exits):
                c.tier, c.why = Tier.LOCAL, "a worker ended with an exception, and this is the one in the log"
    named = {e.pid for e in exits if e.named_root and e.pid is not None}
    for c in candidates:
        pid = c.failure.pid
        if c.failure.kind == "launcher" and c.failure.signal == 15 and closed and pid not in closed and pid in named:
            c.tier, c.why = Tier.DEATH, "the SIGTERM came from outside: the launcher sent none to this worker"


def _progress(lines: Sequence[Line]) -> list[tuple[int, str]]:
    """Where lines of progress begin, in order, with their texts; of a run of equal ones the first and the last."""
    found = sorted((x.start, x.text) for x in lines if f.PROGRESS.search(x.text))
    last = len(found) - 1
    return [
        (start, text)
        for k, (start, text) in enumerate(found)
        if k in (0, last) or found[k - 1][1] != text or found[k + 1][1] != text
    ]


def _went_on_between(line: Candidate, own: Candidate, progress: Sequence[tuple[int, str]]) -> bool:
    """Whether the job worked on (or was queued again) after a scheduler's line, and then raised what a rerun raises again."""
    a, b = line.failure, own.failure
    if not _lasts(own) or a.source != b.source:
        return False
    seen: set[str] = set()
    for k in range(bisect_right(progress, a.last.start, key=itemgetter(0)), len(progress)):
        start, text = progress[k]
        if start >= b.first.start:
            break
        seen.add(text)
        if len(seen) >= PROGRESS_LINES:
            return True
    return False


def _lasts(own: Candidate) -> bool:
    """Whether a rule says that the error comes again in every run."""
    return own.root.match is not None and own.root.match.rule.verdict == "real"


RESTARTED = "the launcher started the ranks again, and they went on"


def _before(own: Candidate, line: Candidate, times: Mapping[int, float]) -> str | None:
    """Why a scheduler's line does not explain a rank's own error; None where it may."""
    a, b = own.failure, line.failure
    if a.attempt is not None and b.attempt is not None and a.attempt > b.attempt:
        return "ended an earlier attempt"
    if a.source == b.source:
        return "came after a rank's own error" if a.first.start < b.first.start else None
    first, then = times.get(id(a)), times.get(id(b))
    if first is not None and then is not None:
        return "came after a rank's own error" if first < then else None
    rule = own.root.match.rule if own.root.match else None
    # Nothing tells which was first. A bug is a bug whatever the scheduler did, and must not be run again for its sake.
    return "no time tells that it came before a rank's own error" if rule is None or rule.verdict != "transient" else None


def judge(case: Case, statements: Iterable[Statement]) -> Candidate | None:
    """The failure that the strongest witness accuses, or None when none ended the job."""
    cause = next((s.accuses for s in statements if s.accuses is not None), None)
    if cause is None:
        return None
    cause = _of_other_attempt(case, cause)
    if case.disagreement is not None and case.disagreement.odd is not None:
        cause = _of_rank(case, cause, case.disagreement.odd)
    if cause.failure.kind == "native" and cause.root.link.exception is None:
        cause = _typed(cause, case.ranked)
    return cause


def _of_other_attempt(case: Case, cause: Candidate) -> Candidate:
    """Where the chosen failure may pass, but another attempt failed with a rank's own error that will not, the latter."""
    if not case.attempts or cause.tier not in (Tier.SYSTEM, *_OWN) or not _may_pass(cause):
        return cause
    for c in case.of(*_OWN):
        if c.failure.attempt != cause.failure.attempt and not _may_pass(c) and not _interrupted(c):
            return c
    return cause


def _may_pass(c: Candidate) -> bool:
    return c.root.match is not None and c.root.match.rule.may_retry


def _of_rank(case: Case, cause: Candidate, rank: int) -> Candidate:
    """The same failure as this one, of the given rank."""
    rule = cause.root.match.rule.id if cause.root.match else None
    for c in case.ranked:
        other = c.root.match.rule.id if c.root.match else None
        if c.tier is cause.tier and other == rule and c.failure.rank == rank and c.root.link.exception == cause.root.link.exception:
            return c
    return cause


def waited_in_vain(c: Candidate) -> bool:
    """Whether a failure is that of a rank that waited for others."""
    rule = c.root.match.rule if c.root.match else None
    about = c.tier is Tier.EFFECT or (rule is not None and rule.category == "communication")
    return about and VAIN.search(c.root.link.message or "") is not None


def reports(candidates: Sequence[Candidate]) -> dict[int, bool]:
    """Ranks that printed a failure of their own, and whether it was that they waited in vain."""
    out: dict[int, bool] = {}
    for c in candidates:
        if c.tier >= Tier.CLOSING or c.failure.kind == "launcher":
            continue
        vain = waited_in_vain(c)
        for x in (c.failure, *c.twins):
            for rank in (x.rank, *(t.rank for t in x.also)):
                if rank is not None and x.kind != "launcher":
                    out[rank] = out.get(rank, False) or vain
    return out


def missing(case: Case, closed: set[int]) -> list[Absence]:
    """Who did not arrive, by every source that tells, strongest first."""
    told = reports(case.ranked)
    if not case.facts.collective and not any(told.values()):
        return []
    from tbparse.attribute.hang import absences  # most jobs do not hang

    ended = {e.pid for e in case.exits if e.exit_code == -15 and e.pid is not None and closed and e.pid not in closed}
    return absences(case.facts, case.exits, told, ended)


def doubt(case: Case, cause: Candidate) -> str | None:
    """Why a failure that may pass is not to be trusted to: it came twice alike, or nobody is left who could have been late."""
    rule = cause.root.match.rule if cause.root.match else None
    if rule is None or not rule.may_retry or rule.category == "scheduler":
        return None
    mine = _print(cause) if case.attempts else ""
    alike = {x.attempt for x in (cause.failure, *cause.twins) if x.attempt is not None and not x.in_summary}
    for number, found in case.attempts.items():
        if any(c.tier is cause.tier and _print(c) == mine for c in found):
            alike.add(number)
    if len(alike) > 1:
        told = ", ".join(str(n) for n in sorted(alike))
        return f"attempts {told} failed alike: what comes again is no accident, so running it once more is not expected to help"
    logged = _logged_near(case, cause) if rule.category == "communication" else None
    if logged is not None:
        what, no = short(logged.root.link.exception), logged.failure.first.no
        return f"another process logged {what} shortly before (line {no}): it may be the cause, and may come again"
    alone = waited_in_vain(cause) and case.disagreement is None and not case.absences and not case.facts.works
    if not alone:
        return None
    from tbparse.attribute.hang import all_waited

    if all_waited(case.facts, case.exits, reports(case.ranked)):
        return "every rank waited in vain and none is missing: they may wait in different collectives, and a new run end alike"
    return None


def _logged_near(case: Case, cause: Candidate) -> Candidate | None:
    """An error that may not pass and that a logger printed, not far above a broken connection: it may have broken it."""
    for c in case.of(Tier.LOGGED):
        near = c.failure.source == cause.failure.source and 0 < cause.failure.first.no - c.failure.last.no <= LINES_AFTER
        if near and c.failure.kind == "traceback" and not _may_pass(c):
            return c
    return None


def _print(c: Candidate) -> str:
    site, _ = blame(c.failure.links, c.root.index)
    return fingerprint(c.root.match.rule.id if c.root.match else None, c.root.link, site)


def _typed(c: Candidate, ranked: Sequence[Candidate]) -> Candidate:
    """The traceback of the same failure that a native line announces: it has a type and frames."""
    for other in ranked:
        a, b = other.root.match, c.root.match
        same = a is not None and b is not None and a.rule.category == b.rule.category
        if (
            other.tier is c.tier
            and same
            and other.failure.kind == "traceback"
            and (c.failure.rank is None or other.failure.rank in (None, c.failure.rank))
        ):
            return other
    return c


def _interrupted(c: Candidate) -> bool:
    return short(c.root.link.exception) in ("KeyboardInterrupt", "SignalException", "SystemExit")
