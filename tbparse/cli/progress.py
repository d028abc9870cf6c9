"""How far the reading of a job's files is, on a terminal and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FROM_FILES = 64
FROM_BYTES = 256 * 1024 * 1024
"""A job of fewer files and bytes is read before a bar could be looked at."""


@contextmanager
def reading(files: int, size: int) -> Iterator[Callable[[int], None] | None]:
    """What to tell each file's size to when it was read; None where nobody would see it."""
    if sys.stderr is None or not sys.stderr.isatty() or (files < FROM_FILES and size < FROM_BYTES):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("reading"), BarColumn(), MofNCompleteColumn(), TextColumn("files"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading", total=files)
        yield lambda _size: progress.advance(task)
