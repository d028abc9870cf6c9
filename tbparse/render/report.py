"""What a format is given: the answer, and how it was come by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tbparse.attribute.job import Job
    from tbparse.model import RootCause


@dataclass(frozen=True, slots=True)
class Report:
    """An answer to be shown.

    ``job`` is what was found on the way (``Explainer.job`` after ``finish``); formats that tell why need it, and do
    without where there is none. ``name`` is what the reader calls the log. ``titled`` puts it above the answer.
    ``why`` asks for what competed, ``every`` for all failures of the log, ``timeline`` for what happened when.
    """

    answer: RootCause
    job: Job | None = None
    name: str | None = None
    titled: bool = False
    why: bool = False
    every: bool = False
    timeline: bool = False
