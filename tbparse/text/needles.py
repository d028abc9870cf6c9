"""Whether any of many texts stands in lines, asked of a page for dozens of them.

To search a text takes as long as it is large, whether it is there or not. So lines that come again are searched once, and a
text with a character that no line has is not searched at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_ASCII = bytes(range(128))


class Haystack:
    """Lines, each once, and the ASCII characters that none of them has. What is looked for holds no line end."""

    __slots__ = ("absent", "text")

    def __init__(self, lines: Iterable[str]) -> None:
        self.text = "\n".join(dict.fromkeys(lines))
        present = self.text.encode("utf-8", "surrogatepass")
        self.absent = frozenset(_ASCII.translate(None, present).decode("ascii"))


class Needles:
    """Texts of which lines are asked whether they hold any."""

    __slots__ = ("_rows",)

    def __init__(self, *texts: str) -> None:
        self._rows = [(text, frozenset(text)) for text in texts]

    def __iter__(self) -> Iterator[str]:
        return (text for text, _ in self._rows)

    def in_any(self, hay: Haystack) -> bool:
        """Whether a line of ``hay`` holds one of the texts."""
        absent, lines = hay.absent, hay.text
        return any(absent.isdisjoint(letters) and text in lines for text, letters in self._rows)
