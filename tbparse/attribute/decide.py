"""From everything that was found to the decision: rate the failures, hear the witnesses, let the judge choose."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tbparse.attribute.attempts import by_attempt, number_attempts
from tbparse.attribute.cascade import (
    Candidate,
    Tier,
    best_system_line,
    explain_by_native,
    explain_by_system,
    fold_twins,
    rate,
    type_natives,
)
from tbparse.attribute.clocks import compare
from tbparse.attribute.handled import demote_handled
from tbparse.attribute.job import Decision, Job
from tbparse.attribute.judge import (
    RESTARTED,
    doubt,
    failure_times,
    in_order,
    judge,
    missing,
    rank_order,
    waited_in_vain,
    weigh,
)
from tbparse.attribute.rivals import real_beside
from tbparse.attribute.survived import PROGRESS_LINES, mark_finished
from tbparse.attribute.unwrap import Root, find_root
from tbparse.attribute.witnesses import Case, hear
from tbparse.attribute.words import bare_exit, hint, last_event, last_words, line_candidate, parting
from tbparse.dialects import frames as f
from tbparse.records import Failure, Link
from tbparse.ruleset.match import Context, Evidence, RuleSet
from tbparse.text.blocks import TAIL_LINES


def attribute(job: Job, rules: RuleSet, returncode: int | None) -> Decision:
    """Decide which failure began it. ``returncode``: negative or 128+N for signals, None where unknown."""
    notes = list(job.notes)
    if job.dropped:
        notes.append(f"{job.dropped} failures in the middle of the log were counted, not kept")
    evidence = Evidence([line.text for line in job.evidence])
    if job.last_lines:
        mark_finished([x for x in job.failures if x.source is None], job.last_lines, job.last_no)
    clocks = compare(job.facts.marks)
    failures = [*job.failures, *_deaths(job)]
    working = max((x.start for x in job.last_lines if f.PROGRESS.search(x.text)), default=-1)
    ends = number_attempts(job.facts, job.exits, failures, working)
    running = returncode is None and _goes_on(job, failures, ends.get(None, []))
    times = failure_times(failures, job.exits, clocks)
    failures = in_order(failures, times)
    type_natives(failures)
    candidates = _candidates(failures, job, rules, evidence, notes)
    for c in candidates:
        rate(c)
    candidates = fold_twins(candidates)
    demote_handled(candidates, job.exits, rules)
    weigh(candidates, job.exits, job.facts.closed, times, job.evidence)
    wrappers = [c for c in candidates if c.tier is Tier.WRAPPER or (c.tier is Tier.DEATH and c.failure.kind == "traceback")]
    failed = None if running else _failed(returncode, job, candidates)
    case = Case(
        rank_order(candidates, times),
        job.exits,
        job.facts,
        failed,
        clocks,
        {id(c): times[id(c.failure)] for c in candidates if id(c.failure) in times},
        attempts=by_attempt(candidates),
    )
    if job.facts.collective:
        from tbparse.attribute.hang import disagreement

        case.disagreement = disagreement(job.facts)
    case.absences = missing(case, job.facts.closed)
    cause = judge(case, hear(case))
    if cause is not None:
        cause = explain_by_system(best_system_line(cause, candidates), candidates)
        cause = explain_by_native(cause, candidates)
        cause = real_beside(cause, candidates, rules)
    cause, wrappers = _without_structure(cause, wrappers, job, rules, evidence, notes, candidates, failed, returncode)
    decision = Decision(cause, candidates, failed, [w for w in wrappers if w is not cause], notes, job.evidence, case)
    if cause is not None:
        _conclude(decision, cause, case)
    return decision


def _conclude(decision: Decision, cause: Candidate, case: Case) -> None:
    """What else is to be said of the cause: who is missing, how the ranks disagree, what other attempts died of."""
    rule = cause.root.match.rule if cause.root.match else None
    about = cause.tier is Tier.EFFECT or (rule is not None and rule.id.startswith("communication/"))
    if about:
        decision.disagreement = case.disagreement
        if waited_in_vain(cause) and case.disagreement is None:
            decision.absence = next(iter(case.absences), None)
    decision.doubt = doubt(case, cause)
    for number, found in sorted(case.attempts.items()):
        own = [c for c in case.ranked if any(c is x for x in found) and c.tier < Tier.CLOSING]
        if own:
            # Of the strongest ones that with a type says more than a line of native code about the same.
            decision.attempts[number] = next((c for c in own if c.tier is own[0].tier and c.root.link.exception), own[0])


def _candidates(failures: Sequence[Failure], job: Job, rules: RuleSet, evidence: Evidence, notes: list[str]) -> list[Candidate]:
    """Each failure with its root and rule, and the lines that only a rule knows."""
    candidates: list[Candidate] = []
    roots: dict[tuple[object, ...], Root] = {}
    for failure in failures:
        key = _key(failure)
        root = roots.get(key) if key is not None and len(failures) > 50 else None
        if root is None:
            root = find_root(failure, rules, evidence, notes)
            if key is not None:
                roots[key] = root
        else:
            index = min(root.index, len(failure.links) - 1)
            context = Context(failure, failure.links, evidence, notes)
            root = Root(index, failure.links[index], root.match, root.runners, root.why, context)
        candidates.append(Candidate(failure, root))
    for index, match in rules.line_matches(evidence, fatal=True, notes=notes):
        line = job.evidence[index]
        if not any(c.failure.first.start == line.start and c.root.match for c in candidates):
            candidates.append(line_candidate(line, match.rule.id, rules, evidence, notes))
    return candidates


def _without_structure(
    cause: Candidate | None,
    wrappers: list[Candidate],
    job: Job,
    rules: RuleSet,
    evidence: Evidence,
    notes: list[str],
    candidates: list[Candidate],
    failed: bool | None,
    returncode: int | None,
) -> tuple[Candidate | None, list[Candidate]]:
    """Where no failure with a structure explains the end: telling lines, last words, the bare return code."""
    if cause is not None and cause.tier is Tier.WRAPPER and cause.failure.signal is None:
        words = last_words(job, rules, evidence, notes, cause)
        if words is not None:
            candidates.append(words)
            wrappers = [*wrappers, cause]
            cause = words
    if failed and (cause is None or cause.tier in (Tier.WRAPPER, Tier.CLOSING, Tier.DEMOTED, Tier.THREAD)):
        told = hint(job, rules, evidence, notes)
        if told is not None:
            rate(told)
            candidates.append(told)
            cause = told
    if cause is None and failed is not False:
        cause = last_event(job, candidates)
    if cause is None and failed is None and parting(job):
        cause = bare_exit(job, rules, evidence, notes, 1)
        cause.failure.exit_code = None
        cause.why = "the log ends with it"
        candidates.append(cause)
    if failed and cause is None and returncode:
        cause = bare_exit(job, rules, evidence, notes, returncode)
        candidates.append(cause)
    return cause, wrappers


def _goes_on(job: Job, failures: Sequence[Failure], ends: Sequence[int]) -> bool:
    """Whether the log ends while a later attempt is at work: then the failures before it did not end the job. Marks them so."""
    if not ends:
        return False
    after = {x.text for x in job.last_lines if x.start >= ends[-1] and f.PROGRESS.search(x.text)}
    before = [x for x in failures if x.source is None]
    if len(after) < PROGRESS_LINES or any(x.first.start >= ends[-1] for x in before):
        return False
    for failure in before:
        failure.fate, failure.fate_why = "survived", RESTARTED
    return True


def _key(failure: Failure) -> tuple[object, ...] | None:
    if any(x.leaves for x in failure.links):
        return None
    return (
        failure.kind,
        failure.signal,
        failure.exit_code,
        *((x.exception, x.message, len(x.frames)) for x in failure.links),
    )


def _failed(returncode: int | None, job: Job, candidates: Sequence[Candidate]) -> bool | None:
    """Whether the job is known to have failed: by its return code, or by a launcher's word where that says 0 or nothing."""
    if returncode:
        return True
    wrapped = any(c.tier is Tier.WRAPPER and c.failure.kind == "traceback" and c.failure.fate == "fatal" for c in candidates)
    if wrapped:
        return True  # a launcher may end with 0 though it raised (accelerate's rich mode)
    if returncode == 0:
        return False  # workers that died earlier were started again
    if any(e.exit_code for e in job.exits) or any(
        c.tier <= Tier.CLOSING and c.failure.kind in ("exit", "fault", "launcher") for c in candidates
    ):
        return True
    return True if any(_SAYS_FAILED.search(x.text) for x in job.last_lines if x.no > job.last_no - TAIL_LINES) else None


def _deaths(job: Job) -> list[Failure]:
    """Workers that died by a signal, known only from a launcher's line."""
    known = {(x.pid, x.tags.rank) for x in job.failures if x.kind == "launcher"}
    pids = {p for p, _ in known if p is not None}
    out = []
    for fact in job.exits:
        code = fact.exit_code
        signal = -code if code is not None and code < 0 else code - 128 if code is not None and 128 < code < 160 else None
        if (
            signal is None
            or (fact.pid is not None and fact.pid in pids)
            or (fact.launcher == "torchrun" and fact.pid is None and pids)
        ):
            continue
        if fact.pid is not None:
            pids.add(fact.pid)
        link = Link(None, fact.line.text.strip(), [], line=fact.line, first_line=fact.line)
        failure = Failure(
            "launcher",
            "elastic",
            [link],
            fact.line,
            fact.line,
            fact.line.stream,
            fact.line.tags,
            launcher=fact.launcher,
        )
        failure.signal, failure.pid, failure.rank_hint = signal, fact.pid, fact.rank
        if fact.launcher == "srun":
            failure.fate = "symptom"
        out.append(failure)
    return out


_SAYS_FAILED = re.compile(
    r"##\[error\](?:Process completed with exit code|Bash exited with code)|^ERROR: Job failed"
    r"|Build step '.*' marked build as failure|^Finished: FAILURE"
    r"|Main process exited, code=\w+, status=[1-9]|returned a non-zero code: [1-9]"
    r"|Task exited with return code [1-9]|^make(?:\[\d+\])?: \*\*\* .*Error [1-9]"
    r"|^error: [Rr]ecipe .* failed|^Exited with exit code [1-9]|subprocess exited with status [1-9]"
    r"|Failed - Training job failed|sagemaker-\S+ +ERROR +(?:ExecuteUserScriptError|Reporting training FAILURE)"
    r"|^Process finished with exit code -?[1-9]|^Command exited with non-zero"
)
"""What CI systems, containers and shells say of a job that failed."""
