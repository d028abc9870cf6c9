"""Whether a process went on after a traceback: the same writer printed progress, or finished its work."""

from __future__ import annotations

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
        if _went_on(page, progress, end, enough):
            failure.fate, failure.fate_why = "survived", "the same process went on with its work"


def _went_on(page: Page, progress: Sequence[int], start: int, enough: int) -> bool:
    """Whether enough different signs of progress follow a line."""
    seen: set[str] = set()
    for k in range(bisect_right(progress, start), len(progress)):
        text = page.texts[progress[k]]
        seen.add(text)
        if len(seen) >= enough or _strong_success(text):
            return True
    return False


def _goes_on(text: str) -> bool:
    return not text.startswith("wandb:") and (f.PROGRESS.search(text) is not None or _strong_success(text))


def _strong_success(text: str) -> bool:
    return "train_runtime" in text or ("max_epochs=" in text and "reached" in text)
