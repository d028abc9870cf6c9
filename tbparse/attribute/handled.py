"""Tracebacks that a rank printed and outlived, told by what the whole job shows.

In the console of many ranks a rank's next progress line may stand hundreds of lines below its traceback, too far to be
looked for. What its process did later tells the same: an exception can leave a program only once, so of two that one rank
printed the earlier was handled; and a rank that the launcher had to stop had not ended by itself.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from tbparse.attribute.cascade import Candidate, Tier
from tbparse.attribute.sameness import raised_at
from tbparse.attribute.unwrap import passes, short
from tbparse.records import Failure, RankExit
from tbparse.ruleset.match import RuleSet

_WENT_ON = "the same rank went on, and ended by something else"
_CRASHES = frozenset({4, 7, 8, 11})
_HANDLED_ELSEWHERE = "another rank handled the same error and went on"
_NOT_THE_END = "it did not leave the program's top, as the error that ended another rank did"

Writer = int | str
"""A rank, or the key of a writer whose rank nothing tells."""


def demote_handled(candidates: Sequence[Candidate], exits: Sequence[RankExit], rules: RuleSet) -> None:
    """Lower the tier of local errors that their ranks handled, where another rank's error or death explains the job's end."""
    locals_ = [c for c in candidates if c.tier is Tier.LOCAL and c.failure.kind == "traceback"]
    doubtful = [c for c in locals_ if not any(_left(x) for x in _all(c))]
    if not doubtful:
        return
    who = _Writers(candidates)
    ended = [(c, who.of(c)) for c in locals_ if any(_left(x) for x in _all(c))]
    deaths = [
        c
        for c in candidates
        if c.tier in (Tier.DEATH, Tier.CRASH) or (c.failure.kind == "launcher" and c.failure.signal in _CRASHES)
    ]
    ends = _ends(candidates, who)
    survived = {raised_at(c.root.link) for c in candidates if c.failure.fate == "survived"}
    stopped = {e.rank for e in exits if e.exit_code == -15}
    for c in doubtful:
        copies = list(_all(c))
        mine = {who.who(x) for x in copies}
        if None in mine:
            continue  # nothing tells one writer from the others
        others = [x for x, theirs in ended if not theirs <= mine]
        later = [x for x, theirs in ended if theirs <= mine]  # of the same rank, printed when it really ended
        explained = others or later or any(who.who(d.failure) not in mine for d in deaths)
        # What lasts never gives way to what may pass: a wrong retry costs more than a wrong name.
        safe = passes(c.root, rules) or not any(passes(x.root, rules) for x in (*others, *later))
        if not explained or not (others or safe):
            continue
        outlived = [_outlived(x, ends, stopped, who) for x in copies]
        if all(outlived):
            c.tier, c.why = Tier.DEMOTED, _WENT_ON
        elif safe and raised_at(c.root.link) in survived and not any(passes(d.root, rules) for d in deaths):
            c.tier, c.why = Tier.DEMOTED, _HANDLED_ELSEWHERE
        elif safe and all(out or _another(ended, who.who(x)) for x, out in zip(copies, outlived, strict=True)):
            c.tier, c.why = Tier.DEMOTED, _NOT_THE_END


def _another(ended: Sequence[tuple[Candidate, set[Writer | None]]], writer: Writer | None) -> bool:
    """Whether another writer printed an error that left its program's top."""
    return any(theirs - {writer} for _, theirs in ended)


def may_have_ended(candidate: Candidate, candidates: Sequence[Candidate], exits: Sequence[RankExit]) -> bool:
    """Whether a traceback that looked survived can be the exception with which some worker ended, by the launcher's table."""
    failing: set[Writer | None] = {e.rank for e in exits if e.exit_code is not None and e.exit_code > 0}
    if None in failing:
        return True
    who = _Writers(candidates)
    told: set[Writer | None] = set()
    for c in candidates:
        if c.tier < Tier.CLOSING and c.failure.kind in ("traceback", "native", "fault"):
            told |= {who.who(x) for x in _all(c) if not x.in_summary}
    untold = failing - told
    return bool(untold) and any(w is None or isinstance(w, str) or w in untold for w in who.of(candidate))


class _Writers:
    """Who printed a failure: its rank, else the process that its prefix names; a process whose rank is known is that rank."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._ranks: dict[str, int] = {}
        for c in candidates:
            for x in _all(c):
                if x.rank is not None and x.stream and x.kind != "launcher":
                    self._ranks[_bare(x)] = x.rank

    def who(self, failure: Failure) -> Writer | None:
        if failure.rank is not None:
            return failure.rank
        bare = _bare(failure)
        return self._ranks.get(bare, bare or None)

    def of(self, candidate: Candidate) -> set[Writer | None]:
        return {self.who(x) for x in _all(candidate)}


def _bare(failure: Failure) -> str:
    """The writer's key without torch's own rank, which stands before some of its lines only."""
    key = failure.tags.process or failure.stream
    return _OWN_RANK.sub("", key) if "rank" in failure.first.shape.split("+") else key


_OWN_RANK = re.compile(r"\[\d+\]$")


def _all(candidate: Candidate) -> Iterator[Failure]:
    yield candidate.failure
    yield from candidate.twins


def _left(failure: Failure) -> bool:
    """Printed as what left a program's top: from the script's first line on, or in a launcher's summary or error file."""
    if failure.in_summary or (failure.source or "").endswith("error.json"):
        return True
    frames = [x for x in failure.links[0].frames if x.origin != "launcher"]
    return bool(frames) and frames[0].function == "<module>"


Ends = dict[tuple[str | None, int | None, Writer | None], list[tuple[int, str | None]]]


def _ends(candidates: Sequence[Candidate], who: _Writers) -> Ends:
    """By log, attempt and writer: where failures stand that ended a process, and their types."""
    out: Ends = defaultdict(list)
    for c in candidates:
        if c.tier > Tier.EFFECT or c.failure.kind not in ("traceback", "native"):
            continue
        for x in _all(c):
            if x.kind == "native" or (_left(x) and not x.in_summary):
                out[x.source, x.attempt, who.who(x)].append((x.first.start, short(x.root.exception)))
    return out


def _outlived(failure: Failure, ends: Ends, stopped: set[int | None], who: _Writers) -> bool:
    writer = who.who(failure)
    if isinstance(writer, int) and writer in stopped:
        return True
    own = short(failure.root.exception)
    later = ends.get((failure.source, failure.attempt, writer), ())
    return any(start > failure.first.start and kind != own for start, kind in later)
