"""Whether a process went on after a traceback: the same writer printed progress, or finished its work.

Only lines near the failure are asked, and the last lines of the log: those are kept of a log of any size, so a
log that is read whole and one that streams through get the same answer.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from tbparse.attribute.sameness import raised_at
from tbparse.dialects import frames as f
from tbparse.dialects.base import Page
from tbparse.records import Failure, Line, number_of, start_of
from tbparse.text.blocks import LINES_AFTER, TAIL_LINES

PROGRESS_LINES = 2
"""One progress line after a traceback is a bar drawn for the last time; two different ones are progress."""

RECORDS = 5
"""So many records at INFO or below after a logged traceback say that the program went on."""
_QUIET = frozenset({"INFO", "DEBUG", "I", "D", "info", "debug", "TRACE"})
_COUNTER = re.compile(r"(?<![\w/.])\d+/\d+(?: [a-z]{3,}|$)|\b\d+ of \d+ [a-z]{3,}")
_WEAK = re.compile(r"(?i)^\W*(?:all )?(?:done|exiting|finished)\W*$")
"""Words that a caught failure's program may end with as well."""


def mark_survived(page: Page, failures: Sequence[Failure]) -> None:
    """Set ``fate`` of failures after which the page's writer went on."""
    watched = [x for x in failures if _may_survive(x)]
    if not watched:
        return
    ends = _places(page.lines, watched)
    handled: set[tuple[str | None, str, int | None]] = set()
    near = _near(page, watched, ends)
    progress = [i for i in page.free() if near[i] and _goes_on(page.texts[i])]
    for failure in watched:
        first, last = ends.get(id(failure.first)), ends.get(id(failure.last))
        if first is None or last is None:
            continue
        at = bisect_right(progress, last)
        beyond = bisect_right(progress, failure.last.no + LINES_AFTER, at, key=lambda i: page.lines[i].no)
        after = progress[at : min(at + 400, beyond)]
        enough = 1 if failure.fate == "thread" else PROGRESS_LINES
        if failure.fate == "fatal" and _uncaught(failure) and not _both_sides(page, progress, first, after):
            # Nothing above the script's own top could have caught it. What follows may be what stdout held back in
            # its buffer: only words of success can mean that the work went on, or was started again.
            enough = len(page.lines) + 1
        texts = {page.texts[i] for i in after}
        if failure.fate == "logged" and _records_after(page, last) >= RECORDS:
            enough = 0
        if texts and raised_at(failure.root) in handled:
            enough = 1  # the same was caught before
        ended = len(texts) >= PROGRESS_LINES and any(_WEAK.match(t) for t in _window(page, last))
        if len(texts) >= enough or ended or any(_strong_success(t) for t in texts):
            failure.fate, failure.fate_why = "survived", "the same process went on with its work"
            handled.add(raised_at(failure.root))


def _places(lines: Sequence[Line], failures: Sequence[Failure]) -> dict[int, int]:
    """Where the first and last lines of failures stand, by the identity of the line."""
    places: dict[int, int] = {}
    for line in (x for failure in failures for x in (failure.first, failure.last)):
        # Lines that were unpacked out of one line of the log stand at one place of it.
        at = bisect_left(lines, line.start, key=start_of)
        while at < len(lines) and lines[at] is not line and lines[at].start == line.start:
            at += 1
        if at < len(lines) and lines[at] is line:
            places[id(line)] = at
    return places


def _near(page: Page, failures: Sequence[Failure], ends: Mapping[int, int]) -> bytearray:
    """For each line, whether it stands so near to a failure that it is asked about its fate."""
    near = bytearray(len(page.lines))
    for failure in failures:
        first, last = ends.get(id(failure.first)), ends.get(id(failure.last))
        if first is None or last is None:
            continue
        low = bisect_left(page.lines, page.lines[first].no - LINES_AFTER, 0, first, key=number_of)
        high = bisect_right(page.lines, failure.last.no + LINES_AFTER, last, key=number_of)
        near[low:high] = b"\1" * (high - low)
    return near


def mark_finished(failures: Sequence[Failure], last_lines: Sequence[Line], last_no: int) -> None:
    """Set ``fate`` of failures where the log's last lines say that the work was finished all the same."""
    tail = [x for x in last_lines if x.no > last_no - TAIL_LINES and _strong_success(x.text)]
    if not tail:
        return
    for failure in failures:
        if _may_survive(failure) and failure.last.no < tail[-1].no:
            failure.fate, failure.fate_why = "survived", "the log ends with the work done"


def _records_after(page: Page, last: int) -> int:
    """How many quiet log records follow: a program that logs on was not ended."""
    limit = page.lines[last].no + LINES_AFTER
    end = bisect_right(page.lines, limit, last + 1, key=lambda line: line.no)
    return sum(1 for i in range(last + 1, end) if page.levels.get(i) in _QUIET)


def _may_survive(failure: Failure) -> bool:
    return failure.fate in ("fatal", "logged", "thread") and failure.kind in ("traceback", "native") and not failure.caught


def _uncaught(failure: Failure) -> bool:
    """The traceback begins at a script's top level, as the interpreter's own printing of an uncaught exception does."""
    frames = [x for x in failure.links[0].frames if x.path != "<frozen runpy>" and not x.path.endswith("runpy.py")]
    return bool(frames) and frames[0].function == "<module>"


def _both_sides(page: Page, progress: Sequence[int], first: int, after: Sequence[int]) -> bool:
    """Progress stands before and after, so stdout was not held back (bars are stderr's, and say nothing of that)."""
    start = page.lines[first].no - LINES_AFTER
    before = progress[max(0, bisect_left(progress, first) - 400) : bisect_left(progress, first)]
    return any(page.lines[i].no >= start and not f.is_bar(page.texts[i]) for i in before) and any(
        not f.is_bar(page.texts[i]) for i in after
    )


def _window(page: Page, last: int) -> list[str]:
    """Texts of the lines near after the failure."""
    limit = page.lines[last].no + LINES_AFTER
    high = min(len(page.texts), last + 400)
    return page.texts[last + 1 : bisect_right(page.lines, limit, min(last + 1, high), high, key=number_of)]


def _goes_on(text: str) -> bool:
    return not text.startswith("wandb:") and (
        f.PROGRESS.search(text) is not None or _COUNTER.search(text) is not None or _strong_success(text)
    )


def _strong_success(text: str) -> bool:
    return f.SUCCESS.search(text) is not None and not _WEAK.match(text)
