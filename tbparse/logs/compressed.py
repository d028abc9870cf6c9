"""Compressed logs: known by their first bytes, never by their names, and read as a stream."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO, NamedTuple, Protocol, cast

from tbparse.errors import InputError

_NO_ZSTD = "is compressed with zstd, which this Python cannot read: zstd -dc FILE | tbparse explain -, or pip install zstandard"
HEAD = 8
"""How many bytes :func:`scheme_of` wants."""
PACKED_PORTION = 128 * 1024
XZ_MEMORY = 256 * 1024 * 1024
"""What an xz file may ask for its dictionary; ``xz -9`` asks for a quarter of it."""


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
    return cast(BinaryIO, Unpacked(raw, _Inflate))


def _bz2(raw: BinaryIO) -> BinaryIO:
    import bz2

    return cast(BinaryIO, Unpacked(raw, bz2.BZ2Decompressor))


def _xz(raw: BinaryIO) -> BinaryIO:
    import lzma

    return cast(BinaryIO, Unpacked(raw, lambda: lzma.LZMADecompressor(memlimit=XZ_MEMORY)))


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


class Decoder(Protocol):
    """What the standard library's decompressors have in common; one for each stream of a file."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Inflate:
    """zlib in the manner of the others. GzipFile does the same at half the speed."""

    def __init__(self) -> None:
        import zlib

        self._zlib = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        return not self._zlib.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)


class Unpacked(io.RawIOBase):
    """The text of a compressed file, stream after stream; never more of it in memory than was asked for."""

    def __init__(self, raw: BinaryIO, decoder: Callable[[], Decoder]) -> None:
        super().__init__()
        self._raw = raw
        self._make = decoder
        self._decoder = decoder()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Raises what the decompressors raise, see :func:`damage_errors`."""
        while True:
            data = b""
            if self._decoder.eof:
                data = self._decoder.unused_data.lstrip(b"\0")  # archivers pad with NULs
                while not data:
                    data = self._raw.read(PACKED_PORTION)
                    if not data:
                        return 0
                    data = data.lstrip(b"\0")
                self._decoder = self._make()
            elif self._decoder.needs_input:
                data = self._raw.read(PACKED_PORTION)
            text = self._decoder.decompress(data, len(buffer))
            if text:
                buffer[: len(text)] = text
                return len(text)
            if not data and self._decoder.needs_input and not self._decoder.eof:
                raise EOFError("the compressed data ends before its end mark")


class Rejoined(io.RawIOBase):
    """A stream of which ``head`` was read already, whole again. ``passed`` is how many bytes were taken from it."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        super().__init__()
        self._head = head
        self._rest = rest
        self._fill = getattr(rest, "readinto1", None) or rest.readinto  # type: ignore[attr-defined]
        self.passed = 0

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._rest.fileno()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        part, self._head = self._head[: len(buffer)], self._head[len(buffer) :]
        buffer[: len(part)] = part
        size = len(part)
        if size < len(buffer):
            size += self._fill(memoryview(buffer)[size:]) or 0
        self.passed += size
        return size
