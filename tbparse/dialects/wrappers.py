"""Exceptions that only say that something else failed elsewhere: a launcher's, and those of remote calls."""

from __future__ import annotations

import builtins
import re

from tbparse.records import Link

LAUNCHER_WRAPPERS = frozenset({"CalledProcessError", "LaunchError", "ChildFailedError", "ProcessExitedException"})
REMOTE_WRAPPERS = frozenset(
    {
        "ProcessRaisedException", "RemoteTraceback", "_RemoteTraceback", "RemoteError", "RayTaskError", "ChildProcessError",
        "FailedJobError", "CellExecutionError", "PapermillExecutionError", "UnfilteredStackTrace", "JaxStackTraceBeforeTransformation",
    }
)  # fmt: skip


# Messages that say themselves that the cause stands elsewhere (vLLM's engine, pipelines that run stages).
_POINTS_UP = re.compile(
    r"[Ss]ee (?:the )?(?:root cause|stack trace)(?: \(?above\)?)?|stack trace above for the root cause|[Ss]ee (?:the )?(?:error|log|logs|traceback) above"
)
_CHILD_ENDED = re.compile(
    r"\b(?:exited|failed|returned|terminated|died|ended)\b.{0,40}\bnon-?zero (?:exit )?(?:status|code)\b|\bexited with (?:exit )?(?:code|status):? -?[1-9]\d*\b"
)


def short(name: str | None) -> str:
    """The last part of a dotted exception name."""
    return (name or "").rpartition(".")[2]


def is_wrapper(link: Link) -> bool:
    """Whether the link's exception only says that something else failed elsewhere."""
    name = short(link.exception)
    if name in LAUNCHER_WRAPPERS or name in REMOTE_WRAPPERS:
        return True
    if any(short(base) in LAUNCHER_WRAPPERS or short(base) in REMOTE_WRAPPERS for base in link.bases):
        return True
    head = (link.message or "")[:600]
    if link.exception is None:
        return False
    if _POINTS_UP.search(head) is not None:
        return True
    # An exception type of the program's own says what the failure is, though it quotes how a command ended.
    own = bool(link.frames) and link.frames[-1].origin == "user" and not hasattr(builtins, name)
    return not own and _CHILD_ENDED.search(head.split("\n", 1)[0]) is not None
