"""Parents, children and terminals for the tests of launching."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

DEADLINE_S = 60.0
"""For what must happen and does at once; only a test that fails waits for it."""
BOOM = "raise ValueError('the real cause')\n"
RANKS = """
import os, time
def step():
    if os.environ["RANK"] == "1":
        raise KeyError("label")
    time.sleep(60)
step()
"""
"""Rank 1 fails, the others wait to be ended."""
TBPARSE = [sys.executable, "-m", "tbparse"]

# Gets the terminal on its standard input as its own, as a login shell does.
_TAKE_TERMINAL = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"


def python(code: str) -> list[str]:
    """The command that runs ``code`` without anything of the site."""
    return [sys.executable, "-S", "-c", code]


def parent(call: str) -> list[str]:
    """The command of a program that imports tbparse and makes a call."""
    return [sys.executable, "-c", f"import sys, tbparse\n{call}\n"]


def clean_env(**more: str) -> dict[str, str]:
    """This process's environment without what would change how things are shown or where a rank is."""
    drop = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "RANK", "LOCAL_RANK", "PYTHONUNBUFFERED")
    return {k: v for k, v in os.environ.items() if k not in drop} | more


def state(pid: int) -> str | None:
    """``R``, ``S``, ``T``, ``Z`` …; None where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def await_state(pid: int, *wanted: str | None) -> None:
    """Until the process is in one of these states."""
    until = time.monotonic() + DEADLINE_S
    while state(pid) not in wanted:
        assert time.monotonic() < until, f"process {pid} is {state(pid)}, not {wanted}"
        time.sleep(0.01)


def await_gone(*pids: int) -> None:
    """Until none of them runs (what nobody has fetched yet has ended too)."""
    for pid in pids:
        await_state(pid, None, "Z")


def read_line(process: subprocess.Popen[bytes]) -> bytes:
    """The next line of the process's standard output."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], DEADLINE_S)
    assert ready, "nothing was printed"
    return process.stdout.readline()


@contextlib.contextmanager
def started(command: Sequence[str], **kw: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process with pipes and no buffers; what is left of it in the end is killed."""
    options: dict[str, object] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "bufsize": 0}
    process = subprocess.Popen(command, **(options | {"env": clean_env()} | kw))  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


class Terminal:
    """A terminal with a program in it, and somebody who types."""

    def __init__(self, command: Sequence[str], *, rows: int = 30, columns: int = 100, **kw: object) -> None:
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        self.shown = b""
        options: dict[str, object] = {"stdin": slave, "stdout": slave, "stderr": slave}
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", _TAKE_TERMINAL, *command],
            start_new_session=True,
            env=clean_env(TERM="xterm"),
            **(options | kw),  # type: ignore[call-overload]
        )
        os.close(slave)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.master)

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self.master, keys)

    def resize(self, rows: int, columns: int) -> None:
        """Give the window another size."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, text: bytes) -> bytes:
        """Read until ``text`` is shown; all that was shown so far."""
        until = time.monotonic() + DEADLINE_S
        while text not in self.shown:
            left = until - time.monotonic()
            assert left > 0, f"{text!r} is not shown: {self.shown!r}"
            assert self._read(left), f"ended without {text!r}: {self.shown!r}"
        return self.shown

    def end(self) -> int:
        """Read until the program has ended; its return code."""
        while self._read(DEADLINE_S):
            pass
        return self.process.wait(DEADLINE_S)

    def _read(self, timeout: float) -> bool:
        if not select.select([self.master], [], [], timeout)[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.shown += data
        return bool(data)
