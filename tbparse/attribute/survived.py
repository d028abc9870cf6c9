"""Whether a process went on after a traceback: the same writer printed progress, or finished its work."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from tbparse.dialects import frames as f
from tbparse.dialects.base import Page
from tbparse.records import Failure

PROGRESS_LINES = 2
"""One progress line after a traceback is a bar drawn for the last time; two different ones are progress."""


def mark_survived(page: Page, failures: Sequence[Failure]) -> None:
    """Set ``fate`` of failures after which the page's writer went on."""
    if not failures:
        return
    ends = {id(line): i for i, line in enumerate(page.lines)}
    progress: list[int] | None = None
    for failure in failures:
        if failure.fate not in ("fatal", "logged", "thread") or failure.kind not in ("traceback", "native"):
            continue
        end = ends.get(id(failure.last))
        if end is None:
            continue
        if progress is None:
            progress = [i for i, t in enumerate(page.texts) if not page.taken[i] and _goes_on(t)]
        enough = 1 if failure.fate == "thread" else PROGRESS_LINES
        if failure.fate == "fatal" and _uncaught(failure) and not _both_sides(page, progress, ends[id(failure.first)], end):
            # Nothing above the script's own top could have caught it. What follows may be what stdout held back in
            # its buffer: only words of success can mean that the work went on, or was started again.
            enough = len(page.lines) + 1
        if _went_on(page, progress, end, enough):
            failure.fate, failure.fate_why = "survived", "the same process went on with its work"


def _uncaught(failure: Failure) -> bool:
    """The traceback begins at a script's top level, as the interpreter's own printing of an uncaught exception does."""
    frames = [x for x in failure.links[0].frames if x.path != "<frozen runpy>" and not x.path.endswith("runpy.py")]
    return bool(frames) and frames[0].function == "<module>"


def _both_sides(page: Page, progress: Sequence[int], first: int, last: int) -> bool:
    """Progress stands before and after, so stdout was not held back (bars are stderr's, and say nothing of that)."""
    lines = [i for i in progress if not f.is_bar(page.texts[i])]
    return bool(lines) and lines[0] < first and lines[-1] > last


def _went_on(page: Page, progress: Sequence[int], start: int, enough: int) -> bool:
    """Whether enough different signs of progress follow a line."""
    seen: set[str] = set()
    for k in range(bisect_right(progress, start), len(progress)):
        text = page.texts[progress[k]]
        seen.add(text)
        if len(seen) >= enough or _strong_success(text):
            return True
    return len(seen) >= PROGRESS_LINES and any(_WEAK.match(t) for t in page.texts[-4:])


def _goes_on(text: str) -> bool:
    return not text.startswith("wandb:") and (
        f.PROGRESS.search(text) is not None or _COUNTER.search(text) is not None or _strong_success(text)
    )


def _strong_success(text: str) -> bool:
    return f.SUCCESS.search(text) is not None and not _WEAK.match(text)


_COUNTER = re.compile(r"(?<![\w/.])\d+/\d+(?: [a-z]{3,}|$)|\b\d+ of \d+ [a-z]{3,}")
_WEAK = re.compile(r"(?i)^\W*(?:all )?(?:done|exiting|finished)\W*$")
"""Words that a caught failure's program may end with as well."""
