"""What a child printed: its head and its tail kept, and all of it read while it streams.

The two are separate on purpose. A bounded head and tail is what a person or an exception can hold; the first failure of a
long run lies in neither, so the engine is fed everything, as it comes. Both are bounded at any volume.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from tbparse.launching.place import fill_place
from tbparse.model import RootCause, signal_name
from tbparse.records import NO_TAGS, Tags

if TYPE_CHECKING:
    from tbparse.engine import Explainer

HEAD_BYTES = 256 * 1024
TAIL_BYTES = 1024 * 1024
BATCH_BYTES = 512 * 1024
"""The engine is woken for this much: less would cost more in switching threads than in reading."""
MAX_PENDING_BYTES = 8 * 1024 * 1024
"""How far the engine may fall behind before the writer has to wait for it."""

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

    ``explainer`` is the engine to feed (a new one when None), ``head`` and ``tail`` say how many bytes of the text are kept,
    ``place`` is where the child ran, for an answer whose log does not tell. An engine that fails is logged and left
    alone: it never disturbs whoever feeds.
    """

    def __init__(
        self,
        explainer: Explainer | None = None,
        *,
        head: int = HEAD_BYTES,
        tail: int = TAIL_BYTES,
        place: Tags = NO_TAGS,
    ) -> None:
        self._explainer = explainer
        self._kept = HeadAndTail(head, tail)
        self._place = place
        self._changed = threading.Condition()
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._reader: threading.Thread | None = None
        self._closed = False
        self._failed: str | None = None
        self._answer: RootCause | None = None

    @property
    def total(self) -> int:
        """Bytes fed so far."""
        return self._kept.total

    @property
    def explainer(self) -> Explainer:
        """The engine. Only for use after :meth:`drain`: until then it may be reading in a thread of its own."""
        if self._explainer is None:
            from tbparse.engine import Explainer

            self._explainer = Explainer()
        return self._explainer

    def feed(self, data: bytes) -> None:
        """Take what the child wrote next. Returns at once, unless the engine is :data:`MAX_PENDING_BYTES` behind."""
        if not data:
            return
        with self._changed:
            if self._closed:
                return
            self._kept.add(data)
            if self._failed is not None:
                return
            self._pending.append(data)
            self._pending_bytes += len(data)
            if self._pending_bytes < BATCH_BYTES:
                return
            if self._reader is None:
                self._reader = threading.Thread(target=self._read, name="tbparse-explain", daemon=True)
                self._reader.start()
            self._changed.notify_all()
            while self._pending_bytes > MAX_PENDING_BYTES and self._failed is None and not self._closed:
                self._changed.wait()

    def text(self) -> str:
        """What is kept so far, see :meth:`HeadAndTail.text`."""
        with self._changed:
            return self._kept.text()

    def drain(self) -> None:
        """Take nothing more, and let the engine read what was fed. May be called again."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            reader, self._reader = self._reader, None
        if reader is not None:
            reader.join()
        while self._failed is None and (batch := self._take()):
            self._explain(batch)

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

    def _read(self) -> None:
        """The engine's own thread."""
        while True:
            with self._changed:
                while self._pending_bytes < BATCH_BYTES and not self._closed:
                    self._changed.wait()
                if self._closed and not self._pending:
                    return
            batch = self._take()
            if batch:
                self._explain(batch)
            if self._failed is not None:
                return

    def _take(self) -> bytes:
        with self._changed:
            batch = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
            self._pending, self._pending_bytes = [], 0
            self._changed.notify_all()
            return batch

    def _explain(self, batch: bytes) -> None:
        try:
            self.explainer.feed(batch)
        except Exception as e:
            self._note_failure(e)

    def _note_failure(self, error: Exception) -> None:
        _log.error("the output could not be explained; the command is not affected", exc_info=error)
        with self._changed:
            self._failed = f"{type(error).__name__}: {error}"
            self._pending, self._pending_bytes = [], 0
            self._changed.notify_all()


def _no_answer(returncode: int | None, why: str) -> RootCause:
    """What can be said where the engine itself failed."""
    from tbparse.attribute.job import decode_returncode

    signal, code = decode_returncode(returncode) if returncode is not None else (None, None)
    return RootCause(
        verdict="unknown",
        category="unknown",
        confidence="low",
        signal=(signal_name(signal) or f"signal {signal}") if signal is not None else None,
        exit_code=code,
        notes=(f"tbparse failed to read the output, which is a fault of tbparse: {why}",),
    )
