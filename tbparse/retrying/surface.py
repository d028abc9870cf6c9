"""``surface``: let a filter on exception names see why a child failed.

``pytest --only-rerun REGEX`` searches ``f"{type(exc).__name__}: {exc}"``, and newer releases do so along the chain. A child's
failure reaches it as ``CalledProcessError: Command … returned non-zero exit status 1``, whatever the child printed.
:class:`TransientFailure` carries the child's own words for a failure that may pass; any other leaves as it was raised.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

from tbparse.attribute import live
from tbparse.errors import TbparseError, UsageError
from tbparse.launching.capture import capture as capture_block
from tbparse.model import RootCause
from tbparse.retrying.attempts import open_capture
from tbparse.retrying.choose import may_be_retried
from tbparse.retrying.decision import Decision, retryable
from tbparse.retrying.decorator import refuse_what_cannot_run_twice

if TYPE_CHECKING:
    from tbparse.ruleset.match import RuleSet

P = ParamSpec("P")
R = TypeVar("R")
MAX_MESSAGE_CHARS = 2_000
log = logging.getLogger("tbparse")


class TransientFailure(TbparseError):  # noqa: N818 - filters look for Error, Timeout and the like in names
    """A child failed, and running it again may well work. The text is ``<Type>: <message>`` of what the child raised.

    ``root_cause`` is the whole answer; the exception that reached the parent is ``__cause__``.
    """

    def __init__(self, root_cause: RootCause) -> None:
        self.root_cause = root_cause
        what = root_cause.exception or root_cause.signal or root_cause.title or "failure"
        message = (root_cause.message or "").strip()
        text = f"{what}: {message}" if message else what
        super().__init__(text if len(text) <= MAX_MESSAGE_CHARS else f"{text[: MAX_MESSAGE_CHARS - 1]}…")

    def __reduce__(self) -> tuple[Any, ...]:
        return TransientFailure, (self.root_cause,)


class Surface:
    """A decorator, and a context manager: ``with surface():``. Can be entered again, and inside itself."""

    def __init__(self, *, capture: bool, profile: str | None, rules: RuleSet | None) -> None:
        self._capture = capture
        self._profile = profile
        self._rules = rules
        self._open: list[capture_block] = []

    def __enter__(self) -> Surface:
        if self._capture:
            opened = open_capture(self._profile, self._rules)
            opened.__enter__()
            self._open.append(opened)
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        __tracebackhide__ = True
        if self._open:
            self._open.pop().__exit__(kind, exc, tb)
        if exc is None:
            return
        hidden = self._hidden(exc)
        if hidden is not None:
            raise TransientFailure(hidden.root_cause) from exc

    def __call__(self, fn: Callable[P, R], /) -> Callable[P, R]:
        if isinstance(fn, (staticmethod, classmethod)):
            return cast("Callable[P, R]", type(fn)(self(fn.__func__)))
        refuse_what_cannot_run_twice(fn, "surface")
        if inspect.iscoroutinefunction(fn):

            @wraps(fn)
            async def shown_async(*args: Any, **kwargs: Any) -> Any:
                __tracebackhide__ = True
                with self._fresh():
                    return await fn(*args, **kwargs)

            return cast("Callable[P, R]", shown_async)

        @wraps(fn)
        def shown(*args: P.args, **kwargs: P.kwargs) -> R:
            __tracebackhide__ = True
            with self._fresh():
                return fn(*args, **kwargs)

        return shown

    def _fresh(self) -> Surface:
        return Surface(capture=self._capture, profile=self._profile, rules=self._rules)

    def _hidden(self, exc: BaseException) -> Decision | None:
        """The decision about a transient failure whose own type stands nowhere on the exception's chain."""
        if not may_be_retried(exc) or any(isinstance(x, TransientFailure) for x in live.chain(exc)):
            return None
        try:
            decision = retryable(exc, profile=self._profile, rules=self._rules)
        except UsageError as wrong:  # the failure is worth more than what hinders reading it
            log.error("not judged: %s", wrong)
            return None
        root = (decision.root_cause.exception or "").rpartition(".")[2]
        if not decision or root in {type(x).__name__ for x in live.chain(exc)}:
            return None
        return decision


@overload
def surface(fn: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def surface(*, capture: bool = True, profile: str | None = None, rules: RuleSet | None = None) -> Surface: ...


def surface(
    fn: Callable[P, R] | None = None, /, *, capture: bool = True, profile: str | None = None, rules: RuleSet | None = None
) -> Callable[P, R] | Surface:
    """Raise :class:`TransientFailure` in place of an exception that hides why a child failed, if the child's failure is transient.

    ``@surface`` on a function, an async function or a method, or ``with surface():``. Nothing is retried here: this is for
    whatever retries by the names of exceptions. ``capture``: keep what child processes print meanwhile, so that there is
    something to judge. ``profile``, ``rules``: see :func:`tbparse.retrying.decision.retryable`. Raises UsageError for a
    generator function.
    """
    made = Surface(capture=capture, profile=profile, rules=rules)
    return made if fn is None else made(fn)
