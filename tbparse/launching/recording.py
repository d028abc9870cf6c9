"""What a child printed: its head and its tail kept, and all of it read while it streams.

The two are separate on purpose. A bounded head and tail is what a person or an exception can hold; the first failure of a
long run lies in neither, so the engine is fed everything, as it comes. Both are bounded at any volume.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from tbparse.launching.place import fill_place
from tbparse.model import RootCause
from tbparse.records import NO_TAGS, Tags
from tbparse.terms import signal_name

if TYPE_CHECKING:
    from tbparse.engine import Explainer

HEAD_BYTES = 256 * 1024
TAIL_BYTES = 1024 * 1024
BATCH_BYTES = 512 * 1024
"""The engine reads portions of at least this: less would cost more in starting than in reading. It reads in the thread that
feeds, since a thread of its own would wait for the interpreter's lock at every turn, and make the pump wait for it."""

_log = logging.getLogger("tbparse")


class HeadAndTail:
    """The first ``head`` and the last ``tail`` bytes of a stream. Memory: at most ``head + 2 * tail`` and one chunk."""

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._head_size, self._tail_size = max(0, head), max(1, tail)
        self._head, self._tail = bytearray(), bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        """Take more of the stream."""
        self.total += len(data)
        room = self._head_size - len(self._head)
        if room > 0:
            self._head += data[:room]
            if len(data) <= room:
                return
            data = data[room:]
        if len(data) >= self._tail_size:
            self._tail = bytearray(data[-self._tail_size :])
            return
        self._tail += data
        if len(self._tail) > 2 * self._tail_size:
            del self._tail[: -self._tail_size]

    def text(self) -> str:
        """Decoded as UTF-8, what is not UTF-8 replaced. Where bytes are missing a line says how many; it stands between whole
        lines, except where the lines are longer than what is kept."""
        head, tail = bytes(self._head), bytes(self._tail)
        if self.total == len(head) + len(tail):
            return (head + tail).decode("utf-8", "replace")
        tail = tail[-self._tail_size :]
        head = head[: head.rfind(b"\n") + 1] or head
        tail = tail[tail.find(b"\n") + 1 :] or tail
        missing = self.total - len(head) - len(tail)
        lead = head.decode("utf-8", "replace")
        if lead and not lead.endswith("\n"):
            lead += "\n"
        return f"{lead}[tbparse: {missing:,} bytes are left out here]\n{tail.decode('utf-8', 'replace')}"


class Recording:
    """What a child prints, kept in part and explained as a whole. All methods may be called from any thread.

    ``explainer`` is the engine to feed, or what makes one when it is needed (a plain one when None). ``head`` and ``tail`` say
    how many bytes of the text are kept; ``place`` is where the child ran, for an answer whose log does not tell. An engine that
    fails is logged and left alone: it never disturbs whoever feeds.
    """

    def __init__(
        self,
        explainer: Explainer | Callable[[], Explainer] | None = None,
        *,
        head: int = HEAD_BYTES,
        tail: int = TAIL_BYTES,
        place: Tags = NO_TAGS,
    ) -> None:
        self._explainer: Explainer | None = None
        self._make: Callable[[], Explainer] = _make_explainer
        if callable(explainer):
            self._make = explainer
        else:
            self._explainer = explainer
        self._making = threading.Lock()
        self._warming: threading.Thread | None = None
        self._kept = HeadAndTail(head, tail)
        self._place = place
        self._lock = threading.Lock()
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._closed = False
        self._failed: str | None = None
        self._answer: RootCause | None = None

    @property
    def total(self) -> int:
        """Bytes fed so far."""
        return self._kept.total

    @property
    def explainer(self) -> Explainer:
        """The engine. Only for use after :meth:`drain`: until then another thread may be feeding it."""
        with self._making:
            if self._explainer is None:
                self._explainer = self._make()
            return self._explainer

    def warm(self) -> None:
        """Have the engine made in the background, while the child starts: loading its rules takes a tenth of a second."""
        if self._explainer is None and "tbparse.engine" not in sys.modules:
            self._warming = threading.Thread(target=self._warm, name="tbparse-warm", daemon=True)
            self._warming.start()

    def feed(self, data: bytes) -> None:
        """Take what the child wrote next. The engine reads in here, now and then."""
        if not data:
            return
        with self._lock:
            if self._closed:
                return
            self._kept.add(data)
            if self._failed is not None:
                return
            self._pending.append(data)
            self._pending_bytes += len(data)
            if self._pending_bytes >= BATCH_BYTES:
                self._explain()

    def text(self) -> str:
        """What is kept so far, see :meth:`HeadAndTail.text`."""
        with self._lock:
            return self._kept.text()

    def drain(self) -> None:
        """Take nothing more, and let the engine read what was fed. May be called again."""
        warming, self._warming = self._warming, None
        if warming is not None:
            warming.join()
        with self._lock:
            self._closed = True
            self._explain()

    def amend(self, more: Callable[[Explainer], object]) -> None:
        """After the log, let ``more`` give the engine what was learned elsewhere (the child's own report)."""
        self.drain()
        if self._failed is None:
            try:
                more(self.explainer)
            except Exception as e:
                self._note_failure(e)

    def finish(self, returncode: int | None) -> RootCause:
        """Why the child died. ``returncode`` as ``subprocess`` has it, None where it is not known. Never raises; the answer of
        the first call is kept."""
        self.drain()
        if self._answer is None:
            self._answer = self._finish(returncode)
        return self._answer

    def _finish(self, returncode: int | None) -> RootCause:
        if self._failed is None:
            try:
                explainer = self.explainer
                return fill_place(explainer.finish(returncode), explainer.job, self._place)
            except Exception as e:
                self._note_failure(e)
        return _no_answer(returncode, self._failed or "")

    def _warm(self) -> None:
        # What fails here fails again, and is told, where the engine is needed.
        with suppress(Exception):
            _ = self.explainer

    def _explain(self) -> None:
        if not self._pending:
            return
        batch = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
        self._pending, self._pending_bytes = [], 0
        try:
            self.explainer.feed(batch)
        except Exception as e:
            self._note_failure(e)

    def _note_failure(self, error: Exception) -> None:
        _log.error("the output could not be explained; the command is not affected", exc_info=error)
        self._failed = f"{type(error).__name__}: {error}"
        self._pending, self._pending_bytes = [], 0


def _make_explainer() -> Explainer:
    from tbparse.engine import Explainer

    return Explainer()


def _no_answer(returncode: int | None, why: str) -> RootCause:
    """What can be said where the engine itself failed."""
    from tbparse.attribute.words import decode_returncode

    signal, code = decode_returncode(returncode) if returncode is not None else (None, None)
    return RootCause(
        verdict="unknown",
        category="unknown",
        confidence="low",
        signal=(signal_name(signal) or f"signal {signal}") if signal is not None else None,
        exit_code=code,
        notes=(f"tbparse failed to read the output, which is a fault of tbparse: {why}",),
    )
