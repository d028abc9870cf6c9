"""A file's bytes through one buffer: no new object for each read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

PORTION = 512 * 1024
"""Bytes a read. Large enough that Python's share is small, small enough to stay in a core's cache until it is searched."""


def portions(file: BinaryIO) -> Iterator[bytes | bytearray]:
    """All that ``file`` holds from where it stands. What is yielded holds until the next step: it is filled anew.

    Of a pipe what is there is yielded, without waiting for more. Raises what reading raises.
    """
    readinto = getattr(file, "readinto1", None) or getattr(file, "readinto", None)
    if readinto is None:  # only has read()
        while data := file.read(PORTION):
            yield data
        return
    buffer = bytearray(PORTION)
    view = memoryview(buffer)
    while size := readinto(view):
        yield buffer if size == PORTION else bytes(view[:size])
