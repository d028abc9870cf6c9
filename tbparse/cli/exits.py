"""Exit codes of the command, each with its meaning."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What ``tbparse`` exits with. The verdicts' codes are used with ``--exit-code`` only."""

    OK = 0
    """It answered (with ``--exit-code``: nothing failed)."""
    REAL = 1
    """The job will fail again; for ``doctor`` and ``rules test``: something is wrong."""
    USAGE = 2
    """A wrong option, argument or rule file."""
    UNKNOWN = 3
    """The log does not tell whether running again would help."""
    NO_INPUT = 66
    """A log that cannot be read (EX_NOINPUT of sysexits.h)."""
    TRANSIENT = 75
    """Running again may well work (EX_TEMPFAIL of sysexits.h)."""
    RUN_FAILED = 125
    """``run``: tbparse itself could not do its work (124 to 127 as ``timeout``, ``env`` and shells have them)."""
    NOT_EXECUTABLE = 126
    """``run``: the command is there and cannot be executed."""
    NOT_FOUND = 127
    """``run``: there is no such command."""
    INTERRUPTED = 130
    """Ctrl-C: 128 + SIGINT, as shells have it."""
    PIPE_CLOSED = 141
    """The reader of the output went away: 128 + SIGPIPE, as shells have it."""


BY_VERDICT = {
    "clean": ExitCode.OK,
    "transient": ExitCode.TRANSIENT,
    "unknown": ExitCode.UNKNOWN,
    "real": ExitCode.REAL,
}
"""From the best verdict to the worst: of several logs the worst decides."""


def worst(verdicts: list[str]) -> ExitCode:
    """The code for the worst of several verdicts."""
    order = list(BY_VERDICT)
    return BY_VERDICT[max(verdicts, key=order.index)] if verdicts else ExitCode.OK
