"""How many lines end in a stretch of bytes.

``bytes.count`` looks at one byte after the other and keeps the interpreter's lock meanwhile, which is a third of the time that
a quiet gigabyte takes, and all that two threads wait for each other. NumPy, where it is installed, needs a fifth of that and
lets the lock go. To import it takes a tenth of a second, so that only logs of hundreds of megabytes are worth it.
"""

from __future__ import annotations

from functools import lru_cache
from types import ModuleType

WORTH_BYTES = 128 * 1024 * 1024
"""From so much of a log on NumPy is loaded for it."""
_LEAST = 32 * 1024
"""In fewer bytes to set up the call takes longer than to count."""
_NEWLINE = 10


@lru_cache(maxsize=1)
def _numpy() -> ModuleType | None:
    try:
        import numpy
    except Exception:  # one that is broken fails in any way
        return None
    return numpy


def count_newlines(data: bytes | bytearray, start: int, end: int, *, large: bool = False) -> int:
    """How often ``\\n`` stands in ``data[start:end]``. ``large`` where so much is read that NumPy is worth loading."""
    if large and end - start >= _LEAST and (np := _numpy()) is not None:
        return int(np.count_nonzero(np.frombuffer(data, np.uint8, end - start, start) == _NEWLINE))
    return data.count(b"\n", start, end)
