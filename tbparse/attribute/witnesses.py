"""Who can say where a job's failure began: small witnesses, each of which says what it saw.

A :class:`Witness` looks at everything that was found (:class:`Case`) and makes statements. A statement may accuse a failure, name a
rank, or only tell something. :mod:`tbparse.attribute.judge` hears them in the order of :data:`WITNESSES`, which is the order
of evidence: what the scheduler and the kernel say, then what a rank raised in its own code, then how workers ended, then what the
collectives show, and last what is only an effect or a closing word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tbparse.attribute.cascade import TIER_WORDS, Candidate, Tier
from tbparse.attribute.clocks import Clocks
from tbparse.attribute.facts import Facts, show_ranks
from tbparse.records import Line, RankExit
from tbparse.terms import signal_name

if TYPE_CHECKING:
    from tbparse.attribute.hang import Absence, Disagreement


class Statement(NamedTuple):
    """What a witness saw. ``accuses`` is the failure that it takes for the beginning, if any; ``rank`` whom it is about."""

    witness: str
    claim: str
    rank: int | None = None
    line: Line | None = None
    source: str | None = None
    accuses: Candidate | None = None


@dataclass
class Case:
    """Everything that witnesses are asked about. ``ranked`` are the failures, strongest first (see ``judge.rank_order``)."""

    ranked: list[Candidate]
    exits: Sequence[RankExit]
    facts: Facts
    failed: bool | None
    """Whether the job is known to have failed."""
    clocks: Clocks = field(default_factory=lambda: Clocks({}))
    times: dict[int, float] = field(default_factory=dict)
    """Seconds on one scale, by ``id`` of a candidate, where the log tells."""
    absences: list[Absence] = field(default_factory=list)
    disagreement: Disagreement | None = None
    attempts: dict[int, list[Candidate]] = field(default_factory=dict)

    def of(self, *tiers: Tier) -> list[Candidate]:
        """Failures of these tiers that may have ended the job, in their order."""
        return [c for c in self.ranked if c.tier in tiers and not self._excused(c)]

    def _excused(self, c: Candidate) -> bool:
        if self.failed is False and not c.failure.caught:
            return True
        return self.failed is None and c.tier >= Tier.DEMOTED and c.failure.fate == "survived"


class Witness(NamedTuple):
    """A name, and the question that it is asked."""

    name: str
    ask: Callable[[Case], Iterable[Statement]]


def scheduler_and_kernel(case: Case) -> Iterable[Statement]:
    """Preemption, time limits, node failures, the OOM killer, Xid: they come from outside and end any process."""
    yield from _accuse("scheduler and kernel lines", case.of(Tier.SYSTEM))


def local_exceptions(case: Case) -> Iterable[Statement]:
    """A rank that raised in its own code, over ranks that failed inside a collective, whatever the order of lines."""
    found = case.of(Tier.LOCAL)
    yield from _accuse("local exceptions", found)
    if len(found) > 1 and (first := case.times.get(id(found[0]))) is not None:
        rest = [t - first for c in found[1:] if (t := case.times.get(id(c))) is not None]
        if rest and min(rest) >= 0:
            claim = f"of {len(found)} local exceptions this one has the earliest time, {min(rest):.1f} s before the next"
            yield Statement("times", claim, found[0].failure.rank, found[0].root.link.line, found[0].failure.source)


def crashes(case: Case) -> Iterable[Statement]:
    """Native code that aborted, and exception lines whose traceback is lost."""
    yield from _accuse("native crashes", case.of(Tier.CRASH))
    yield from _accuse("bare exception lines", case.of(Tier.BARE))


def error_files(case: Case) -> Iterable[Statement]:
    """torch elastic's error files, and what the launcher's summary quotes of them: the earliest is the first that was written."""
    files = [
        (c, x)
        for c in case.ranked
        for x in (c.failure, *c.twins)
        if x.in_summary or (x.source or "").endswith("error.json")
        if x.kind == "traceback"
    ]
    timed = [(t, c, x) for c, x in files if (t := _seconds(case, x.tags.time, x.tags.host)) is not None]
    if not timed:
        return
    _, c, x = min(timed, key=lambda item: item[0])
    same = sum(1 for t, _, _ in timed if t == min(timed, key=lambda item: item[0])[0])
    tie = f", as have {same - 1} others" if same > 1 else ""
    yield Statement("error files", f"{_who(x.rank)} has the earliest error file{tie}: {_name(c)}", x.rank, x.first, x.source)


def exit_table(case: Case) -> Iterable[Statement]:
    """How workers ended, as the launcher saw it: right for crashes, wrong for hangs."""
    codes: dict[str, set[int]] = {}
    ranked = any(e.rank is not None for e in case.exits)
    for e in case.exits:
        who = e.rank if ranked else e.local_rank
        if who is not None and e.exit_code:
            how = signal_name(-e.exit_code) or str(e.exit_code) if e.exit_code < 0 else f"code {e.exit_code}"
            codes.setdefault(how, set()).add(who)
    named = next((e for e in case.exits if e.named_root and e.rank is not None), None)
    told = "; ".join(f"{show_ranks(who)} by {how}" for how, who in codes.items())
    if told:
        claim = f"workers ended: {told}" + (f"; the launcher names rank {named.rank} as the first" if named is not None else "")
        line = named.line if named is not None else next(e.line for e in case.exits if e.exit_code)
        yield Statement("exit table", claim, named.rank if named else None, line, named.source if named else None)
    found = case.of(Tier.DEATH)
    pids = {e.pid for e in case.exits if e.named_root and e.pid is not None}
    first = next((c for c in found if c.failure.kind == "launcher" and c.failure.pid in pids), None)
    if found and found[0].failure.kind == "launcher" and first is not None:
        found = [first, *[c for c in found if c is not first]]
    yield from _accuse("exit table", found)


def logged_errors(case: Case) -> Iterable[Statement]:
    """Tracebacks that were printed through a logger, of which nothing says that they were survived."""
    yield from _accuse("logged exceptions", case.of(Tier.LOGGED))


def named_missing(case: Case) -> Iterable[Statement]:
    """Ranks that torch, a store or a barrier names as missing."""
    yield from _absent(case, "named missing ranks")


def flight_recorder(case: Case) -> Iterable[Statement]:
    """The last collectives of each rank, from torch's flight-recorder dumps."""
    yield from _absent(case, "flight recorder")
    yield from _disagree(case, "flight recorder")


def group_status(case: Case) -> Iterable[Statement]:
    """NCCL's states of process groups: who enqueued what, compared within one group."""
    yield from _absent(case, "process-group status")
    yield from _disagree(case, "process-group status")
    yield from _disagree(case, "collective fingerprints")
    if case.facts.works and not case.absences and case.disagreement is None:
        from tbparse.attribute.hang import stuck

        said = stuck(case.facts)
        if said is not None:
            yield Statement("process-group status", said)
    if case.facts.first_timeout is not None:
        rank = case.facts.first_timeout
        yield Statement("process-group status", f"rank {rank} timed out first, and told the others to dump", rank)
    for joined in case.facts.joined[:1]:
        yield Statement("store", f"{joined.joined} of {joined.expected} clients joined", None, joined.line)


def silence(case: Case) -> Iterable[Statement]:
    """A rank that printed no failure while the others waited in vain."""
    yield from _absent(case, "exit table")
    yield from _absent(case, "silence")


def effects(case: Case) -> Iterable[Statement]:
    """Ranks that failed because another one was gone; the answer only where the other one left nothing."""
    found = case.of(Tier.EFFECT)
    if not found:
        return
    first = found[0]
    if first.root.match is not None:
        # Of effects the one whose rule goes over the first one's says more: the watchdog over its own banner.
        rule = first.root.match.rule
        first = next((x for x in found if x.root.match is not None and x.root.match.rule.beats(rule)), first)
    yield from _accuse("effects", [first, *[c for c in found if c is not first]])


def closing_words(case: Case) -> Iterable[Statement]:
    """Launchers' and shells' last lines, then what was survived, ended a thread only, or was swallowed."""
    yield from _accuse("closing lines", case.of(Tier.CLOSING))
    found = case.of(Tier.WRAPPER)
    if found and found[0].failure.kind == "traceback" and not any(e.exit_code and e.exit_code > 0 for e in case.exits):
        # Nothing is known but that the agent's own SIGTERM ended the workers.
        first = next((x for x in found if x.failure.kind == "launcher"), found[0])
        found = [first, *[c for c in found if c is not first]]
    yield from _accuse("the launcher's report", found)
    for tier, name in ((Tier.DEMOTED, "survived failures"), (Tier.THREAD, "threads")):
        yield from _accuse(name, case.of(tier))


def attempts(case: Case) -> Iterable[Statement]:
    """What each attempt of the job failed with."""
    for number, found in sorted(case.attempts.items()):
        strongest = [c for c in case.ranked if any(c is x for x in found) and c.tier < Tier.CLOSING]
        if strongest:
            c = strongest[0]
            yield Statement("attempts", f"attempt {number}: {_name(c)}", c.failure.rank, c.root.link.line, c.failure.source)


def clocks(case: Case) -> Iterable[Statement]:
    """Whether the hosts' clocks agree."""
    said = case.clocks.said()
    if said is not None:
        yield Statement("clocks", said)


WITNESSES: tuple[Witness, ...] = (
    Witness("scheduler and kernel lines", scheduler_and_kernel),
    Witness("local exceptions", local_exceptions),
    Witness("native crashes", crashes),
    Witness("error files", error_files),
    Witness("exit table", exit_table),
    Witness("logged exceptions", logged_errors),
    Witness("named missing ranks", named_missing),
    Witness("flight recorder", flight_recorder),
    Witness("process-group status", group_status),
    Witness("silence", silence),
    Witness("effects", effects),
    Witness("closing lines", closing_words),
    Witness("attempts", attempts),
    Witness("clocks", clocks),
)


def hear(case: Case) -> Iterator[Statement]:
    """What the witnesses say, in the order of evidence; the later ones are asked only when what they say is wanted."""
    for witness in WITNESSES:
        yield from witness.ask(case)


def _accuse(name: str, found: Sequence[Candidate]) -> Iterable[Statement]:
    if not found:
        return
    c = found[0]
    more = f", and {len(found) - 1} more such" if len(found) > 1 else ""
    copies = (c.failure, *c.twins)
    same = {r for x in copies for r in (x.rank, *(t.rank for t in x.also)) if r is not None}
    who = f" on {show_ranks(same)}" if same else ""
    yield Statement(name, f"{_name(c)}{who}: {TIER_WORDS[c.tier]}{more}", c.failure.rank, c.root.link.line, c.failure.source, c)


def _absent(case: Case, by: str) -> Iterable[Statement]:
    for a in case.absences:
        if a.by == by:
            yield Statement(by, a.said, a.ranks[0] if len(a.ranks) == 1 else None, a.line, a.source)


def _disagree(case: Case, by: str) -> Iterable[Statement]:
    d = case.disagreement
    if d is not None and d.by == by:
        yield Statement(by, d.said, d.odd, d.line, d.source)


def _seconds(case: Case, time: str | None, host: str | None) -> float | None:
    moment = case.clocks.at(time, host)
    return None if moment is None else moment.second + 86_400.0 * (moment.day or 0)


def _name(c: Candidate) -> str:
    """What a failure is called in a claim: its exception, or the head of its line."""
    link = c.root.link
    if link.exception is not None:
        return link.exception.rpartition(".")[2]
    head = re.sub(r"\s+", " ", link.message or c.failure.kind).strip()
    return f"`{head[:60]}…`" if len(head) > 60 else f"`{head}`"


def _who(rank: int | None) -> str:
    return "a worker" if rank is None else f"rank {rank}"
