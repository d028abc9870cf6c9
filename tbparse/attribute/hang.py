"""Which rank did not arrive, at which collective, and whether the ranks' programs disagree.

Sources, strongest first: torch names the missing ranks itself; flight-recorder dumps; the states of process groups; which
rank is silent. Numbers count within a process group, so states of two groups are never compared with one another.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

from tbparse.attribute.facts import DEFAULT_GROUP, Call, Facts, Recorded, Work, show_ranks
from tbparse.records import Line, RankExit

# Collectives in which every rank of a group does the same; others are partners (SEND and RECV) or uneven by design.
SAME_FOR_ALL = frozenset(
    {"ALLREDUCE", "BROADCAST", "ALLGATHER", "_ALLGATHER_BASE", "REDUCE", "REDUCE_SCATTER", "_REDUCE_SCATTER_BASE", "BARRIER"}
)
_UNEVEN = ("all_to_all", "alltoall", "gather_v", "scatter_v", "all_gather_v", "reduce_scatter_v", "send", "recv", "coalesced")
_ROOTED = ("gather", "scatter", "reduce", "broadcast")
"""Collectives whose root has another side than the rest: of these only the kind is compared."""


class Absence(NamedTuple):
    """Ranks that did not come to a collective. ``by`` is the witness that tells; ``said`` its sentence."""

    ranks: tuple[int, ...]
    by: str
    said: str
    seq: int | None = None
    op: str | None = None
    group: str | None = None
    line: Line | None = None
    source: str | None = None


class Disagreement(NamedTuple):
    """What ranks of one group did at one number, and which rank is alone with it (None where two halves differ)."""

    seq: int | None
    group: str | None
    said: str
    odd: int | None
    by: str
    certain: bool
    """The group is known, so the numbers count the same collectives."""
    line: Line | None = None
    source: str | None = None


def disagreement(facts: Facts) -> Disagreement | None:
    """How ranks differ in what they did at one number: then the program is wrong, and waiting longer cures nothing."""
    return _told(facts) or _in_works(facts) or _in_dumps(facts.recorded)


def _told(facts: Facts) -> Disagreement | None:
    """torch compared the calls itself (TORCH_DISTRIBUTED_DEBUG=DETAIL)."""
    if not facts.differ:
        return None
    first = facts.differ[0]
    what: dict[int, str] = {}
    for d in facts.differ:
        if d.seq == first.seq:
            what.update(zip(d.ranks, d.works, strict=True))
    return Disagreement(
        first.seq, None, _sentence(what, first.seq), _odd_one(what), "collective fingerprints", True, first.line, first.source
    )


def _in_works(facts: Facts) -> Disagreement | None:
    """Watchdogs name different operations or sizes at one number of one group."""
    seen: dict[tuple[str | None, int], dict[int, Work]] = defaultdict(dict)
    groups: set[str | None] = set()
    works = list(facts.settled_works())
    named = {w.group for w in works if w.group is not None}
    # Some lines leave the group out: where no other is named, they speak of the one that every job has.
    default = next(iter(named)) if len(named) == 1 and named <= {DEFAULT_GROUP, "number 0"} else None
    for work in works:
        group = work.group if work.group is not None else default
        groups.add(group)
        if work.op in SAME_FOR_ALL:
            seen[group, work.seq].setdefault(work.rank, work)
    groups |= {p.group for p in facts.progress.values()}
    for (group, seq), calls in sorted(seen.items(), key=lambda kv: (kv[0][1], kv[0][0] or "")):
        what = {r: w.op + (f" of {w.size} elements" if w.size else "") for r, w in sorted(calls.items())}
        if len(set(what.values())) > 1:
            odd = _odd_one(what)
            line = calls[odd if odd is not None else min(calls)]
            # A bare number of a group counts within its process: two ranks' numbers may mean different groups.
            certain = (group is not None and not group.startswith("number ")) or len(groups) <= 1
            return Disagreement(seq, group, _sentence(what, seq), odd, "process-group status", certain, line.line, line.source)
    return None


def _in_dumps(recorded: Mapping[int, Recorded]) -> Disagreement | None:
    """The first number at which the flight recorders of a group's ranks differ."""
    seen: dict[tuple[str, int], dict[int, Call]] = defaultdict(dict)
    for rank, dump in recorded.items():
        for group, calls in dump.calls.items():
            for call in calls:
                if not call.p2p and not any(x in call.op.lower() for x in _UNEVEN):
                    seen[group, call.seq][rank] = call
    for (group, seq), calls_ in sorted(seen.items(), key=lambda kv: (kv[0][1], kv[0][0])):
        what = {r: _shown(c) for r, c in sorted(calls_.items())}
        if len(set(what.values())) > 1:
            odd = _odd_one(what)
            where = calls_[odd].where if odd is not None else None
            said = _sentence(what, seq) + (f"; rank {odd} called it at {where}" if where else "")
            return Disagreement(seq, group, said, odd, "flight recorder", True, None, recorded[min(calls_)].source)
    return None


def _shown(call: Call) -> str:
    rooted = any(call.op.lower().rpartition(":")[2].lstrip("_").startswith(x) for x in _ROOTED) and "scatter_" not in call.op
    return call.op if rooted or not call.sizes else f"{call.op} of {call.sizes}"


def _odd_one(what: Mapping[int, str]) -> int | None:
    """The rank that is alone with what it did, where all others agree and are more than it."""
    counts = Counter(what.values())
    alone = [r for r, w in what.items() if counts[w] == 1]
    return alone[0] if len(alone) == 1 and len(what) > 2 and len(counts) == 2 else None


def _sentence(what: Mapping[int, str], seq: int | None) -> str:
    by_kind: dict[str, list[int]] = defaultdict(list)
    for rank, kind in what.items():
        by_kind[kind].append(rank)
    told = ", ".join(f"{show_ranks(r)} in {kind}" for kind, r in sorted(by_kind.items(), key=lambda kv: min(kv[1])))
    return f"the ranks disagree at sequence number {seq}: {told}" if seq is not None else f"the ranks disagree: {told}"


def absences(facts: Facts, exits: Collection[RankExit], failed: Mapping[int, bool], ended: Collection[int]) -> list[Absence]:
    """Who did not arrive, by every source that tells, strongest first.

    ``failed``: the ranks that printed a failure of their own, and whether it was that they waited in vain. ``ended``: process
    ids of workers that ended by themselves.
    """
    found = [_by_name(facts), _by_dumps(facts), _by_status(facts), _by_silence(facts, exits, failed, ended)]
    return [x for x in found if x is not None]


def _by_name(facts: Facts) -> Absence | None:
    if not facts.named:
        return None
    by = facts.named[0].by
    ranks = tuple(sorted({r for n in facts.named if n.by == by for r in n.ranks}))
    first = facts.named[0]
    at = f" at collective number {first.seq}" if first.seq is not None else ""
    said = f"the {by} names {show_ranks(ranks)} as missing{at}"
    return Absence(ranks, "named missing ranks", said, first.seq, None, None, first.line, first.source) if ranks else None


def _by_dumps(facts: Facts) -> Absence | None:
    """Of the recorders of one group those that have the lowest last number never entered what the others wait in."""
    recorded = facts.recorded
    groups = sorted({g for d in recorded.values() for g in d.calls})
    for group in sorted(groups, key=lambda g: g != DEFAULT_GROUP):
        members = next((d.members[group] for d in recorded.values() if d.members.get(group)), None)
        last = {
            rank: max((c.seq for c in dump.calls.get(group, ()) if not c.p2p), default=0)
            for rank, dump in recorded.items()
            if (rank in members if members else group in dump.calls or group == DEFAULT_GROUP)
        }
        silent = sorted(set(members or ()) - set(recorded))
        top = max(last.values(), default=0)
        late = sorted(r for r, n in last.items() if n < top)
        if not late and not (silent and len(last) > len(silent) and top):
            continue
        ranks = tuple(late or silent)
        seq = min(last[r] for r in late) + 1 if late else top
        calls = [c for r, d in sorted(recorded.items()) if r not in ranks for c in d.calls.get(group, ()) if c.seq == seq]
        op, where = (calls[0].op, calls[0].where) if calls else (None, None)
        said = f"{show_ranks(ranks)} never called {_at(seq, op, group)}" if late else f"{show_ranks(ranks)} left no dump of {group}"
        said += f", where the others wait at {where}" if where else ""
        if len(ranks) == 1 and late:
            own = [c for c in recorded[ranks[0]].calls.get(group, ()) if c.seq == seq - 1]
            said += f"; its last was {_at(seq - 1, own[0].op, None)} at {own[0].where}" if own and own[0].where else ""
        return Absence(ranks, "flight recorder", said, seq, op, group, None, recorded[min(last)].source)
    return None


def _by_status(facts: Facts) -> Absence | None:
    """Of the ranks of one group those with the lowest last-enqueued number never entered what the others wait in."""
    by_group: dict[str | None, dict[int, int]] = defaultdict(dict)
    for p in facts.progress.values():
        by_group[p.group][p.rank] = max(p.enqueued, by_group[p.group].get(p.rank, -1))
    works: dict[str | None, dict[int, Work]] = defaultdict(dict)
    for work in facts.settled_works():
        old = works[work.group].get(work.rank)
        if old is None or work.seq < old.seq:
            works[work.group][work.rank] = work
    for group in sorted(by_group, key=lambda g: (g != DEFAULT_GROUP, g or "")):
        if group is None and len(by_group) > 1:
            continue  # lines that name no group, in a job with several
        waiting = works.get(group) or (works.get(None, {}) if len(by_group) == 1 else {})
        if not waiting:
            continue
        seq = min(w.seq for w in waiting.values())
        late = tuple(sorted(r for r, enqueued in by_group[group].items() if enqueued < seq))
        if late and len(late) < len(by_group[group]):
            some = next(w for w in waiting.values() if w.seq == seq)
            last = facts.progress.get((late[0], group))
            told = f" (its last is number {by_group[group][late[0]]})" if len(late) == 1 else ""
            said = f"{show_ranks(late)} never entered {_at(seq, some.op, group)}{told}"
            return Absence(
                late,
                "process-group status",
                said,
                seq,
                some.op,
                group,
                last.line if last else some.line,
                last.source if last else some.source,
            )
    return None


def _by_silence(facts: Facts, exits: Collection[RankExit], failed: Mapping[int, bool], ended: Collection[int]) -> Absence | None:
    """A rank that the launcher had to end, or that says nothing, while the others say that they waited in vain."""
    waited = {r for r, vain in failed.items() if vain} | {w.rank for w in facts.works.values()}
    stopped = {e.rank: e for e in exits if e.rank is not None and e.exit_code == -15 and e.pid not in ended}
    known = {e.rank for e in exits if e.rank is not None} | set(failed) | set(facts.last_words) | waited
    if not waited or not known:
        return None
    silent = {r for r in stopped if r not in failed and r not in waited}
    how = "was still running when the launcher ended it, and printed no failure"
    if not silent:
        if max(known) > 2 * len(known):  # far fewer ranks are known of than there are: silence says nothing
            return None
        silent = {r for r in range(max(known) + 1) if r not in failed and r not in waited}
        silent -= {e.rank for e in exits if e.rank is not None and e.exit_code not in (None, 0, -15)}
        if len(waited) < 2:  # it may be the log of that rank alone: one of which it says nothing may be anywhere
            silent &= known
        how = "printed no failure"
    if not silent or len(silent) > max(1, len(waited) - 1):
        return None
    ranks = tuple(sorted(silent))
    works = [w for w in facts.settled_works() if w.rank in waited]
    first = min(works, key=lambda w: (w.seq, w.rank), default=None)
    at = f" (the others wait in {_at(first.seq, first.op, first.group)})" if first else ""
    exit_ = stopped.get(ranks[0])
    said = f"{show_ranks(ranks)} {how}, while {show_ranks(sorted(waited))} waited in vain{at}"
    return Absence(
        ranks,
        "exit table" if exit_ is not None else "silence",
        said,
        first.seq if first else None,
        first.op if first else None,
        first.group if first else None,
        exit_.line if exit_ is not None else None,
    )


def stuck(facts: Facts) -> str | None:
    """Where all ranks that tell entered the same collective and it did not finish: a sentence. Then no rank is late."""
    enqueued: dict[tuple[str | None, int], int] = {(p.group, p.rank): p.enqueued for p in facts.progress.values()}
    at: dict[tuple[str | None, int, str], set[int]] = defaultdict(set)
    for work in facts.settled_works():
        if enqueued.get((work.group, work.rank), work.seq) >= work.seq:
            at[work.group, work.seq, work.op].add(work.rank)
    if len(at) != 1:
        return None
    ((group, seq, op), ranks) = next(iter(at.items()))
    told = {rank for _, rank in enqueued} | {w.rank for w in facts.works.values()}
    if len(ranks) < 2 or told != ranks:
        return None
    return f"all {len(ranks)} ranks that tell entered {_at(seq, op, group)} and it did not finish: look at the network and the GPUs"


def all_waited(facts: Facts, exits: Collection[RankExit], failed: Mapping[int, bool]) -> bool:
    """Every rank that is known of waited in vain, so that none of them is the one that did not come."""
    known = {e.rank for e in exits if e.rank is not None}
    return len(known) > 1 and all(failed.get(r, False) for r in known) and not facts.named


def _at(seq: int, op: str | None, group: str | None) -> str:
    where = f" of {group}" if group and group != DEFAULT_GROUP else ""
    return f"{op or 'collective'} number {seq}{where}"
