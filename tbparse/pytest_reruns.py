"""Re-runs of transient failures, by pytest-rerunfailures: it runs tests again, and asks us whether to.

A test gets its marker ``flaky`` with a count, and with two filters that rerunfailures looks at after each failed phase:
``only_rerun``, patterns searched in the failure's text (it also decides whether fixtures of wider scope are kept for
another attempt), and ``condition``. Both are answered by the verdict: the list of patterns holds one that always fits, or
one that never does. A ``flaky`` marker that is there already is somebody's own decision, and stays alone.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tbparse.pytest_verdicts import Verdicts
from tbparse.retrying.release import clear_frames, release_memory

MARKER = "tbparse_retry"
ALWAYS, NEVER = "", "(?!)"
MAX_WAIT_S = 30.0
"""Rules advise minutes where a cluster must recover; a test suite does not stand still for so long."""
_PLUGINS = ("rerunfailures", "pytest_rerunfailures")


@dataclass
class Gate:
    """What decides for one test whether its last attempt is followed by another. True while every failure of it may be."""

    count: int
    delay: float | None
    user: int = 0
    """How often the suite's own ``--reruns`` would run it again, for failures that its ``--only-rerun`` names."""
    filters: tuple[str, ...] = ()
    patterns: list[str] = field(default_factory=lambda: [NEVER])
    allowed: bool = True
    failed: int = 0
    wait_until: float = 0.0

    def __bool__(self) -> bool:
        return self.allowed

    def begin(self) -> None:
        """A new attempt: nothing has failed yet."""
        self.allowed = True
        self.patterns[:] = [NEVER]

    def set(self, patterns: tuple[str, ...]) -> None:
        """Let another attempt follow where the failure's text fits one of the patterns, and none where there are none."""
        self.patterns[:] = patterns or (NEVER,)
        self.allowed = self.allowed and bool(patterns)


class Reruns:
    """Puts a gate on each test that may be run again, and answers at it."""

    def __init__(self, config: pytest.Config, verdicts: Verdicts) -> None:
        self.config, self.verdicts = config, verdicts
        self._gate = pytest.StashKey[Gate]()

    def need_rerunfailures(self, who: str) -> None:
        """Raise a usage error unless pytest-rerunfailures is there and may work."""
        manager = self.config.pluginmanager
        if not any(manager.hasplugin(name) for name in _PLUGINS):
            blocked = any(manager.is_blocked(name) for name in _PLUGINS)
            remedy = "leave out `-p no:rerunfailures`" if blocked else "pip install pytest-rerunfailures"
            raise pytest.UsageError(
                f"{who} re-runs tests by pytest-rerunfailures, which is {'switched off' if blocked else 'not installed'}: {remedy}"
            )
        if self.config.getoption("usepdb", default=False):
            raise pytest.UsageError(f"{who} cannot be used with --pdb: a test that is run again has ended")

    def mark(self, items: list[pytest.Item]) -> None:
        """Give every test that may be run again its gate. Tests with a ``flaky`` marker of their own are left as they are."""
        wanted = self.config.getoption("tbparse_rerun") or 0
        for item in items:
            count, delay = _asked(item, wanted, self.verdicts.project.attempts - 1)
            if count <= 0 or item.get_closest_marker("flaky") is not None:
                continue
            self.need_rerunfailures(f"the marker {MARKER} of {item.nodeid}" if not wanted else "--tbparse-rerun")
            user, filters = self._suites_own()
            gate = item.stash[self._gate] = Gate(count, delay, user, filters)
            item.add_marker(pytest.mark.flaky(reruns=max(count, user), only_rerun=gate.patterns, condition=gate))

    def _suites_own(self) -> tuple[int, tuple[str, ...]]:
        """``--reruns`` and ``--only-rerun``, where the suite uses both: what they name is run again as before."""
        reruns = self._setting("reruns")
        filters = self._setting("only_rerun") or ()
        try:
            return (int(reruns), tuple(filters)) if reruns and filters else (0, ())
        except (TypeError, ValueError):
            return 0, ()

    def _setting(self, name: str) -> Any:
        value = self.config.getoption(name, default=None)
        if value is None:
            try:
                value = self.config.getini(name)
            except (ValueError, KeyError):  # this version has no such setting
                return None
        return value

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Wait as the rule advised, between attempts, when the fixtures of the last one are gone."""
        gate = item.stash.get(self._gate, None)
        if gate is None:
            return
        gate.begin()
        database: Any = getattr(self.config, "failures_db", None)
        if hasattr(database, "set_test_reruns"):
            # A worker that crashes says nothing of why, and unknown is never run again: only what the suite itself wants.
            database.set_test_reruns(item.nodeid, gate.user)
            database.get_test_reruns(item.nodeid)  # its answer says that the controller has taken it, before anything crashes
        if int(getattr(item, "execution_count", 1)) > 1:
            last = getattr(sys, "last_value", None)  # pytest keeps the last failure there until the next test is called
            if isinstance(last, BaseException):
                clear_frames(last)
            release_memory()
        left = gate.wait_until - time.monotonic()
        if left > 0:
            time.sleep(left)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Before rerunfailures looks at the failure, which it does around this."""
        report = yield
        gate = item.stash.get(self._gate, None)
        if gate is not None and report.failed:
            self._answer(gate, item, call, report)
        return report

    def _answer(self, gate: Gate, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
        decision = self.verdicts.judge(item, call, report)
        attempts = int(getattr(item, "execution_count", 1))
        if decision is None:
            gate.set(())
        elif decision:
            gate.set((ALWAYS,) if attempts <= gate.count else ())
            gate.wait_until = time.monotonic() + self._delay(gate, decision.delay_s)
        elif decision.root_cause.verdict == "unknown" or decision.root_cause.rule is None:
            # What no rule knows may be run again where the suite itself says so.
            gate.set(gate.filters if attempts <= gate.user else ())
        else:
            gate.set(())

    def _delay(self, gate: Gate, advised: float) -> float:
        """Seconds to wait: the marker's, the command line's, the project's, else the advice with jitter."""
        for said in (
            gate.delay,
            self.config.getoption("tbparse_rerun_delay"),
            self._seconds(self._setting("reruns_delay")),
            self.verdicts.project.get("wait"),
        ):
            if said is not None:
                return float(said)
        return min(advised, MAX_WAIT_S) * random.uniform(0.75, 1.25)

    @staticmethod
    def _seconds(value: Any) -> float | None:
        try:
            return max(0.0, float(value))
        except (TypeError, ValueError):
            return None


def _asked(item: pytest.Item, wanted: int, usual: int) -> tuple[int, float | None]:
    """How often a test may be run again, and after how long, by its marker or else by the command line."""
    marker = item.get_closest_marker(MARKER)
    if marker is None:
        return wanted, None
    try:
        return _arguments(*marker.args, **{"usual": usual, **marker.kwargs})
    except TypeError as e:
        raise pytest.UsageError(
            f"{item.nodeid}: @pytest.mark.{MARKER}(n, delay=None) takes how often to run again, a whole number from 0, and "
            f"the seconds to wait before: {e}"
        ) from None


def _arguments(n: int | None = None, delay: float | None = None, *, usual: int) -> tuple[int, float | None]:
    if n is None:
        n = usual
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise TypeError(f"n is {n!r}")
    if delay is not None and (isinstance(delay, bool) or not isinstance(delay, (int, float)) or not delay >= 0):
        raise TypeError(f"delay is {delay!r}")
    return n, delay
