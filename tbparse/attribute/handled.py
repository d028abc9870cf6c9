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
from tbparse.attribute.unwrap import passes, short
from tbparse.records import Failure, RankExit
from tbparse.ruleset.match import RuleSet

_WENT_ON = "the same rank went on, and ended by something else"
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
    deaths = [c for c in candidates if c.tier in (Tier.DEATH, Tier.CRASH)]
    ends = _ends(candidates, who)
    stopped = {e.rank for e in exits if e.exit_code == -15}
    for c in doubtful:
        mine = who.of(c)
        if None in mine:
            continue  # nothing tells one writer from the others
        others = [x for x, theirs in ended if not theirs <= mine]
        later = [x for x, theirs in ended if theirs <= mine]  # of the same rank, printed when it really ended
        explained = others or later or any(who.who(d.failure) not in mine for d in deaths)
        safe = passes(c.root, rules) or not any(passes(x.root, rules) for x in (*others, *later))
        # What lasts never gives way to what may pass: a wrong retry costs more than a wrong name.
        if explained and (others or safe) and all(_outlived(x, ends, stopped, who) for x in _all(c)):
            c.tier, c.why = Tier.DEMOTED, _WENT_ON
        elif others and safe:
            c.tier, c.why = Tier.DEMOTED, _NOT_THE_END


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
    return any(w is None or isinstance(w, str) or w in failing - told for w in who.of(candidate))


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
    return _OWN_RANK.sub("", failure.tags.process or failure.stream)


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
