"""A file's bytes through one buffer: no new object for each read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO

PORTION = 512 * 1024
"""Bytes a read. Large enough that Python's share is small, small enough to stay in a core's cache until it is searched."""
LARGE_PORTION = 2 * 1024 * 1024
"""Bytes a read of a large file: several are read in threads, and each change between them costs as much as to search 400 KB."""
LARGE_FILE = 32 * 1024 * 1024


def portions(file: BinaryIO) -> Iterator[bytes | bytearray]:
    """All that ``file`` holds from where it stands. What is yielded holds until the next step: it is filled anew.

    Of a pipe what is there is yielded, without waiting for more. Raises what reading raises.
    """
    readinto = getattr(file, "readinto1", None) or getattr(file, "readinto", None)
    if readinto is None:  # only has read()
        while data := file.read(PORTION):
            yield data
        return
    portion = LARGE_PORTION if _file_size(file) >= LARGE_FILE else PORTION
    buffer = bytearray(portion)
    view = memoryview(buffer)
    while size := readinto(view):
        yield buffer if size == portion else bytes(view[:size])


def _file_size(file: BinaryIO) -> int:
    """Bytes of the file, 0 where it is none or does not say."""
    try:
        return os.fstat(file.fileno()).st_size
    except (AttributeError, OSError, ValueError):
        return 0
