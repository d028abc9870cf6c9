"""Patterns of rules: which are allowed, which literals any match must contain, and how they are searched.

Rules are written for :mod:`regex`, whose search takes a time limit. To know a pattern's literals it must
also be readable by the standard library's parser, so patterns keep to what both understand.
"""

from __future__ import annotations

import re
import sys
import warnings
from functools import lru_cache
from typing import Any

if sys.version_info >= (3, 11):
    from re import _constants as _sre
    from re import _parser as _parser
else:  # pragma: no cover - the same parser under its old name
    import sre_constants as _sre  # type: ignore[import-not-found, unused-ignore]
    import sre_parse as _parser  # type: ignore[import-not-found, unused-ignore]

SEARCH_SECONDS = 0.05
"""How long one pattern may search one text before its rule is skipped and the answer says so."""

MIN_LITERAL = 3
_MAX_ALTERNATIVES = 24


class PatternError(ValueError):
    """A pattern that cannot be used, with what to do about it."""


def check_pattern(pattern: str) -> None:
    """Raise :class:`PatternError` unless both parsers read the pattern and it cannot match the empty text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = _parser.parse(pattern)
    except (re.error, RecursionError, OverflowError, FutureWarning, DeprecationWarning) as e:
        raise PatternError(f"pattern {pattern!r} cannot be read: {e}") from None
    if tree.getwidth()[0] == 0:
        raise PatternError(f"pattern {pattern!r} matches the empty text, so it matches everything")
    nested = _nested_repeat(tree)
    if nested:
        raise PatternError(f"pattern {pattern!r} repeats a repetition ({nested}), which can take exponential time")


def group_names(pattern: str) -> tuple[str, ...]:
    """The named groups of a pattern, in order."""
    return tuple(_parser.parse(pattern).state.groupdict)


def required_literals(pattern: str) -> tuple[str, ...] | None:
    """Texts of which any match contains at least one, as written; None where the pattern has none.

    Literals of case-insensitive patterns come in lower case, with :func:`is_caseless` true for the pattern.
    """
    tree = _parser.parse(pattern)
    found = _literals(tree)
    if not found or min(map(len, found)) < MIN_LITERAL:
        return None
    caseless = is_caseless(pattern)
    return tuple(sorted({f.lower() if caseless else f for f in found}))


def is_caseless(pattern: str) -> bool:
    """Whether the pattern as a whole ignores case."""
    return bool(_parser.parse(pattern).state.flags & re.IGNORECASE)


def literal_weight(pattern: str) -> int:
    """How much fixed text a match must contain: the measure of how specific a pattern is."""
    return _weight(_parser.parse(pattern))


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> Any:
    """The pattern compiled by :mod:`regex`; kept, since compiling is slow."""
    import regex

    return regex.compile(pattern)


def search(pattern: str, text: str) -> Any:
    """A match of ``pattern`` in ``text`` or None. Raises TimeoutError past :data:`SEARCH_SECONDS`."""
    return compiled(pattern).search(text, timeout=SEARCH_SECONDS)


def _literals(tree: Any) -> set[str] | None:
    """The best set of texts of which every match of ``tree`` contains one."""
    best: set[str] | None = None
    run: list[str] = []

    def better(new: set[str] | None) -> None:
        nonlocal best
        if new and all(new) and (best is None or _worth(new) > _worth(best)):
            best = new

    for op, arg in tree:
        if op is _sre.LITERAL:
            run.append(chr(arg))
            continue
        if run:
            better({"".join(run)})
            run = []
        if op is _sre.SUBPATTERN:
            better(_literals(arg[3]))
        elif op in (_sre.MAX_REPEAT, _sre.MIN_REPEAT, getattr(_sre, "POSSESSIVE_REPEAT", None)):
            if arg[0] > 0:
                better(_literals(arg[2]))
        elif op is _sre.BRANCH:
            sets = [_literals(b) for b in arg[1]]
            if all(sets):
                union: set[str] = set().union(*(s for s in sets if s))
                if len(union) <= _MAX_ALTERNATIVES:
                    better(union)
        elif op is getattr(_sre, "ATOMIC_GROUP", None):
            better(_literals(arg))
    if run:
        better({"".join(run)})
    return best


def _worth(literals: set[str]) -> tuple[int, int]:
    return (min(8, min(map(len, literals))), -len(literals))


def _weight(tree: Any) -> int:
    total = 0
    for op, arg in tree:
        if op is _sre.LITERAL:
            total += 1
        elif op is _sre.SUBPATTERN:
            total += _weight(arg[3])
        elif op in (_sre.MAX_REPEAT, _sre.MIN_REPEAT, getattr(_sre, "POSSESSIVE_REPEAT", None)):
            total += _weight(arg[2]) if arg[0] > 0 else 0
        elif op is _sre.BRANCH:
            total += min((_weight(b) for b in arg[1]), default=0)
        elif op is getattr(_sre, "ATOMIC_GROUP", None):
            total += _weight(arg)
    return total


def _nested_repeat(tree: Any, inside: bool = False) -> str | None:
    """A repeat without bound directly inside another one whose bodies can be confused, as in ``(a+)+``."""
    for op, arg in tree:
        if op in (_sre.MAX_REPEAT, _sre.MIN_REPEAT):
            unbounded = arg[1] is _sre.MAXREPEAT
            body = list(arg[2])
            if inside and unbounded:
                return "a `+` or `*` group within another"
            only = body[0] if len(body) == 1 else None
            if unbounded and only is not None and only[0] in (_sre.MAX_REPEAT, _sre.MIN_REPEAT) and only[1][1] is _sre.MAXREPEAT:
                return "a `+` or `*` group within another"
            if unbounded and only is not None and only[0] is _sre.SUBPATTERN:
                found = _nested_repeat(only[1][3], inside=len(list(only[1][3])) == 1)
                if found:
                    return found
            else:
                found = _nested_repeat(arg[2])
                if found:
                    return found
        elif op is _sre.SUBPATTERN:
            found = _nested_repeat(arg[3], inside and len(list(tree)) == 1)
            if found:
                return found
        elif op is _sre.BRANCH:
            for b in arg[1]:
                found = _nested_repeat(b, inside)
                if found:
                    return found
    return None
