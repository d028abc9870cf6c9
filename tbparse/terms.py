"""The words of an answer: its verdicts, categories and relations, and the names of signals. Nothing is loaded for them."""

from __future__ import annotations

from typing import Literal, TypeAlias

Verdict: TypeAlias = Literal["transient", "real", "unknown", "clean"]
"""``transient``: the same run may well work; ``real``: it fails again until something is changed;
``unknown``: the log does not tell (never retried); ``clean``: nothing failed."""

Category: TypeAlias = Literal[
    "user-code",
    "config",
    "dependency",
    "data",
    "gpu-memory",
    "host-memory",
    "gpu-hardware",
    "gpu-software",
    "communication",
    "network",
    "storage",
    "scheduler",
    "interrupted",
    "unknown",
]
Confidence: TypeAlias = Literal["high", "medium", "low"]
Origin: TypeAlias = Literal["user", "library", "stdlib", "launcher"]
"""Whose code a frame is: the user's, an installed library's, Python's, or a launcher's plumbing."""

Relation: TypeAlias = Literal["launcher", "remote", "cause", "context", "group", "root"]
"""How a link of the chain came from the next one towards the root."""

RetryAction: TypeAlias = Literal["stop", "retry", "retry_elsewhere", "retry_later"]
Scalar: TypeAlias = bool | int | float | str


def signal_name(number: int) -> str | None:
    """``SIGKILL`` for 9 (the Linux numbering, which is what logs of training jobs carry), None if there is none."""
    return _SIGNALS.get(number)


def signal_number(name: str) -> int | None:
    """9 for ``SIGKILL``, None for a word that is no signal."""
    return next((n for n, s in _SIGNALS.items() if s == name), None)


_SIGNALS = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    5: "SIGTRAP",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    10: "SIGUSR1",
    11: "SIGSEGV",
    12: "SIGUSR2",
    13: "SIGPIPE",
    14: "SIGALRM",
    15: "SIGTERM",
    16: "SIGSTKFLT",
    17: "SIGCHLD",
    18: "SIGCONT",
    19: "SIGSTOP",
    24: "SIGXCPU",
    25: "SIGXFSZ",
    31: "SIGSYS",
}
