"""The child's output streams: a pipe or a pseudo-terminal each, and where what comes out of it goes on to."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

Pty = Literal["auto", "yes", "no"]
Stdout = Literal["inherit", "tee"]

PIPE_BYTES = 1024 * 1024
"""What a pipe is asked to hold, so that a child that writes fast is not stopped at every 64 KiB (Linux; elsewhere its default)."""
_DEFAULT_SIZE = struct.pack("HHHH", 24, 80, 0, 0)


@dataclass
class Channel:
    """One way out of the child. ``source`` is our end, ``child`` the child's end, ``target`` the descriptor that gets a copy of
    every byte (None where that is closed)."""

    source: int
    child: int
    target: int | None
    terminal: bool


@dataclass
class Streams:
    """What the child gets as standard output and standard error. ``stdout`` is None where it has the parent's own."""

    stdout: int | None
    stderr: int
    channels: list[Channel] = field(default_factory=list)

    def close_child_ends(self) -> None:
        """Once the child runs (or could not be started): only its own copies count."""
        for channel in self.channels:
            if channel.child >= 0:
                os.close(channel.child)
                channel.child = -1

    def close(self) -> None:
        """Close what is still open."""
        self.close_child_ends()
        for channel in self.channels:
            if channel.source >= 0:
                os.close(channel.source)
                channel.source = -1

    def resize(self) -> None:
        """Give every pseudo-terminal the size of the terminal that it stands for."""
        for channel in self.channels:
            if channel.terminal and channel.source >= 0:
                with suppress(OSError):
                    fcntl.ioctl(channel.source, termios.TIOCSWINSZ, _size(channel.target))


def open_streams(stdout: Stdout, pty: Pty) -> Streams:
    """Streams for a child whose output is to go to this process's own descriptors 1 and 2.

    With ``stdout="tee"`` both are read. Where they are one file (a terminal, ``2>&1``) the child gets one stream for
    both, since only that keeps their order. ``pty="auto"`` gives a pseudo-terminal in place of a terminal, so
    that every stream looks to the child as it would without us.
    """
    opened: list[Channel] = []
    try:
        error = _open(2, pty)
        opened.append(error)
        if stdout == "inherit":
            return Streams(None, error.child, opened)
        if _is_same_file(1, 2):
            return Streams(error.child, error.child, opened)
        out = _open(1, pty)
        opened.append(out)
        return Streams(out.child, error.child, opened)
    except BaseException:
        Streams(None, -1, opened).close()
        raise


def _open(target: int, pty: Pty) -> Channel:
    there = _is_open(target)
    if pty == "yes" or (pty == "auto" and there and os.isatty(target)):
        source, child = (_lifted(x) for x in os.openpty())
        # The real terminal turns line ends into CR LF. This one must not, or the bytes would not be those that were written.
        modes = termios.tcgetattr(child)
        modes[1] &= ~termios.OPOST
        termios.tcsetattr(child, termios.TCSANOW, modes)
        channel = Channel(source, child, target if there else None, True)
        with suppress(OSError):
            fcntl.ioctl(source, termios.TIOCSWINSZ, _size(channel.target))
        return channel
    source, child = (_lifted(x) for x in os.pipe())
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):  # a user may have used up what the system allows
            fcntl.fcntl(source, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return Channel(source, child, target if there else None, False)


def _lifted(fd: int) -> int:
    """The descriptor, moved above the standard ones: a parent that runs without those would be given their numbers."""
    if fd > 2:
        return fd
    higher = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return higher


def _size(fd: int | None) -> bytes:
    if fd is not None:
        with suppress(OSError):
            size: bytes = fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(8))
            if size[:4] != bytes(4):
                return size
    return _DEFAULT_SIZE


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _is_same_file(a: int, b: int) -> bool:
    try:
        return os.path.samestat(os.fstat(a), os.fstat(b))
    except OSError:
        return False
