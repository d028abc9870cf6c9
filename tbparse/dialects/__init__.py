"""One file for each way in which the world prints a failure. To add one: a new file, and a line in ``registry``."""

from __future__ import annotations

from tbparse.dialects.base import Page
from tbparse.dialects.frames import scattered_frames
from tbparse.dialects.registry import REGISTRY
from tbparse.records import Failure


def read_page(page: Page) -> list[Failure]:
    """Every failure on a page, in the order of the log."""
    out: list[Failure] = []
    several = page.blob.count("Traceback (most recent call last):") > 1
    for entry in REGISTRY:
        # From the systems on only lines that no traceback has claimed are of interest.
        if entry.name == "systems" and not page.narrow():
            break
        if entry.triggers.in_any(page.words):
            out += entry.load().read(page)
    out.sort(key=lambda failure: failure.first.start)
    out = mend(page, out)
    if not several:
        return out
    from tbparse.dialects.mixed import sort_out

    return sort_out(page, out)


def mend(page: Page, failures: list[Failure]) -> list[Failure]:
    """Put together what an interleaved console tore apart: tracebacks without an end, and bare exception lines after them."""
    if not any(x.kind == "traceback" and x.root.exception is None for x in failures):
        return failures
    index = {id(line): i for i, line in enumerate(page.lines)}
    out: list[Failure] = []
    torn: list[Failure] = []
    for failure in failures:
        if failure.kind != "traceback":
            out.append(failure)
        elif failure.root.exception is None:
            torn.append(failure)
        elif failure.dialect == "bare" and torn and not failure.root.frames:
            first, last = index[id(torn[0].first)], index[id(failure.first)]
            failure.root.frames = scattered_frames(page.texts[first : last + 1])
            failure.damaged = "several processes wrote over one another: frames and message may belong to different ones"
            torn = []
            out.append(failure)
        else:
            out += torn
            torn = []
            out.append(failure)
    out += torn
    out.sort(key=lambda failure: failure.first.start)
    return out
