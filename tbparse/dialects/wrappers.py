"""Exceptions that only say that something else failed elsewhere: a launcher's, and those of remote calls."""

from __future__ import annotations

from tbparse.records import Link

LAUNCHER_WRAPPERS = frozenset({"CalledProcessError", "ChildFailedError", "ProcessExitedException"})
REMOTE_WRAPPERS = frozenset(
    {
        "ProcessRaisedException", "RemoteTraceback", "_RemoteTraceback", "RemoteError", "RayTaskError", "ChildProcessError",
        "FailedJobError", "CellExecutionError", "PapermillExecutionError",
    }
)  # fmt: skip


def short(name: str | None) -> str:
    """The last part of a dotted exception name."""
    return (name or "").rpartition(".")[2]


def is_wrapper(link: Link) -> bool:
    """Whether the link's exception only says that something else failed elsewhere."""
    name = short(link.exception)
    return name in LAUNCHER_WRAPPERS or name in REMOTE_WRAPPERS
