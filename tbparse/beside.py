"""What an answer says beside the root: who is missing, other failures, other ranks, other attempts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tbparse.attribute.cascade import Candidate, Tier
from tbparse.attribute.facts import show_ranks
from tbparse.attribute.job import Decision, Job
from tbparse.records import Failure, Link
from tbparse.terms import Scalar

if TYPE_CHECKING:
    from tbparse.attribute.hang import Absence

MAX_SECONDARY = 200
MAX_ALIKE = 32
"""So many failures of one exception, kind and rule are listed one by one; the others are one entry with their count and ranks."""
SecondaryKind: TypeAlias = Literal["same", "effect", "launcher", "survived", "other"]
_Sort: TypeAlias = tuple[str | None, SecondaryKind, str | None]


def same_ranks(cause: Candidate) -> list[int]:
    """All ranks that had this very failure."""
    copies = (cause.failure, *cause.twins)
    return sorted({r for x in copies for r in (x.rank, *(t.rank for t in x.also)) if r is not None})


def culprit_of(decision: Decision) -> int | None:
    """The one rank with which a hang began, where the log tells."""
    if decision.disagreement is not None:
        return decision.disagreement.odd
    if decision.absence is None:
        return None
    ranks = decision.absence.ranks
    if len(ranks) == 1:
        return ranks[0]
    # A barrier that names all but one was printed by that one.
    unplaced = decision.cause is not None and decision.cause.failure.rank is None
    if not unplaced or decision.absence.by != "named missing ranks" or max(ranks) != len(ranks):
        return None
    return next(r for r in range(len(ranks) + 1) if r not in ranks)


def told_of_ranks(decision: Decision, job: Job) -> list[str]:
    """Sentences about ranks that disagree or are missing, and about a failure that is not trusted to pass."""
    out: list[str] = []
    if decision.disagreement is not None:
        out.append(decision.disagreement.said)
    if decision.absence is not None:
        absent = decision.absence
        out.append(absent.said)
        for rank in absent.ranks[:3]:
            line, source = job.facts.last_words.get(rank, (None, None))
            if line is not None and line.text.strip():
                where = f"line {line.no}" + (f" of {source}" if source else "")
                out.append(f"rank {rank} printed last: {line.text.strip()[:200]} ({where})")
    if decision.doubt is not None:
        out.append(decision.doubt)
    return out


def attempts_of(decision: Decision) -> list[dict[str, Any]]:
    """What each attempt failed with, as the answer's field has it; empty where there was one only."""
    if len(decision.attempts) < 2:
        return []
    out = []
    for number, c in sorted(decision.attempts.items()):
        link, match = c.root.link, c.root.match
        head = (link.message or "").split("\n", 1)[0][:300] or None
        rule = match.rule.id if match is not None else None
        out.append({"number": number, "exception": link.exception, "message": head, "rank": c.failure.rank, "rule": rule})
    return out


def go_to(absent: Absence) -> str:
    """The first thing to do in a hang."""
    who = show_ranks(absent.ranks)
    at = f" at {absent.op or 'collective'} number {absent.seq}" if absent.seq is not None else ""
    return f"{who[0].upper()}{who[1:]} did not arrive{at}: read what it printed last, and look there first."


def hang_captures(decision: Decision) -> dict[str, Scalar | tuple[Scalar, ...]]:
    """Who is missing at which collective, as values."""
    out: dict[str, Scalar | tuple[Scalar, ...]] = {}
    found = decision.absence or decision.disagreement
    if found is None:
        return out
    if decision.absence is not None:
        out["missing_ranks"] = tuple(decision.absence.ranks)
        if decision.absence.op is not None:
            out["op"] = decision.absence.op
    elif decision.disagreement is not None and decision.disagreement.odd is not None:
        out["odd_rank"] = decision.disagreement.odd
    if found.seq is not None:
        out["seq"] = found.seq
    if found.group is not None:
        out["group"] = found.group
    out["told_by"] = found.by
    return out


def secondary_of(decision: Decision, cause: Candidate | None) -> tuple[dict[str, Any], ...]:
    """The other failures: the same one elsewhere first, then what competed, in the order of the log."""
    out: list[dict[str, Any]] = []

    def add(c: Candidate, failure: Failure, link: Link, kind: SecondaryKind) -> None:
        line = link.line or failure.first
        rule = c.root.match.rule.id if c.root.match is not None and link is c.root.link else None
        out.append(_secondary(link.exception, kind, rule, rank=failure.rank, line=line.no))
        if failure.also:
            ranks = tuple(sorted({t.rank for t in failure.also if t.rank is not None}))
            out.append(_secondary(link.exception, kind, rule, count=len(failure.also), ranks=ranks))

    if cause is not None:
        if cause.failure.also:
            ranks = tuple(sorted({t.rank for t in cause.failure.also if t.rank is not None}))
            exception = cause.root.link.exception
            out.append(_secondary(exception, "same", count=len(cause.failure.also), ranks=ranks))
        for twin in cause.twins:
            add(cause, twin, twin.root, "same")
        for link in cause.failure.links[cause.root.index + 1 :]:
            add(cause, cause.failure, link, "other")
        for link in cause.failure.links:
            for leaf in link.leaves:
                add(cause, cause.failure, leaf[-1], "other")
    for c in decision.candidates:
        if (
            c is cause
            or c in decision.wrappers
            or (cause is not None and (c.failure is cause.failure or c.root.link.line is cause.proof is not None))
        ):
            continue
        kind = _kind_of(c)
        add(c, c.failure, c.root.link, kind)
        for twin in c.twins:
            add(c, twin, twin.root, kind)
    return tuple(_folded(out))


def _folded(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most :data:`MAX_ALIKE` of a sort one by one, :data:`MAX_SECONDARY` in all; the others are counted, with their ranks."""
    if len(found) <= MAX_ALIKE:
        return found
    out: list[dict[str, Any]] = []
    seen: Counter[_Sort] = Counter()
    rest: dict[_Sort, list[dict[str, Any]]] = {}
    for x in found:
        sort = (x["exception"], x["kind"], x["rule"])
        seen[sort] += 1
        if (x["count"] == 1 and seen[sort] <= MAX_ALIKE) and len(out) < MAX_SECONDARY:
            out.append(x)
        else:
            rest.setdefault(sort, []).append(x)
    for (exception, kind, rule), more in rest.items():
        if len(more) == 1:
            out.append(more[0])
            continue
        ranks = {r for x in more for r in (x["rank"], *x["ranks"]) if r is not None}
        total = sum(x["count"] for x in more)
        out.append(_secondary(exception, kind, rule, count=total, ranks=tuple(sorted(ranks))))
    return out


def _secondary(
    exception: str | None,
    kind: SecondaryKind,
    rule: str | None = None,
    *,
    rank: int | None = None,
    line: int | None = None,
    count: int = 1,
    ranks: tuple[int, ...] = (),
) -> dict[str, Any]:
    return {"exception": exception, "rank": rank, "line": line, "kind": kind, "rule": rule, "count": count, "ranks": ranks}


def _kind_of(c: Candidate) -> SecondaryKind:
    if c.tier is Tier.EFFECT:
        return "effect"
    if c.tier in (Tier.CLOSING, Tier.WRAPPER, Tier.DEATH) and c.failure.kind in ("launcher", "exit", "scheduler", "traceback"):
        return "launcher"
    return "survived" if c.tier in (Tier.DEMOTED, Tier.THREAD, Tier.NOTHING) else "other"
