"""Where the child's bytes go: the parent's own descriptors, and a log file."""

from __future__ import annotations

import logging
import os
import select

from tbparse.errors import UsageError

_log = logging.getLogger("tbparse")


def write_all(fd: int, data: bytes) -> None:
    """Write everything, also where the descriptor was set not to block. Raises OSError as ``os.write`` does."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(fd, left) :]
        except BlockingIOError:
            waiter = select.poll()
            waiter.register(fd, select.POLLOUT)
            waiter.poll()


class LogFile:
    """The bytes that passed through, in a file, written at once. Never fails once it is open.

    What a full or broken disk does not take is counted; when the disk takes bytes again, a line in the file says how many
    are missing, and :attr:`lost` has the number at the end. Raises UsageError where the file cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.lost = 0
        self._gap = 0
        try:
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        except OSError as e:
            raise UsageError(
                f"{self.path}: cannot be written: {e.strerror or e}: name a file in a folder that you may write to"
            ) from None

    def write(self, data: bytes) -> None:
        """Append; what cannot be written is counted."""
        if self._gap:
            gap = b"\n[tbparse: %d bytes could not be written here]\n" % self._gap
            if self._put(gap) < len(gap):
                self._lose(len(data))
                return
            self._gap = 0
        self._lose(len(data) - self._put(data))

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _lose(self, count: int) -> None:
        self._gap += count
        self.lost += count

    def _put(self, data: bytes) -> int:
        """How many bytes were taken."""
        done = 0
        view = memoryview(data)
        while done < len(data):
            try:
                done += os.write(self._fd, view[done:])
            except OSError as e:
                if not self.lost:
                    _log.warning("%s: cannot be written: %s; the command goes on", self.path, e.strerror or e)
                break
        return done
