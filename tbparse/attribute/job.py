"""All that was found in the logs of one job, and the decision about it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from tbparse.attribute.cascade import Candidate
from tbparse.attribute.clocks import Clocks, time_in
from tbparse.attribute.facts import Facts
from tbparse.attribute.witnesses import Case, Statement, hear
from tbparse.dialects.base import Page
from tbparse.records import NO_TAGS, Failure, Line, RankExit, Tags, text_of

if TYPE_CHECKING:
    from tbparse.attribute.hang import Absence, Disagreement

MAX_FAILURES = 4000
MAX_EVIDENCE_LINES = 20_000
MAX_EXITS = 20_000
FOLD_FROM = 512
"""From so many failures on, those that are equal but for numbers are kept up to :data:`MAX_EQUAL` times."""
MAX_EQUAL = 256
MAX_EQUAL_LINES = 32
_KEEP_HEAD = 1000
NEAR = 200
"""So many lines above a failure are looked at for a time."""


@dataclass
class Job:
    """Failures, worker exits and loose lines of a job, in the order of the log; bounded however long the log is."""

    failures: list[Failure] = field(default_factory=list)
    exits: list[RankExit] = field(default_factory=list)
    evidence: list[Line] = field(default_factory=list)
    last_lines: list[Line] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    last_no: int = 0
    """Number of the log's last line."""
    dropped: int = 0
    """Failures that were counted, not kept."""
    passed: int = 0
    """Bytes that looked like a failure and were not read, since each of their lines repeats one that was."""
    skipped: int = 0
    """Bytes of the log before what was read, where only its end was asked for."""
    decision: Decision | None = None
    facts: Facts = field(default_factory=Facts)
    tags: Tags = NO_TAGS
    """What the log's own name tells about who writes it."""
    source: str | None = None
    """The log's name, where it is one of several."""
    _kinds: dict[tuple[object, ...], list[Failure]] = field(default_factory=dict)
    _lines: dict[str, int] = field(default_factory=dict)

    def add(self, failures: Sequence[Failure], exits: Sequence[RankExit], page: Page) -> None:
        """Take in what a page held."""
        for fact in exits:
            fact.source = self.source
        timeless = (0, 0)
        for failure in failures:
            timeless = _set_time(failure, page, timeless)
        self.facts.read(page, exits, self.tags, self.source)
        self._keep(failures)
        self.exits += exits[: max(0, MAX_EXITS - len(self.exits))]
        loose = list(filter(text_of, page.free_lines()))
        self.evidence += loose
        self.evidence += [
            x.root.line for x in failures if x.kind in ("native", "kernel", "scheduler", "exit") and x.root.line is not None
        ]
        if len(self.evidence) > MAX_EVIDENCE_LINES:
            del self.evidence[_KEEP_HEAD : len(self.evidence) - MAX_EVIDENCE_LINES + _KEEP_HEAD]
        if page.lines:
            self.last_no = max(self.last_no, page.lines[-1].no)
        if loose:
            self.last_lines = (self.last_lines + loose[-60:])[-60:]

    def merge(self, other: Job) -> None:
        """Take over another log of the same job."""
        self._keep(other.failures)
        self.exits += other.exits[: max(0, MAX_EXITS - len(self.exits))]
        for line in other.evidence:
            # Thousands of ranks print the same lines: of those that are equal but for numbers a few say it all.
            mask = line.text.translate(_DIGITS)
            seen = self._lines[mask] = self._lines.get(mask, 0) + 1
            if seen <= MAX_EQUAL_LINES and len(self.evidence) < MAX_EVIDENCE_LINES:
                self.evidence.append(line)
        self.notes += other.notes
        self.dropped += other.dropped
        self.passed += other.passed
        self.facts.merge(other.facts)

    def _keep(self, failures: Sequence[Failure]) -> None:
        """Add failures; in a flood those that are equal but for numbers are counted, and their places kept."""
        for failure in failures:
            if len(self.failures) >= FOLD_FROM:
                if not self._kinds:
                    for known in self.failures:
                        self._kinds.setdefault(_kind(known), []).append(known)
                equal = self._kinds.setdefault(_kind(failure), [])
                if len(equal) >= MAX_EQUAL:
                    _fold(equal, failure, self.failures)
                    continue
                equal.append(failure)
            if len(self.failures) >= MAX_FAILURES:
                # The first failures and the last ones matter; of a flood in between only the number is kept.
                self.dropped += 1
                del self.failures[_KEEP_HEAD]
            self.failures.append(failure)


_DIGITS = dict.fromkeys(map(ord, "0123456789"), None)


def _kind(failure: Failure) -> tuple[object, ...]:
    """What equal failures of different ranks share: all but the numbers in their messages."""
    links = tuple(
        (x.exception, (x.message or "")[:2000].translate(_DIGITS), tuple((y.path, y.line) for y in x.frames), len(x.leaves))
        for x in failure.links
    )
    return (failure.kind, failure.dialect, failure.fate, failure.signal, failure.exit_code, failure.attempt, links)


def _fold(equal: list[Failure], failure: Failure, kept: list[Failure]) -> None:
    """Count one more failure of a kind of which enough are kept; an earlier one takes the place of the last that is."""
    first, last = equal[0], equal[-1]
    when, before = failure.tags.time or failure.after, last.tags.time or last.after
    if when is not None and before is not None and len(when) == len(before) and when < before and last is not first:
        for i in range(len(kept) - 1, -1, -1):
            if kept[i] is last:
                kept[i] = failure
                break
        equal[-1], failure = failure, last
    first.count += failure.count
    first.also += [failure.tags, *failure.also]


def _set_time(failure: Failure, page: Page, timeless: tuple[int, int]) -> tuple[int, int]:
    """When a failure happened at the earliest: the last time that its writer printed until then.

    ``timeless`` is a stretch of lines that have no time, so that many failures do not ask a line many times. Returns such a one.
    """
    if failure.tags.time is not None:
        return timeless
    i = bisect_right(page.lines, failure.first.start, key=lambda line: line.start) - 1
    at, low = i, max(0, i - NEAR)
    while at >= low:
        if timeless[0] <= at < timeless[1]:
            at = timeless[0] - 1
            continue
        line = page.lines[at]
        if (time := line.tags.time or time_in(line.text)) is not None:
            failure.after = time
            break
        at -= 1
    return at + 1, i + 1


@dataclass
class Decision:
    """What began it, and everything that was weighed."""

    cause: Candidate | None
    candidates: list[Candidate]
    failed: bool | None
    wrappers: list[Candidate]
    notes: list[str]
    evidence: list[Line]
    case: Case
    """What the witnesses were asked about."""
    disagreement: Disagreement | None = None
    """How the ranks' programs differ, where the log shows it."""
    absence: Absence | None = None
    """Who did not arrive, where the cause is that others waited in vain."""
    doubt: str | None = None
    """Why running it again is not to be trusted to help, whatever the rule says."""
    attempts: dict[int, Candidate] = field(default_factory=dict)
    """What each attempt of the job failed with, where there was more than one."""

    @cached_property
    def statements(self) -> list[Statement]:
        """What each witness says, in the order of evidence."""
        return list(hear(self.case))

    @property
    def clocks(self) -> Clocks:
        """How far the hosts' clocks are apart."""
        return self.case.clocks
