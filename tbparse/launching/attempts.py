"""Whether a command that failed is run again: ``tbparse run --retries``.

A transient failure is, until it comes a second time with nothing done in between: then whatever should have passed has
not. A preemption says nothing about the job, so it uses up no retry. Anything that is not transient ends it at once.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tbparse.launching.history import History, job_key
from tbparse.launching.progress import progress_of, went_further
from tbparse.model import Retry, RootCause

MAX_PREEMPTIONS = 1000
JITTER = 0.25
REPEATED = "the same failure came again with no progress since, so it is not taken for one that passes"


class Next(NamedTuple):
    """What follows an attempt: the answer to show, the pause in seconds before another attempt (None: there is none), and why."""

    answer: RootCause
    wait_s: float | None
    why: str


class Last(NamedTuple):
    """What of the attempt before decides about this one."""

    fingerprint: str | None
    progress: Mapping[str, float]


@dataclass
class Attempts:
    """The attempts of one command. ``retries``: how many more after the first. ``wait_s``: the pause, instead of the rule's
    advice. ``timeout_s``: after so long no attempt begins. ``progress_file``: a file whose time tells that the job gets on."""

    command: Sequence[str]
    retries: int = 0
    wait_s: float | None = None
    timeout_s: float | None = None
    history: History | None = None
    progress_file: Path | None = None
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    used: int = 0
    preempted: int = 0
    number: int = 0

    def __post_init__(self) -> None:
        self._job = job_key(self.command, self.env)
        self._began = time.monotonic()
        self._last: Last | None = None
        record = self.history.last(self._job) if self.history is not None else None
        if record is not None and record.get("verdict") != "clean":
            # A scheduler started the job anew: its attempts go on where an earlier process left off.
            progress = record.get("progress")
            told = {k: v for k, v in progress.items() if isinstance(v, (int, float))} if isinstance(progress, dict) else {}
            fingerprint = record.get("fingerprint")
            self._last = Last(fingerprint if isinstance(fingerprint, str) else None, told)
            number = record.get("attempt")
            self.number = number if isinstance(number, int) else 0

    def begin(self) -> None:
        """An attempt begins."""
        self.number += 1
        self._started, self._started_at = time.monotonic(), time.time()
        self._touched = self._file_time()

    def end(self, answer: RootCause, returncode: int, text: str, *, told_to_stop: bool = False) -> Next:
        """An attempt has ended: what follows. ``text`` is what is kept of its output; ``told_to_stop``: by a signal to us."""
        progress = progress_of(text)
        moved = self._file_time() != self._touched
        following = self._decide(answer, returncode, progress, moved, told_to_stop)
        self._last = Last(answer.fingerprint, progress)
        if self.history is not None:
            self.history.add(self._record(following, answer, returncode, progress))
        return following

    def _decide(self, answer: RootCause, returncode: int, progress: Mapping[str, float], moved: bool, told_to_stop: bool) -> Next:
        if returncode == 0:
            return Next(answer, None, "it ended well")
        if not answer.transient or answer.retry.action == "stop":
            return Next(answer, None, f"its failure is {answer.verdict}")
        preemption = answer.category == "scheduler"
        if not preemption and self._repeated(answer, progress, moved):
            update = {"verdict": "unknown", "retry": Retry(), "notes": (*answer.notes, REPEATED)}
            return Next(answer.model_copy(update=update), None, REPEATED)
        if told_to_stop:
            return Next(answer, None, "tbparse itself was told to stop")
        wait = self._wait(answer)
        if self.timeout_s is not None and time.monotonic() + wait - self._began > self.timeout_s:
            return Next(answer, None, f"{self.timeout_s:g} s are over")
        if preemption:
            self.preempted += 1
            if self.preempted > MAX_PREEMPTIONS or self.retries == 0:
                return Next(answer, None, "it was preempted")
            return Next(answer, wait, "it was preempted, which uses up no retry")
        if self.used >= self.retries:
            return Next(answer, None, f"all {self.retries} retries are used up" if self.retries else "no retries were asked for")
        self.used += 1
        return Next(answer, wait, f"retry {self.used} of {self.retries}")

    def _repeated(self, answer: RootCause, progress: Mapping[str, float], moved: bool) -> bool:
        last = self._last
        if last is None or answer.fingerprint is None or last.fingerprint != answer.fingerprint:
            return False
        return not moved and not went_further(last.progress, progress)

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

    def _record(self, following: Next, answer: RootCause, returncode: int, progress: Mapping[str, float]) -> dict[str, Any]:
        return {
            "schema": 1,
            "job": self._job,
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
            "next": "stop" if following.wait_s is None else "retry",
            "wait_s": None if following.wait_s is None else round(following.wait_s, 3),
            "why": following.why,
        }
