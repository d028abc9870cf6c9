"""Why this failure and not the last one of the log: a few sentences out of the decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tbparse.attribute.cascade import Candidate, Tier
from tbparse.attribute.facts import number_list, show_ranks
from tbparse.attribute.job import Decision, Job
from tbparse.render.words import call, count, last_part, rank_numbers

if TYPE_CHECKING:
    from tbparse.model import RootCause

_WEAK = {
    Tier.BARE: "Only the exception's line is in the log, without its traceback.",
    Tier.DEATH: "No exception of this worker is in the log; the launcher saw it die by a signal.",
    Tier.EFFECT: "It looks like the effect of another failure, and that one is not in this log.",
    Tier.CLOSING: "Only the log's closing words tell that the job failed.",
    Tier.WRAPPER: "Only the launcher's word is in the log, not what the child printed.",
    Tier.THREAD: "It ended a thread only; nothing else explains the end of the job.",
    Tier.NOTHING: "The interpreter swallowed it; nothing else explains the end of the job.",
}


def reasons(answer: RootCause, job: Job | None) -> list[str]:
    """Sentences, the most telling first; empty when one plain failure is all there is."""
    decision = job.decision if job is not None else None
    if job is None or decision is None:
        return []
    cause = decision.cause
    if cause is None:
        return _survivors(decision)
    out = [x for x in (_weakness(cause), _chained(answer, cause)) if x is not None]
    others = [c for c in decision.candidates if c is not cause and c.failure is not cause.failure]
    if cause.proof is not None:
        out.append(f"Line {cause.proof.no} explains it: {cause.proof.text.strip()}")
    elif cause.tier is Tier.SYSTEM and any(c.tier in (Tier.LOCAL, Tier.CRASH, Tier.EFFECT) for c in others):
        out.append("What the scheduler or the kernel says goes over what the processes print.")
    wrappers = [c for c in others if c.tier in (Tier.WRAPPER, Tier.CLOSING)]
    more = (_wrappers(wrappers), _effects(others, cause), _later(others, cause), _survived(others))
    out += [s for s in more if s is not None]
    named = next((e.rank for e in job.exits if e.named_root and e.rank is not None), None)
    if named is not None and answer.rank is not None and named != answer.rank:
        how = "failed before that"
        if decision.absence is not None:
            how = "is the one that did not arrive"
        elif decision.disagreement is not None:
            how = "is the one that differs"
        out.append(f"torchrun names rank {named} as the first failure it observed; rank {answer.rank} {how}.")
    return out[:3]


EFFECT_KINDS = 4
"""Kinds of effects that are listed before the rest is counted."""


def effects(job: Job | None) -> list[str]:
    """The effects of the cause by kind, the most frequent first: how many, what, and on which ranks. Empty for a single one."""
    decision = job.decision if job is not None else None
    cause = decision.cause if decision is not None else None
    if decision is None or cause is None:
        return []
    kinds: dict[str, list[Candidate]] = {}
    for c in decision.candidates:
        if c.tier is Tier.EFFECT and c is not cause and c.failure is not cause.failure:
            rule = c.root.match.rule if c.root.match is not None else None
            kinds.setdefault(rule.title if rule is not None else call(c.failure, c.root.link), []).append(c)
    sizes = {kind: sum(x.count for c in found for x in (c.failure, *c.twins)) for kind, found in kinds.items()}
    if sum(sizes.values()) < 2 or cause.tier is Tier.EFFECT:
        return []
    out = []
    for kind, found in sorted(kinds.items(), key=lambda kv: (-sizes[kv[0]], kv[0])):
        who = show_ranks(rank_numbers(found))
        out.append(f"{sizes[kind]:,} × {kind}" + (f", {who}" if who else ""))
    rest = len(out) - EFFECT_KINDS
    return out[:EFFECT_KINDS] + ([f"… and {count(rest, 'other kind')}"] if rest > 0 else [])


def _at(c: Candidate) -> str:
    line = c.root.link.line or c.failure.first
    if c.failure.source is None:
        return f"line {line.no}"
    # In a sentence the attempt, the rank and the name are enough; --all has whole paths.
    source = c.failure.source.replace("\\", "/")
    parts = source.split("/")
    return f"line {line.no} of {source if len(parts) <= 4 else '…/' + '/'.join(parts[-3:])}"


def _weakness(cause: Candidate) -> str | None:
    if cause.tier is Tier.DEMOTED:
        return f"It was printed and may have been survived ({cause.why}); nothing else explains the end of the job."
    return _WEAK.get(cause.tier)


def _chained(answer: RootCause, cause: Candidate) -> str | None:
    outer = [x for x in answer.chain[:-1] if x.relation != "launcher"]
    if not outer or outer[0].exception is None:
        return None
    name = last_part(outer[0].exception)
    if cause.root.index < len(cause.failure.links) - 1:
        inner = cause.failure.links[-1].exception
        return f"The rule for it says more than {last_part(inner) if inner else 'what'} inside it."
    if outer[0].relation == "remote":
        return f"{name} only hands on what a child process raised."
    if outer[0].relation == "group":
        return f"{name} only gathers the exceptions of its tasks; this is the first that is no cancellation."
    steps = f" (over {len(outer)} steps)" if len(outer) > 1 else ""
    return f"{name}, printed last, was raised because of it{steps}."


def _wrappers(found: Sequence[Candidate]) -> str | None:
    if not found:
        return None
    traces = [c for c in found if c.failure.kind == "traceback" and c.root.link.exception is not None]
    if traces:
        last = max(traces, key=lambda c: c.start)
        name = call(last.failure, last.root.link)
        return f"The last traceback, {name} at {_at(last)}, is the launcher's: it only says that a child failed."
    last = max(found, key=lambda c: c.start)
    name = call(last.failure, last.root.link)
    return f"{name[0].upper()}{name[1:]} ({_at(last)}) only tells how it ended."


def _effects(others: Sequence[Candidate], cause: Candidate) -> str | None:
    found = [c for c in others if c.tier is Tier.EFFECT]
    if not found or cause.tier is Tier.EFFECT:
        return None
    first = found[0]
    who = show_ranks(rank_numbers(found))
    names = sorted({call(c.failure, c.root.link) for c in found})
    what = names[0] if len(names) == 1 else f"{names[0]} and {count(len(names) - 1, 'other kind')}"
    why = "is an effect"
    if first.failure.source == cause.failure.source:
        why = "came later and is an effect" if first.start > cause.start else "is an effect, although the log has it first"
    return f"{what}{f' on {who}' if who else ''} ({_at(first)}) {why}: the others fail when one is gone."


def _later(others: Sequence[Candidate], cause: Candidate) -> str | None:
    own = (Tier.LOCAL, Tier.CRASH, Tier.BARE, Tier.DEATH)
    found = [c for c in others if c.tier in own and c.tier >= cause.tier and c.start > cause.start]
    if not found or cause.tier is Tier.SYSTEM:
        return None
    c = found[-1]
    same = [x for x in found if call(x.failure, x.root.link) == call(c.failure, c.root.link)]
    who = show_ranks(rank_numbers(same))
    return f"{call(c.failure, c.root.link)}{f' on {who}' if who else ''} ({_at(c)}) came after it."


def _survived(others: Sequence[Candidate]) -> str | None:
    found = [c for c in others if c.tier is Tier.DEMOTED]
    if not found:
        return None
    return f"{call(found[0].failure, found[0].root.link)} ({_at(found[0])}) was survived: {found[0].why}."


def _survivors(decision: Decision) -> list[str]:
    """For a log in which nothing ended the job: what was printed all the same."""
    found = [c for c in decision.candidates if c.failure.kind in ("traceback", "fault", "native")]
    if not found:
        return []
    names = ", ".join(sorted({call(c.failure, c.root.link) for c in found})[:4])
    lines = number_list([c.failure.first.no for c in found][:6])
    where = f"line{'s' if len(found) > 1 else ''} {lines}"
    return [f"{count(len(found), 'failure was', 'failures were')} printed and did not end the job: {names} ({where})."]
