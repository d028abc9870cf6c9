"""Between two attempts: let go of what the failed one held, on the card and in memory."""

from __future__ import annotations

import gc
import sys
import traceback
from types import TracebackType

from tbparse.attribute import live


def clear_frames(exc: BaseException) -> None:
    """Drop the local variables of every finished frame of the exception and of all that hang together with it.

    They keep alive whatever the failed call had allocated, tensors on the card above all, as long as anybody keeps one of
    the exceptions: a log record, an exception around it that has the first one as an argument or an attribute.
    """
    seen: set[int] = set()
    todo = [exc]
    while todo:
        for x in live.everything(todo.pop()):
            if id(x) not in seen:
                seen.add(id(x))
                traceback.clear_frames(x.__traceback__)
                _forget_snapshots(x.__traceback__)
                todo += _carried(x)


def _forget_snapshots(tb: TracebackType | None) -> None:
    """Up to Python 3.12 a frame keeps the dict that it gave to whoever read its ``f_locals`` (pytest, loguru, Sentry) when it is
    cleared, until somebody reads it again."""
    while tb is not None and sys.version_info < (3, 13):
        _ = tb.tb_frame.f_locals
        tb = tb.tb_next


def _carried(exc: BaseException) -> list[BaseException]:
    """Exceptions among the arguments and attributes of an exception."""
    args, own = live.attribute(exc, "args"), live.attribute(exc, "__dict__")
    values = (*(args if isinstance(args, tuple) else ()), *(own.values() if isinstance(own, dict) else ()))
    return [x for x in values if isinstance(x, BaseException)]


def release_memory() -> None:
    """Collect garbage; give cached blocks of the CUDA allocator back, where torch is loaded and CUDA in use."""
    gc.collect()
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and getattr(cuda, "is_initialized", bool)():
        try:
            cuda.empty_cache()
        except RuntimeError:  # after a sticky CUDA error every call fails; the next attempt will say so
            return
