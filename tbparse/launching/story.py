"""What the earlier attempts of a job say about its latest failure: how far it got, and what it failed for since then.

A failure passes until it has come before and nothing was done in between, whatever else came in between: two failures that
take turns are no better than one that comes twice. Progress is measured against the furthest point of all attempts, not of
the one before. A success ends the story.
"""

from __future__ import annotations

import time
from calendar import timegm
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tbparse.launching.progress import went_further
from tbparse.model import RootCause

MAX_FAILURES = 10
"""So many failures in a row with no progress, all of them different, are enough (or as many as retries were asked for)."""
MAX_PREEMPTIONS = 20
"""So many preemptions in a row with no progress: the job never gets to work."""
LAPSE_S = 6 * 3600.0
"""After so long without an attempt a story that no scheduler's id holds together is over: somebody starts the job anew."""


@dataclass
class Story:
    """The attempts since the last success. ``best``: the furthest that each counter got; ``seen``: what it failed for since
    it last got further; ``failures`` and ``preemptions``: how many of either since then."""

    best: dict[str, float] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    failures: int = 0
    preemptions: int = 0
    attempts: int = 0

    def further(self, progress: Mapping[str, float]) -> bool:
        """Whether an attempt that counted so far got further than any before; the first one did not."""
        return self.attempts > 0 and went_further(self.best, progress)

    def add(self, failure: str | None, progress: Mapping[str, float], *, preempted: bool, further: bool) -> bool:
        """Take an attempt that failed into account; whether its failure came before with no progress since."""
        if further:
            self.seen.clear()
            self.failures = self.preemptions = 0
        self.attempts += 1
        for name, value in progress.items():
            self.best[name] = max(value, self.best.get(name, value))
        if preempted:
            self.preemptions += 1
            return False
        self.failures += 1
        known = failure is not None and failure in self.seen
        if failure is not None:
            self.seen.add(failure)
        return known


def is_preemption(category: object) -> bool:
    """Whether it says nothing about the job: the scheduler took its place, or the node failed."""
    return category == "scheduler"


def identity(answer: RootCause) -> str | None:
    """What two attempts with the same failure have in common; None where nothing is known of it."""
    return answer.fingerprint or answer.rule or answer.exception


def told_by(records: Sequence[Mapping[str, Any]], *, lapses: bool) -> tuple[Story, int]:
    """The story that a job's records tell, oldest first, and the number of its latest attempt.

    ``lapses``: whether a pause of more than :data:`LAPSE_S` between two attempts, or since the last one, ends it. Several
    records of one attempt in a row, which differ in what follows it alone, are one: the last.
    """
    single: list[Mapping[str, Any]] = []
    for record in records:
        if single and _told(single[-1]) == _told(record):
            single.pop()
        single.append(record)
    story, number, ended = Story(), 0, None
    for record in single:
        began = _time(record.get("began"))
        if _ended_well(record) or (lapses and _lapsed(ended, began)):
            story, number = Story(), 0
        ended = began + (_number(record.get("seconds")) or 0.0) if began is not None else None
        if _ended_well(record):
            continue
        told = record.get("progress")
        numbers = {k: _number(v) for k, v in told.items()} if isinstance(told, dict) else {}
        progress = {k: v for k, v in numbers.items() if v is not None}
        names = (record.get(k) for k in ("fingerprint", "rule", "exception"))
        failure = next((x for x in names if isinstance(x, str)), None)
        further = record.get("further") is True or story.further(progress)
        story.add(failure, progress, preempted=is_preemption(record.get("category")), further=further)
        given = record.get("attempt")
        number = given if isinstance(given, int) else number
    if lapses and _lapsed(ended, time.time()):
        return Story(), 0
    return story, number


def _told(record: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in record.items() if k not in ("next", "wait_s", "why")}


def _ended_well(record: Mapping[str, Any]) -> bool:
    return record.get("returncode") == 0 or record.get("verdict") == "clean"


def _number(value: object) -> float | None:
    """A number as these files have them; others are somebody else's writing."""
    return float(value) if isinstance(value, (int, float)) and -1e15 < value < 1e15 else None


def _time(value: object) -> float | None:
    try:
        return float(timegm(time.strptime(str(value), "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return None


def _lapsed(ended: float | None, began: float | None) -> bool:
    return ended is not None and began is not None and began - ended > LAPSE_S
