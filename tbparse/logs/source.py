"""One log, from a file or from standard input, in pieces: compressed or not, and surely a log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from os import SEEK_END
from pathlib import Path
from typing import BinaryIO, cast

from tbparse.errors import InputError, NotALogError
from tbparse.logs.binary import binary_kind
from tbparse.logs.compressed import HEAD, Rejoined, damage_errors, scheme_of
from tbparse.text.blocks import MAX_LINE_BYTES
from tbparse.text.lines import detect_encoding
from tbparse.text.portions import PORTION, portions

CHUNK = PORTION
"""So many bytes come at a time at most; of a large file up to :data:`tbparse.text.portions.LARGE_PORTION`."""
MAX_UNPACKED = 16 * 1024**3
MAX_RATIO = 200
"""A compressed log that is larger than the one and grew by more than the other is read no further."""
STDIN = "-"


class LogSource:
    """A log to be read once. After reading, ``size`` is how many bytes were read (unpacked) and ``notes`` what was odd.

    ``path`` is a file, or ``-`` for standard input. ``tail``: read only so many bytes from the end, from the start of a line
    on; what is a pipe, compressed, or encoded in wider units than bytes is read whole. ``skipped`` are the bytes before what is
    read, known with the first portion.
    """

    def __init__(self, path: str, tail: int | None = None) -> None:
        self.path = path
        self.name = "standard input" if path == STDIN else path
        self.size = 0
        self.skipped = 0
        self._tail = tail
        self._whole_as: str | None = None
        self.notes: list[str] = []

    def chunks(self) -> Iterator[bytes]:
        """The log's bytes. Raises InputError where it cannot be read, or is no log."""
        return map(bytes, self.portions())

    def portions(self) -> Iterator[bytes | bytearray]:
        """As :meth:`chunks`, without copies: what is yielded holds until the next step, and is then filled anew."""
        with ExitStack() as stack:
            raw = self._open(stack)
            head = b""
            try:
                while len(head) < HEAD and (more := raw.read(HEAD - len(head))):
                    head += more
            except OSError as e:
                raise InputError(f"{self.name}: cannot be read: {_reason(e)}") from None
            scheme = scheme_of(head)
            if self._tail is not None:
                head = self._to_tail(raw, head, scheme.name if scheme else None)
            whole = Rejoined(head, raw)
            text = cast(BinaryIO, whole)
            if scheme is not None:
                try:
                    text = scheme.open(text)
                except InputError as e:
                    raise InputError(f"{self.name}: {e}") from None
            for data in self._read(text, scheme.name if scheme else None):
                yield data
                if self._whole_as is not None and self._tail is not None and self.size > self._tail:
                    self.notes.append(f"all of the log was read: {self._whole_as}, which cannot be read from its end")
                    self._whole_as = None
                if scheme is not None and self.size > max(MAX_UNPACKED, MAX_RATIO * whole.passed):
                    self.notes.append(
                        f"reading stopped after {self.size} bytes: the {scheme.name} file grows more than {MAX_RATIO} times"
                        " as it is unpacked, as a decompression bomb does; unpack it and give the log if it is one"
                    )
                    return

    def _open(self, stack: ExitStack) -> BinaryIO:
        if self.path == STDIN:
            if sys.stdin is None:
                raise InputError("standard input is closed; give the path of a log")
            return sys.stdin.buffer
        try:
            return cast(BinaryIO, stack.enter_context(Path(self.path).open("rb", buffering=0)))
        except OSError as e:
            raise InputError(f"{self.name}: cannot be read: {_reason(e)}{_hint(self.path, e)}") from None
        except ValueError as e:  # a NUL in the path
            raise InputError(f"{self.name}: cannot be read: {e}") from None

    def _to_tail(self, raw: BinaryIO, head: bytes, scheme: str | None) -> bytes:
        """Go to where the last bytes of the log begin. What of them was read on the way there; ``head`` where all is to be read."""
        assert self._tail is not None
        kind = "it is standard input" if self.path == STDIN else f"it is {scheme} data" if scheme is not None else None
        encoding = detect_encoding(head)
        if kind is None and encoding.unit > 1:
            kind = f"it is {encoding.name.upper()}"
        try:
            size = raw.seek(0, SEEK_END) if kind is None else 0
            if kind is None and size > self._tail:
                begin = raw.seek(size - self._tail - 1)
                part = b""
                while b"\n" not in part[:-1] and len(part) < MAX_LINE_BYTES and (more := raw.read(CHUNK)):
                    part += more
                line = part.find(b"\n", 0, -1) + 1 or 1  # within one endless line any place is as good as another
                self.skipped = begin + line
                return part[line:]
            if kind is None:
                raw.seek(len(head))
        except OSError:
            kind = "it is a pipe"
        self._whole_as = kind
        return head

    def _read(self, whole: BinaryIO, scheme: str | None) -> Iterator[bytes | bytearray]:
        parts = portions(whole)
        while True:
            try:
                data = next(parts, None)
            except damage_errors() as e:
                if scheme is None:
                    raise InputError(f"{self.name}: reading stopped after {self.size} bytes: {_reason(e)}") from None
                if self.size == 0:
                    raise InputError(f"{self.name}: begins like {scheme} and cannot be unpacked: {e}") from None
                self.notes.append(f"the {scheme} data ends or is damaged after {self.size} bytes; what came before was read")
                return
            if data is None:
                return
            if self.size == 0:
                data = self._first(data, parts)
            self.size += len(data)
            yield data

    def _first(self, data: bytes | bytearray, parts: Iterator[bytes | bytearray]) -> bytes | bytearray:
        """Enough bytes to tell text from binary data. Raises NotALogError for the latter."""
        with suppress(*damage_errors()):
            while len(data) < 512 and (more := next(parts, None)):
                data = bytes(data) + more
        kind = binary_kind(bytes(data))
        if kind is not None and not (kind.startswith("nothing but") and len(data) >= CHUNK // 2):
            raise NotALogError(f"{self.name}: is no log but {kind}; give the text that the job printed")
        return data


def _reason(e: BaseException) -> str:
    return (getattr(e, "strerror", None) or str(e) or type(e).__name__).lower()


def _hint(path: str, e: OSError) -> str:
    """The nearest name in the same folder, where the file does not exist."""
    if not isinstance(e, FileNotFoundError):
        return ""
    import difflib

    folder = Path(path).parent
    if not folder.is_dir():
        return f"; there is no folder {folder}"
    with suppress(OSError):
        close = difflib.get_close_matches(Path(path).name, [p.name for p in folder.iterdir()], n=1, cutoff=0.7)
        if close:
            return f"; did you mean {folder / close[0] if str(folder) != '.' else close[0]}?"
    return ""
