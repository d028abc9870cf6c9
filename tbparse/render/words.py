"""How failures, ranks and places are called in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tbparse.terms import signal_name, signal_number

if TYPE_CHECKING:
    from tbparse.attribute.cascade import Candidate
    from tbparse.model import RootCause
    from tbparse.records import Failure, Link

_KINDS = {
    "launcher": "the launcher's report",
    "usage": "a usage error",
    "exit": "an exit line",
    "scheduler": "a scheduler's line",
    "kernel": "a kernel line",
    "fault": "a crash report",
    "native": "an abort of native code",
    "line": "a telling line",
    "traceback": "a traceback without its last line",
}


def last_part(exception: str) -> str:
    """``OutOfMemoryError`` for ``torch.OutOfMemoryError``."""
    return exception.rpartition(".")[2] or exception


def call(failure: Failure, link: Link) -> str:
    """What a failure is called: its exception, or what kind of line it is."""
    if link.exception is not None:
        return last_part(link.exception)
    kind = _KINDS.get(failure.kind, failure.kind)
    if failure.signal is None:
        return kind
    return f"{kind} of {signal_name(failure.signal) or f'signal {failure.signal}'}"


def count(n: int, word: str, words: str | None = None) -> str:
    """``1 frame``, ``3 frames``."""
    return f"{n:,} {word if n == 1 else words or word + 's'}"


def ends(answer: RootCause) -> str | None:
    """How the process ended: a signal or an exit code."""
    if answer.signal is not None:
        number = signal_number(answer.signal)
        return f"killed by {answer.signal}" + (f" (signal {number})" if number is not None else "")
    return f"exit code {answer.exit_code}" if answer.exit_code is not None else None


def rank_numbers(candidates: Sequence[Candidate]) -> list[int]:
    """The ranks of failures and of their copies, as far as the log tells."""
    failures = [x for c in candidates for x in (c.failure, *c.twins)]
    found = [r for x in failures for r in (x.rank, *(t.rank for t in x.also))]
    return [r for r in found if r is not None]
