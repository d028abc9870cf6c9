"""What a child printed: its head and its tail kept, and all of it read while it streams.

The two are separate on purpose. A bounded head and tail is what a person or an exception can hold; the first failure of a
long run lies in neither, so the engine is fed everything, as it comes. Both are bounded at any volume.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Queue
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
"""The engine reads portions of at least this: less would cost more in starting than in reading."""
WAITING_BATCHES = 2
"""So many portions wait for the engine at most; then whoever feeds waits for it too."""
_LARGE_BYTES = 16 * 1024
"""Of the tail, pieces of at least this are kept as they came; smaller ones are put together."""

_log = logging.getLogger("tbparse")


class HeadAndTail:
    """The first ``head`` and the last ``tail`` bytes of a stream. Memory: at most ``head + tail`` and one chunk."""

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._head_size, self._tail_size = max(0, head), max(1, tail)
        self._head = bytearray()
        self._tail: deque[bytes | bytearray] = deque()
        self._tail_bytes = 0
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
        if len(data) > self._tail_size:
            data = data[-self._tail_size :]
        tail = self._tail
        if len(data) >= _LARGE_BYTES:
            tail.append(data)
        elif tail and isinstance(tail[-1], bytearray) and len(tail[-1]) < _LARGE_BYTES:
            tail[-1] += data
        else:
            tail.append(bytearray(data))
        self._tail_bytes += len(data)
        while self._tail_bytes - len(tail[0]) >= self._tail_size:
            self._tail_bytes -= len(tail.popleft())

    def text(self) -> str:
        """Decoded as UTF-8, what is not UTF-8 replaced. Where bytes are missing a line says how many; it stands between whole
        lines, except where the lines are longer than what is kept."""
        head, tail = bytes(self._head), b"".join(self._tail)
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

    From the first full portion on the engine reads in a thread of its own, since its search and the feeder's reading and writing
    all do without the interpreter's lock. Until then, which is all there is of most children, it reads when the stream is over.
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
        self._batches: Queue[bytes | None] | None = None
        self._reader: threading.Thread | None = None
        self._closed = False
        self._failed: str | None = None
        self._answer: RootCause | None = None
        self.pid: int | None = None
        """The process whose output it is, where whoever feeds knows it."""

    @property
    def answer(self) -> RootCause | None:
        """What :meth:`finish` has said."""
        return self._answer

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
        """Take what the child wrote next. Waits where the engine is behind, so that memory stays bounded."""
        if not data:
            return
        with self._lock:
            if self._closed:
                return
            self._kept.add(data)
            if self._failed is not None:
                self._pending, self._pending_bytes = [], 0
                return
            self._pending.append(data)
            self._pending_bytes += len(data)
            if self._pending_bytes >= BATCH_BYTES:
                self._hand_on(self._batch())

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
            reader, self._reader = self._reader, None
            if reader is not None and self._batches is not None:
                self._batches.put(None)
                reader.join()
            if self._pending:
                self._explain(self._batch())

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

    def _batch(self) -> bytes:
        """What the engine has not got yet."""
        batch = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
        self._pending, self._pending_bytes = [], 0
        return batch

    def _hand_on(self, batch: bytes) -> None:
        if self._batches is None:
            self._batches = Queue(WAITING_BATCHES)
            reader = threading.Thread(target=self._read, args=(self._batches,), name="tbparse-reader", daemon=True)
            with suppress(RuntimeError):  # the system gives no more threads
                reader.start()
                self._reader = reader
        if self._reader is None:
            self._explain(batch)
        else:
            self._batches.put(batch)

    def _read(self, batches: Queue[bytes | None]) -> None:
        while (batch := batches.get()) is not None:
            self._explain(batch)

    def _explain(self, batch: bytes) -> None:
        if self._failed is not None:
            return
        try:
            self.explainer.feed(batch)
        except Exception as e:
            self._note_failure(e)

    def _note_failure(self, error: Exception) -> None:
        _log.error("the output could not be explained; the command is not affected", exc_info=error)
        self._failed = f"{type(error).__name__}: {error}"


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
