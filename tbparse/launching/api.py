""":func:`tbparse.launch`: run a command, see all it prints, and learn what killed it."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

from tbparse.errors import UsageError
from tbparse.launching.attempt import GRACE_S, Argument, run_once
from tbparse.launching.errors import LaunchError, explain_exception
from tbparse.launching.place import place_of
from tbparse.launching.recording import HEAD_BYTES, TAIL_BYTES, Recording
from tbparse.launching.sinks import LogFile
from tbparse.launching.streams import Pty, Stdout
from tbparse.model import RootCause
from tbparse.render.line import one_line

_log = logging.getLogger("tbparse")


@dataclass(frozen=True)
class Completed:
    """A command that has ended.

    ``cmd`` as it was given; ``returncode`` as ``subprocess`` has it (negative for a signal); ``stderr`` is the text that was
    recorded (with ``stdout="tee"`` of both streams), head and tail, with a line where some is left out; ``root_cause`` says
    why it died, or that nothing failed; ``notes`` tell what was unusual about its end.
    """

    cmd: tuple[Argument, ...]
    returncode: int
    stderr: str
    root_cause: RootCause
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """As a shell has it: 128+N for signal N."""
        return self.returncode if self.returncode >= 0 else 128 - self.returncode

    def check_returncode(self) -> None:
        """Raise :class:`LaunchError` unless the command ended with 0."""
        if self.returncode:
            raise LaunchError(self.returncode, list(self.cmd), None, self.stderr, self.root_cause)


def launch(
    cmd: Sequence[Argument],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    check: bool = True,
    pty: Pty = "auto",
    log: str | os.PathLike[str] | None = None,
    stdout: Stdout = "inherit",
    report: bool = False,
    grace_s: float = GRACE_S,
    head: int = HEAD_BYTES,
    tail: int = TAIL_BYTES,
) -> Completed:
    """Run ``cmd`` to its end; when it fails, raise an error that says why.

    Everything it writes to standard error goes at once to this process's descriptor 2, byte for byte; with
    ``stdout="tee"`` standard output goes to descriptor 1 in the same way and is read as well (for launchers that print their
    workers' tracebacks there). ``pty``: ``auto`` puts a pseudo-terminal in the place of a terminal, ``yes`` everywhere,
    ``no`` nowhere. ``log`` is a file that gets the same bytes. ``report``: Python processes report their uncaught
    exception themselves, see :mod:`tbparse.launching.report`. ``env`` and ``cwd`` are the child's, as in
    ``subprocess``. ``head`` and ``tail`` bound the text that is kept, in bytes. ``grace_s`` is how many seconds a process that
    the child left behind may hold the streams.

    Signals that this process gets meanwhile reach the child's process group, when called in the main thread; a SIGINT, SIGTERM,
    SIGHUP or SIGQUIT is delivered to this process too, once the child is gone.

    Raises :class:`LaunchError` for a non-zero code (with ``check``), OSError where the command cannot be started, and
    :class:`UsageError` for a log that cannot be written or a wrong argument.
    """
    _check_arguments(cmd, pty, stdout)
    recording = Recording(head=head, tail=tail, place=place_of(os.environ if env is None else env))
    # A block of capture() around this: the module is there then.
    around = sys.modules.get("tbparse.launching.capture_children")
    with ExitStack() as stack:
        file = stack.enter_context(closing(LogFile(log))) if log is not None else None
        stack.callback(recording.drain)
        if around is not None:
            stack.callback(around.adopt, recording)
        reports = None
        if report or (around is not None and around.wants_reports()):
            from tbparse.launching.report import child_report

            reports = stack.enter_context(child_report(env))
        ended = run_once(
            cmd,
            recording,
            env=env if reports is None else reports.env,
            cwd=cwd,
            stdout=stdout,
            pty=pty,
            log=file,
            grace_s=grace_s,
        )
        if reports is not None:
            recording.amend(reports.apply)
    answer = recording.finish(ended.returncode)
    done = Completed(tuple(cmd), ended.returncode, recording.text(), answer, ended.notes)
    if ended.received:
        if done.returncode:
            _log.warning("%s: %s", LaunchError(done.returncode, list(cmd)), one_line(answer))
        try:
            for number in dict.fromkeys(ended.received):
                signal.raise_signal(number)
        except BaseException as e:  # KeyboardInterrupt, or what a handler of the caller's raises
            explain_exception(e, answer, done.stderr)
            raise
    if check:
        done.check_returncode()
    return done


def _check_arguments(cmd: Sequence[Argument], pty: str, stdout: str) -> None:
    if isinstance(cmd, (str, bytes)):
        raise UsageError("launch() takes the command as a sequence of arguments, not as one string: use shlex.split()")
    if not cmd:
        raise UsageError("launch() was given an empty command")
    if pty not in ("auto", "yes", "no"):
        raise UsageError(f"pty={pty!r}: choose one of auto, yes, no")
    if stdout not in ("inherit", "tee"):
        raise UsageError(f"stdout={stdout!r}: choose one of inherit, tee")
