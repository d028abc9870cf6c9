"""Why a live exception was raised: its printed text through the engine, with what only the object knows.

A group is transient only if every leaf is. Where leaves carry what their own children printed, or an answer of their own,
each is read by itself: in one text nobody could tell whose output is whose.
"""

from __future__ import annotations

import sys

from tbparse.attribute import live
from tbparse.attribute.origin import NO_SETTINGS, PathSettings
from tbparse.engine import Explainer
from tbparse.model import ChainLink, RootCause
from tbparse.records import Failure, Line, Link
from tbparse.ruleset.match import RuleSet, builtin_rules
from tbparse.ruleset.rejudge import rejudged
from tbparse.terms import Relation

PRINTED_WIDTH = 15
"""So many leaves of a group the backport for Python 3.10 prints."""


def classify_live(
    exc: BaseException,
    *,
    returncode: int | None = None,
    rules: RuleSet | None = None,
    profile: str = "job",
    paths: PathSettings = NO_SETTINGS,
) -> RootCause:
    """The answer for an exception. One that a capture left on it (``root_cause``) is believed, and read under these rules."""
    rules = rules if rules is not None else builtin_rules(profile)
    known = attached(exc)
    if known is not None:
        return rejudged(known, rules)
    for link in live.chain(exc):
        found = live.leaves(link)
        if found and _apart(found):
            return _by_leaf(exc, link, found, rules, paths)
    return _read(exc, returncode, rules, paths)


def attached(exc: BaseException) -> RootCause | None:
    """The answer that a capture left on the exception, or on what it was explicitly raised from."""
    for link in live.chain(exc):
        found = live.attribute(link, "root_cause")
        if isinstance(found, RootCause) and found.verdict != "clean":
            return found
        if link.__cause__ is None:
            break
    return None


def _apart(found: tuple[BaseException, ...]) -> bool:
    """Whether the leaves must be read one by one."""
    if sys.version_info < (3, 11) and len(found) > PRINTED_WIDTH:
        return True
    return any(
        attached(leaf) is not None or any(live.outputs(x) for x in live.chain(leaf)) or _apart(live.leaves(leaf)) for leaf in found
    )


def _by_leaf(
    exc: BaseException, group: BaseException, found: tuple[BaseException, ...], rules: RuleSet, paths: PathSettings
) -> RootCause:
    answers = [classify_live(leaf, rules=rules, paths=paths) for leaf in found]
    told = [a for a in answers if (a.exception or "").rpartition(".")[2] != "CancelledError"] or answers
    answer = next((a for a in told if not a.transient), told[0])
    outer = list(live.chain(exc))
    outer = outer[: next(i for i, x in enumerate(outer) if x is group) + 1]
    links = tuple(
        ChainLink(exception=live.type_name(type(x)), message=live.message(x), relation="group" if x is group else _relation(x))
        for x in outer
    )
    return answer.model_copy(update={"chain": (*links, *answer.chain)})


def _relation(exc: BaseException) -> Relation:
    return "cause" if exc.__cause__ is not None else "context"


def _read(exc: BaseException, returncode: int | None, rules: RuleSet, paths: PathSettings) -> RootCause:
    explainer = Explainer(rules=rules, paths=paths, bases=live.bases(exc))
    explainer.feed(live.printed(exc).encode("utf-8", "backslashreplace"))
    explainer.drain()
    name = live.type_name(type(exc))
    if not any(link.exception == name for failure in explainer.job.failures for link in failure.links):
        explainer.take(_failure(exc))  # its type's name is none that anybody would know in a text
    return explainer.finish(returncode)


def _failure(exc: BaseException) -> Failure:
    """The exception and what led to it, without frames: what its objects say, where the text could not be read."""
    links = []
    line = Line(1, 0, 0, f"{live.type_name(type(exc))}: {live.message(exc)}")
    for x in live.chain(exc):
        links.append(Link(live.type_name(type(x)), live.message(x), [], _relation(x), line, line))
    links[-1].relation = "root"
    return Failure("traceback", "live", links, line, line)
