"""What the ranks' lines say about collectives: which one each waits in, how far it got, who is named as missing.

Facts are taken from every page of every log while it is read, and are keyed by rank, so that what is kept is bounded by the number
of ranks and does not depend on the order of the files.

Wording: torch/csrc/distributed/c10d of torch 1.9 to 2.13 (ProcessGroupNCCL.cpp, ProcessGroupGloo.cpp, ProcessGroupWrapper.cpp,
TraceUtils.h, TCPStore.cpp, control_collectives), torch.distributed.elastic.utils.store, jaxlib's coordination service.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tbparse.dialects.base import Page
from tbparse.records import Line, RankExit, Tags

MAX_FACTS = 50_000
"""Works, and states of process groups, that are kept of one job."""
MAX_NAMED = 200
MAX_TASKS = 128
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
        if not any(needle in page.everything for needle in _NEEDLES):
            return
        for i, line in enumerate(page.lines):
            if _TELLING.search(line.text):
                self._line(line, tags, source)
                if "imed out task names" in line.text and len(self.named) < MAX_NAMED:
                    tasks = _tasks([x.text for x in page.lines[i : i + MAX_TASKS]])
                    if tasks:
                        self.named.append(Named(tasks, "barrier", line, None, source))

    def merge(self, other: Facts) -> None:
        """Take over what was found in another log of the job."""
        for key, work in other.works.items():
            self._add_work(key, work)
        for at, progress in other.progress.items():
            self._add_progress(at, progress)
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

    def _add_work(self, key: tuple[int, str | None, int], work: Work) -> None:
        old = self.works.get(key)
        if (old is None and len(self.works) < MAX_FACTS) or (old is not None and not old.op and work.op):
            self.works[key] = work

    def _add_progress(self, key: tuple[int, str | None], progress: Progress) -> None:
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
                if line.text.strip() and not _NOT_OWN.search(line.text):
                    self.last_words[rank] = (line, source)
                    break
            else:
                self.last_words.setdefault(rank, (page.lines[-1], source))
        host = own.host or tags.host
        if host is None or own.time is None:
            return
        marks = self.marks.setdefault(host, {})
        for line in page.lines[-4 * MAX_MARKS :]:
            m = _STEP.search(line.text) if line.tags.time is not None else None
            if m and len(marks) < 4 * MAX_MARKS:
                marks.setdefault(int(m[1]), line.tags.time or "")

    def _line(self, line: Line, tags: Tags, source: str | None) -> None:
        text = line.text
        group, inner = _group(text)
        said = line.tags.rank if line.tags.rank is not None else tags.rank
        rank = said if said is not None else inner
        if rank is None and (m := _RANK.search(text)):
            rank = int(m[1])
        if rank is not None:
            for m in _WORK.finditer(text):
                seq = int(m["seq"])
                size = m["n"] if m["n"] == m["out"] or m["out"] is None else f"{m['n']} to {m['out']}"
                self._add_work((rank, group, seq), Work(rank, group, seq, m["op"], size, line, source))
            if group is not None and (m := _AT.search(text)):
                self._add_work((rank, group, int(m[1])), Work(rank, group, int(m[1]), "", None, line, source))
            if m := _STATUS.search(text):
                status = Progress(rank, group, int(m["enqueued"]), int(m["completed"]), line, source)
                self._add_progress((rank, group), status)
        if m := _DUMP_FROM.search(text):
            self.first_timeout = int(m[1])
        if m := _CLOSING.search(text):
            self.closed.add(int(m[1]))
        if len(self.restarts) < MAX_NAMED:
            if _RESTART.search(text):
                self.restarts.append(Restart("says", line, source))
            elif _QUOTES.search(text):
                self.restarts.append(Restart("quotes", line, source))
            elif _CANCELLED.search(text):
                self.restarts.append(Restart("cancelled", line, source))
        if m := _CLIENTS.search(text):
            self.joined.append(Joined(int(m[1]), int(m[2]), line))
            del self.joined[MAX_NAMED:]
        for found in _named(text):
            if len(self.named) < MAX_NAMED:
                self.named.append(Named(found[0], found[1], line, found[2], source))
        if (m := _DIFFER.search(text)) and len(self.differ) < MAX_NAMED:
            first, second = _fingerprint(m["a"]), _fingerprint(m["b"])
            seq_ = next((int(x[1]) for x in (_SEQ.search(m["a"]), _SEQ.search(m["b"])) if x), None)
            self.differ.append(Differ((int(m["rank"]), int(m["other"])), (first, second), seq_, line, source))


def _said_by(words: tuple[Line, str | None]) -> tuple[bool, str]:
    """Of a rank's two logs standard output says what it was doing; the order in which they were read says nothing."""
    source = words[1] or ""
    return not source.endswith(("stdout.log", ".out")), source


def _group(text: str) -> tuple[str | None, int | None]:
    """The process group that a line names, and the rank within it."""
    m = _PG.search(text)
    if m is None:
        return None, None
    # The GUID is the same on every member and differs between groups; the bare number of torch 2.3 counts within a process.
    name, description = m["guid"], m["desc"]
    if description == DEFAULT_GROUP or "0" in (name, m["old"]):
        group = DEFAULT_GROUP
    elif name is None:
        group = f"number {m['old']}" + (f" ({description})" if description else "")
    else:
        group = f"{name} ({description})" if description else name
    return group, int(m["rank"])


def _named(text: str) -> Iterator[tuple[tuple[int, ...], str, int | None]]:
    """Ranks that a text names as missing: the ranks, who names them, and the number of the collective."""
    if m := _MONITORED.search(text):
        yield _numbers(m[1]), "monitored barrier", None
    if m := _NEVER.search(text):
        yield _numbers(m[1]), "desync report", None
    if m := _NOT_JOINED.search(text):
        yield _numbers(m[1]), "desync report", int(m[2])
    if (m := _MISSING.search(text)) and (ranks := _numbers(m[1] or m[2])):
        yield ranks, "store", None


def _tasks(texts: list[str]) -> tuple[int, ...]:
    """Tasks that JAX's coordination service lists, one a line, under the sentence that says that they timed out."""
    found = set(_TASK.findall(texts[0].partition("imed out task names")[2]))
    for text in texts[1:]:
        m = _TASK.fullmatch(text.strip())
        if m is None:
            break
        found.add(m[1])
    return tuple(sorted(int(x) for x in found))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted({int(x) for x in re.findall(r"\d{1,7}", text)}))


def _fingerprint(text: str) -> str:
    """``ALLREDUCE of [4]`` out of torch's CollectiveFingerPrint."""
    op, shape = _OP.search(text), _SHAPE.search(text)
    said = op[1] if op else "a collective"
    return f"{said} of {shape[1]}" if shape else said


_NEEDLES = (
    "SeqNum=", "enqueued", "monitoredBarrier", "lagging", "didn't join", "clients joined", "mismatch between collectives",
    "missing ranks", "missing_ranks", "dump signal", "closing signal", "will restart worker group", "SLURM_RESTART_COUNT",
    "imed out task names", "DUE TO", "FailurePolicy", "will be retried",
)  # fmt: skip
_TELLING = re.compile("|".join(re.escape(x) for x in _NEEDLES))
_PG = re.compile(
    r"\[PG (?:ID \d+ PG GUID (?P<guid>[^\s()\]]+)|(?P<old>[^\s()\]]+)) ?(?:\((?P<desc>[^)\]]{0,200})\))? ?Rank (?P<rank>\d{1,7})\]"
)
_RANK = re.compile(r"\[Rank (\d{1,7})\]")
_WORK = re.compile(
    r"Work[A-Z]*\(SeqNum=(?P<seq>\d{1,18}), OpType=(?P<op>\w+)(?:, NumelIn=(?P<n>\d{1,18}))?(?:, NumelOut=(?P<out>\d{1,18}))?"
)
_AT = re.compile(r"(?:work sequence id|at NCCL work|watchdog at work): (\d{1,18})")
_STATUS = re.compile(
    r"[Ll]ast enqueued (?:NCCL )?work: (?P<enqueued>-?\d{1,18}), last completed (?:NCCL )?work: (?P<completed>-?\d{1,18})"
)
_DUMP_FROM = re.compile(r"dump signal due to a collective timeout from\s+rank (\d{1,7})")
_CLOSING = re.compile(r"Sending process (\d{1,10}) closing signal")
_RESTART = re.compile(r"will restart worker group|\bSLURM_RESTART_COUNT[=: ]+[1-9]")
_QUOTES = re.compile(r"\[FailurePolicy\] RETRY|so the task will be retried")
_CANCELLED = re.compile(r"CANCELLED AT \S+ DUE TO (?:PREEMPTION|NODE FAILURE|JOB REQUEUE)")
_CLIENTS = re.compile(r"(\d{1,7})/(\d{1,7}) clients joined")
_MONITORED = re.compile(r"Ranks? (\d+(?:, ?\d+)*) failed to pass monitoredBarrier")
_NEVER = re.compile(r"ranks \[([\d, ]+)\] are the lagging ranks")
_NOT_JOINED = re.compile(r"\[([\d, ]+)\] finished collective #\d+, but didn'?t join collective #(\d{1,18})")
_MISSING = re.compile(r"missing_ranks=\[([\d, ]{1,4000})\]|-- missing ranks: \[?([\d, ]{1,4000})")
_TASK = re.compile(r"/job:[\w./:-]*/task:(\d{1,7})")
_DIFFER = re.compile(
    r"Detected mismatch between collectives on ranks\. Rank (?P<rank>\d{1,7}) is running collective: (?P<a>.{0,4000}?),?"
    r" but Rank (?P<other>\d{1,7}) is running collective: (?P<b>.{0,4000})"
)
_SEQ = re.compile(r"SequenceNumber=(\d{1,18})")
_OP = re.compile(r"OpType=(\w+)")
_SHAPE = re.compile(r"TensorShape=(\[[\d, ]*\])")
_STEP = re.compile(r"(?i)\b(?:step|iteration|iter|global_step)\b[ :=#]{0,3}(\d{1,12})\b")
# The agent's, the watchdog's and an exception's lines say how a rank ended, not what it was doing.
_NOT_OWN = re.compile(
    r"closing signal|ProcessGroup\w*\.cpp|socket\.cpp|TCPStore\.cpp|^\s|^Traceback|Error\b.{0,200}:|^frame #|^Exception raised from"
)
