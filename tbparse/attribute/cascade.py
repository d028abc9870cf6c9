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
from tbparse.records import Failure, Line


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
    """Equal failures become one candidate: a rank's copy, the summary's copy, another rank's same error.

    ``candidates`` come in the order in which they are believed to have happened; the first of equal ones is kept. One that
    its process survived is not the same as one that ended another: joined, the first would seem to have ended its own.
    """
    kept: dict[tuple[object, ...], Candidate] = {}
    out: list[Candidate] = []
    for c in sorted(candidates, key=lambda c: c.failure.in_summary):
        link = c.root.link
        last = link.frames[-1] if link.frames else None
        what = (link.exception, (link.message or "").strip())
        survived = c.failure.fate == "survived"
        key = (*what, last.line if last and not c.failure.in_summary else None, survived)
        twin = kept.get(key)
        if twin is None and c.failure.in_summary:
            twin = kept.get((*what, "ended")) or kept.get((*what, "any"))
        if twin is not None and link.exception is not None:
            twin.twins.append(c.failure)
            twin.tier = min(twin.tier, c.tier)
            continue
        kept[key] = c
        kept.setdefault((*what, "any" if survived else "ended"), c)
        out.append(c)
    place = {id(c): i for i, c in enumerate(candidates)}
    out.sort(key=lambda c: place[id(c)])
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
