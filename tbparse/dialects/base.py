"""What every dialect works on: a page, the lines of one writer in one block of the log."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, compress
from re import Pattern
from typing import Protocol

from tbparse.records import Failure, Line, RankExit, text_of
from tbparse.text.needles import Haystack

_OTHERS = bytes([1]) + bytes(255)


def _starts(texts: Sequence[str]) -> list[int]:
    """Where each text begins once they are joined by line ends."""
    return [at + k for k, at in enumerate(accumulate(map(len, texts[:-1]), initial=0))]


@dataclass
class Page:
    """Lines of one writer, in order. Dialects mark the lines that they have understood as taken."""

    lines: Sequence[Line]
    levels: dict[int, str] = field(default_factory=dict)
    """Log level of lines that a logger wrote, by index."""
    exits: list[RankExit] = field(default_factory=list)
    """How workers ended, as launchers' lines tell; evidence for attribution, not failures of their own."""

    def __post_init__(self) -> None:
        self.texts: list[str] = list(map(text_of, self.lines))
        self.taken = bytearray(len(self.texts))
        self.words = self.everything = Haystack(self.texts)
        """What :attr:`blob` holds, for looking whether texts stand in it; and what it held before :meth:`narrow`."""
        self._shown: Sequence[str] = self.texts
        self._begun: list[int] | None = None

    @property
    def blob(self) -> str:
        """All text, joined by line ends, for patterns that look through the whole page at once."""
        return self.words.text

    @property
    def _starts(self) -> list[int]:
        if self._begun is None:
            self._begun = _starts(self._shown)
        return self._begun

    def narrow(self) -> bool:
        """Blank out the lines that are taken, for dialects that only want the others; False when none is left."""
        free = list(self.free())
        if len(free) == len(self.texts):
            return any(self.texts)
        texts = [""] * len(self.texts)
        for i in free:
            texts[i] = self.texts[i]
        self._shown, self._begun = texts, None
        self.words = Haystack(texts)
        return any(texts)

    def free(self) -> Iterator[int]:
        """Indices of the lines that no dialect has taken until now."""
        return compress(range(len(self.taken)), self.taken.translate(_OTHERS))

    def free_lines(self) -> Iterator[Line]:
        """The lines that no dialect has taken until now."""
        return compress(self.lines, self.taken.translate(_OTHERS))

    def offset_of(self, i: int) -> int:
        """Where line ``i`` begins in :attr:`blob`."""
        return self._starts[i] if i < len(self._starts) else len(self.blob)

    def index_at(self, offset: int) -> int:
        """Index of the line that holds this offset of :attr:`blob`."""
        return bisect_right(self._starts, offset) - 1

    def find(self, pattern: Pattern[str], *, free_only: bool = True) -> Iterator[tuple[int, str]]:
        """Index and text of each line in which the pattern (compiled with MULTILINE) matches, once a line."""
        last = -1
        for m in pattern.finditer(self.blob):
            i = self.index_at(m.start())
            if i != last and not (free_only and self.taken[i]):
                last = i
                yield i, self.texts[i]

    def take(self, first: int, last: int) -> None:
        """Mark lines ``first`` to ``last`` (inclusive) as understood."""
        self.taken[first : last + 1] = b"\1" * (min(last, len(self.taken) - 1) - first + 1)


class Dialect(Protocol):
    """One way in which the world prints failures."""

    @property
    def name(self) -> str: ...

    def read(self, page: Page) -> list[Failure]:
        """The failures of this dialect on the page; it never decides which of them is the root."""
        ...
