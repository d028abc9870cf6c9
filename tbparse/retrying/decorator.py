"""``retry``: run a call again where a retry cures what made it fail, and nowhere else."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

from tbparse.errors import UsageError
from tbparse.retrying.attempts import Attempt, BeforeRetry, Plan, Run, Wait
from tbparse.retrying.choose import Choices, check_rules, listed
from tbparse.retrying.decision import rules_in_force
from tbparse.settings import load_project

if TYPE_CHECKING:
    from tbparse.ruleset.match import RuleSet

P = ParamSpec("P")
R = TypeVar("R")


class Retry:
    """A way to retry. A decorator for functions, async functions and methods; and the attempts of a block of code:

    ``for attempt in retry(attempts=3):`` (``async for`` in async code), then ``with attempt:`` around the work.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __call__(self, fn: Callable[P, R], /) -> Callable[P, R]:
        if isinstance(fn, (staticmethod, classmethod)):
            return cast("Callable[P, R]", type(fn)(self(fn.__func__)))
        refuse_what_cannot_run_twice(fn, "retry")
        plan = _named(self._plan, fn)
        if inspect.iscoroutinefunction(fn):

            @wraps(fn)
            async def again_async(*args: Any, **kwargs: Any) -> Any:
                __tracebackhide__ = True
                async for attempt in Run(plan):
                    with attempt:
                        return await fn(*args, **kwargs)

            return cast("Callable[P, R]", again_async)

        @wraps(fn)
        def again(*args: P.args, **kwargs: P.kwargs) -> R:
            __tracebackhide__ = True
            for attempt in Run(plan):
                with attempt:
                    return fn(*args, **kwargs)
            raise AssertionError("the attempts end with a result or an exception")

        return again

    def __iter__(self) -> Iterator[Attempt]:
        return iter(Run(self._plan))

    def __aiter__(self) -> AsyncIterator[Attempt]:
        return Run(self._plan).__aiter__()


@overload
def retry(fn: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def retry(
    *,
    attempts: int | None = None,
    only: Choices = None,
    never: Choices = None,
    wait: Wait | timedelta = None,
    timeout: float | timedelta | None = None,
    before_retry: BeforeRetry | None = None,
    capture: bool = True,
    profile: str | None = None,
    rules: RuleSet | None = None,
) -> Retry: ...


def retry(
    fn: Callable[P, R] | None = None,
    /,
    *,
    attempts: int | None = None,
    only: Choices = None,
    never: Choices = None,
    wait: Wait | timedelta = None,
    timeout: float | timedelta | None = None,
    before_retry: BeforeRetry | None = None,
    capture: bool = True,
    profile: str | None = None,
    rules: RuleSet | None = None,
) -> Callable[P, R] | Retry:
    """Run a call again when what made it fail is transient; any other failure leaves as it was raised.

    ``attempts``: calls at most, the first one included; None is what the project's settings say, else 3, and no more than
    the rule advises. ``only``, ``never``: exception types, rule ids (``area/name``, ``area/*``) and categories to which
    retries are limited, or that are left out; nothing that is not transient is ever retried. ``wait``: seconds between
    attempts, or ``wait(decision, attempt)`` that gives them; None is the rule's advice and up to a quarter more.
    ``timeout``: seconds after the first start in which another attempt may begin (it ends no running one).
    ``before_retry(decision, attempt)`` is called before each pause with the number of the attempt that failed.
    ``capture``: keep what child processes print meanwhile, so that their failures can be judged. ``profile``, ``rules``: see
    :func:`tbparse.retrying.decision.retryable`.

    The last failure is the original exception, with notes that list all attempts. Raises UsageError for wrong arguments,
    for a generator function, and when the extra ``retry`` is not installed.
    """
    _check_tenacity()
    if attempts is not None and (not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1):
        raise UsageError(f"attempts={attempts!r}: give how often to try, the first time included (1 or more)")
    seconds = wait.total_seconds() if isinstance(wait, timedelta) else wait
    if seconds is not None and not callable(seconds) and not seconds >= 0:
        raise UsageError(f"wait={wait!r}: give the seconds between attempts (0 or more)")
    limit = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if limit is not None and not limit > 0:
        raise UsageError(f"timeout={timeout!r}: give the seconds in which attempts may begin (more than 0)")
    wanted, left_out = listed(only, "only"), listed(never, "never")
    for choices, parameter in ((wanted, "only"), (left_out, "never")):
        check_rules(choices, lambda: rules if rules is not None else rules_in_force(load_project(), profile), parameter)
    made = Retry(
        Plan(
            attempts=attempts,
            only=wanted,
            never=left_out,
            wait=seconds,
            timeout=limit,
            before_retry=before_retry,
            profile=profile,
            rules=rules,
            capture=capture,
            name="tbparse.retry",
        )
    )
    return made if fn is None else made(fn)


def _named(plan: Plan, fn: Callable[..., Any]) -> Plan:
    return replace(plan, name=getattr(fn, "__qualname__", None) or repr(fn))


def refuse_what_cannot_run_twice(fn: object, what: str) -> None:
    """Raises UsageError for generators, classes, and what is no function at all."""
    name = getattr(fn, "__qualname__", repr(fn))
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise UsageError(
            f"@tbparse.{what} on `{name}`: a generator function only makes the generator; "
            "decorate the function that consumes it, or the work inside it"
        )
    if inspect.isclass(fn) or not callable(fn):
        raise UsageError(f"@tbparse.{what} on `{name}`: decorate a function or a method, not {type(fn).__name__}")


def _check_tenacity() -> None:
    from importlib.util import find_spec

    if find_spec("tenacity") is None:
        raise UsageError("tbparse.retry needs tenacity: pip install 'tbparse-triage[retry]'")
