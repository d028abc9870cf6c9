"""From the decision to the answer: site, chain, rank, verdict, advice, fingerprint."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from tbparse import model
from tbparse.attribute.cascade import Candidate, Tier
from tbparse.attribute.hang import Absence, show_ranks
from tbparse.attribute.job import Decision, Job
from tbparse.attribute.sameness import fingerprint
from tbparse.attribute.unwrap import blame, entry_frame, is_wrapper, short
from tbparse.attribute.words import decode_returncode
from tbparse.model import RootCause, Scalar, signal_name
from tbparse.records import Failure, Frame, Line, Link, RankExit
from tbparse.ruleset.match import Match, RuleSet, convert, default_retry

MAX_FRAMES = 200
MAX_SECONDARY = 200
SecondaryKind: TypeAlias = Literal["same", "effect", "launcher", "survived", "other"]
_LOCAL_TIERS = (Tier.SYSTEM, Tier.LOCAL)


def build_answer(job: Job, decision: Decision, rules: RuleSet, returncode: int | None) -> RootCause:
    """The contract's answer for a decision."""
    cause = decision.cause
    if cause is None:
        unknown = decision.failed is True
        return RootCause(
            verdict="unknown" if unknown else "clean",
            category="unknown" if unknown else None,
            confidence="low" if unknown else "high" if returncode == 0 else "medium",
            exit_code=returncode if returncode is not None and returncode >= 0 else None,
            secondary=_secondary(decision, None),
            notes=tuple(decision.notes),
        )
    failure, root = cause.failure, cause.root
    links = failure.links
    site_frame, site_index = blame(links, root.index)
    outer = [w for w in decision.wrappers if w.failure.kind == "traceback" and w is not cause]
    entry = _entry(outer, links, site_frame)
    ruling = _rule(cause, rules, decision)
    fact = _exit_of_attempt(cause, job.exits)
    rank, local_rank, host = _place(cause, fact)
    culprit = _culprit(decision)
    if culprit is not None and culprit != rank:
        rank, local_rank, host = culprit, *next(((e.local_rank, e.host) for e in job.exits if e.rank == culprit), (None, None))
    signal = failure.signal
    exit_code = failure.exit_code if failure.exit_code is not None and failure.exit_code >= 0 and signal is None else None
    if exit_code is None and signal is None and fact is not None and fact.exit_code is not None:
        signal, exit_code = decode_returncode(fact.exit_code)
    if exit_code is None and signal is None and returncode and not outer:
        signal, exit_code = decode_returncode(returncode)
    link = root.link
    notes = list(dict.fromkeys([*decision.notes, *_told(decision, job, ruling["verdict"])]))
    if failure.damaged:
        notes.append(failure.damaged)
    if cause.tier is Tier.WRAPPER and signal is None:
        notes.append("what the child printed is not in this log: look where its output went, or run it under `tbparse run`")
    frames = _frames(links, root.index if link.frames else site_index, notes)
    # One validation of the whole is several times faster than one for each part of it.
    answer = {
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
        "secondary": _secondary(decision, cause),
        "advice": tuple(ruling["advice"]),
        "retry": ruling["retry"],
        "fingerprint": fingerprint(ruling["rule"], link, site_frame),
        "notes": tuple(notes),
        "ranks": tuple(same_ranks(cause)),
        "attempts": tuple(_attempts(decision)),
    }
    return RootCause.model_validate(answer)


def same_ranks(cause: Candidate) -> list[int]:
    """All ranks that had this very failure."""
    copies = (cause.failure, *cause.twins)
    return sorted({r for x in copies for r in (x.rank, *(t.rank for t in x.also)) if r is not None})


def _culprit(decision: Decision) -> int | None:
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


def _told(decision: Decision, job: Job, verdict: str) -> list[str]:
    """What is to be said of ranks that disagree or are missing, and of other attempts."""
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
                out.append(f"rank {rank} printed last: {_short(line.text.strip())[:200]} ({where})")
    if decision.doubt is not None:
        out.append(decision.doubt)
    return out


def _attempts(decision: Decision) -> list[dict[str, Any]]:
    if len(decision.attempts) < 2:
        return []
    out = []
    for number, c in sorted(decision.attempts.items()):
        link, match = c.root.link, c.root.match
        head = (link.message or "").split("\n", 1)[0][:300] or None
        rule = match.rule.id if match is not None else None
        out.append({"number": number, "exception": link.exception, "message": head, "rank": c.failure.rank, "rule": rule})
    return out


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


def _chain(outer: Sequence[Candidate], links: Sequence[Link], index: int) -> tuple[model.ChainLink, ...]:
    chain = [
        model.ChainLink(exception=w.root.link.exception, message=w.root.link.message, relation="launcher")
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
        chain.append(model.ChainLink(exception=link.exception, message=link.message, relation=relation))
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
        first = [_go_to(decision.absence)] if decision.absence is not None else []
        return {**found, "captures": _hang_captures(decision), "advice": [*first, *found["advice"]]}
    rule = match.rule
    verdict, category, advice, retry = rule.verdict, rule.category, list(rule.advice), rule.retry
    q = rules.qualify(match, root.link, root.context)
    if q is not None:
        if q.get("verdict") and q["verdict"] != verdict and not q.get("retry"):
            retry = None
        verdict, category = q.get("verdict") or verdict, q.get("category") or category
        advice = [*(q.get("advice") or ()), *advice] if not q.get("verdict") else list(q.get("advice") or advice)
        retry = q.get("retry") or retry
    if disagreement is not None and verdict in ("transient", "unknown"):
        verdict, retry = ("real" if disagreement.certain else "unknown"), None
        advice = [f"Make every rank run the same collectives: {disagreement.said}.", *advice]
    if decision.doubt is not None and verdict == "transient":
        verdict, retry = "unknown", None
    captures = {k: convert(v, rule.captures[k]) for k, v in match.groups.items() if k in rule.captures}
    absent = decision.absence
    if absent is not None:
        advice.insert(0, _go_to(absent))
    shown = {k: match.groups[k].strip() for k in captures}
    return {
        "verdict": verdict,
        "category": category,
        "rule": rule.id,
        "title": rule.title,
        "captures": {**_hang_captures(decision), **captures},
        "advice": [line for line in (_fill(a, shown) for a in advice) if line],
        "retry": model.Retry(**retry) if retry else default_retry(verdict),
    }


def _go_to(absent: Absence) -> str:
    """The first thing to do in a hang."""
    who = show_ranks(absent.ranks)
    at = f" at {absent.op or 'collective'} number {absent.seq}" if absent.seq is not None else ""
    return f"{who[0].upper()}{who[1:]} did not arrive{at}: read what it printed last, and look there first."


def _hang_captures(decision: Decision) -> dict[str, Scalar | tuple[Scalar, ...]]:
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


def _fill(text: str, values: dict[str, str]) -> str | None:
    """Advice with its ``{name}`` places filled; None when one has no value."""
    names = re.findall(r"\{([a-z_][a-z0-9_]*)\}", text)
    if any(n not in values for n in names):
        return None
    return re.sub(r"\{([a-z_][a-z0-9_]*)\}", lambda m: values[m[1]], text)


def _unruled(cause: Candidate) -> dict[str, Any]:
    """No rule fits: what the failure's structure allows to say, and no more."""
    failure, link = cause.failure, cause.root.link
    verdict: model.Verdict = "unknown"
    category: model.Category = "unknown"
    advice: list[str] = []
    frames = [x for x in link.frames if not x.plumbing]
    deepest = frames[-1] if frames else None
    if failure.kind == "traceback" and link.exception is not None and not is_wrapper(link):
        if deepest is not None and deepest.origin == "user":
            verdict, category = "real", "user-code"
            advice = ["The program itself raised this: read the line under `where`."]
        elif any(x.origin == "user" for x in frames) and not _PASSING.search(f"{link.exception}: {link.message or ''}"):
            verdict, category = "real", "user-code"
            advice = ["A library refused what it was given: look at the arguments on the line under `where`."]
    elif failure.kind == "usage" or (failure.kind == "exit" and failure.signal is None and failure.exit_code in (2, 126, 127)):
        verdict, category = "real", "config"
    return {
        "verdict": verdict,
        "category": category,
        "rule": None,
        "title": None,
        "captures": {},
        "advice": advice,
        "retry": model.Retry(),
    }


_PASSING = re.compile(
    r"(?i)time[d]?[ -]?out|connect|unavailable|temporar|reset|refused|try again|retry|rate.?limit"
    r"|\b5\d\d\b|busy|locked|lost|CUDA|NCCL|HIP|HCCL|XPU|gloo|driver"
    r"|device|socket|network|memory|killed|died|signal|aborted|broken|closed|interrupt|preempt|evict"
)
"""Words of failures that may pass, or that come from below the program: about those nothing is said without a rule."""


def _confidence(cause: Candidate) -> model.Confidence:
    failure, match = cause.failure, cause.root.match
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
    frames = [x for x in cause.root.link.frames if not x.plumbing]
    return bool(frames) and frames[-1].origin == "user"


def _evidence(cause: Candidate, decision: Decision) -> tuple[model.Evidence, ...]:
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
        model.Evidence(line=x.no, start=x.start, end=x.end, text=_short(x.text), source=cause.failure.source) for x in lines
    )


def _short(text: str) -> str:
    return text if len(text) <= 2000 else f"{text[:1500]} … {text[-400:]}"


def _secondary(decision: Decision, cause: Candidate | None) -> tuple[model.Secondary, ...]:
    out: list[model.Secondary] = []

    def add(c: Candidate, failure: Failure, link: Link, kind: SecondaryKind) -> None:
        line = link.line or failure.first
        rule = c.root.match.rule.id if c.root.match is not None and link is c.root.link else None
        out.append(model.Secondary(exception=link.exception, rank=failure.rank, line=line.no, kind=kind, rule=rule))
        if failure.also:
            ranks = tuple(sorted({t.rank for t in failure.also if t.rank is not None}))
            out.append(model.Secondary(exception=link.exception, kind=kind, rule=rule, count=len(failure.also), ranks=ranks))

    if cause is not None:
        if cause.failure.also:
            ranks = tuple(sorted({t.rank for t in cause.failure.also if t.rank is not None}))
            exception = cause.root.link.exception
            out.append(model.Secondary(exception=exception, kind="same", count=len(cause.failure.also), ranks=ranks))
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
    return tuple(out[:MAX_SECONDARY])


def _kind_of(c: Candidate) -> SecondaryKind:
    if c.tier is Tier.EFFECT:
        return "effect"
    if c.tier in (Tier.CLOSING, Tier.WRAPPER, Tier.DEATH) and c.failure.kind in ("launcher", "exit", "scheduler", "traceback"):
        return "launcher"
    return "survived" if c.tier in (Tier.DEMOTED, Tier.THREAD, Tier.NOTHING) else "other"


__all__ = ["Match", "build_answer", "fingerprint"]
