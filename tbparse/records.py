"""What flows between the floors: lines, frames, links, failures.

These are plain, slotted records rather than pydantic models: a log has millions of lines, and nothing
in here leaves the package. :mod:`tbparse.model` is what callers see.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter
from typing import Literal, NamedTuple

from tbparse.terms import Origin, Relation


class Tags(NamedTuple):
    """What a line's prefixes say about where it was printed. All None for a bare line."""

    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    process: str | None = None
    time: str | None = None


NO_TAGS = Tags()


def merge_tags(first: Tags, second: Tags) -> Tags:
    """What both say; where both say something, the first."""
    return Tags(
        second.rank if first.rank is None else first.rank,
        second.local_rank if first.local_rank is None else first.local_rank,
        second.host if first.host is None else first.host,
        second.process if first.process is None else first.process,
        second.time if first.time is None else first.time,
    )


class Line(NamedTuple):
    """One logical line: what stands between two line ends (``\\n``, ``\\r\\n``, a lone ``\\r``).

    ``no`` is the 1-based number of the physical line (``\\n``) in the raw log; ``start`` and ``end`` its byte
    span there, without the line end. ``text`` is decoded, without control sequences and prefixes.
    ``shape`` names the prefixes that were taken off (equal for lines of one writer, ``""`` for a bare
    line); ``stream`` is the key of the writer: a rank, a process, or ``""``.
    """

    no: int
    start: int
    end: int
    text: str
    shape: str = ""
    stream: str = ""
    tags: Tags = NO_TAGS


number_of, start_of, text_of, shape_of, stream_of, tags_of = (
    itemgetter(Line._fields.index(name)) for name in ("no", "start", "text", "shape", "stream", "tags")
)
"""A line's fields, for ``map`` over many lines."""


@dataclass(slots=True)
class Frame:
    """A frame as printed. ``line`` and ``function`` are None where the dialect prints none."""

    path: str
    line: int | None
    function: str | None
    source: str | None = None
    origin: Origin = "user"
    plumbing: bool = False
    hint_user: bool = False
    """The printer itself said that this is the user's code (dynamo's ``from user code:``)."""


@dataclass(slots=True)
class Link:
    """One exception of a chain: its type as printed, its whole message, its frames outermost first.

    ``relation`` says how this link came from the next link towards the root.
    ``first`` and ``last`` index into the lines of the block it was read from.
    """

    exception: str | None
    message: str | None
    frames: list[Frame] = field(default_factory=list)
    relation: Relation = "root"
    line: Line | None = None
    first_line: Line | None = None
    leaves: list[list[Link]] = field(default_factory=list)
    """Exception groups: the chains of the other leaves (the first is part of this chain)."""
    elided: bool = False
    """Exception groups: more leaves than were printed."""
    bases: tuple[str, ...] = ()
    """What the exception's type derives from, nearest first, where the live exception tells."""
    rank: int | None = None
    process: str | None = None
    host: str | None = None
    handler: bool = False
    """Raised from a signal handler: the frames above are where the process happened to be."""


Kind = Literal[
    "traceback",  # an exception, in whatever dialect
    "fault",  # faulthandler, a fatal interpreter error
    "native",  # terminate called, glibc, a C++ watchdog
    "launcher",  # a launcher's own summary of a child's death
    "usage",  # argparse and its cousins
    "exit",  # an exit code, a signal, or a text with no exception
    "scheduler",  # Slurm, Kubernetes, a spot notice
    "kernel",  # OOM killer, Xid, machine checks
    "line",  # a line that only a rule knows
]

Fate = Literal["fatal", "logged", "thread", "ignored", "survived", "symptom"]


@dataclass(slots=True)
class Failure:
    """One failure that the log shows, as its dialect reads it. ``links`` run outermost to innermost.

    ``fate`` is what the text itself says of it: ``fatal`` ended something, ``logged`` was printed through a
    logger, ``thread`` ended a thread only, ``ignored`` was swallowed by the interpreter.
    """

    kind: Kind
    dialect: str
    links: list[Link]
    first: Line
    last: Line
    stream: str = ""
    tags: Tags = NO_TAGS
    fate: Fate = "fatal"
    fate_why: str | None = None
    signal: int | None = None
    exit_code: int | None = None
    pid: int | None = None
    attempt: int | None = None
    launcher: str | None = None
    caught: bool = False
    """A decorator caught it at the program's top: the exit code is 0 although the work failed."""
    damaged: str | None = None
    """Why the text cannot be trusted whole: interleaved writers, a cut, a flattened traceback."""
    rank_hint: int | None = None
    """A rank that the text names, other than by a prefix (``-- Process 1 terminated``)."""
    in_summary: bool = False
    """Read from a launcher's summary block: a copy of what a rank printed elsewhere."""
    reported: bool = False
    """The process itself wrote it down as it ended, not as text: types, messages and frames are certain."""
    source: str | None = None
    """The file it was read from, when that is not the log that was asked about."""
    count: int = 1
    also: list[Tags] = field(default_factory=list)
    """Where else the same failure was found, of those that were counted and not kept (a job of thousands of ranks)."""
    after: str | None = None
    """The time of the writer's last line before it that has one: it happened then, or later."""

    @property
    def root(self) -> Link:
        return self.links[-1]

    @property
    def rank(self) -> int | None:
        return self.tags.rank if self.tags.rank is not None else self.rank_hint


@dataclass(slots=True)
class RankExit:
    """How one worker ended, as a launcher's lines tell: torchrun's table, Slurm's task lines, mpirun's notice."""

    line: Line
    launcher: str
    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    exit_code: int | None = None
    """Negative for a signal."""
    time: str | None = None
    named_root: bool = False
    attempt: int | None = None
    source: str | None = None
    """The file that the line stands in, when that is not the log that was asked about."""
