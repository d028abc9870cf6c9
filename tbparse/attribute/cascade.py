"""Which of many failures began it: the order of evidence, strongest first.

A scheduler's or the kernel's line beats a local error, a local error beats a worker that died by a signal, and that beats an error
of communication; a wrapper speaks only when nothing else does. What was logged and survived, what ended a thread,
and what the interpreter swallowed come last of all. Within a tier the first in the log began it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from tbparse.attribute.unwrap import LAUNCHER_WRAPPERS, Root, is_wrapper, short
from tbparse.records import Failure, Line, RankExit


class Tier(IntEnum):
    """How strongly a failure speaks for being the cause. Lower is stronger."""

    SYSTEM = 0
    LOCAL = 1
    CRASH = 2
    BARE = 3
    DEATH = 4
    LOGGED = 5
    EFFECT = 6
    CLOSING = 7
    WRAPPER = 8
    DEMOTED = 9
    THREAD = 10
    NOTHING = 11


TIER_WORDS = {
    Tier.SYSTEM: "the scheduler or the kernel says so",
    Tier.LOCAL: "raised in the process's own code",
    Tier.CRASH: "native code crashed",
    Tier.BARE: "an exception line without its traceback",
    Tier.DEATH: "a worker died by a signal",
    Tier.LOGGED: "printed through a logger",
    Tier.EFFECT: "an effect of another rank's failure",
    Tier.CLOSING: "a launcher's or a shell's closing line",
    Tier.WRAPPER: "a launcher's wrapper: it only says that a child failed",
    Tier.DEMOTED: "printed, but the process went on",
    Tier.THREAD: "ended a thread only",
    Tier.NOTHING: "swallowed by the interpreter",
}
_SUBMITTING = re.compile(r"^(?:srun|sbatch|salloc): error: ")
_DISTRIBUTED = frozenset({"DistBackendError", "DistNetworkError", "DistStoreError", "DistError"})
_SYSTEM_CATEGORIES = frozenset({"scheduler", "host-memory", "gpu-hardware", "storage"})


@dataclass(slots=True)
class Candidate:
    """A failure with its root link and rule, and how strongly it speaks."""

    failure: Failure
    root: Root
    tier: Tier = Tier.LOCAL
    why: str = ""
    twins: list[Failure] = field(default_factory=list)
    """Copies of the same failure: other ranks', and the launcher's summary."""
    proof: Line | None = None
    """A line elsewhere that decided the rule."""

    @property
    def start(self) -> int:
        return self.failure.first.start


def rate(candidate: Candidate) -> None:
    """Set the tier of one candidate by what its text and its rule say."""
    failure, match = candidate.failure, candidate.root.match
    rule = match.rule if match else None
    if failure.fate == "logged" and is_wrapper(candidate.root.link):
        failure.fate, failure.fate_why = "fatal", None  # the launcher's log line above it is about the child
    if failure.fate == "ignored":
        candidate.tier = Tier.NOTHING
    elif failure.fate == "thread":
        candidate.tier = Tier.THREAD
    elif failure.fate == "survived":
        candidate.tier = Tier.DEMOTED
    elif failure.fate == "logged":
        candidate.tier = Tier.EFFECT if rule is not None and rule.symptom else Tier.LOGGED
        if candidate.root.link.exception is None:
            candidate.tier = Tier.DEMOTED
    elif failure.kind in ("scheduler", "kernel"):
        if rule is None:
            telling = failure.kind == "scheduler" and _SUBMITTING.search(candidate.root.link.message or "")
            candidate.tier = Tier.CLOSING if telling else Tier.NOTHING
        elif rule.symptom:
            candidate.tier = Tier.CLOSING
        else:
            candidate.tier = Tier.SYSTEM if rule.category in _SYSTEM_CATEGORIES else Tier.CLOSING
            if failure.kind == "kernel" and rule.category not in _SYSTEM_CATEGORIES:
                candidate.tier = Tier.EFFECT
    elif failure.kind == "launcher":
        candidate.tier = Tier.CLOSING if failure.fate == "symptom" else _death_tier(failure.signal)
    elif failure.kind == "line":
        candidate.tier = Tier.SYSTEM if rule is not None and rule.fatal and rule.category in _SYSTEM_CATEGORIES else Tier.BARE
        if rule is not None and (rule.symptom or not rule.fatal):
            candidate.tier = Tier.EFFECT if rule.symptom else Tier.CLOSING
    elif failure.kind == "exit" and failure.signal is not None and candidate.root.link.exception is None:
        candidate.tier = Tier.CLOSING
    elif failure.kind == "fault" and failure.signal == 6:
        candidate.tier = Tier.CLOSING  # the stack at abort(): what called it has spoken before
    elif is_wrapper(candidate.root.link):
        candidate.tier = Tier.DEATH if failure.signal in (4, 7, 8, 9, 11) else Tier.WRAPPER
        if failure.signal is None and short(candidate.root.link.exception) not in LAUNCHER_WRAPPERS:
            candidate.tier = Tier.WRAPPER
    elif rule is not None and rule.symptom:
        candidate.tier = Tier.EFFECT
    elif failure.kind == "traceback" and candidate.root.link.exception is None:
        candidate.tier = Tier.CLOSING
    elif failure.damaged is not None and "no traceback stands" in failure.damaged:
        candidate.tier = Tier.BARE
    elif rule is None and short(candidate.root.link.exception) in _DISTRIBUTED:
        candidate.tier = Tier.EFFECT
    elif failure.dialect == "c10" and rule is None:
        # What c10d logs beside a failure (flight recorder, abort, clean-up) is no failure of its own.
        candidate.tier = Tier.EFFECT if "exception" in (candidate.root.link.message or "") else Tier.NOTHING
    elif failure.kind == "native" and candidate.root.link.exception is None:
        candidate.tier = Tier.CRASH
    else:
        candidate.tier = Tier.LOCAL
    candidate.why = failure.fate_why or TIER_WORDS[candidate.tier]
    if candidate.tier is Tier.NOTHING and failure.fate == "fatal":
        candidate.why = "no rule knows it as a failure"


def _death_tier(signal: int | None) -> Tier:
    """SIGTERM is the agent's own doing and SIGABRT a watchdog's; the others came from outside or from a crash."""
    if signal in (4, 5, 7, 8, 9, 11, 31):
        return Tier.DEATH
    if signal == 15:
        return Tier.WRAPPER
    return Tier.CLOSING


def fold_twins(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Equal failures become one candidate: a rank's copy, the summary's copy, another rank's same error."""
    kept: dict[tuple[object, ...], Candidate] = {}
    out: list[Candidate] = []
    for c in sorted(candidates, key=lambda c: (c.failure.in_summary, c.start)):
        link = c.root.link
        last = link.frames[-1] if link.frames else None
        key = (link.exception, (link.message or "").strip(), last.line if last and not c.failure.in_summary else None)
        twin = kept.get(key) or (kept.get((*key[:2], "any")) if c.failure.in_summary else None)
        if twin is not None and link.exception is not None:
            twin.twins.append(c.failure)
            twin.tier = min(twin.tier, c.tier)
            continue
        kept[key] = c
        kept.setdefault((*key[:2], "any"), c)
        out.append(c)
    out.sort(key=lambda c: c.start)
    return out


def type_natives(failures: Sequence[Failure]) -> None:
    """Give a watchdog's line the C++ type under which the process then ended: ``terminate called`` repeats its text."""
    ends = [x for x in failures if x.kind == "native" and x.root.exception is not None]
    if not ends:
        return
    for failure in failures:
        if failure.kind != "native" or failure.root.exception is not None:
            continue
        core = (failure.root.message or "")[:48]
        same = [x for x in ends if core and core in (x.root.message or "")]
        found = next((x for x in same if x.rank == failure.rank), same[0] if same else None)
        if found is None and failure.dialect == "c10":
            kinds = {x.root.exception for x in ends}
            found = ends[0] if len(kinds) == 1 and failure.fate == "fatal" else None  # what() was lost, the type was not
        if found is not None:
            failure.root.exception = found.root.exception


def best_system_line(cause: Candidate, candidates: Sequence[Candidate]) -> Candidate:
    """Of several kernel lines about one event the one that says most: the killed process, the Xid rather than its PCIe echo."""
    if cause.failure.kind != "kernel" or cause.root.match is None:
        return cause
    category = cause.root.match.rule.category
    near = [
        c for c in candidates
        if c.tier is Tier.SYSTEM and c.failure.kind == "kernel" and c.root.match is not None
        and c.root.match.rule.category == category and 0 <= c.failure.first.no - cause.failure.first.no <= 60
    ]  # fmt: skip
    if category == "host-memory":
        return next((c for c in near if c.failure.pid is not None), cause)
    return next((c for c in near if "Xid" in (c.root.link.message or "")), cause)


def explain_by_system(cause: Candidate, candidates: Sequence[Candidate]) -> Candidate:
    """A kernel's line about the card explains the error that the process raised: its exception and frames, the kernel's verdict."""
    rule = cause.root.match.rule if cause.root.match else None
    if cause.failure.kind != "kernel" or rule is None or rule.category != "gpu-hardware":
        return cause
    for c in sorted(candidates, key=lambda c: c.start):
        other = c.root.match.rule if c.root.match else None
        about_card = (other is not None and other.category.startswith("gpu-")) or "CUDA" in (c.root.link.message or "")
        if c.failure.kind == "traceback" and c.tier in (Tier.LOCAL, Tier.EFFECT) and about_card:
            merged = Candidate(
                c.failure,
                Root(
                    c.root.index,
                    c.root.link,
                    cause.root.match,
                    c.root.runners,
                    "the kernel's line explains it",
                    cause.root.context,
                ),
                Tier.SYSTEM,
                cause.why,
                [*c.twins],
            )
            merged.proof = cause.root.link.line
            return merged
    return cause


_BOILERPLATE = frozenset({"ActorDiedError", "RayActorError", "WorkerCrashedError", "ActorUnavailableError", "RayTaskError"})


def explain_by_native(cause: Candidate, candidates: Sequence[Candidate]) -> Candidate:
    """A worker's own native error explains the boilerplate with which its driver reports the death: the native rule decides."""
    if short(cause.root.link.exception) not in _BOILERPLATE:
        return cause
    for c in candidates:
        if c.failure.kind == "native" and c.root.match is not None and c.tier in (Tier.CRASH, Tier.EFFECT, Tier.LOCAL):
            root = Root(
                cause.root.index,
                cause.root.link,
                c.root.match,
                cause.root.runners,
                "the worker's own line explains it",
                c.root.context,
            )
            merged = Candidate(cause.failure, root, cause.tier, cause.why, [*cause.twins])
            merged.proof = c.root.link.line
            return merged
    return cause


_WORK = re.compile(r"WorkNCCL\(SeqNum=(?P<seq>\d+), OpType=(?P<op>\w+)(?:, NumelIn=(?P<n>\d+))?(?:, NumelOut=(?P<out>\d+))?")
# Collectives in which every rank of a group does the same; others are partners (SEND and RECV) or uneven by design.
_SAME_FOR_ALL = frozenset(
    {"ALLREDUCE", "BROADCAST", "ALLGATHER", "_ALLGATHER_BASE", "REDUCE", "REDUCE_SCATTER", "_REDUCE_SCATTER_BASE", "BARRIER"}
)


def disagreement(candidates: Sequence[Candidate]) -> str | None:
    """How ranks differ in what they did at one sequence number: then the program is wrong, and waiting longer cures nothing.

    Groups count for themselves, and the line that names a rank's work does not name its group: with several groups
    about, equal numbers may be a coincidence.
    """
    seen: dict[str, dict[tuple[str, str | None, str | None], int | None]] = {}
    for failure in (x for c in candidates for x in (c.failure, *c.twins)):
        m = _WORK.search(failure.root.message or "")
        if m and failure.rank is not None and m["op"] in _SAME_FOR_ALL:
            seen.setdefault(m["seq"], {}).setdefault((m["op"], m["n"], m["out"]), failure.rank)
    for seq, kinds in seen.items():
        if len(kinds) > 1:
            told = ", ".join(f"rank {rank} in {op}" + (f" of {n} elements" if n else "") for (op, n, _), rank in kinds.items())
            return f"the ranks disagree at sequence number {seq}: {told}"
    return None


def settle(candidates: list[Candidate], exits: Sequence[RankExit], *, failed: bool | None) -> Candidate | None:
    """The candidate that began it, or None when none ended the job. ``failed``: whether the job is known to have failed."""
    locals_ = [c for c in candidates if c.tier is Tier.LOCAL]
    first_local = min((c.start for c in locals_ if not _interrupted(c)), default=None)
    for c in candidates:
        # A scheduler's line that comes after a rank's own error reports the end of a job that was already dying.
        if c.tier is Tier.SYSTEM and first_local is not None and first_local < c.start and c.failure.kind == "scheduler":
            rule = c.root.match.rule if c.root.match else None
            if rule is None or rule.category == "scheduler":
                c.tier = Tier.EFFECT
                c.why = "came after a rank's own error"
    if not locals_ and any(e.exit_code is not None and e.exit_code > 0 for e in exits):
        # Some process ended with a Python exception: what looked survived in a console of many ranks may be it.
        for c in candidates:
            if c.tier is Tier.DEMOTED and c.failure.kind == "traceback":
                c.tier, c.why = Tier.LOCAL, "a worker ended with an exception, and this is the one in the log"
    ranked = sorted(candidates, key=lambda c: (c.tier, c.start))
    for c in ranked:
        if c.tier is Tier.NOTHING:
            continue
        if failed is False and not c.failure.caught:
            continue
        if c.failure.kind == "launcher" and c.tier is Tier.DEATH:
            named = {e.pid for e in exits if e.named_root and e.pid is not None}
            c = next((x for x in ranked if x.tier is c.tier and x.failure.kind == "launcher" and x.failure.pid in named), c)
        if c.tier is Tier.EFFECT and c.root.match is not None:
            # Of effects the one whose rule goes over the first one's says more: the watchdog over its own banner.
            rule = c.root.match.rule
            c = next((x for x in ranked if x.tier is c.tier and x.root.match is not None and x.root.match.rule.beats(rule)), c)
        if c.tier is Tier.WRAPPER and c.failure.kind == "traceback" and not any(e.exit_code and e.exit_code > 0 for e in exits):
            # Nothing is known but that the agent's own SIGTERM ended the workers.
            c = next((x for x in ranked if x.tier is c.tier and x.failure.kind == "launcher"), c)
        if c.failure.kind == "native" and c.root.link.exception is None:
            c = _typed(c, ranked)
        if failed is None and c.tier >= Tier.DEMOTED and c.failure.fate == "survived":
            continue
        return c
    return None


def _typed(c: Candidate, ranked: Sequence[Candidate]) -> Candidate:
    """The traceback of the same failure that a native line announces: it has a type and frames."""
    for other in ranked:
        a, b = other.root.match, c.root.match
        same = a is not None and b is not None and a.rule.category == b.rule.category
        if (
            other.tier is c.tier
            and same
            and other.failure.kind == "traceback"
            and (c.failure.rank is None or other.failure.rank in (None, c.failure.rank))
        ):
            return other
    return c


def _interrupted(c: Candidate) -> bool:
    return short(c.root.link.exception) in ("KeyboardInterrupt", "SignalException", "SystemExit")
