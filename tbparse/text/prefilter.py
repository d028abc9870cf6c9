"""Where in a buffer a line could matter: every line that holds a trigger.

Triggers are short stems, so that a few of them cover every wording, and the literals of the rules. Two back ends find
them, and agree on the lines: hyperscan (the extra ``fast``; one pass at memory speed, without the GIL) and plain
Python (:mod:`tbparse.text.shapes`). hyperscan's x86 wheels need AVX2 and crash without it, so the processor is asked
before the import.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tbparse.text.shapes import ShapeScanner

TRIGGERS: tuple[str, ...] = (
    "rror", "ERROR", "xception", "raceback", 'File "', "nterrupt", "atal", "FATAL", "ailed", "AILED", "illed", "xit", "eturn code", "CANCELLED", "reempt", "vict", "oom", "OOM", "ut of memory", "NVRM",
    "egmentation", "egfault", "bort", "core dumped", "erminat", "what():", "orrupt", "ouble free", "mashing", "ssertion", "panick", "atchdog", "sage:", "can't", "No module", "not found", "\u2771",
    "\u256d", "\u2570", "---> ", "ignal", "SIG", "imed out", "imeout", "low on resource", "Deadline", "NodeLost", "ProcessGroup", "NotReady", "EmptyDir", "longer than", "Hangup", "chunk()", "o such file", "BackOff", "EDAC", "AER:", "mce:", "Lustre", "The above", "During handling", "efused",
    "EXHAUSTED", "HSA_", "ccess fault", "HYDRA", "FAILURES", "summary info", "test session", " died", "nable to", "annot", "ould not", "No space", "denied", "onnection", "nhandled", "ailure", "alloc(", "free()", "I/O",
)  # fmt: skip


class Words(NamedTuple):
    """What is searched for: texts as written, and texts in lower case whose case does not matter."""

    exact: tuple[str, ...] = ()
    caseless: tuple[str, ...] = ()


class Scanner(Protocol):
    """Looks through one buffer at a time."""

    def hits(self, body: bytes | bytearray, start: int, end: int) -> Sequence[int]:
        """Offsets into ``body`` between ``start`` and ``end``, growing: at least one in each line with a trigger, none in another.

        ``start`` is the start of a line.
        """
        ...


class HyperscanScanner:
    """One hyperscan pass a buffer; a hit is the offset of a trigger's last byte."""

    def __init__(self, literals: tuple[bytes, ...], caseless: tuple[bytes, ...], hyperscan: Any) -> None:
        self._database = _database(literals, caseless, hyperscan)
        self._scratch = hyperscan.Scratch(self._database)  # of its own: logs of one job are scanned side by side

    def hits(self, body: bytes | bytearray, start: int, end: int) -> Sequence[int]:
        found: list[int] = []
        append, before = found.append, start - 1

        def on_match(_id: int, _from: int, to: int, _flags: int, _context: object) -> None:
            append(before + to)

        self._database.scan(memoryview(body)[start:end], match_event_handler=on_match, scratch=self._scratch)
        return found


@lru_cache(maxsize=4)
def _database(literals: tuple[bytes, ...], caseless: tuple[bytes, ...], hyperscan: Any) -> Any:
    """The compiled literals: compiling takes longer than scanning a megabyte, and is the same for every log."""
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    expressions = [_quote(x) for x in (*literals, *caseless)]
    flags = [0] * len(literals) + [hyperscan.HS_FLAG_CASELESS] * len(caseless)
    database.compile(expressions=expressions, ids=list(range(len(expressions))), elements=len(expressions), flags=flags)
    return database


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


BACK_ENDS = ("auto", "hyperscan", "python")


@lru_cache(maxsize=8)
def literals(words: Words) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Triggers as bytes, without those that contain a shorter one."""
    exact = _shortest({t.encode() for t in (*TRIGGERS, *words.exact)})
    return exact, _shortest({t.lower().encode() for t in words.caseless})


def _shortest(wanted: set[bytes]) -> tuple[bytes, ...]:
    kept: list[bytes] = []
    for x in sorted(wanted, key=len):
        if x and not any(k in x for k in kept):
            kept.append(x)
    return tuple(kept)


def make_scanner(words: Words = Words(), *, backend: str = "auto") -> Scanner:  # noqa: B008 - immutable
    """A scanner for the triggers and ``words``. ``backend``: one of :data:`BACK_ENDS`.

    Raises RuntimeError for a back end that is not installed, or that this processor cannot run.
    """
    exact, caseless = literals(words)
    if backend in ("auto", "hyperscan"):
        module = load_hyperscan()
        if module is not None:
            return HyperscanScanner(exact, caseless, module)
        if backend == "hyperscan":
            raise RuntimeError("hyperscan is not installed, or this processor lacks AVX2")
    return ShapeScanner(exact, caseless)
