"""Bytes into lines, without losing the way back: every line keeps its byte span in the raw log.

A line end is ``\\n``, ``\\r\\n`` or a lone ``\\r`` (what progress bars print between two states). Control sequences
go from the text, never from the spans. UTF-8 is read with replacement of what is not UTF-8; UTF-16 and
UTF-32 are known by their byte order mark.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from itertools import accumulate, repeat
from operator import add
from typing import Any, NamedTuple

from tbparse.records import NO_TAGS, Line

# ECMA-48: CSI sequences, OSC strings (titles, hyperlinks), and the two-byte escapes.
_ANSI = re.compile(r"\x1b(?:\[[0-9:;<=>?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
# Colour codes whose escape character was lost on the way (a pasted log): only where a reset stands beside them.
_BARE_COLOUR = re.compile(r"\[\d{1,2}(?:;\d{1,3})*m")
_LOST_ESCAPE = re.compile(r"\[(?:0|39)m")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200b\ufeff]")
_CONTROL_BYTES = bytes(x for x in range(32) if x not in (9, 10, 13)) + b"\x7f"

MAX_LINE_CHARS = 16_384
"""Longer lines are kept as their head and tail: no failure is printed in the middle of such a line."""


class Encoding(NamedTuple):
    """How the log is encoded: ``newline`` is its line end in bytes, ``unit`` the width of a code unit."""

    name: str
    newline: bytes
    unit: int
    bom: int


UTF8 = Encoding("utf-8", b"\n", 1, 0)


def detect_encoding(head: bytes) -> Encoding:
    """The encoding by the byte order mark at the start of ``head`` (at least 4 bytes where the log has them)."""
    if head.startswith(codecs.BOM_UTF8):
        return Encoding("utf-8", b"\n", 1, 3)
    for bom, name, unit in (
        (codecs.BOM_UTF32_LE, "utf-32-le", 4),
        (codecs.BOM_UTF32_BE, "utf-32-be", 4),
        (codecs.BOM_UTF16_LE, "utf-16-le", 2),
        (codecs.BOM_UTF16_BE, "utf-16-be", 2),
    ):
        if head.startswith(bom):
            return Encoding(name, "\n".encode(name), unit, len(bom))
    return UTF8


def clean(text: str) -> str:
    """Text without control sequences, control characters and trailing blanks; tabs stay."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    elif "m" in text and "\\" not in text and ("[0m" in text or "[39m" in text):
        text = _BARE_COLOUR.sub("", text)
    if not text.isprintable():
        text = _CONTROL.sub("", text)
        if text[:1] == "\xa0":  # consoles of clouds set lines in with blanks that do not break
            bare = text.lstrip("\xa0 ")
            text = " " * (len(text) - len(bare)) + bare
    return text.rstrip()


def split_block(raw: bytes, offset: int, first_no: int, encoding: Encoding = UTF8) -> list[Line]:
    """Lines of ``raw``, whose first byte stands at ``offset`` of the log in physical line ``first_no`` (1-based).

    Blank lines are kept (they end messages); empty pieces between carriage returns are not.
    """
    if encoding.unit > 1:
        return _split_wide(raw, offset, first_no, encoding)
    text = raw.decode("utf-8", "replace")
    plain = raw.isascii()
    lines: list[Line] = []
    position, number = offset, first_no
    dirty = not plain or ("[" in text and _LOST_ESCAPE.search(text) is not None) or not _tidy(raw)
    if not dirty and "\r" not in text:
        pieces = text.split("\n")
        if max(map(len, pieces)) <= MAX_LINE_CHARS:
            if len(pieces) > 1 and not pieces[-1]:
                pieces.pop()
            return _plain_lines(pieces, position, number)
    raw_lines = None if plain else raw.split(b"\n")
    for index, piece in enumerate(text.split("\n")):
        size = len(piece) if raw_lines is None else len(raw_lines[index])
        if "\r" in piece:
            lines += _split_returns(piece, position, number, raw_lines[index] if raw_lines else None)
        else:
            shown = piece if len(piece) <= MAX_LINE_CHARS else _shorten(piece)
            lines.append(Line(number, position, position + size, clean(shown) if dirty else shown.rstrip()))
        position += size + 1
        number += 1
    if lines and not lines[-1].text and raw.endswith(b"\n"):
        lines.pop()
    return lines


def _plain_lines(pieces: Sequence[str], position: int, number: int) -> list[Line]:
    """Lines of ASCII text that holds nothing to clean, as most logs are."""
    count = len(pieces)
    sizes = list(map(len, pieces))
    starts = list(accumulate(map((1).__add__, sizes[:-1]), initial=position))
    fields = zip(
        range(number, number + count),
        starts,
        map(add, starts, sizes),
        map(str.rstrip, pieces),
        repeat(""),
        repeat(""),
        repeat(NO_TAGS),
        strict=False,
    )
    # Line's own constructor is a Python function, and takes three times as long.
    make: Any = tuple.__new__
    return list(map(make, repeat(Line), fields))


def _tidy(raw: bytes) -> bool:
    """True when no control character is inside, so that no line needs cleaning."""
    return _CONTROL_BYTES.translate(None, raw) == _CONTROL_BYTES


def _split_returns(piece: str, position: int, number: int, raw: bytes | None) -> list[Line]:
    lines: list[Line] = []
    start = position
    raws = None if raw is None else raw.split(b"\r")
    parts = piece.split("\r")
    if len(parts) > 64:  # a progress bar's whole life in one line: its last states say all that matters
        kept = set(range(8)) | set(range(len(parts) - 56, len(parts)))
        kept |= {i for i, p in enumerate(parts) if "Traceback" in p or "Error" in p}
    else:
        kept = set(range(len(parts)))
    for index, part in enumerate(parts):
        size = len(part) if raws is None else len(raws[index])
        if index in kept and part.strip():
            shown = part if len(part) <= MAX_LINE_CHARS else _shorten(part)
            lines.append(Line(number, start, start + size, clean(shown)))
        start += size + 1
    return lines or [Line(number, position, position, "")]


def _split_wide(raw: bytes, offset: int, first_no: int, encoding: Encoding) -> list[Line]:
    lines: list[Line] = []
    position, number = offset, first_no
    for piece in split_units(raw, encoding):
        text = piece.decode(encoding.name, "replace")
        lines.append(Line(number, position, position + len(piece), clean(_shorten(text).replace("\r", ""))))
        position += len(piece) + encoding.unit
        number += 1
    if lines and not lines[-1].text:
        lines.pop()
    return lines


def split_units(raw: bytes, encoding: Encoding) -> list[bytes]:
    """Split on the encoding's line end, at code unit boundaries only."""
    pieces, start, at = [], 0, raw.find(encoding.newline)
    while at != -1:
        if at % encoding.unit == 0:
            pieces.append(raw[start:at])
            start = at + encoding.unit
            at = raw.find(encoding.newline, start)
        else:
            at = raw.find(encoding.newline, at + 1)
    pieces.append(raw[start:])
    return pieces


def _shorten(text: str) -> str:
    if len(text) <= MAX_LINE_CHARS:
        return text
    half = MAX_LINE_CHARS // 2
    return f"{text[:half]} … {text[-half:]}"
