"""Signals that this process gets while a child runs, passed on to the child's process group.

The child leads a session, and so a process group, of its own. It therefore gets nothing from the terminal by itself: what Ctrl-C,
Ctrl-\\, Ctrl-Z or a hang-up send to this process is passed on here, once. Handlers can only be set in the main thread.

Python calls a handler once for all signals of one kind that came since it last looked, and it looks late while another thread
works. The wake-up descriptor gets a byte for each, at once. So those bytes are what is acted upon, and a handler only reads them.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""They tell this process to stop, so they are delivered to it as well, once the child is gone."""
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)
"""Passed on where this process has no use of its own for them (Slurm's ``--signal``, Lightning's requeueing)."""
PRESSES_WITHIN_S = 5.0
"""A third SIGINT within this time is passed on as SIGTERM, the next as SIGKILL."""
_STOP_AFTER_S = 0.02


class Forwarding:
    """A context in which signals go to the child's process group; ``resize`` is called when the terminal's size changes.

    :meth:`start` names the group: what came before is passed on then. :attr:`received` are the :data:`STOPPING` signals, in
    order. In another than the main thread nothing is set, and signals do what they would do anyway.
    """

    def __init__(self, resize: Callable[[], None]) -> None:
        self.received: list[int] = []
        self.wakeup: int | None = None
        """Readable once a signal has come: whoever polls it then calls :meth:`act`."""
        self._wakes: int | None = None
        self._wakeup_before = -1
        self._resize = resize
        self._group: int | None = None
        self._early: list[int] = []
        self._before: dict[int, Any] = {}
        self._acts: dict[int, Callable[[int, FrameType | None], None]] = {}
        self._come: deque[int] = deque()
        self._acting = False
        self._presses: list[float] = []

    def __enter__(self) -> Forwarding:
        if threading.current_thread() is not threading.main_thread():
            return self
        self.wakeup, self._wakes = os.pipe()
        os.set_blocking(self.wakeup, False)
        os.set_blocking(self._wakes, False)
        self._wakeup_before = signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        for number in STOPPING:
            # Whoever ignores a signal (nohup, a shell's background job) wants the child to ignore it too, and it does.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._set(number, self._forward)
        for number in PASSED_ON:
            if signal.getsignal(number) is signal.SIG_DFL:
                self._set(number, self._forward)
        if signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL:
            self._set(signal.SIGTSTP, self._suspend)
        self._set(signal.SIGCONT, self._forward)
        self._set(signal.SIGWINCH, self._size_changed)
        return self

    def __exit__(self, *_: object) -> None:
        self.act()
        self._group = None
        while self._before:
            number, handler = self._before.popitem()
            # None: set by C code, which Python cannot put back.
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        if self.wakeup is not None and self._wakes is not None:
            signal.set_wakeup_fd(self._wakeup_before)
            os.close(self.wakeup)
            os.close(self._wakes)
            self.wakeup = self._wakes = None

    def start(self, group: int) -> None:
        """The child runs; its process group is ``group``."""
        self._group = group
        early, self._early = self._early, []
        for number in early:
            self.send(number)

    def send(self, number: int) -> None:
        """Signal the child's process group, as far as there still is one."""
        if self._group is None:
            self._early.append(number)
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._group, number)

    def act(self, frame: FrameType | None = None) -> None:
        """Do what the signals that have come ask for, each once and in their order."""
        while not self._acting and self._fetch():
            self._acting = True  # a handler that interrupts this only leaves its bytes to it
            try:
                while self._come:
                    number = self._come.popleft()
                    self._acts[number](number, frame)
            finally:
                self._acting = False

    def _fetch(self) -> bool:
        """Read which signals have come. Those that are not ours are for whoever had the wake-up descriptor before."""
        if self.wakeup is None:
            return False
        with suppress(BlockingIOError):
            for number in os.read(self.wakeup, 4096):
                if number in self._acts:
                    self._come.append(number)
                elif self._wakeup_before >= 0:
                    with suppress(OSError):
                        os.write(self._wakeup_before, bytes([number]))
        return bool(self._come)

    def _set(self, number: int, act: Callable[[int, FrameType | None], None]) -> None:
        self._acts[number] = act
        self._before[number] = signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.act(frame)

    def _forward(self, number: int, frame: FrameType | None) -> None:
        if number in STOPPING:
            self.received.append(number)
        if number == signal.SIGINT:
            now = time.monotonic()
            self._presses = [t for t in self._presses if now - t < PRESSES_WITHIN_S]
            self._presses.append(now)
            number = {3: signal.SIGTERM}.get(len(self._presses), number if len(self._presses) < 3 else signal.SIGKILL)
        self.send(number)
        self._chain(number, frame)

    def _suspend(self, number: int, frame: FrameType | None) -> None:
        # A session of its own has no shell to take it up again, so the system lets no SIGTSTP stop it: those who
        # handle it get it, and then all are stopped.
        self.send(signal.SIGTSTP)
        time.sleep(_STOP_AFTER_S)
        self.send(signal.SIGSTOP)
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._handle)
        self.send(signal.SIGCONT)

    def _size_changed(self, number: int, frame: FrameType | None) -> None:
        self._resize()
        self.send(number)
        self._chain(number, frame)

    def _chain(self, number: int, frame: FrameType | None) -> None:
        """Those that only tell something reach their earlier handler at once."""
        before = self._before.get(number)
        if number in (signal.SIGCONT, signal.SIGWINCH) and callable(before):
            before(number, frame)
