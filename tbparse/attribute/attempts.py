"""Attempts of one job: which failure belongs to which, and what ended each.

A launcher starts the ranks again (``torchrun --max-restarts``), a scheduler the whole job (a Slurm requeue), Ray a task. A folder
of logs names attempts; a console shows where one ends: the agent's line about a failed worker that is not followed by its own
ChildFailedError, or a line that says that the job starts again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from tbparse.attribute.cascade import Candidate
from tbparse.attribute.clocks import gap, read_time
from tbparse.attribute.facts import Facts, Restart
from tbparse.dialects.wrappers import short
from tbparse.records import Failure, RankExit

_SUMMARY = "ChildFailedError"
QUOTED_WITHIN = 12
"""So many lines below a line that quotes a failure its traceback begins."""
BEGAN_AGAIN = 120.0
"""Seconds after the scheduler's line from which on a failure is that of a job that began again."""


def number_attempts(
    facts: Facts, exits: Sequence[RankExit], failures: Sequence[Failure], working: int = -1
) -> dict[str | None, list[int]]:
    """Set ``attempt`` of failures and exits that have none, by where attempts end. Offsets of those ends, by log.

    An end after which nothing comes is the job's: only failures, or work at ``working`` (the offset of the console's last
    sign of work), make a further attempt.
    """
    found: dict[str | None, list[int]] = {}
    for source in {x.source for x in failures} | {x.source for x in exits}:
        own = [x for x in failures if x.source == source]
        latest = max((x.first.start for x in own), default=-1)
        ends = [end for end in _ends(source, facts, exits, failures) if end <= latest or (source is None and end <= working)]
        if not ends:
            continue
        found[source] = ends
        for failure in failures:
            if failure.source == source and failure.attempt is None:
                failure.attempt = bisect_right(ends, failure.first.start)
        for fact in exits:
            if fact.source == source and fact.attempt is None:
                fact.attempt = bisect_right(ends, fact.line.start)
    return found


def _ends(source: str | None, facts: Facts, exits: Sequence[RankExit], failures: Sequence[Failure]) -> list[int]:
    """Offsets at which an attempt of this log is over."""
    said = {end for r in facts.restarts if r.source == source and (end := _end(r, failures)) is not None}
    if said:
        return sorted(said)
    # The agent says once an attempt that a worker failed (with pid and local rank, without a time), and raises after the last.
    agents = sorted(
        {
            (e.line.start, e.line.end)
            for e in exits
            if e.source == source and e.launcher == "torchrun" and e.pid is not None and e.time is None and e.rank is None
        }
    )
    raised = [x for x in failures if x.source == source and any(short(k.exception) == _SUMMARY for k in x.links)]
    # With several agents in one console each says so and each raises: what is left over is restarts, of every agent one.
    crowd = max(1, len(raised))
    spare = len(agents) - len(raised)
    return [end for _, end in agents[:spare]][crowd - 1 :: crowd] if spare > 0 else []


def _end(restart: Restart, failures: Sequence[Failure]) -> int | None:
    """Where the attempt is over that a line speaks of; None where the job did not begin again."""
    line = restart.line
    later = sorted((x for x in failures if x.source == restart.source and x.first.start >= line.end), key=lambda x: x.first.start)
    if restart.how == "quotes":
        quoted = later[0] if later and later[0].first.no - line.no <= QUOTED_WITHIN else None
        return line.end if quoted is None else quoted.last.end
    if restart.how == "cancelled":
        # Ranks that are being ended print for as long as the scheduler lets them (Slurm's KillWait: half a minute).
        told = read_time(line.text)
        for x in later:
            moment = read_time(x.tags.time or x.after)
            if told is not None and moment is not None and (gap(moment, told) or 0.0) >= BEGAN_AGAIN:
                return line.end
        return None
    return line.end


def by_attempt(candidates: Sequence[Candidate]) -> dict[int, list[Candidate]]:
    """Failures by the attempt in which they, or a copy of them, happened; empty where the log tells of one attempt only."""
    out: dict[int, list[Candidate]] = {}
    for c in candidates:
        for number in sorted({x.attempt for x in (c.failure, *c.twins) if x.attempt is not None and not x.in_summary}):
            out.setdefault(number, []).append(c)
    return out if len(out) > 1 or max(out, default=0) > 0 else {}
