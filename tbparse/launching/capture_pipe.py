"""One child's way out: a pipe or a terminal of its own, and the thread that writes on what comes through it."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import select
import threading
import time
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from tbparse.launching.capture_child import Child

CHUNK = 65_536
_SIZE_EVERY = 0.25
"""Seconds between two looks at the outer terminal's size."""
_log = logging.getLogger("tbparse")


class Channel:
    """What a child writes into ``give`` comes out at ``out``, at once and byte for byte, and is recorded on the way.

    ``out`` is a copy of the descriptor that the child would have inherited, None where that was closed. ``both``: it is for the
    child's stdout too.
    """

    _open: ClassVar[set[int]] = set()
    _guard: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, take: int, give: int, out: int | None, child: Child, terminal: bool, both: bool) -> None:
        self.give, self.both = give, both
        self._take, self._out, self._child, self._terminal = take, out, child, terminal
        self._thread: threading.Thread | None = None
        self._size_at = 0.0
        self._passing = threading.Lock()
        self._done = False
        with Channel._guard:
            Channel._open.update(x for x in (take, give, out) if x is not None)

    def start(self) -> None:
        """The child has its end: close this process's copy of it, and begin to pass on."""
        _close(self.give)
        self._thread = threading.Thread(target=self._run, name="tbparse-capture", daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """There is no child after all."""
        for fd in (self.give, self._take, self._out):
            if fd is not None:
                _close(fd)

    def flush(self, timeout: float) -> None:
        """Wait until what was written so far has come out, ``timeout`` seconds at most."""
        deadline = time.monotonic() + timeout
        while self._thread is not None and self._thread.is_alive() and time.monotonic() < deadline:
            with self._passing:
                if self._done or not select.select([self._take], [], [], 0)[0]:
                    return
            time.sleep(0.0005)  # the thread is to get its turn

    def join(self, timeout: float) -> None:
        """Wait for the end of the output, ``timeout`` seconds at most."""
        if self._thread is not None:
            self._thread.join(timeout)

    @classmethod
    def forget_all(cls) -> None:
        """In a forked child: close the parent's ends, which would keep other children's pipes open."""
        cls._guard = threading.Lock()
        for fd in list(cls._open):
            _close(fd)

    def _run(self) -> None:
        try:
            more = True
            while more:
                select.select([self._take], [], [])
                with self._passing:
                    more = self._pass_on()
        finally:
            self._child.ended_at = time.time()
            with self._passing:
                self._done = True
                _close(self._take)
            if self._out is not None:
                _close(self._out)

    def _pass_on(self) -> bool:
        """What has come, on to where it goes; False at the end of it."""
        try:
            data = os.read(self._take, CHUNK)
        except OSError as e:
            if e.errno != errno.EIO:  # a terminal's way of saying that nobody holds its other end
                _log.error("a child's output cannot be read", exc_info=e)
            return False
        if self._out is not None and data:
            self._write(self._out, data)
        if self._child.recorded:
            self._child.recording.feed(data)
        if self._terminal:
            self._follow_size()
        return bool(data)

    def _write(self, out: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(out, view) :]
            except BlockingIOError:
                select.select([], [out], [], 1.0)
            except OSError:  # nobody reads there any more: the child is not to suffer from it
                _close(out)
                self._out = None
                return

    def _follow_size(self) -> None:
        now = time.monotonic()
        if self._out is None or now < self._size_at:
            return
        self._size_at = now + _SIZE_EVERY
        _copy_size(self._out, self._take)


def open_channel(number: int, child: Child, stdout: int | None = None) -> Channel | None:
    """A channel in place of this process's descriptor ``number``. None where the system gives none.

    ``stdout``: the descriptor that the child inherits as its stdout. Where both are one terminal the channel is for both: a
    progress bar on stderr clears its line, text goes to stdout, the bar is drawn again, and all that in this order.
    """
    if os.name == "nt":
        return None  # select() knows no pipes there
    try:
        out: int | None = os.dup(number)
    except OSError:
        out = None
    terminal = False
    try:
        if out is not None and os.isatty(out):
            take, give = _open_terminal(out)
            terminal = True
        else:
            take, give = os.pipe()
    except OSError as e:
        _log.warning("a child's output cannot be captured: %s", e)
        if out is not None:
            os.close(out)
        return None
    return Channel(take, give, out, child, terminal, terminal and stdout is not None and _same_terminal(number, stdout))


def _open_terminal(out: int) -> tuple[int, int]:
    """A terminal like the one at ``out``, that leaves line ends to that one."""
    import pty
    import termios

    take, give = pty.openpty()
    mode = termios.tcgetattr(give)
    mode[1] &= ~termios.OPOST
    termios.tcsetattr(give, termios.TCSANOW, mode)
    _copy_size(out, take)
    return take, give


def _same_terminal(a: int, b: int) -> bool:
    try:
        return os.isatty(b) and os.fstat(a).st_rdev == os.fstat(b).st_rdev
    except OSError:
        return False


def _copy_size(source: int, target: int) -> None:
    try:
        size = os.get_terminal_size(source)
        if size != os.get_terminal_size(target):
            import fcntl
            import struct
            import termios

            fcntl.ioctl(target, termios.TIOCSWINSZ, struct.pack("HHHH", size.lines, size.columns, 0, 0))
    except (OSError, ValueError):
        pass


def _close(fd: int) -> None:
    with Channel._guard:
        if fd not in Channel._open:
            return
        Channel._open.discard(fd)
    with contextlib.suppress(OSError):
        os.close(fd)
