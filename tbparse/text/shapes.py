"""The scanner that needs no package: lines that differ in their digits alone are looked at once.

A job prints the same few lines a million times with other numbers. With the digits gone they are equal, so a set of
them is small, and only what is new in it is searched for triggers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

DIGITS = b"0123456789"
MAX_SHAPES = 20_000
MAX_SHAPE_BYTES = 4 * 1024 * 1024
"""What is remembered at most; then it is forgotten, and learned anew."""


class ShapeScanner:
    """Triggers by ``bytes.find``; a hit is the start of its line. ``caseless`` texts are in lower case."""

    def __init__(self, literals: Sequence[bytes], caseless: Sequence[bytes] = ()) -> None:
        # Without digits a literal is looser; `_confirm` asks the line itself.
        self._exact = [(x.translate(None, DIGITS), x) for x in literals]
        self._caseless = [(x.translate(None, DIGITS), x) for x in caseless]
        self._quiet: set[bytes] = set()
        self._telling: dict[bytes, tuple[tuple[bytes, ...], tuple[bytes, ...]]] = {}
        self._kept = 0

    def hits(self, body: bytes | bytearray, start: int, end: int) -> Sequence[int]:
        part = bytes(memoryview(body)[start:end])
        rows = part.translate(None, DIGITS).split(b"\n")
        shapes = set(rows)
        new = shapes - self._quiet - self._telling.keys()
        if new:
            if len(self._quiet) + len(self._telling) > MAX_SHAPES or self._kept > MAX_SHAPE_BYTES:
                self._quiet, self._telling, self._kept = set(), {}, 0
                new = shapes
            self._learn(list(new))
        telling = {x: self._telling[x] for x in shapes & self._telling.keys()}
        if not telling:
            return ()
        found: list[int] = []
        at = start
        for shape, line in zip(rows, part.split(b"\n"), strict=True):
            words = telling.get(shape)
            if words is not None and _confirm(line, *words):
                found.append(at)
            at += len(line) + 1
        return found

    def _learn(self, rows: list[bytes]) -> None:
        told: dict[int, tuple[list[bytes], list[bytes]]] = {}
        blob = b"\n".join(rows)
        starts = _starts(rows)
        for kind, (hay, words) in enumerate(((blob, self._exact), (blob.lower(), self._caseless))):
            for loose, word in words:
                for index in _lines_with(loose, hay, starts):
                    told.setdefault(index, ([], []))[kind].append(word)
        for index, row in enumerate(rows):
            if index in told:
                exact, caseless = told[index]
                self._telling[row] = (tuple(exact), tuple(caseless))
            else:
                self._quiet.add(row)
        self._kept += len(blob)


def _confirm(line: bytes, exact: Sequence[bytes], caseless: Sequence[bytes]) -> bool:
    if any(x in line for x in exact):
        return True
    low = line.lower() if caseless else b""
    return any(x in low for x in caseless)


def _starts(rows: Sequence[bytes]) -> list[int]:
    starts, at = [], 0
    for row in rows:
        starts.append(at)
        at += len(row) + 1
    return starts


def _lines_with(word: bytes, hay: bytes, starts: Sequence[int]) -> Iterable[int]:
    """Indices of the lines that hold the word; of all lines where nothing is left of it."""
    if not word:
        yield from range(len(starts))
        return
    at = hay.find(word)
    while at != -1:
        index = bisect_right(starts, at) - 1
        yield index
        if index + 1 == len(starts):
            return
        at = hay.find(word, starts[index + 1])
