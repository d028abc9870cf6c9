"""The one predicate that every place asks which decides about a retry: is this failure worth running again?

:func:`retryable` gives a :class:`Decision`, which is true for a transient failure only. It fits where other packages
take a predicate as it is: ``stamina.retry(on=retryable)``, ``tenacity.retry_if_exception(retryable)``. Where they take
exception types (Ray's ``retry_exceptions``), :class:`Transient` is a type that asks the same question.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tbparse.attribute import live
from tbparse.attribute.origin import PathSettings
from tbparse.engine import classify
from tbparse.model import RootCause, not_transient
from tbparse.ruleset.match import builtin_rules
from tbparse.settings import NO_PROJECT, Project, load_project

if TYPE_CHECKING:
    from tbparse.ruleset.match import RuleSet


class Decision(timedelta):
    """Whether to run again: true only for a transient failure. Frozen, hashable, and can be pickled.

    ``root_cause`` is the answer that it rests on, ``delay_s`` the seconds to wait before, ``max`` how many further
    attempts are sensible (both 0 when it is not to be retried), ``reason`` one line for a log. It is also the advised
    delay as a :class:`~datetime.timedelta`, which is what stamina's backoff hooks may return.
    """

    __slots__ = ("max", "reason", "root_cause")
    # Not `min` and `max` of timedelta: `max` is how many more attempts are sensible.
    max: int  # type: ignore[assignment, misc]
    reason: str
    root_cause: RootCause

    def __new__(cls, root_cause: RootCause) -> Decision:
        go = root_cause.verdict == "transient" and root_cause.retry.action != "stop"
        self = super().__new__(cls, seconds=max(0.0, root_cause.retry.delay_s) if go else 0.0)
        object.__setattr__(self, "root_cause", root_cause)
        object.__setattr__(self, "max", root_cause.retry.max if go else 0)
        object.__setattr__(self, "reason", _reason(root_cause))
        return self

    @property
    def delay_s(self) -> float:
        """Seconds to wait before the next attempt, as the rule advises."""
        return self.total_seconds()

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        # stamina takes whatever its hook returns for the seconds to wait, and retries, unless `isinstance(x, bool)`:
        # without this a decision against a retry would be read as "retry at once".
        return Decision if self else bool

    def __bool__(self) -> bool:
        return self.root_cause.verdict == "transient" and self.root_cause.retry.action != "stop"

    def __eq__(self, other: object) -> bool:
        return self.root_cause == other.root_cause if type(other) is Decision else NotImplemented

    def __hash__(self) -> int:
        return hash((self.root_cause.verdict, self.root_cause.rule, self.root_cause.fingerprint))

    def __reduce__(self) -> tuple[Any, ...]:
        return Decision, (self.root_cause,)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Decision is frozen: cannot set {name!r}")

    def __repr__(self) -> str:
        return f"Decision({bool(self)}, {self.reason!r}, delay_s={self.delay_s:g}, max={self.max})"

    __str__ = __repr__


def _reason(answer: RootCause) -> str:
    """One line: the verdict, what failed, and the rule that says so."""
    what = answer.exception or answer.signal or answer.title or "no failure"
    message = (answer.message or "").strip().split("\n", 1)[0]
    said = f"{what}: {message}" if message and answer.exception else what
    if len(said) > 200:
        said = f"{said[:199]}…"
    return f"{answer.verdict}: {said}" + (f" [{answer.rule}]" if answer.rule else "")


def default_profile() -> str:
    """``tests`` while pytest runs a test in this process, else ``job``."""
    return "tests" if "PYTEST_CURRENT_TEST" in os.environ else "job"


def retryable(
    exc_or_text: BaseException | str | bytes,
    *,
    returncode: int | None = None,
    profile: str | None = None,
    rules: RuleSet | None = None,
    paths: PathSettings | None = None,
) -> Decision:
    """Whether running it again may cure a failure: from the live exception, or from what the failed program printed.

    ``returncode`` is the program's, as a shell or ``subprocess`` gives it. ``profile`` is ``tests`` or ``job``; where it is
    None the project's settings say, else it is ``tests`` while pytest runs a test and ``job`` elsewhere. ``rules`` are used
    instead of the built-in and the project's ones (and of the profile), ``paths`` instead of the project's. An exception that
    carries a :class:`~tbparse.model.RootCause` in ``.root_cause`` is believed.

    Raises TypeError for anything else than text, bytes and an exception, UsageError for a profile that does not exist or
    settings that cannot be used.
    """
    project = load_project() if rules is None or paths is None else NO_PROJECT
    rules = rules if rules is not None else rules_in_force(project, profile)
    paths = paths if paths is not None else project.paths
    answer = classify(exc_or_text, returncode=returncode, rules=rules, paths=paths)
    staged = answer.transient and isinstance(exc_or_text, BaseException) and _staged(exc_or_text)
    return Decision(not_transient(answer, STAGED) if staged else answer)


STAGED = "not called transient: a mock raised it, which it will do again"


def _staged(exc: BaseException) -> bool:
    """Whether a mock raised it (``side_effect``): a test that fails by it does not handle what it was told to."""
    for x in live.everything(exc):
        tb = x.__traceback__
        while tb is not None and tb.tb_next is not None:
            tb = tb.tb_next
        if tb is not None and tb.tb_frame.f_globals.get("__name__") in ("unittest.mock", "mock.mock"):
            return True
    return False


def rules_in_force(project: Project, profile: str | None = None) -> RuleSet:
    """The rules by which a retry is decided: the project's, under the profile that was asked for or that fits the place."""
    chosen = project.profile(profile, default_profile())
    return project.rules(chosen) or builtin_rules(chosen)


class _AskRetryable(type):
    """``isinstance(exc, Transient)`` asks :func:`retryable`."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, BaseException) and bool(retryable(instance))


class Transient(Exception, metaclass=_AskRetryable):  # noqa: N818 - it names what it stands for, and no failure
    """Every exception that :func:`retryable` calls transient is an instance: for APIs that take exception types.

    Ray's ``retry_exceptions=[Transient]``, ``tenacity.retry_if_exception_type(Transient)``. An ``except Transient:``
    does not ask (Python looks at the real bases there), so it catches nothing.
    """
