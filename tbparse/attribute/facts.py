"""What the ranks' lines say about collectives: which one each waits in, how far it got, who is named as missing.

Facts are taken from every page of every log while it is read, and are keyed by rank, so that what is kept is bounded by the number
of ranks and does not depend on the order of the files.
:mod:`tbparse.attribute.wording` knows the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tbparse.dialects.base import Page
from tbparse.records import Line, RankExit, Tags
from tbparse.text.needles import Needles

MAX_FACTS = 50_000
"""Works, and states of process groups, that are kept of one job."""
MAX_NAMED = 200
MAX_MARKS = 64
"""Steps with a time that are kept of one host."""

DEFAULT_GROUP = "default_pg"


class Work(NamedTuple):
    """A collective as one rank reports it: ``seq`` counts within ``group`` (None where none is named), ``size`` is in elements."""

    rank: int
    group: str | None
    seq: int
    op: str
    size: str | None = None
    line: Line | None = None
    source: str | None = None


class Progress(NamedTuple):
    """How far a rank got in a group: the numbers of the last collective that it began, and of the last that it finished."""

    rank: int
    group: str | None
    enqueued: int
    completed: int
    line: Line | None = None
    source: str | None = None


class Named(NamedTuple):
    """Ranks that a line names as missing, at which collective, and who says so."""

    ranks: tuple[int, ...]
    by: str
    line: Line
    seq: int | None = None
    source: str | None = None


class Differ(NamedTuple):
    """Two ranks of which torch itself says that they run different collectives at one number."""

    ranks: tuple[int, int]
    works: tuple[str, str]
    seq: int | None
    line: Line
    source: str | None = None


class Joined(NamedTuple):
    """``joined`` of ``expected`` clients came to a store."""

    joined: int
    expected: int
    line: Line


class Restart(NamedTuple):
    """A line that says that an attempt is over. ``how``: ``says`` so outright, ``quotes`` the failure below it (Ray), or is the
    scheduler's word that the job was ``cancelled``, which ends an attempt only if the job begins again."""

    how: Literal["says", "quotes", "cancelled"]
    line: Line
    source: str | None = None


class Call(NamedTuple):
    """One entry of a flight recorder: a collective, and where in the user's code the rank called it (``path:line in function``)."""

    seq: int
    op: str
    sizes: str
    state: str
    where: str | None
    p2p: bool


@dataclass
class Recorded:
    """A rank's flight recorder: its calls by group, and the members of groups where the dump has them."""

    rank: int
    source: str
    calls: dict[str, list[Call]] = field(default_factory=dict)
    members: dict[str, tuple[int, ...]] = field(default_factory=dict)
    cut: bool = False
    """The buffer was full: the first calls are gone."""


@dataclass
class Facts:
    """What was found about the ranks of one job."""

    works: dict[tuple[int, str | None, int], Work] = field(default_factory=dict)
    progress: dict[tuple[int, str | None], Progress] = field(default_factory=dict)
    named: list[Named] = field(default_factory=list)
    differ: list[Differ] = field(default_factory=list)
    joined: list[Joined] = field(default_factory=list)
    first_timeout: int | None = None
    """The rank that the others say timed out first."""
    closed: set[int] = field(default_factory=set)
    """Process ids that the agent ended itself."""
    restarts: list[Restart] = field(default_factory=list)
    last_words: dict[int, tuple[Line, str | None]] = field(default_factory=dict)
    """The last line of each rank, with the log that it stands in."""
    marks: dict[str, dict[int, str]] = field(default_factory=dict)
    """Times of steps, by host: the same step is done at the same moment everywhere."""
    recorded: dict[int, Recorded] = field(default_factory=dict)

    def read(self, page: Page, exits: Iterable[RankExit], tags: Tags, source: str | None) -> None:
        """Take in what a page says. ``tags``: what the log's own name tells about who writes."""
        self._remember(page, tags, source)
        if NEEDLES.in_any(page.everything):
            from tbparse.attribute.wording import read_lines  # its patterns cost more than the start of a small log may

            read_lines(self, page, tags, source)

    @property
    def collective(self) -> bool:
        """Whether anything is known of collectives."""
        return bool(self.works or self.progress or self.named or self.differ or self.recorded)

    def merge(self, other: Facts) -> None:
        """Take over what was found in another log of the job."""
        for key, work in other.works.items():
            self.add_work(key, work)
        for at, progress in other.progress.items():
            self.add_progress(at, progress)
        self.named += other.named[: max(0, MAX_NAMED - len(self.named))]
        self.differ += other.differ[: max(0, MAX_NAMED - len(self.differ))]
        self.joined += other.joined[: max(0, MAX_NAMED - len(self.joined))]
        self.restarts += other.restarts[: max(0, MAX_NAMED - len(self.restarts))]
        self.closed |= other.closed
        told = [x.first_timeout for x in (self, other) if x.first_timeout is not None]
        self.first_timeout = min(told, default=None)
        self.recorded.update(other.recorded)
        for rank, words in other.last_words.items():
            old = self.last_words.get(rank)
            if old is None or _said_by(words) < _said_by(old):
                self.last_words[rank] = words
        for host, marks in other.marks.items():
            mine_ = self.marks.setdefault(host, {})
            for step, time in marks.items():
                if len(mine_) < MAX_MARKS * 4:
                    mine_.setdefault(step, time)

    @property
    def groups(self) -> dict[tuple[int, int], str]:
        """The group of works whose own line names none, by rank and number: the status line beside it names it."""
        return {(w.rank, w.seq): w.group for w in self.works.values() if w.group is not None}

    def settled_works(self) -> Iterator[Work]:
        """Every work once, with its group where any line of the rank tells."""
        groups = self.groups
        seen: set[tuple[int, str | None, int]] = set()
        for work in self.works.values():
            group = work.group if work.group is not None else groups.get((work.rank, work.seq))
            key = (work.rank, group, work.seq)
            if work.op and key not in seen:
                seen.add(key)
                yield work._replace(group=group)

    def add_work(self, key: tuple[int, str | None, int], work: Work) -> None:
        """Keep a rank's work, the first that is told of it."""
        old = self.works.get(key)
        if (old is None and len(self.works) < MAX_FACTS) or (old is not None and not old.op and work.op):
            self.works[key] = work

    def add_progress(self, key: tuple[int, str | None], progress: Progress) -> None:
        """Keep how far a rank got, the furthest that it says."""
        if key not in self.progress and len(self.progress) >= MAX_FACTS:
            return
        old = self.progress.get(key)
        if old is None or (old.enqueued, old.completed) < (progress.enqueued, progress.completed):
            self.progress[key] = progress

    def _remember(self, page: Page, tags: Tags, source: str | None) -> None:
        """The last words of the page's writer, and times of its steps."""
        if not page.lines:
            return
        own = page.lines[-1].tags
        rank = own.rank if own.rank is not None else tags.rank
        if rank is not None:
            for line in reversed(page.lines[-200:]):
                if line.text.strip() and not re.search(_NOT_OWN, line.text):
                    self.last_words[rank] = (line, source)
                    break
            else:
                self.last_words.setdefault(rank, (page.lines[-1], source))
        host = own.host or tags.host
        if host is None or own.time is None:
            return
        marks = self.marks.setdefault(host, {})
        for line in page.lines[-4 * MAX_MARKS :]:
            m = re.search(_STEP, line.text) if line.tags.time is not None else None
            if m and len(marks) < 4 * MAX_MARKS:
                marks.setdefault(int(m[1]), line.tags.time or "")


MAX_SPANS = 12


def number_list(numbers: Iterable[int]) -> str:
    """``0, 2-4`` for 0, 2, 3, 4; of many spans the first ones, the last one and how many numbers there are."""
    spans: list[list[int]] = []
    ordered = sorted(set(numbers))
    for n in ordered:
        if spans and n == spans[-1][1] + 1:
            spans[-1][1] = n
        else:
            spans.append([n, n])
    told = [str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a}-{b}" for a, b in spans]
    if len(told) > MAX_SPANS:
        return f"{', '.join(told[: MAX_SPANS - 4])} … {ordered[-1]} ({len(ordered):,} in all)"
    return ", ".join(told)


def show_ranks(numbers: Iterable[int]) -> str:
    """``rank 1``, ``ranks 0, 2-4``; empty for none."""
    found = set(numbers)
    return f"rank{'s' if len(found) > 1 else ''} {number_list(found)}" if found else ""


def _said_by(words: tuple[Line, str | None]) -> tuple[bool, str]:
    """Of a rank's two logs standard output says what it was doing; the order in which they were read says nothing."""
    source = words[1] or ""
    return not source.endswith(("stdout.log", ".out")), source


NEEDLES = Needles(
    "SeqNum=", "enqueued", "monitoredBarrier", "lagging", "didn't join", "clients joined", "mismatch between collectives",
    "missing ranks", "missing_ranks", "dump signal", "closing signal", "will restart worker group", "SLURM_RESTART_COUNT",
    "imed out task names", "DUE TO", "FailurePolicy", "will be retried",
)  # fmt: skip
"""Texts without which a page says nothing of collectives."""
_STEP = r"(?i)\b(?:step|iteration|iter|global_step)\b[ :=#]{0,3}(\d{1,12})\b"
# The agent's, the watchdog's and an exception's lines say how a rank ended, not what it was doing.
_NOT_OWN = (
    r"closing signal|ProcessGroup\w*\.cpp|socket\.cpp|TCPStore\.cpp|^\s|^Traceback|Error\b.{0,200}:|^frame #|^Exception raised from"
)
