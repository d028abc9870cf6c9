"""Between two attempts: let go of what the failed one held, on the card and in memory."""

from __future__ import annotations

import gc
import sys
import traceback

from tbparse.attribute import live


def clear_frames(exc: BaseException) -> None:
    """Drop the local variables of every finished frame of the exception, its causes, contexts and leaves.

    They keep alive whatever the failed call had allocated, tensors on the card above all.
    """
    for x in live.everything(exc):
        traceback.clear_frames(x.__traceback__)


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
