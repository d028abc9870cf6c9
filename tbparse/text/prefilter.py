"""Where in a buffer a line could matter: the next occurrence of any trigger.

Triggers are short stems, so that a few of them cover every wording. With hyperscan installed (the extra
``fast``) one pass finds them all; without it each is searched by ``bytes.find``, which is slower and gives the same
answer. hyperscan's x86 wheels need AVX2 and crash without it, so the processor is asked before the import.
"""

from __future__ import annotations

import platform
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

TRIGGERS: tuple[str, ...] = (
    "rror", "ERROR", "xception", "raceback", 'File "', "nterrupt", "atal", "FATAL", "ailed", "AILED", "illed", "xit", "eturn code", "CANCELLED", "reempt", "vict", "oom", "OOM", "ut of memory", "NVRM",
    "egmentation", "egfault", "bort", "core dumped", "erminat", "what():", "orrupt", "ouble free", "mashing", "ssertion", "panick", "atchdog", "sage:", "can't", "No module", "not found", "\u2771",
    "\u256d", "\u2570", "---> ", "ignal", "SIG", "imed out", "imeout", "low on resource", "Deadline", "NodeLost", "ProcessGroup", "NotReady", "EmptyDir", "longer than", "Hangup", "chunk()", "o such file", "BackOff", "EDAC", "AER:", "mce:", "Lustre", "The above", "During handling", "efused",
    "EXHAUSTED", "HSA_", "ccess fault", "HYDRA", "FAILURES", "summary info", "test session", " died", "nable to", "annot", "ould not", "No space", "denied", "onnection", "nhandled", "ailure", "alloc(", "free()", "I/O",
)  # fmt: skip


class Scanner(Protocol):
    """Looks through one buffer at a time."""

    def load(self, body: bytes) -> None:
        """Take the buffer that the next questions are about."""

    def next_hit(self, position: int) -> int:
        """Offset of the first trigger at or after ``position``, or the buffer's length. Positions only grow."""
        ...


class FindScanner:
    """The back end that is always there: one ``bytes.find`` a trigger, repeated only where it was passed."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._literals = tuple(literals)
        self._body = b""
        self._next: list[int] = []

    def load(self, body: bytes) -> None:
        self._body = body
        size = len(body)
        self._next = [at if (at := body.find(x)) >= 0 else size for x in self._literals]

    def next_hit(self, position: int) -> int:
        ahead = self._next
        first = min(ahead)
        if first >= position:
            return first
        body, size = self._body, len(self._body)
        for i, at in enumerate(ahead):
            if at < position:
                found = body.find(self._literals[i], position)
                ahead[i] = found if found >= 0 else size
        return min(ahead)


class HyperscanScanner:
    """One hyperscan pass a buffer; hits are kept as offsets of the triggers' last bytes."""

    def __init__(self, literals: Sequence[bytes], hyperscan: Any) -> None:
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        expressions = [_quote(x) for x in literals]
        self._database.compile(
            expressions=expressions,
            ids=list(range(len(expressions))),
            elements=len(expressions),
            flags=[hyperscan.HS_FLAG_SINGLEMATCH * 0] * len(expressions),
        )
        self._hits: list[int] = []
        self._size = 0

    def load(self, body: bytes) -> None:
        hits: list[int] = []
        append = hits.append
        self._database.scan(body, match_event_handler=lambda _i, _start, end, _flags, _context: append(end - 1))
        self._hits, self._size = hits, len(body)

    def next_hit(self, position: int) -> int:
        i = bisect_left(self._hits, position)
        return self._hits[i] if i < len(self._hits) else self._size


def _quote(literal: bytes) -> bytes:
    return b"".join(bytes((c,)) if chr(c).isalnum() and c < 128 else b"\\x%02x" % c for c in literal)


@lru_cache(maxsize=1)
def load_hyperscan() -> Any | None:
    """The module, where it is installed and this processor can run it."""
    if platform.machine() in ("x86_64", "AMD64"):
        try:
            if "avx2" not in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace"):
                return None
        except OSError:  # not Linux: no cheap way to know, so no risk is taken
            return None
    try:
        import hyperscan
    except ImportError:
        return None
    return hyperscan


@lru_cache(maxsize=8)
def _literals(extra: tuple[str, ...]) -> tuple[bytes, ...]:
    """Triggers as bytes, without those that contain a shorter one."""
    wanted = sorted({t.encode() for t in (*TRIGGERS, *extra)}, key=len)
    kept: list[bytes] = []
    for x in wanted:
        if not any(k in x for k in kept):
            kept.append(x)
    return tuple(kept)


def make_scanner(extra: Sequence[str] = (), *, backend: str = "auto") -> Scanner:
    """A scanner for the triggers and ``extra`` ones. ``backend``: ``auto``, ``find`` or ``hyperscan``."""
    literals = _literals(tuple(extra))
    module = load_hyperscan() if backend != "find" else None
    if backend == "hyperscan" and module is None:
        raise RuntimeError("hyperscan is not installed, or this processor lacks AVX2")
    return FindScanner(literals) if module is None else HyperscanScanner(literals, module)
