"""Whether bytes are a log at all: what a file is when it holds no text."""

from __future__ import annotations

SAMPLE = 64 * 1024
"""How many bytes at the start are looked at."""

_MAGIC: tuple[tuple[bytes, int, str], ...] = (
    (b"\x7fELF", 0, "a program or a library (ELF)"),
    (b"\x89PNG\r\n\x1a\n", 0, "a picture (PNG)"),
    (b"\xff\xd8\xff", 0, "a picture (JPEG)"),
    (b"PK\x03\x04", 0, "a zip archive (or a torch checkpoint)"),
    (b"7z\xbc\xaf\x27\x1c", 0, "a 7z archive"),
    (b"ustar", 257, "a tar archive"),
    (b"%PDF-", 0, "a PDF"),
    (b"\x89HDF\r\n\x1a\n", 0, "an HDF5 file"),
    (b"SQLite format 3\0", 0, "an SQLite database"),
    (b"PAR1", 0, "a Parquet file"),
)
_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
# What terminals are sent, and so stands in logs: bell, backspace, tab, newline, form feed, return, escape.
_TEXT_CONTROLS = bytes((7, 8, 9, 10, 12, 13, 27))
_CONTROLS = bytes(x for x in range(1, 32) if x not in _TEXT_CONTROLS) + b"\x7f"
_MOST_CONTROLS = 0.04
_MOST_SPREAD_NULS = 0.2


def binary_kind(head: bytes) -> str | None:
    """What ``head``, the first bytes of a file, are when they are not text; None for text.

    A run of NULs is no sign against it: a log that is truncated while its writer goes on begins with one. In random or
    compressed bytes one in ten is a control character; text in any 8-bit encoding has next to none.
    """
    for magic, at, kind in _MAGIC:
        if head.startswith(magic, at):
            return kind
    if head.startswith(_BOMS):
        return None
    text = head.lstrip(b"\0")[:SAMPLE].rstrip(b"\0").replace(b"\0" * 64, b"")
    if not text:
        return "nothing but NUL bytes" if head else None
    solid = len(text) - text.count(b"\0")
    if text.count(b"\0") > _MOST_SPREAD_NULS * len(text):
        return "binary data (many NUL bytes)"
    if len(text) >= 16 and solid - len(text.translate(None, _CONTROLS)) + text.count(b"\0") > _MOST_CONTROLS * solid:
        return "binary data (control characters, no text)"
    return None
