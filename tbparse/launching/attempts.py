"""Whether a command that failed is run again: ``tbparse run --retries``.

A transient failure is, until it comes a second time with nothing done in between: then whatever should have passed has
not. A preemption says nothing about the job, so it uses up no retry. Anything that is not transient ends it at once.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tbparse.launching.history import History, Job, job_of
from tbparse.launching.progress import progress_of
from tbparse.launching.story import MAX_FAILURES, MAX_PREEMPTIONS, Story, identity, is_preemption, told_by
from tbparse.model import RootCause, not_transient

JITTER = 0.25
REPEATED = "the same failure came again with no progress since, so it is not taken for one that passes"
STUCK = "{} failures in a row with no progress, so none of them is taken for one that passes"
STARVED = "it was preempted {} times in a row with no progress, so another start is not taken for one that helps"


class Next(NamedTuple):
    """What follows an attempt: the answer to show, the pause in seconds before another attempt (None: there is none), and why."""

    answer: RootCause
    wait_s: float | None
    why: str


@dataclass
class Attempts:
    """The attempts of one command. ``retries``: how many more after the first. ``wait_s``: the pause, instead of the rule's
    advice. ``timeout_s``: after so long no attempt begins. ``progress_file``: a file whose time tells that the job gets on.
    ``key``: which job it is, in place of :func:`~tbparse.launching.history.job_of`."""

    command: Sequence[str]
    retries: int = 0
    wait_s: float | None = None
    timeout_s: float | None = None
    history: History | None = None
    progress_file: Path | None = None
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    key: str | None = None
    used: int = 0
    number: int = 0

    def __post_init__(self) -> None:
        self._job: Job = job_of(self.command, self.env, self.key)
        self._began = time.monotonic()
        self._story = Story()
        self._written: dict[str, Any] | None = None
        if self.history is not None:
            # A scheduler started the job anew: its attempts go on where an earlier process left off.
            self._story, self.number = told_by(self.history.of(self._job.key), lapses=not self._job.certain)

    def begin(self) -> None:
        """An attempt begins."""
        self.number += 1
        self._started, self._started_at = time.monotonic(), time.time()
        self._touched = self._file_time()

    def end(self, answer: RootCause, returncode: int, text: str, *, told_to_stop: bool = False) -> Next:
        """An attempt has ended: what follows. ``text`` is what is kept of its output; ``told_to_stop``: by a signal to us."""
        progress = progress_of(text)
        further = self._file_time() != self._touched or self._story.further(progress)
        following = self._decide(answer, returncode, progress, further, told_to_stop)
        if self.history is not None:
            self._written = self._record(following, answer, returncode, progress, further)
            self.history.add(self._written)
        return following

    def stopped(self, number: int) -> str:
        """A signal ended the pause before another attempt: the last one's record is corrected. Returns what happened."""
        why = f"{signal.Signals(number).name} came while it waited"
        if self.history is not None and self._written is not None:
            self.history.add(self._written | {"next": "stop", "wait_s": None, "why": why})
        return why

    def _decide(self, answer: RootCause, returncode: int, progress: Mapping[str, float], further: bool, told_to_stop: bool) -> Next:
        if returncode == 0:
            self._story = Story()
            return Next(answer, None, "it ended well")
        preempted = is_preemption(answer.category)
        repeated = self._story.add(identity(answer), progress, preempted=preempted, further=further)
        if not answer.transient or answer.retry.action == "stop":
            return Next(answer, None, f"its failure is {answer.verdict}")
        if repeated:
            return _no_longer(answer, REPEATED)
        if self._story.preemptions > MAX_PREEMPTIONS:
            return _no_longer(answer, STARVED.format(self._story.preemptions))
        if self._story.failures > max(MAX_FAILURES, self.retries + 1):
            return _no_longer(answer, STUCK.format(self._story.failures))
        if told_to_stop:
            return Next(answer, None, "tbparse itself was told to stop")
        wait = self._wait(answer)
        if self.timeout_s is not None and time.monotonic() + wait - self._began > self.timeout_s:
            return Next(answer, None, f"{self.timeout_s:g} s are over")
        if preempted:
            if self.retries == 0:
                return Next(answer, None, "it was preempted")
            return Next(answer, wait, "it was preempted, which uses up no retry")
        if self.used >= self.retries:
            return Next(answer, None, f"all {self.retries} retries are used up" if self.retries else "no retries were asked for")
        self.used += 1
        return Next(answer, wait, f"retry {self.used} of {self.retries}")

    def _wait(self, answer: RootCause) -> float:
        if self.wait_s is not None:
            return self.wait_s
        # Ranks and neighbours that died together do not come back together.
        return answer.retry.delay_s * random.uniform(1.0, 1.0 + JITTER)

    def _file_time(self) -> int | None:
        if self.progress_file is None:
            return None
        try:
            return self.progress_file.stat().st_mtime_ns
        except OSError:
            return None

    def _record(
        self, following: Next, answer: RootCause, returncode: int, progress: Mapping[str, float], further: bool
    ) -> dict[str, Any]:
        return {
            "schema": 1,
            "job": self._job.key,
            "attempt": self.number,
            "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._started_at)),
            "seconds": round(time.monotonic() - self._started, 3),
            "command": list(self.command),
            "returncode": returncode,
            "verdict": following.answer.verdict,
            "category": answer.category,
            "rule": answer.rule,
            "exception": answer.exception,
            "message": (answer.message or "")[:500] or None,
            "site": f"{answer.site.path}:{answer.site.line}" if answer.site is not None else None,
            "rank": answer.rank,
            "host": answer.host,
            "fingerprint": answer.fingerprint,
            "progress": dict(progress),
            "further": further,
            "next": "stop" if following.wait_s is None else "retry",
            "wait_s": None if following.wait_s is None else round(following.wait_s, 3),
            "why": following.why,
        }


def _no_longer(answer: RootCause, why: str) -> Next:
    """The answer of a failure that would be transient, had it not come before."""
    return Next(not_transient(answer, why), None, why)
