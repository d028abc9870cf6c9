"""One run of a command, from start to end: what :func:`tbparse.launch` and ``tbparse run`` do once, and a retry does again."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from tbparse.launching.pump import Pump
from tbparse.launching.recording import Recording
from tbparse.launching.signals import Forwarding
from tbparse.launching.sinks import LogFile
from tbparse.launching.streams import Pty, Stdout, open_streams
from tbparse.launching.watchdog import Watchdog

GRACE_S = 5.0
"""How long what the child left behind may hold its streams, or outlive it after a signal that told it to stop."""
_LOOK_EVERY_S = 0.02

_log = logging.getLogger("tbparse")

Argument: TypeAlias = "str | bytes | os.PathLike[str]"


class Ended(NamedTuple):
    """How a command ended: ``returncode`` as ``subprocess`` has it, the signals that told this process to stop meanwhile, and
    what is worth telling about the way it ended."""

    returncode: int
    received: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def run_once(
    cmd: Sequence[Argument],
    recording: Recording,
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    stdout: Stdout = "inherit",
    pty: Pty = "auto",
    log: LogFile | None = None,
    grace_s: float = GRACE_S,
) -> Ended:
    """Run ``cmd`` to its end while its output passes through and is recorded. Raises OSError where it cannot be started.

    The child leads a session of its own. Signals reach its process group (from the main thread), a watchdog ends the group
    when this process is killed, and an exception in here ends it too.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # whatever stands there in place of a stream
            stream.flush()
    streams = open_streams(stdout, pty)
    forwarding = Forwarding(streams.resize)
    try:
        with forwarding:
            watchdog = Watchdog()
            try:
                process = subprocess.Popen(
                    list(cmd), stdout=streams.stdout, stderr=streams.stderr, env=env, cwd=cwd, start_new_session=True
                )
                try:
                    # Before anything that takes the interpreter's lock: a parent killed until then would leave an orphan.
                    watchdog.watch(process.pid)
                    recording.warm()
                    forwarding.start(process.pid)
                    streams.close_child_ends()
                    held = Pump(streams.channels, recording, log).run(process, grace_s, forwarding)
                    if forwarding.received:
                        _end_group(process.pid, grace_s)
                except BaseException:
                    _end(process, grace_s)
                    raise
            finally:
                watchdog.dismiss()
    finally:
        streams.close()
    notes = []
    if held:
        notes.append(
            f"a process that the command left behind still holds its output; it was not waited for longer than {grace_s:g} s"
        )
    if log is not None and log.lost:
        notes.append(f"{log.lost:,} bytes of output could not be written to {log.path}")
    for note in notes:
        _log.info(note)
    return Ended(process.returncode, tuple(forwarding.received), tuple(notes))


def _end(process: subprocess.Popen[bytes], grace_s: float) -> None:
    """Something went wrong in here: nothing may be left running."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(grace_s)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _end_group(group: int, grace_s: float) -> None:
    """Told to stop, and the child is gone: what is left of its group has ``grace_s`` to go too."""
    until = time.monotonic() + grace_s
    with suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < until:
            os.killpg(group, 0)
            if not _lives(group):
                return
            time.sleep(_LOOK_EVERY_S)
        os.killpg(group, signal.SIGKILL)


def _lives(group: int) -> bool:
    """Whether a member of the process group still runs. One that has ended and that nobody fetches, as in a container whose first
    process does not, can be signalled all the same; only ``/proc`` tells the two apart. True where there is none."""
    try:
        names = [n for n in os.listdir("/proc") if n.isdigit()]
    except OSError:
        return True
    for name in names:
        with suppress(OSError):
            with open(f"/proc/{name}/stat", "rb") as file:
                state, _, its_group = file.read().rpartition(b")")[2].split()[:3]
            if int(its_group) == group and state not in (b"Z", b"X"):
                return True
    return not names
