"""The time between two attempts, when no child runs that a signal could be passed on to.

Signals that tell this process to stop end the pause at once and are remembered. SIGUSR1 and SIGUSR2, which would end this
process, are told and change nothing: they are meant for a command that does not run at this moment.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from tbparse.launching.signals import PASSED_ON, STOPPING


class Waiting:
    """A context from the end of one child to the start of the next. :attr:`received` are the signals that said stop, in order.

    ``tell`` is called, within :meth:`sleep`, with the name of each other signal. In another than the main thread signals do
    what they would do anyway.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.received: list[int] = []
        self._others: list[int] = []
        self._tell = tell
        self._before: dict[int, Any] = {}
        self._pipe: tuple[int, int] | None = None

    def __enter__(self) -> Waiting:
        if threading.current_thread() is not threading.main_thread():
            return self
        self._pipe = os.pipe()
        for end in self._pipe:
            os.set_blocking(end, False)
        for number in (*STOPPING, *PASSED_ON):
            now = signal.getsignal(number)
            # What is ignored stays so; who has a use of its own for SIGUSR1 gets it.
            if now is signal.SIG_DFL or (number in STOPPING and now is not signal.SIG_IGN):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        if self._pipe is not None:
            for end in self._pipe:
                os.close(end)
            self._pipe = None

    def sleep(self, seconds: float) -> None:
        """Wait, unless a signal says stop or has said so."""
        until = time.monotonic() + seconds
        while not self.received:
            while self._others:
                self._tell(signal.Signals(self._others.pop(0)).name)
            left = until - time.monotonic()
            if left <= 0:
                return
            if self._pipe is None:
                time.sleep(left)
                continue
            # Not time.sleep: it would sleep through a signal that comes just before it.
            if select.select([self._pipe[0]], [], [], left)[0]:
                with suppress(BlockingIOError):
                    os.read(self._pipe[0], 512)

    def _note(self, number: int, frame: FrameType | None) -> None:
        (self.received if number in STOPPING else self._others).append(number)
        if self._pipe is not None:
            with suppress(BlockingIOError):
                os.write(self._pipe[1], b"!")
