"""From the child to the parent's own streams, at once and byte for byte, until the child is gone."""

from __future__ import annotations

import errno
import logging
import os
import select
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

from tbparse.launching.recording import Recording
from tbparse.launching.signals import Forwarding
from tbparse.launching.sinks import LogFile, write_all
from tbparse.launching.streams import Channel

_log = logging.getLogger("tbparse")

READ_BYTES = 512 * 1024
MAX_HELD_BYTES = 64 * 1024
"""Of two streams whole lines are recorded; a line longer than this is recorded in pieces."""
_LOOK_EVERY_S = 0.05
"""How often a child is looked at where the system cannot tell when it ends."""


class Pump:
    """Moves what the child writes: to where it would have gone, to the log file, to the recording."""

    def __init__(self, channels: Sequence[Channel], recording: Recording, log: LogFile | None) -> None:
        self._open = {c.source: c for c in channels}
        self._recording = recording
        self._log = log
        self._held: dict[int, bytes] | None = {c.source: b"" for c in channels} if len(channels) > 1 else None

    def run(self, process: subprocess.Popen[bytes], grace_s: float, forwarding: Forwarding | None = None) -> bool:
        """Until the child has ended and its streams have too, but at most ``grace_s`` seconds after its end.

        ``forwarding`` acts on the signals that come meanwhile.
        True when something still holds a stream then (a process that the child started and left behind).
        """
        self._recording.pid = process.pid
        poller = select.poll()
        for source in self._open:
            poller.register(source, select.POLLIN)
        wakeup = forwarding.wakeup if forwarding is not None else None
        if wakeup is not None:
            poller.register(wakeup, select.POLLIN)
        watch = _watch(process.pid)
        if watch is not None:
            poller.register(watch, select.POLLIN)
        ended_at: float | None = None
        try:
            while True:
                timeout = _LOOK_EVERY_S if watch is None else None
                if ended_at is not None:
                    if not self._open:
                        return False
                    timeout = ended_at + grace_s - time.monotonic()
                    if timeout <= 0:
                        return True
                for fd, _ in poller.poll(None if timeout is None else max(1, timeout * 1000)):
                    if forwarding is not None and fd == wakeup:
                        forwarding.act()
                    elif fd != watch and not self._move(self._open[fd]):
                        poller.unregister(fd)
                        self._close(fd)
                if ended_at is None and process.poll() is not None:
                    ended_at = time.monotonic()
                    if watch is not None:
                        poller.unregister(watch)
        finally:
            if watch is not None:
                os.close(watch)
            self._release()

    def _move(self, channel: Channel) -> bool:
        """Move what is there. False at the stream's end."""
        try:
            data = os.read(channel.source, READ_BYTES)
        except BlockingIOError:
            return True
        except OSError as e:
            if e.errno != errno.EIO:  # what the last process to leave a pseudo-terminal leaves behind
                _log.warning("the command's output cannot be read on: %s", e)
            return False
        if not data:
            return False
        alive = self._pass(channel, data)
        if self._log is not None:
            self._log.write(data)
        self._record(channel.source, data)
        return alive

    def _pass(self, channel: Channel, data: bytes) -> bool:
        """Write to where the child would have written. False where it would have been told that nobody reads any more."""
        if channel.target is None:
            return True
        try:
            write_all(channel.target, data)
        except BrokenPipeError:
            return False
        except OSError as e:
            _log.warning("the command's output cannot be shown on: %s; the command goes on", e)
            channel.target = None
        return True

    def _record(self, source: int, data: bytes) -> None:
        if self._held is None:
            self._recording.feed(data)
            return
        held = self._held[source]
        cut = data.rfind(b"\n") + 1
        if cut:
            self._recording.feed(held + data[:cut] if held else data[:cut])
            held, data = b"", data[cut:]
        held += data
        if len(held) > MAX_HELD_BYTES:
            self._recording.feed(held)
            held = b""
        self._held[source] = held

    def _close(self, source: int) -> None:
        channel = self._open.pop(source)
        os.close(source)
        channel.source = -1

    def _release(self) -> None:
        """Record what has no line end."""
        for held in (self._held or {}).values():
            self._recording.feed(held)
        self._held = None


def _watch(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends, where the system has such."""
    if hasattr(os, "pidfd_open"):
        with suppress(OSError):
            return os.pidfd_open(pid)
    return None
