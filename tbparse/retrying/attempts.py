"""One call that may be tried several times: the attempts, the pauses between them, and the last word.

tenacity keeps the count, the clock and the pauses (in a thread, in asyncio, in trio); what it never sees is the exception:
a failure that is not retried leaves ``with attempt:`` as it was raised, with its own traceback.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from inspect import isawaitable
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from tbparse.attribute.live import OWN_NOTE
from tbparse.errors import UsageError
from tbparse.launching.capture import capture
from tbparse.retrying.choose import Choice, chosen, may_be_retried
from tbparse.retrying.decision import Decision, default_profile, retryable, rules_in_force
from tbparse.retrying.release import clear_frames, release_memory
from tbparse.settings import NO_PROJECT, load_project

if TYPE_CHECKING:
    import tenacity

    from tbparse.ruleset.match import RuleSet

log = logging.getLogger("tbparse")

Wait: TypeAlias = "float | Callable[[Decision, int], float] | None"
"""Seconds, or what gives them for a decision and the number of the attempt that failed. None: as the rule advises."""
BeforeRetry: TypeAlias = "Callable[[Decision, int], object | Awaitable[object]]"
JITTER = 0.25
"""An advised pause is lengthened by up to this share of it, so that workers that failed together do not come back together."""


@dataclass(frozen=True)
class Plan:
    """What the decorator was told; see :func:`tbparse.retrying.decorator.retry`."""

    attempts: int | None
    only: tuple[Choice, ...]
    never: tuple[Choice, ...]
    wait: Wait
    timeout: float | None
    before_retry: BeforeRetry | None
    profile: str | None
    rules: RuleSet | None
    capture: bool
    name: str


def open_capture(profile: str | None, rules: RuleSet | None) -> capture:
    """Keeps what child processes print, and leaves their root cause on the exception that passes."""
    project = load_project() if rules is None else NO_PROJECT
    chosen = project.profile(profile, default_profile())
    return capture(profile=chosen, rules=rules if rules is not None else project.rules(chosen))


class Attempt:
    """One attempt: ``with attempt:`` around the work. ``number`` counts from 1; ``decision`` is set when it failed."""

    def __init__(self, run: Run, manager: tenacity.AttemptManager) -> None:
        self._run = run
        self._manager = manager
        self._capture: capture | None = None
        self.decision: Decision | None = None

    @property
    def number(self) -> int:
        """Which attempt this is, from 1."""
        return int(self._manager.retry_state.attempt_number)

    def __enter__(self) -> Attempt:
        plan = self._run.plan
        if plan.capture:
            self._capture = open_capture(plan.profile, plan.rules)
            self._capture.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> bool:
        __tracebackhide__ = True
        if self._capture is not None:
            self._capture.__exit__(kind, exc, tb)
            self._capture = None  # it holds the exception
        if exc is None:
            self._manager.__exit__(None, None, None)
            return False
        state = self._manager.retry_state
        state.set_exception((_Failed, _Failed(), None))
        self.decision = self._run.judge(exc, state)
        if self.decision is None:
            return False
        clear_frames(exc)
        return True


class Run:
    """One call with all its attempts."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.history: list[str] = []
        self.decision: Decision | None = None
        self._pause = 0.0

    # Whether there is another attempt, and after which pause, is decided where the exception is still at hand; tenacity's
    # loop is told that there always is.
    def __iter__(self) -> Iterator[Attempt]:
        import tenacity

        again = tenacity.retry_if_exception(_always)
        for manager in tenacity.Retrying(retry=again, wait=self.pause, before_sleep=self.prepare):
            yield Attempt(self, manager)

    def __aiter__(self) -> AsyncIterator[Attempt]:
        import tenacity

        again = tenacity.retry_if_exception(_always)
        return _Attempts(self, tenacity.AsyncRetrying(retry=again, wait=self.pause, before_sleep=self.prepare_async))

    def judge(self, exc: BaseException, state: tenacity.RetryCallState) -> Decision | None:
        """The decision when there is another attempt; None when this failure is the last word. Adds the note of all attempts."""
        if not may_be_retried(exc):
            return None
        plan = self.plan
        try:
            project = load_project() if plan.rules is None or plan.attempts is None else NO_PROJECT
            rules = plan.rules if plan.rules is not None else rules_in_force(project, plan.profile)
            decision = retryable(exc, rules=rules, paths=project.paths)
        except UsageError as wrong:  # the failure is worth more than what hinders reading it
            log.error("%s: not retried, as it cannot be judged: %s", plan.name, wrong)
            _add_notes(exc, [f"not retried, as the settings cannot be used: {wrong}"])
            return None
        self.decision = decision
        limit = plan.attempts if plan.attempts is not None else min(project.attempts, decision.max + 1)
        why_not = self._why_not(exc, decision, state, limit)
        seconds = float(state.seconds_since_start or 0.0)
        told = f"attempt {state.attempt_number}: {decision.root_cause.verdict}, {_what(decision)}, {seconds:.1f} s after the start"
        if why_not is not None:
            if state.attempt_number > 1:
                _add_notes(exc, [f"gave up: {why_not}", *self.history, told])
            return None
        self._pause = float(state.upcoming_sleep)
        self.history.append(f"{told}; waited {self._pause:.1f} s")
        log.warning(
            "%s: failed in attempt %d of %d, %s; next attempt in %.1f s",
            plan.name, state.attempt_number, limit, decision.reason, self._pause,
            extra={"root_cause": decision.root_cause},
        )  # fmt: skip
        return decision

    def _why_not(self, exc: BaseException, decision: Decision, state: tenacity.RetryCallState, limit: int) -> str | None:
        plan = self.plan
        if not decision:
            return f"attempt {state.attempt_number} failed with what no retry cures"
        if plan.only and not chosen(plan.only, exc, decision.root_cause):
            return "`only` does not name this failure"
        if chosen(plan.never, exc, decision.root_cause):
            return "`never` names this failure"
        if state.attempt_number >= limit:
            return f"{limit} attempts failed"
        import tenacity

        state.upcoming_sleep = self._seconds(decision, state)
        if plan.timeout is not None and tenacity.stop_before_delay(plan.timeout)(state):
            return f"another attempt would begin after the time limit of {plan.timeout:g} s"
        return None

    def _seconds(self, decision: Decision, state: tenacity.RetryCallState) -> float:
        import tenacity

        wait = self.plan.wait
        if callable(wait):
            return max(0.0, float(wait(decision, state.attempt_number)))
        if wait is not None:
            return float(wait)
        advised = tenacity.wait_fixed(decision.delay_s) + tenacity.wait_random(0, JITTER * decision.delay_s)
        return float(advised(state))

    def pause(self, state: tenacity.RetryCallState) -> float:
        """Seconds until the next attempt, as they were decided."""
        return self._pause

    def prepare(self, state: tenacity.RetryCallState) -> None:
        """What happens between two attempts, before the pause."""
        release_memory()
        if self.plan.before_retry is not None and self.decision is not None:
            self.plan.before_retry(self.decision, state.attempt_number)

    async def prepare_async(self, state: tenacity.RetryCallState) -> None:
        """As :meth:`prepare`; a callback that gives an awaitable is awaited."""
        release_memory()
        if self.plan.before_retry is not None and self.decision is not None:
            told = self.plan.before_retry(self.decision, state.attempt_number)
            if isawaitable(told):
                await told


class _Attempts:
    """The attempts in async code; an async generator would stay open when a function returns out of the loop."""

    def __init__(self, run: Run, controller: tenacity.AsyncRetrying) -> None:
        self._run = run
        self._managers = controller.__aiter__()

    def __aiter__(self) -> _Attempts:
        return self

    async def __anext__(self) -> Attempt:
        return Attempt(self._run, await self._managers.__anext__())


class _Failed(Exception):  # noqa: N818 - stands for the real exception, which nobody is to hold on to
    pass


def _always(_: BaseException) -> bool:
    return True


def _what(decision: Decision) -> str:
    answer = decision.root_cause
    return answer.rule or (answer.exception or "no rule").rpartition(".")[2]


def _add_notes(exc: BaseException, lines: list[str]) -> None:
    """Notes as PEP 678 has them; Python 3.10 does not print them, and pytest does."""
    notes = [f"{OWN_NOTE}{text}" for line in lines for text in line.split("\n")]
    try:
        exc.__notes__ = [*getattr(exc, "__notes__", []), *notes]  # type: ignore[attr-defined, unused-ignore]
    except Exception:  # an exception that takes no attributes keeps its message at least
        log.warning("%s", "; ".join(lines))
