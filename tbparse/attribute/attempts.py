"""Attempts of one job: which failure belongs to which, and what ended each.

A launcher starts the ranks again (``torchrun --max-restarts``), a scheduler the whole job (a Slurm requeue), Ray a task. A folder of
logs names attempts; a console shows where one ends: the agent's line about a failed worker that is not followed by its own
ChildFailedError, or a line that says that the job starts again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from tbparse.attribute.cascade import Candidate
from tbparse.attribute.facts import Facts
from tbparse.dialects.wrappers import short
from tbparse.records import Failure, RankExit

_SUMMARY = "ChildFailedError"


def number_attempts(facts: Facts, exits: Sequence[RankExit], failures: Sequence[Failure]) -> dict[str | None, list[int]]:
    """Set ``attempt`` of failures and exits that have none, by where attempts end. Offsets of those ends, by log."""
    found: dict[str | None, list[int]] = {}
    for source in {x.source for x in failures} | {x.source for x in exits}:
        ends = _ends(source, facts, exits, failures)
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
    said = sorted({line.end for log, line in facts.restarts if log == source})
    if said:
        return said
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


def by_attempt(candidates: Sequence[Candidate]) -> dict[int, list[Candidate]]:
    """Failures by the attempt in which they, or a copy of them, happened; empty where the log tells of one attempt only."""
    out: dict[int, list[Candidate]] = {}
    for c in candidates:
        for number in sorted({x.attempt for x in (c.failure, *c.twins) if x.attempt is not None and not x.in_summary}):
            out.setdefault(number, []).append(c)
    return out if len(out) > 1 or max(out, default=0) > 0 else {}
