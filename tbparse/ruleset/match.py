"""Which rule names a failure: structure first, lines second, the most specific wins.

Rules are indexed by exception type; of the others only those are looked at whose literal stands in the message. A
rule's pattern is compiled when it is first needed, and searched with a time limit: a rule that runs out of time is
skipped, and the answer says so.
"""

from __future__ import annotations

import builtins
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeAlias

from tbparse.records import Failure, Link
from tbparse.ruleset import patterns
from tbparse.ruleset.patterns import MIN_LITERAL
from tbparse.terms import Scalar, signal_name
from tbparse.text.needles import Haystack
from tbparse.text.quotes import mentioned, quoted

if TYPE_CHECKING:
    from tbparse.model import Retry
    from tbparse.ruleset.schema import SiteFile

MAX_MESSAGE_CHARS = 32_768
"""Longer messages are searched in their head and tail."""
SHORT_MESSAGE = 400
"""In messages up to this length literals are looked up by where they begin, in longer ones they are searched."""


@dataclass(slots=True)
class Context:
    """What a matcher may ask besides the link: the failure, and lines around it."""

    failure: Failure
    links: Sequence[Link]
    evidence: Evidence
    notes: list[str] = field(default_factory=list)


class Evidence:
    """Single lines of the log, outside tracebacks, that rules' line patterns are searched in."""

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self.texts = texts

    @cached_property
    def words(self) -> Haystack:
        return Haystack(self.texts)

    @cached_property
    def lower(self) -> Haystack:
        return self.words.lower()

    @cached_property
    def _starts(self) -> tuple[list[int], list[int]]:
        """Where each text begins in :attr:`words` and in :attr:`lower`."""
        exact, lower = (map(len, self.texts), map(len, map(str.lower, self.texts)))
        return tuple(list(accumulate(map((1).__add__, sizes), initial=0)) for sizes in (exact, lower))  # type: ignore[return-value]

    def _holding(self, hay: str, literals: Sequence[str], starts: Sequence[int]) -> list[int]:
        """Indices of the texts that hold one of the literals, in order."""
        found: set[int] = set()
        for literal in literals:
            at = hay.find(literal)
            while at >= 0:
                i = bisect_right(starts, at) - 1
                found.add(i)
                at = hay.find(literal, starts[i + 1])
        return sorted(found)

    def find(self, pattern: str, literals: Sequence[str] | None, caseless: bool) -> tuple[int, Any] | None:
        """Index and match of the first line that the pattern matches. Raises TimeoutError."""
        if literals is not None:
            hay = self.lower if caseless else self.words
            there = [x for x in literals if hay.holds(x)]
            for i in self._holding(hay.text, there, self._starts[caseless]) if there else ():
                m = patterns.search(pattern, self.texts[i])
                if m is not None and not mentioned(self.texts[i], m.start()):
                    return i, m
            return None
        for i, text in enumerate(self.texts):
            m = patterns.search(pattern, text)
            if m is not None and not mentioned(text, m.start()):
                return i, m
        return None


@dataclass(slots=True)
class Match:
    """A rule that fits, with what decided and what it captured (raw texts by name)."""

    rule: PackedRule
    specificity: int
    groups: dict[str, str] = field(default_factory=dict)
    line_index: int | None = None
    by: str = ""
    known_as: str | None = None
    """The base of the exception's type that the rule knows, where it does not know the type itself."""


class PackedRule:
    """A rule as the engine uses it; see :mod:`tbparse.ruleset.schema` for the meaning of its parts."""

    __slots__ = (
        "advice",
        "captures",
        "category",
        "data",
        "fatal",
        "generic",
        "id",
        "match",
        "may_retry",
        "over",
        "qualifiers",
        "retry",
        "symptom",
        "title",
        "unless",
        "verdict",
    )

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.id: str = data["id"]
        self.title: str = data["title"]
        self.category: str = data["category"]
        self.verdict: str = data["verdict"]
        self.symptom: bool = data.get("symptom", False)
        self.fatal: bool = data.get("fatal", False)
        self.generic: bool = data.get("generic", False)
        self.match: list[dict[str, Any]] = data["match"]
        self.unless: list[dict[str, Any]] = data.get("unless", [])
        self.over: list[str] = data.get("over") or []
        self.captures: dict[str, str] = data.get("captures", {})
        self.qualifiers: list[dict[str, Any]] = data.get("qualifiers", [])
        self.advice: list[str] = data.get("advice", [])
        self.retry: dict[str, Any] | None = data.get("retry")
        self.may_retry = self.verdict == "transient" or any(q.get("verdict") == "transient" for q in self.qualifiers)

    def beats(self, other: PackedRule) -> bool:
        """Whether this rule says that it goes over the other."""
        return any(o == other.id or (o.endswith("/*") and other.id.startswith(o[:-1])) for o in self.over)


Matcher: TypeAlias = tuple[PackedRule, dict[str, Any]]

_LINE_KEYS = frozenset({"line", "line_literals", "line_caseless", "specificity"})


PROGRAMMING = frozenset(
    {
        "TypeError", "NameError", "UnboundLocalError", "AttributeError", "KeyError", "IndexError", "SyntaxError",
        "IndentationError", "TabError", "ZeroDivisionError", "NotImplementedError", "RecursionError",
    }
)  # fmt: skip
"""Types that a bug raises. What else their message quotes does not make them worth a retry."""


class _Index:
    """Matchers by what must be there for them to fit: a literal in the message, or else the failure's kind and a signal."""

    def __init__(self) -> None:
        self.matchers: list[Matcher] = []

    @cached_property
    def _by_literal(self) -> tuple[list[tuple[str, int]], list[tuple[str, int]], list[int]]:
        """Literals with the matchers that need one of them, as they are and in lower case; and the matchers without any."""
        exact: list[tuple[str, int]] = []
        lower: list[tuple[str, int]] = []
        free: list[int] = []
        for i, (_, m) in enumerate(self.matchers):
            literals = m.get("message_literals")
            if literals is None:
                free.append(i)
            else:
                (lower if m["message_caseless"] else exact).extend((x, i) for x in literals)
        return exact, lower, free

    @cached_property
    def _by_start(self) -> tuple[dict[str, list[tuple[str, int]]], dict[str, list[tuple[str, int]]]]:
        """The literals of :attr:`_by_literal` by their first characters."""
        exact, lower, _ = self._by_literal
        return _by_start(exact), _by_start(lower)

    def _hits(self, message: str, low: str) -> set[int]:
        """Matchers of which a literal stands in the message."""
        if len(message) > SHORT_MESSAGE:
            exact, lower, _ = self._by_literal
            return {i for x, i in exact if x in message} | {i for x, i in lower if x in low}
        hits: set[int] = set()
        for text, starts in zip((message, low), self._by_start, strict=True):
            for at in range(len(text) - MIN_LITERAL + 1) if starts else ():
                for literal, i in starts.get(text[at : at + MIN_LITERAL], ()):
                    if text.startswith(literal, at):
                        hits.add(i)
        return hits

    @cached_property
    def _by_kind(self) -> dict[tuple[str, bool], list[int]]:
        return {}

    def select(self, message: str, low: str, failure: Failure) -> Iterator[Matcher]:
        """Those that may fit, in the order in which they were added; ``low`` is the message in lower case."""
        _, _, free = self._by_literal
        key = failure.kind, failure.signal is not None
        fits = self._by_kind.get(key)
        if fits is None:
            fits = self._by_kind[key] = [i for i in free if _may_fit(self.matchers[i][1], *key)]
        hits = self._hits(message, low)
        if hits:
            hits.update(fits)
            fits = sorted(hits)
        for i in fits:
            yield self.matchers[i]


def _by_start(literals: Iterable[tuple[str, int]]) -> dict[str, list[tuple[str, int]]]:
    out: dict[str, list[tuple[str, int]]] = {}
    for literal, i in literals:
        out.setdefault(literal[:MIN_LITERAL], []).append((literal, i))
    return out


def _may_fit(m: dict[str, Any], kind: str, signalled: bool) -> bool:
    return ("kind" not in m or kind in m["kind"]) and ("signal" not in m or signalled)


class RuleSet:
    """All rules, indexed. ``notes`` collects what had to be skipped while it was used."""

    def __init__(self, rules: Iterable[PackedRule]) -> None:
        self.rules = list(rules)
        self.by_id = {r.id: r for r in self.rules}
        self._typed: dict[str, _Index] = {}
        self._untyped = _Index()
        self.line_rules: list[Matcher] = []
        for rule in self.rules:
            for m in rule.match:
                if m.keys() <= _LINE_KEYS:
                    self.line_rules.append((rule, m))
                elif "type" in m:
                    for name in {t.rpartition(".")[2] for t in m["type"]}:
                        self._typed.setdefault(name, _Index()).matchers.append((rule, m))
                else:
                    self._untyped.matchers.append((rule, m))

    @cached_property
    def line_literals(self) -> tuple[str, ...]:
        """Texts that rules' line patterns need to see, as far as they can be named."""
        return tuple(sorted({x for _, m in self.line_rules if not m.get("line_caseless") for x in m.get("line_literals") or ()}))

    def _candidates(self, name: str, message: str, failure: Failure) -> Iterator[Matcher]:
        """Matchers that could fit by type, by the literals of the message, and by the failure's kind."""
        low = message.lower()
        typed = self._typed.get(name)
        if typed is not None:
            yield from typed.select(message, low, failure)
        yield from self._untyped.select(message, low, failure)

    def matches(self, link: Link, context: Context) -> list[Match]:
        """Every rule that fits the link, best first: by its own type, else by the nearest base of it that a rule knows."""
        ranked = self._matches(link, context)
        for base in (link.bases or _builtin_bases(link.exception)) if not ranked else ():
            ranked = [replace(m, known_as=base) for m in self._matches(*_as(base, link, context))]
            if ranked:
                break
        return ranked

    def _matches(self, link: Link, context: Context) -> list[Match]:
        found: dict[str, Match] = {}
        name = (link.exception or "").rpartition(".")[2]
        bug = name in PROGRAMMING or not PROGRAMMING.isdisjoint(link.bases)
        message = _bounded(link.message or "")
        for rule, m in self._candidates(name, message, context.failure):
            if bug and "type" not in m and rule.may_retry:
                continue
            try:
                match = self._try(rule, m, link, message, context, own=True)
                if match is None or any(self._try(rule, u, link, message, context) for u in rule.unless):
                    continue
            except TimeoutError:
                if _skipped(rule) not in context.notes:
                    context.notes.append(_skipped(rule))
                continue
            old = found.get(rule.id)
            if old is None or match.specificity > old.specificity:
                found[rule.id] = match
        return self._ranked(found.values())

    def _ranked(self, found: Iterable[Match]) -> list[Match]:
        ranked = sorted(found, key=lambda m: (m.rule.generic, -m.specificity, m.rule.id))
        for _ in range(len(ranked)):  # `over` moves a rule before what it names, whatever the scores
            for i in range(1, len(ranked)):
                if any(ranked[i].rule.beats(ranked[j].rule) for j in range(i)):
                    j = next(j for j in range(i) if ranked[i].rule.beats(ranked[j].rule))
                    ranked.insert(j, ranked.pop(i))
                    break
            else:
                break
        return ranked

    def _try(
        self, rule: PackedRule, m: dict[str, Any], link: Link, message: str, context: Context, *, own: bool = False
    ) -> Match | None:
        """``own``: a matcher without a type does not match what the message of an exception only quotes."""
        failure = context.failure
        if "type" in m and not any(type_fits(t, link.exception) for t in m["type"]):
            return None
        if "kind" in m and failure.kind not in m["kind"]:
            return None
        if "signal" in m and (failure.signal is None or signal_name(failure.signal) not in m["signal"]):
            return None
        if "exit_code" in m and failure.exit_code not in m["exit_code"]:
            return None
        if "launcher" in m and failure.launcher not in m["launcher"]:
            return None
        if "chain" in m and not any(type_fits(t, x.exception) for t in m["chain"] for x in context.links if x is not link):
            return None
        groups: dict[str, str] = {}
        by = []
        if "message" in m:
            found = patterns.search(m["message"], message)
            if found is None or (own and "type" not in m and link.exception and quoted(message, found.start(), prose=True)):
                return None
            groups |= {k: v for k, v in found.groupdict().items() if v is not None}
            by.append("message")
        if "frame" in m:
            found = next((x for x in (patterns.search(m["frame"], f) for f in _frame_texts(link)) if x), None)
            if found is None:
                return None
            groups |= {k: v for k, v in found.groupdict().items() if v is not None}
            by.append("frame")
        index = None
        if "line" in m:
            hit = context.evidence.find(m["line"], m.get("line_literals"), m.get("line_caseless", False))
            if hit is None:
                return None
            index = hit[0]
            groups |= {k: v for k, v in hit[1].groupdict().items() if v is not None}
            by.append("line")
        if "type" in m:
            by.insert(0, "type")
        return Match(rule, m["specificity"], groups, index, "+".join(by) or "structure")

    def line_matches(self, evidence: Evidence, *, fatal: bool, notes: list[str]) -> Iterator[tuple[int, Match]]:
        """Rules that know single lines, with the index of the first line of each."""
        if not evidence.texts:
            return
        seen: set[str] = set()
        for rule, m in self.line_rules:
            if rule.fatal != fatal or rule.id in seen:
                continue
            try:
                hit = evidence.find(m["line"], m.get("line_literals"), m.get("line_caseless", False))
                if hit is None or any(
                    "line" in u and evidence.find(u["line"], u.get("line_literals"), u.get("line_caseless", False))
                    for u in rule.unless
                ):
                    continue
            except TimeoutError:
                notes.append(_skipped(rule))
                continue
            seen.add(rule.id)
            groups = {k: v for k, v in hit[1].groupdict().items() if v is not None}
            yield hit[0], Match(rule, m["specificity"], groups, hit[0], "line")

    def qualify(self, match: Match, link: Link, context: Context) -> dict[str, Any] | None:
        """The first qualifier of the matched rule that holds; its groups are added to the match."""
        if match.known_as is not None:
            link, context = _as(match.known_as, link, context)
        message = _bounded(link.message or "")
        for q in match.rule.qualifiers:
            for when in q["when"]:
                try:
                    found = self._try(match.rule, when, link, message, context)
                except TimeoutError:
                    context.notes.append(f"a qualifier of rule {match.rule.id} was skipped: its pattern took too long")
                    continue
                if found is not None:
                    match.groups |= found.groups
                    return q
        return None


def _as(base: str, link: Link, context: Context) -> tuple[Link, Context]:
    """The link, and the context around it, as if the exception were of a base of its type."""
    shown = replace(link, exception=base)
    return shown, Context(context.failure, [shown if x is link else x for x in context.links], context.evidence, context.notes)


def _skipped(rule: PackedRule) -> str:
    return f"rule {rule.id} was skipped: its pattern took longer than {patterns.SEARCH_SECONDS} s on this text"


_BUILTINS = frozenset(n for n, v in vars(builtins).items() if isinstance(v, type) and issubclass(v, BaseException))


def _builtin_bases(name: str | None) -> tuple[str, ...]:
    """What one of Python's own exceptions derives from, nearest first: the text itself tells that."""
    if name not in _BUILTINS:
        return ()
    bases = getattr(builtins, name).__mro__[1:]
    return tuple(b.__name__ for b in bases if b.__name__ in _BUILTINS and b not in (Exception, BaseException))


def type_fits(wanted: str, printed: str | None) -> bool:
    """``KeyError`` fits any type of that last name; a dotted name fits itself, its tail, and its bare last name."""
    if printed is None:
        return False
    if wanted == printed:
        return True
    if "." not in wanted:
        return printed.rpartition(".")[2] == wanted
    if "." not in printed:
        if printed in _BUILTINS:  # Python's own types are printed without a module; a package's namesake is another type
            return False
        return wanted.rpartition(".")[2] == printed
    return printed.endswith(f".{wanted}") or wanted.endswith(f".{printed}")


def _frame_texts(link: Link) -> Iterator[str]:
    for frame in link.frames:
        path = frame.path.replace("\\", "/")
        yield f"{path}:{frame.line} in {frame.function}"


def _bounded(text: str) -> str:
    if len(text) <= MAX_MESSAGE_CHARS:
        return text
    half = MAX_MESSAGE_CHARS // 2
    return f"{text[:half]}\n{text[-half:]}"


_UNITS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15, "e": 10**18}
_BINARY = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50, "e": 2**60}
_SIZE = re.compile(r"^\s*([\d.,]*\d)\.?\s*(?:([kmgtpe])(i)?)?(?:b(?:ytes?)?)?\s*$", re.IGNORECASE)
_TIME = re.compile(r"^\s*([\d.,]*\d)\s*(ms|milliseconds?|us|s|sec(?:onds?)?|m|min(?:utes?)?|h|hours?)?\s*$", re.IGNORECASE)
_CLOCK = re.compile(r"^\s*(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?\s*$")
_SECONDS = {"ms": 1e-3, "mi": 60.0, "us": 1e-6, "s": 1.0, "se": 1.0, "m": 60.0, "h": 3600.0, "ho": 3600.0, "": 1.0}


def convert(text: str, kind: str) -> Scalar | tuple[Scalar, ...]:
    """A captured text as its type; text that does not fit stays text."""
    try:
        return _convert(text, kind)
    except (ValueError, OverflowError):
        return text


def _convert(text: str, kind: str) -> Scalar | tuple[Scalar, ...]:
    if kind == "bytes":
        m = _SIZE.match(text)
        if m:
            unit = (m[2] or "").lower()
            # Allocators print KiB and mean it; Slurm's and the kernel's bare K, M, G are binary too.
            factor = _BINARY.get(unit, 1) if m[3] or not text.lower().rstrip().endswith("b") else _UNITS[unit]
            return int(float(m[1].replace(",", "")) * factor)
    elif kind == "seconds":
        m = _TIME.match(text)
        if m:
            unit = (m[2] or "").lower()
            key = (
                "ms"
                if unit.startswith(("ms", "milli"))
                else "mi"
                if unit.startswith("min")
                else unit[:2]
                if unit[:2] in _SECONDS
                else unit[:1]
            )
            return float(m[1].replace(",", "")) * _SECONDS.get(key, 1.0)
        m = _CLOCK.match(text)
        if m:
            return float(int(m[1] or 0) * 86400 + int(m[2] or 0) * 3600 + int(m[3]) * 60 + int(m[4]))
    elif kind == "int":
        try:
            return int(text.replace(",", ""), 0 if text.lower().startswith("0x") else 10)
        except ValueError:
            return text
    elif kind == "float":
        try:
            return float(text.replace(",", ""))
        except ValueError:
            return text
    elif kind == "list":
        return tuple(x.strip(" '\"") for x in re.split(r"[,\s]+", text.strip("[](){} ")) if x.strip(" '\""))
    return text


def default_retry(verdict: str) -> Retry:
    """What to do where the rule does not say: a transient failure is tried again a few times, anything else is not."""
    from tbparse.model import Retry

    return Retry(**retry_values(None, verdict))


def retry_values(retry: dict[str, Any] | None, verdict: str) -> dict[str, Any]:
    """What a rule says of trying again, or :func:`default_retry` where it does not say, as values of the answer's ``retry``."""
    if not retry and verdict == "transient":
        return {"action": "retry", "delay_s": 30.0, "max": 3}
    return {"action": "stop", "delay_s": 0.0, "max": 0, **(retry or {})}


def builtin_rules(profile: str = "job") -> RuleSet:
    """The built-in rules under a profile. Raises UsageError for a profile that does not exist."""
    return _builtin(profile)


@lru_cache(maxsize=8)
def _builtin(profile: str) -> RuleSet:
    from tbparse.ruleset.store import load_packed

    return RuleSet(apply_profile([PackedRule(d) for d in load_packed()], profile))


def apply_profile(rules: list[PackedRule], profile: str) -> list[PackedRule]:
    """The rules with the overrides of a profile."""
    if profile == "job":
        return rules
    from tbparse.errors import UsageError
    from tbparse.ruleset.store import PROFILES, profile_path

    path = profile_path(profile)
    if not path.is_file():
        known = ", ".join(["job", *sorted(p.stem for p in PROFILES.glob("*.yaml"))])
        raise UsageError(f"no profile `{profile}`: choose one of {known}")
    from tbparse.ruleset.pack import read_site

    return changed(rules, read_site(path))


def changed(rules: Iterable[PackedRule], site: SiteFile) -> list[PackedRule]:
    """The rules with a site file's changes: some left out, parts of others overridden, more that forbids a match."""
    from tbparse.ruleset.pack import pack_matcher

    filters = [(f.rules, [pack_matcher(m) for m in f.unless]) for f in site.filters]
    out = []
    for rule in rules:
        if any(_names(d, rule.id) for d in site.disable):
            continue
        for key, override in site.override.items():
            if _names(key, rule.id):
                changes = override.model_dump(mode="json", exclude_none=True)
                rule = PackedRule({**rule.data, **changes, "qualifiers": [] if "verdict" in changes else rule.qualifiers})
        more = [u for names, unless in filters if any(_names(n, rule.id) for n in names) for u in unless]
        if more:
            rule = PackedRule({**rule.data, "unless": [*rule.unless, *more]})
        out.append(rule)
    return out


def _names(key: str, rule_id: str) -> bool:
    return key == rule_id or (key.endswith("/*") and rule_id.startswith(key[:-1]))
