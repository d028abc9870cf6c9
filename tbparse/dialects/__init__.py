"""One file for each way in which the world prints a failure. To add one: a new file, and a line in ``_registry``."""

from __future__ import annotations

from functools import lru_cache

from tbparse.dialects.base import Dialect, Page
from tbparse.dialects.frames import scattered_frames
from tbparse.records import Failure


@lru_cache(maxsize=1)
def registry() -> tuple[Dialect, ...]:
    """All dialects, those first that claim lines which others would misread."""
    from tbparse.dialects.bare import BareDialect
    from tbparse.dialects.boxes import BoxDialect
    from tbparse.dialects.elastic import ElasticDialect
    from tbparse.dialects.exits import ExitDialect
    from tbparse.dialects.fault import FaultDialect
    from tbparse.dialects.native import NativeDialect
    from tbparse.dialects.notebook import NotebookDialect
    from tbparse.dialects.pytests import PytestDialect
    from tbparse.dialects.systems import SystemDialect
    from tbparse.dialects.traceback import TracebackDialect

    return (
        ElasticDialect(),
        PytestDialect(),
        BoxDialect(),
        FaultDialect(),
        NotebookDialect(),
        TracebackDialect(),
        SystemDialect(),
        NativeDialect(),
        ExitDialect(),
        BareDialect(),
    )


def read_page(page: Page) -> list[Failure]:
    """Every failure on a page, in the order of the log."""
    out: list[Failure] = []
    blob = page.blob
    for dialect in registry():
        if dialect.name == "systems":  # from here on only lines that no traceback has claimed are of interest
            if not page.narrow():
                break
            blob = page.blob
        if any(trigger in blob for trigger in dialect.triggers):
            out += dialect.read(page)
    out.sort(key=lambda failure: failure.first.start)
    return mend(page, out)


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
