"""Which transient failures to retry at all: ``only`` and ``never`` of the decorator."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, get_args

from tbparse.attribute import live
from tbparse.errors import UsageError
from tbparse.live import attached
from tbparse.model import RootCause
from tbparse.ruleset.match import RuleSet, type_fits
from tbparse.terms import Category

Choice: TypeAlias = type[BaseException] | str
"""An exception type, a rule's id (``network/http-timeout``), all rules of an area (``network/*``), or a category."""
Choices: TypeAlias = Choice | Iterable[Choice] | None

_CATEGORIES = frozenset(get_args(Category))


def listed(choices: Choices, parameter: str) -> tuple[Choice, ...]:
    """The choices as a tuple. Raises UsageError for what can be none."""
    if choices is None:
        return ()
    single = isinstance(choices, (str, type)) or not isinstance(choices, Iterable)
    out: tuple[Choice, ...] = (choices,) if single else tuple(choices)  # type: ignore[assignment, arg-type]
    for x in out:
        known = isinstance(x, str) and (x in _CATEGORIES or "/" in x)
        if not known and not (isinstance(x, type) and issubclass(x, BaseException)):
            near = difflib.get_close_matches(x, _CATEGORIES, 1) if isinstance(x, str) else []
            hint = f"; did you mean `{near[0]}`?" if near else ""
            raise UsageError(f"{parameter}={x!r} is no exception type, rule id (`area/name`, `area/*`) or category{hint}")
    return out


def check_rules(choices: Sequence[Choice], rules: Callable[[], RuleSet], parameter: str) -> None:
    """Raises UsageError where a choice names a rule that does not exist; ``rules`` is asked only if one names any."""
    named = [x for x in choices if isinstance(x, str) and "/" in x]
    known = rules().by_id if named else {}
    for x in named:
        if x not in known and not (x.endswith("/*") and any(i.startswith(x[:-1]) for i in known)):
            near = difflib.get_close_matches(x, known, 1)
            hint = f"; did you mean `{near[0]}`?" if near else "; `tbparse rules list` shows them"
            raise UsageError(f"{parameter}={x!r}: no such rule{hint}")


def chosen(choices: Sequence[Choice], exc: BaseException, answer: RootCause) -> bool:
    """Whether any of the choices fits: a type fits the exception, what led to it, and the root cause of a child."""
    return any(_fits(x, exc, answer) for x in choices)


def _fits(choice: Choice, exc: BaseException, answer: RootCause) -> bool:
    if isinstance(choice, str):
        return choice in (answer.rule, answer.category) or (
            choice.endswith("/*") and answer.rule is not None and answer.rule.startswith(choice[:-1])
        )
    return any(isinstance(x, choice) for x in live.everything(exc)) or type_fits(live.type_name(choice), answer.exception)


def speaks_for_itself(exc: SystemExit) -> bool:
    """Whether an exit says what is wrong by itself, whatever became of the program's children: by a text, or out of a parser of
    arguments, which has printed it."""
    if isinstance(exc.code, str):
        return True
    tb = exc.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    return tb is not None and tb.tb_frame.f_globals.get("__name__") == "argparse"


def may_be_retried(exc: BaseException) -> bool:
    """False for what ends a run on purpose: an interrupt, a cancellation, a skipped or failed test, an exit by the program's will.

    A launcher that leaves with a code after its child failed (``sys.exit(1)``) is a failure like any other, if what the
    child printed is known.
    """
    if isinstance(exc, SystemExit):
        failed = exc.code not in (None, 0) and not speaks_for_itself(exc)
        return failed and (attached(exc) is not None or any(live.outputs(x) for x in live.chain(exc)))
    if not isinstance(exc, Exception) or isinstance(exc, (StopIteration, StopAsyncIteration)):
        return False
    unittest = sys.modules.get("unittest")
    skip = getattr(unittest, "SkipTest", None)
    return not (isinstance(skip, type) and isinstance(exc, skip))
