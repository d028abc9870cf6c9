"""Which link of a chain is the root: wrappers come off, then the innermost, unless a rule knows better.

The innermost link is the first that was printed. Another link is preferred only when it says more: its rule is specific
and the inner one's is not, or its rule says that it goes over the inner one's. A launcher's or a remote call's wrapper never
says more than what it wraps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tbparse.dialects.wrappers import LAUNCHER_WRAPPERS, is_wrapper, short
from tbparse.records import Failure, Frame, Link
from tbparse.ruleset.match import Context, Evidence, Match, RuleSet
from tbparse.terms import signal_number

__all__ = ["LAUNCHER_WRAPPERS", "Root", "blame", "entry_frame", "exit_facts", "find_root", "is_wrapper", "short", "verdict_of"]

_CANCELLED = frozenset({"CancelledError"})
_UNFORESEEN = frozenset({"AssertionError", "TypeError", "ZeroDivisionError", "NameError", "UnboundLocalError"})
"""Nobody raises these to say that something was not found: what is raised while they are handled is cleaning up."""
_DIED = re.compile(
    r"died with <Signals\.(?P<name>SIG\w+): (?P<number>\d+)>"
    r"|terminated with signal (?P<name2>SIG\w+)|died with unknown signal (?P<number2>\d+)"
)
_STATUS = re.compile(r"returned non-zero exit status (?P<code>-?\d+)|terminated with exit code (?P<code2>-?\d+)")
_SPAWN_INDEX = re.compile(r"\bprocess (?P<rank>\d+) terminated with")
_SPAWN_RAISED = re.compile(r"-- Process (?P<rank>\d+) terminated with the following error:")
_CHECKPOINT_RANKS = re.compile(r"CheckpointException ranks:dict_keys\(\[(?P<ranks>\d+(?:, \d+)*)\]\)")
_WORKER_SIGNAL = re.compile(r"DataLoader worker \(pid \d+\) is killed by signal: (?P<what>[A-Za-z ]+?)\.")
_WORKER_SIGNALS = {
    "Killed": 9,
    "Bus error": 7,
    "Segmentation fault": 11,
    "Aborted": 6,
    "Terminated": 15,
    "Floating point exception": 8,
    "Illegal instruction": 4,
}


@dataclass(slots=True)
class Root:
    """The link that began a failure, and the rule that names it."""

    index: int
    link: Link
    match: Match | None
    runners: list[Match]
    """Other rules that fitted the link, best first."""
    why: str
    context: Context


def find_root(failure: Failure, rules: RuleSet, evidence: Evidence, notes: list[str]) -> Root:
    """The root link of a failure under these rules."""
    root = _in_links(failure, failure.links, rules, evidence, notes)
    if passes(root, rules):
        root = _raised_from(failure, root, rules)
    if not any(link.leaves for link in failure.links) or not (_cancelled(failure.links) or passes(root, rules)):
        return root
    # A group is transient only if every leaf is; a task that was cancelled for a sibling's sake is no leaf of its own.
    chosen: list[list[Link]] = []
    if _cancelled(failure.links):
        chosen = next((way for way, chain in _other_leaves(failure.links) if not _cancelled(chain)), [])
    for way, chain in _other_leaves(failure.links):
        if not _cancelled(chain) and not passes(_in_links(failure, chain, rules, evidence, notes), rules):
            chosen = way
            break
    for leaf in chosen:
        _swap_leaf(failure, leaf)
    return _in_links(failure, failure.links, rules, evidence, notes) if chosen else root


def passes(root: Root, rules: RuleSet) -> bool:
    """Whether the root's rule, with its qualifiers, calls it transient."""
    return root.match is not None and verdict_of(root.match, root.link, root.context, rules) == "transient"


def _raised_from(failure: Failure, root: Root, rules: RuleSet) -> Root:
    """The root, or an error that lasts and from which a group was raised: it stands between the group and its first leaf."""
    for i in range(root.index - 1, 0, -1):
        link, outer = failure.links[i], failure.links[i - 1]
        if link.relation != "group" or link.leaves or short(link.exception).endswith("Group") or is_wrapper(link):
            continue
        found = rules.matches(link, root.context)
        if outer.relation == "cause" and found and verdict_of(found[0], link, root.context, rules) == "real":
            return Root(i, link, found[0], found[1:], "the group was raised from it, and it does not pass", root.context)
    return root


def _other_leaves(links: Sequence[Link]) -> Iterator[tuple[list[list[Link]], list[Link]]]:
    """Each other leaf of the groups in a chain, however deep: the branches that lead there, and the whole chain to it."""
    for i, link in enumerate(links):
        for leaf in link.leaves:
            yield [leaf], [*links[: i + 1], *leaf]
            for way, deeper in _other_leaves(leaf):
                yield [leaf, *way], [*links[: i + 1], *deeper]


def _cancelled(links: Sequence[Link]) -> bool:
    return any(short(x.exception) in _CANCELLED for x in links)


def _swap_leaf(failure: Failure, leaf: list[Link]) -> None:
    """Make another leaf of the group the one that the chain follows."""
    holder = next(i for i, link in enumerate(failure.links) if any(x is leaf for x in link.leaves))
    old = failure.links[holder + 1 :]
    link = failure.links[holder]
    link.leaves = [old, *[x for x in link.leaves if x is not leaf]]
    failure.links = [*failure.links[: holder + 1], *leaf]


def _in_links(failure: Failure, links: Sequence[Link], rules: RuleSet, evidence: Evidence, notes: list[str]) -> Root:
    context = Context(failure, links, evidence, notes)
    inner = len(links) - 1
    while inner > 0 and is_wrapper(links[inner]):
        inner -= 1
    chosen = links[inner]
    ranked = rules.matches(chosen, context)
    best = ranked[0] if ranked else None
    why = "the innermost exception" if len(links) > 1 else "the exception"
    index = inner
    for i in range(inner - 1, -1, -1):
        outer = links[i]
        if outer.relation not in ("cause", "context") or is_wrapper(outer):
            break  # what a wrapper, a remote call or a group raised says less than what it holds
        other = rules.matches(outer, context)
        if not other or other[0].rule.generic:
            continue
        top = other[0]
        stated = outer.relation == "cause" or short(chosen.exception) in _UNFORESEEN
        if stated and best is not None and _lasts(best, chosen, top, outer, context, rules):
            continue
        if outer.relation == "context" and _cleaning(outer):
            continue  # what failed while the first error unwound cannot explain it
        weak = best is None or best.rule.generic
        if weak or (best is not None and top.rule.beats(best.rule) and not best.rule.beats(top.rule)):
            index, chosen, best, ranked = i, outer, top, other
            why = f"its rule ({top.rule.id}) says more than the exceptions inside it"
    return Root(index, chosen, best, ranked[1:], why, context)


def _lasts(inner: Match, link: Link, outer: Match, around: Link, context: Context, rules: RuleSet) -> bool:
    """Whether an error that lasts is the cause of one that would pass: then running again helps nothing, however much more the
    latter says. ``raise … from`` states it; what was merely being handled (a cache that misses) does not."""
    return verdict_of(inner, link, context, rules) == "real" and verdict_of(outer, around, context, rules) == "transient"


def verdict_of(match: Match, link: Link, context: Context, rules: RuleSet) -> str:
    """The verdict of a link's rule, with its qualifiers."""
    turned = rules.qualify(match, link, context)
    return str((turned and turned.get("verdict")) or match.rule.verdict)


def _cleaning(link: Link) -> bool:
    """Whether the exception was raised by a context manager's exit (a folder that could not be removed, a file not closed)."""
    return any(x.function in ("__exit__", "__aexit__") and not x.path.endswith("contextlib.py") for x in link.frames)


def exit_facts(failure: Failure) -> None:
    """Set signal, exit code and rank of a failure out of its messages, where a wrapper's or a pool's text tells them."""
    for link in failure.links:
        message = link.message or ""
        died = _DIED.search(message)
        if died and failure.signal is None:
            name = died["name"] or died["name2"]
            failure.signal = signal_number(name) if name else int(died["number2"])
        status = _STATUS.search(message)
        if status and failure.exit_code is None:
            code = int(status["code"] or status["code2"])
            failure.exit_code = code
            # 129 is rather a program's own: git ends so when it is called wrongly.
            if failure.signal is None and (129 < code < 160 or code < 0):
                failure.signal = code - 128 if code > 0 else -code
        spawn = _SPAWN_INDEX.search(message)
        if spawn and failure.rank_hint is None:
            failure.rank_hint = int(spawn["rank"])
        raised = _SPAWN_RAISED.search(message)
        if raised and failure.rank_hint is None:
            failure.rank_hint = int(raised["rank"])
        told = _CHECKPOINT_RANKS.search(message)
        if told is not None:  # every rank raises it, with the errors of those that failed
            ranks = [int(x) for x in told["ranks"].split(", ")]
            if link.rank is None and failure.rank not in ranks:
                link.rank = ranks[0]
        worker = _WORKER_SIGNAL.search(message)
        if worker and failure.signal is None:
            failure.signal = _WORKER_SIGNALS.get(worker["what"])


def blame(links: Sequence[Link], index: int) -> tuple[Frame | None, int]:
    """Deepest user frame of the root link; without one, of the nearest link around it. Also that link's index."""
    for i in range(index, -1, -1):
        found = _deepest(links[i])
        if found is not None:
            return found, i
    return None, index


def _deepest(link: Link) -> Frame | None:
    user = [x for x in link.frames if x.origin == "user" and not x.plumbing]
    if not user:
        return None
    hinted = [x for x in user if x.hint_user]
    if hinted:
        return hinted[-1]
    if short(link.exception) == "RecursionError" or "maximum recursion depth" in (link.message or ""):
        return _cycle_start(user)
    return user[-1]


def _cycle_start(frames: Sequence[Frame]) -> Frame:
    """The first user frame that comes again: where the recursion goes round."""
    seen: dict[tuple[str, int | None], int] = {}
    for frame in frames:
        key = (frame.path, frame.line)
        seen[key] = seen.get(key, 0) + 1
    return next((x for x in frames if seen[x.path, x.line] > 1), frames[-1])


def entry_frame(links: Sequence[Link]) -> Frame | None:
    """First user frame, walking outside-in."""
    for link in links:
        for frame in link.frames:
            if frame.origin == "user" and not frame.plumbing:
                return frame
    return None
