"""From the decision to the answer: site, chain, rank, verdict, advice, fingerprint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tbparse.attribute.cascade import Candidate, Tier
from tbparse.attribute.job import Decision, Job
from tbparse.attribute.sameness import fingerprint
from tbparse.attribute.unwrap import blame, entry_frame, is_wrapper, short
from tbparse.attribute.words import decode_returncode
from tbparse.beside import attempts_of, culprit_of, go_to, hang_captures, same_ranks, secondary_of, told_of_ranks
from tbparse.dialects.mixed import MIXED
from tbparse.records import Failure, Frame, Line, Link, RankExit
from tbparse.ruleset import structure
from tbparse.ruleset.kinds import category_of
from tbparse.ruleset.match import Match, RuleSet, convert, retry_values
from tbparse.terms import Confidence, signal_name

MAX_FRAMES = 200
_LOCAL_TIERS = (Tier.SYSTEM, Tier.LOCAL)
_ABSENT = ("rule", "title", "exception", "message", "site", "entry")
_NOWHERE = ("rank", "local_rank", "host", "attempt", "process", "signal", "exit_code")
NOTHING: dict[str, Any] = {
    "verdict": "clean",
    "category": None,
    "confidence": "medium",
    **dict.fromkeys(_ABSENT),
    **dict.fromkeys(("frames", "chain"), ()),
    **dict.fromkeys(_NOWHERE),
    "evidence": (),
    "captures": {},
    "secondary": (),
    "advice": (),
    "retry": retry_values(None, "clean"),
    "fingerprint": None,
    **dict.fromkeys(("notes", "ranks", "attempts"), ()),
}
"""The values of an answer about no failure, in the order of the contract."""


def answer_values(job: Job, decision: Decision, rules: RuleSet, returncode: int | None) -> dict[str, Any]:
    """The contract's answer for a decision: a value for each field of :class:`tbparse.model.RootCause` but ``schema``."""
    cause = decision.cause
    if cause is None:
        unknown = decision.failed is True or (job.skipped > 0 and decision.failed is not False)
        return NOTHING | {
            "verdict": "unknown" if unknown else "clean",
            "category": "unknown" if unknown else None,
            "confidence": "low" if unknown else "high" if returncode == 0 else "medium",
            "exit_code": returncode if returncode is not None and returncode >= 0 else None,
            "secondary": secondary_of(decision, None),
            "notes": tuple(decision.notes),
        }
    failure, root = cause.failure, cause.root
    links = failure.links
    site_frame, site_index = blame(links, root.index)
    outer = [w for w in decision.wrappers if w.failure.kind == "traceback" and w is not cause]
    entry = _entry(outer, links, site_frame)
    ruling = _rule(cause, rules, decision)
    if ruling["verdict"] == "transient" and (failure.damaged or "").startswith(MIXED):
        # What another process raised may be lost in the mixture: an error that lasts must not be run again for an effect's sake.
        ruling |= _withheld()
    fact = _exit_of_attempt(cause, job.exits)
    rank, local_rank, host = _place(cause, fact)
    culprit = culprit_of(decision)
    if culprit is not None and culprit != rank:
        rank, local_rank, host = culprit, *next(((e.local_rank, e.host) for e in job.exits if e.rank == culprit), (None, None))
    signal = failure.signal
    exit_code = failure.exit_code if failure.exit_code is not None and failure.exit_code >= 0 and signal is None else None
    if exit_code is None and signal is None and fact is not None and fact.exit_code is not None:
        signal, exit_code = decode_returncode(fact.exit_code)
    if exit_code is None and signal is None and outer and failure.kind in ("traceback", "usage", "exit"):
        # What ran the process first says how it ended.
        code = min(outer, key=lambda c: c.start).failure.exit_code
        signal, exit_code = decode_returncode(code) if code is not None else (None, None)
    if exit_code is None and signal is None and returncode and not outer:
        signal, exit_code = decode_returncode(returncode)
    link = root.link
    notes = list(dict.fromkeys([*decision.notes, *told_of_ranks(decision, job)]))
    if failure.damaged:
        notes.append(failure.damaged)
    if cause.tier is Tier.WRAPPER and signal is None:
        notes.append("what the child printed is not in this log: look where its output went, or run it under `tbparse run`")
    if ruling["verdict"] == "transient" and job.skipped:
        ruling |= _withheld()
        notes.append("what stands before may have ended it first: so nothing is said of trying again")
    elif ruling["verdict"] == "transient" and (job.passed or job.dropped) and _refutable(decision, cause):
        # One of those that were not read may have ended a rank, where those that were read did not.
        ruling |= _withheld()
        notes.append("other failures were too many to read one by one, and may have ended it: so nothing is said of trying again")
    frames = _frames(links, root.index if link.frames else site_index, notes)
    return {
        "verdict": ruling["verdict"],
        "category": ruling["category"],
        "confidence": _confidence(cause),
        "rule": ruling["rule"],
        "title": ruling["title"],
        "exception": link.exception,
        "message": link.message,
        "site": _site(site_frame),
        "entry": _site(entry),
        "frames": frames,
        "chain": _chain(outer, links, root.index),
        "rank": rank,
        "local_rank": local_rank,
        "host": host,
        "attempt": failure.attempt,
        "process": link.process or failure.tags.process,
        "signal": signal_name(signal) or f"signal {signal}" if signal is not None else None,
        "exit_code": exit_code,
        "evidence": _evidence(cause, decision),
        "captures": ruling["captures"],
        "secondary": secondary_of(decision, cause),
        "advice": tuple(ruling["advice"]),
        "retry": ruling["retry"],
        "fingerprint": fingerprint(ruling["rule"], link, site_frame),
        "notes": tuple(notes),
        "ranks": tuple(same_ranks(cause)),
        "attempts": tuple(attempts_of(decision)),
    }


def _withheld() -> dict[str, Any]:
    """What replaces a verdict that says to run again where something unread may speak against it."""
    return {"verdict": "unknown", "retry": retry_values(None, "unknown")}


def _refutable(decision: Decision, cause: Candidate) -> bool:
    """Whether failures that did no harm where they were read are no passing ones."""
    return any(
        c.tier in (Tier.DEMOTED, Tier.LOGGED, Tier.THREAD) and (c.root.match is None or c.root.match.rule.verdict != "transient")
        for c in decision.candidates
        if c is not cause
    )


def _site(frame: Frame | None) -> dict[str, Any] | None:
    if frame is None:
        return None
    return {"path": frame.path, "line": frame.line, "function": frame.function, "source": frame.source}


def _entry(outer: Sequence[Candidate], links: Sequence[Link], site: Frame | None) -> Frame | None:
    """The script: first user frame of the outermost traceback that has one."""
    for w in sorted(outer, key=lambda c: -c.start):
        found = entry_frame(w.failure.links)
        if found is not None and site is not None:
            return found
    return entry_frame(links) if site is not None else None


def _frames(links: Sequence[Link], index: int, notes: list[str]) -> tuple[dict[str, Any], ...]:
    frames = [x for x in links[index].frames if not (x.plumbing and x.origin == "launcher")]
    if len(frames) > MAX_FRAMES:
        notes.append(f"{len(frames) - MAX_FRAMES} frames in the middle of the traceback are left out")
        frames = frames[: MAX_FRAMES // 2] + frames[-MAX_FRAMES // 2 :]
    return tuple({"path": x.path, "line": x.line, "function": x.function, "source": x.source, "origin": x.origin} for x in frames)


def _chain(outer: Sequence[Candidate], links: Sequence[Link], index: int) -> tuple[dict[str, Any], ...]:
    chain = [
        {"exception": w.root.link.exception, "message": w.root.link.message, "relation": "launcher"}
        for w in sorted(outer, key=lambda c: -c.start)[:8]
    ]
    for i, link in enumerate(links[: index + 1]):
        relation = (
            "root"
            if i == index
            else "launcher"
            if short(link.exception) in ("ChildFailedError", "CalledProcessError")
            else link.relation
        )
        chain.append({"exception": link.exception, "message": link.message, "relation": relation})
    return tuple(chain)


def _exit_of_attempt(cause: Candidate, exits: Sequence[RankExit]) -> RankExit | None:
    """The launcher's record of the worker, in the cause's own attempt: a rank of another attempt is another process.

    Which rank a local rank is, and its host, another attempt may tell.
    """
    attempt = cause.failure.attempt
    if attempt is None or all(e.attempt in (None, attempt) for e in exits):
        return _worker_exit(cause, exits)
    mine = [e for e in exits if e.attempt in (None, attempt)]
    own = _worker_exit(cause, mine)
    if own is not None and own.rank is not None:
        return own
    other = _worker_exit(cause, exits)
    if other is None:
        return own
    own = own or next((e for e in mine if e.local_rank is not None and e.local_rank == other.local_rank), None)
    return replace(other, exit_code=own.exit_code if own is not None else None)


def _worker_exit(cause: Candidate, exits: Sequence[RankExit]) -> RankExit | None:
    """The launcher's record of the worker in which the cause arose."""
    failure = cause.failure
    if not exits:
        return None
    if failure.pid is not None:
        same = [e for e in exits if e.pid == failure.pid]
        found = next((e for e in same if e.rank is not None), same[0] if same else None)
        if found is not None:
            return found
    rank = cause.root.link.rank if cause.root.link.rank is not None else failure.rank
    if rank is not None:
        return next((e for e in exits if e.rank == rank), None)
    if failure.tags.local_rank is not None:
        return next((e for e in exits if e.local_rank == failure.tags.local_rank and e.rank is not None), None)
    if cause.tier is Tier.WRAPPER:
        failed = [e for e in exits if e.exit_code not in (None, 0, -15) and e.rank is not None]
        return next((e for e in failed if e.named_root), failed[0] if len({e.rank for e in failed}) == 1 else None)
    if failure.kind == "scheduler" and failure.signal == 9:
        # The step's report of a kill names no task; srun's own line does, when it was one.
        killed = [e for e in exits if e.launcher == "srun" and e.exit_code in (-9, 137) and e.rank is not None]
        return killed[0] if len({e.rank for e in killed}) == 1 else None
    if _launchers_own(failure) or failure.kind in ("scheduler", "kernel", "launcher"):
        return None
    wanted = [
        e
        for e in exits
        if e.exit_code is not None and (e.exit_code == failure.exit_code if failure.exit_code is not None else e.exit_code > 0)
    ]
    if failure.signal is not None and failure.kind in ("fault", "native", "exit"):
        wanted = [e for e in exits if e.exit_code == -failure.signal] or wanted
    if not wanted:
        failing = [e for e in exits if e.exit_code not in (None, 0, -15) and e.rank is not None]
        wanted = failing if len({e.rank for e in failing}) == 1 else []
    ranked = [e for e in wanted if e.rank is not None] or [e for e in wanted if e.local_rank is not None]
    named = [e for e in exits if e.rank is not None and e.exit_code is not None and e.exit_code > 0]
    if failure.kind == "traceback" and len({e.rank for e in named}) == 1:
        return named[0]  # a Python exception ends with a positive code, and only one worker has one
    return next((e for e in ranked if e.named_root), ranked[0] if ranked else None)


def _launchers_own(failure: Failure) -> bool:
    """The launcher itself raised it: every frame is plumbing or below it."""
    frames = [x for link in failure.links for x in link.frames]
    return (
        bool(frames)
        and frames[0].origin == "launcher"
        and not any(x.origin == "user" for x in frames)
        and failure.kind == "traceback"
    )


def _place(cause: Candidate, fact: RankExit | None) -> tuple[int | None, int | None, str | None]:
    """Global rank, local rank, host."""
    failure = cause.failure
    rank = cause.root.link.rank if cause.root.link.rank is not None else failure.tags.rank
    told = next((x.host for x in reversed(failure.links) if x.host), None)
    local, host = failure.tags.local_rank, failure.tags.host or told
    for twin in cause.twins:
        if rank is None and failure.tags.local_rank is None:
            rank, local, host = twin.tags.rank, twin.tags.local_rank, twin.tags.host
    if rank is None:
        rank = failure.rank_hint
    if fact is not None:
        rank = fact.rank if rank is None else rank
        local = fact.local_rank if local is None else local
        host = fact.host if host is None else host
        if rank is None:
            rank = fact.local_rank
    return rank, local, host


def _rule(cause: Candidate, rules: RuleSet, decision: Decision) -> dict[str, Any]:
    """Verdict, category and advice: the rule's, turned by its qualifiers; by the failure's structure where no rule fits."""
    match, root, disagreement = cause.root.match, cause.root, decision.disagreement
    if match is None:
        found = _unruled(cause)
        first = [go_to(decision.absence)] if decision.absence is not None else []
        return {**found, "captures": hang_captures(decision), "advice": [*first, *found["advice"]]}
    rule = match.rule
    verdict, category, advice, retry = rule.verdict, rule.category, list(rule.advice), rule.retry
    q = rules.qualify(match, root.link, root.context)
    if q is not None:
        if q.get("verdict") and q["verdict"] != verdict and not q.get("retry"):
            retry = None
        verdict, category = q.get("verdict") or verdict, q.get("category") or category
        advice = [*(q.get("advice") or ()), *advice] if not q.get("verdict") else list(q.get("advice") or advice)
        retry = q.get("retry") or retry
    by_type_alone = rule.generic and rule.category in ("user-code", "data") and not (q and q.get("category"))
    if by_type_alone and cause.failure.kind == "traceback":
        turned = category_of(root.link.exception or "", root.link.message or "", _told(root.link))
        if turned is not None and turned != category:
            category, advice = turned, [structure.TURNED[turned], *advice]
    if disagreement is not None and verdict in ("transient", "unknown"):
        verdict, retry = ("real" if disagreement.certain else "unknown"), None
        advice = [f"Make every rank run the same collectives: {disagreement.said}.", *advice]
    if decision.doubt is not None and verdict == "transient":
        verdict, retry = "unknown", None
    if verdict == "transient" and _elided(root.context.failure.links):
        verdict, retry = "unknown", None
        advice = ["The group holds more exceptions than were printed: each of them must be one that passes.", *advice]
    captures = {k: convert(v, rule.captures[k]) for k, v in match.groups.items() if k in rule.captures}
    if verdict == "transient" and _more_than_there_is(captures):
        verdict, retry = "real", None
        advice.insert(0, "It asks for more memory than the whole card has ({requested} of {total}): no other moment will do.")
    absent = decision.absence
    if absent is not None:
        advice.insert(0, go_to(absent))
    shown = {k: match.groups[k].strip() for k in captures}
    return {
        "verdict": verdict,
        "category": category,
        "rule": rule.id,
        "title": rule.title,
        "captures": {**hang_captures(decision), **captures},
        "advice": [line for line in (_fill(a, shown) for a in advice) if line],
        "retry": retry_values(retry, verdict),
    }


def _more_than_there_is(captures: Mapping[str, Any]) -> bool:
    """Whether an allocation is larger than the memory that it is asked of, whoever else holds some."""
    requested, total = captures.get("requested"), captures.get("total")
    return isinstance(requested, int) and isinstance(total, int) and requested > total > 0


def _elided(links: Sequence[Link]) -> bool:
    """Whether a group in the chain has leaves that were not printed."""
    return any(link.elided or any(_elided(leaf) for leaf in link.leaves) for link in links)


def _fill(text: str, values: dict[str, str]) -> str | None:
    """Advice with its ``{name}`` places filled; None when one has no value."""
    names = re.findall(r"\{([a-z_][a-z0-9_]*)\}", text)
    if any(n not in values for n in names):
        return None
    return re.sub(r"\{([a-z_][a-z0-9_]*)\}", lambda m: values[m[1]], text)


def _unruled(cause: Candidate) -> dict[str, Any]:
    """No rule fits: what the failure's structure allows to say, and no more."""
    failure, link = cause.failure, cause.root.link
    ruling = structure.Ruling()
    if failure.kind == "traceback" and link.exception is not None and not is_wrapper(link):
        ruling = structure.by_structure(link.exception, link.message or "", _told(link))
    elif failure.kind == "usage" or (failure.kind == "exit" and failure.signal is None and failure.exit_code in (2, 126, 127)):
        ruling = structure.Ruling("real", "config")
    return {
        "verdict": ruling.verdict,
        "category": ruling.category,
        "rule": None,
        "title": None,
        "captures": {},
        "advice": list(ruling.advice),
        "retry": retry_values(None, ruling.verdict),
    }


def _confidence(cause: Candidate) -> Confidence:
    failure, match = cause.failure, cause.root.match
    if failure.reported and cause.tier in _LOCAL_TIERS:
        return "high"
    if (
        failure.damaged
        or (match is None and not _own(cause))
        or cause.tier in (Tier.BARE, Tier.CLOSING, Tier.WRAPPER, Tier.DEMOTED, Tier.THREAD)
    ):
        return "low"
    if match is not None and not match.rule.generic and cause.tier in _LOCAL_TIERS:
        return "high"
    return "medium"


def _own(cause: Candidate) -> bool:
    """The deepest frame is the user's."""
    frames = _told(cause.root.link)
    return bool(frames) and frames[-1].origin == "user"


def _told(link: Link) -> list[Frame]:
    """The frames without plumbing, outermost first."""
    return [x for x in link.frames if not x.plumbing]


def _evidence(cause: Candidate, decision: Decision) -> tuple[dict[str, Any], ...]:
    lines: list[Line] = []
    link = cause.root.link
    for line in (
        cause.failure.first,
        link.line,
        cause.failure.last if cause.failure.kind != "traceback" else None,
        cause.proof,
    ):
        if line is not None and line.text and line not in lines:
            lines.append(line)
    if len(lines) > 1 and all("json" in x.shape and x.no == lines[0].no for x in lines):
        # One object holds it all; a header may have been put together from fields, the message stands there.
        said = next((t for t in (link.message or "").split("\n") if t.strip()), None)
        lines = [(link.line or lines[0])._replace(text=said or link.exception or lines[-1].text)]
    match = cause.root.match
    if match is not None and match.line_index is not None and match.line_index < len(decision.evidence):
        extra = decision.evidence[match.line_index]
        if extra not in lines:
            lines.append(extra)
    lines.sort(key=lambda x: x.start)
    return tuple(
        {"line": x.no, "start": x.start, "end": x.end, "text": _short(x.text), "source": cause.failure.source} for x in lines
    )


def _short(text: str) -> str:
    return text if len(text) <= 2000 else f"{text[:1500]} … {text[-400:]}"


__all__ = ["Match", "answer_values", "fingerprint"]
