"""Compressed logs: known by their first bytes, never by their names, and read as a stream."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO, NamedTuple, cast

from tbparse.errors import InputError

_NO_ZSTD = "is compressed with zstd, which this Python cannot read: zstd -dc FILE | tbparse explain -, or pip install zstandard"
HEAD = 8
"""How many bytes :func:`scheme_of` wants."""


class Scheme(NamedTuple):
    """A way of compressing: its name, and what opens a stream of it for reading."""

    name: str
    open: Callable[[BinaryIO], BinaryIO]


def scheme_of(head: bytes) -> Scheme | None:
    """How a file that begins with ``head`` is compressed; None where it is not."""
    if head.startswith(b"\x1f\x8b"):
        return Scheme("gzip", _gzip)
    if head.startswith(b"BZh") and head[3:4].isdigit():
        return Scheme("bzip2", _bz2)
    if head.startswith(b"\xfd7zXZ\0"):
        return Scheme("xz", _xz)
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return Scheme("zstd", _zstd)
    return None


def damage_errors() -> tuple[type[Exception], ...]:
    """What the decompressors raise on a file that is cut off or damaged."""
    import lzma
    import zlib

    return (EOFError, OSError, zlib.error, lzma.LZMAError, *_zstd_errors())


def _gzip(raw: BinaryIO) -> BinaryIO:
    import gzip

    return cast(BinaryIO, gzip.GzipFile(fileobj=raw))


def _bz2(raw: BinaryIO) -> BinaryIO:
    import bz2

    return cast(BinaryIO, bz2.BZ2File(raw))


def _xz(raw: BinaryIO) -> BinaryIO:
    import lzma

    return cast(BinaryIO, lzma.LZMAFile(raw))


def _zstd(raw: BinaryIO) -> BinaryIO:
    import importlib

    for name in ("compression.zstd", "backports.zstd"):  # in Python since 3.14, and its backport
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        return cast(BinaryIO, module.ZstdFile(raw))
    try:
        module = importlib.import_module("zstandard")
    except ImportError:
        raise InputError(_NO_ZSTD) from None
    return cast(BinaryIO, module.ZstdDecompressor().stream_reader(raw, read_across_frames=True))


def _zstd_errors() -> tuple[type[Exception], ...]:
    import sys

    # Only a module that was loaded to read the file can have raised.
    names = (("compression.zstd", "ZstdError"), ("backports.zstd", "ZstdError"), ("zstandard", "ZstdError"))
    found = (getattr(sys.modules.get(module), error, None) for module, error in names)
    return tuple(e for e in found if isinstance(e, type))


class Rejoined(io.RawIOBase):
    """A stream of which ``head`` was read already, whole again."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        super().__init__()
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._head:
            part, self._head = self._head[: len(buffer)], self._head[len(buffer) :]
        else:
            read = getattr(self._rest, "read1", self._rest.read)  # what is there, without waiting for a full buffer
            part = read(len(buffer))
        buffer[: len(part)] = part
        return len(part)
