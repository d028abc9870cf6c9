"""Whether any of many texts stands in lines, asked of a page for a hundred of them.

To search a text takes as long as it is large, whether it is there or not. But lines of a log are alike but for their numbers:
without digits a few of them are left, and what does not stand in those, digits or not, does not stand in the lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from tbparse.text.shapes import DIGITS

SMALL = 300
"""In so few characters equal lines are not worth looking for."""


@lru_cache(maxsize=8192)
def _without_digits(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass").translate(None, DIGITS)


class Haystack:
    """Lines that are asked what they hold. What is looked for has no line end."""

    __slots__ = ("shapes", "text")

    def __init__(self, lines: Iterable[str]) -> None:
        self.text = "\n".join(lines)
        bare = self.text.encode("utf-8", "surrogatepass").translate(None, DIGITS)
        self.shapes = b"\n".join(dict.fromkeys(bare.split(b"\n"))) if len(bare) > SMALL else bare

    def lower(self) -> Haystack:
        """The same lines in lower case."""
        if not self.text.isascii():
            return Haystack(map(str.lower, self.text.split("\n")))
        low = Haystack.__new__(Haystack)
        low.text, low.shapes = self.text.lower(), self.shapes.lower()
        return low

    def holds(self, text: str) -> bool:
        """Whether a line holds the text."""
        return _without_digits(text) in self.shapes and text in self.text


class Needles:
    """Texts of which lines are asked whether they hold any."""

    __slots__ = ("_bare", "_texts")

    def __init__(self, *texts: str) -> None:
        self._texts = texts
        self._bare = tuple(map(_without_digits, texts))

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def in_any(self, hay: Haystack) -> bool:
        """Whether a line of ``hay`` holds one of the texts."""
        if not any(map(hay.shapes.__contains__, self._bare)):
            return False
        return any(map(hay.holds, self._texts))
