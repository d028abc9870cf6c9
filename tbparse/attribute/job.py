"""All that was found in the logs of one job, and the decision about it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tbparse.attribute.cascade import (
    Candidate,
    Tier,
    best_system_line,
    disagreement,
    explain_by_native,
    explain_by_system,
    fold_twins,
    rate,
    settle,
    type_natives,
)
from tbparse.attribute.survived import mark_finished
from tbparse.attribute.unwrap import Root, find_root
from tbparse.dialects import frames as f
from tbparse.dialects.base import Page
from tbparse.model import signal_name
from tbparse.records import Failure, Line, Link, RankExit
from tbparse.ruleset.match import Context, Evidence, RuleSet
from tbparse.text.blocks import TAIL_LINES

MAX_FAILURES = 4000
MAX_EVIDENCE_LINES = 20_000
_KEEP_HEAD = 1000
_CLOSING_TEXT = re.compile(
    r"^(?:##\[error\]|Process finished with exit code|Error: Process completed|make(?:\[\d+\])?: \*\*\*"
    r"|ERROR conda\.cli|\[?\w*Error\]? ?$|.*\bexited with code \d+$|srun: |slurmstepd: )"
)


@dataclass
class Job:
    """Failures, worker exits and loose lines of a job, in the order of the log; bounded however long the log is."""

    failures: list[Failure] = field(default_factory=list)
    exits: list[RankExit] = field(default_factory=list)
    evidence: list[Line] = field(default_factory=list)
    last_lines: list[Line] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    last_no: int = 0
    """Number of the log's last line."""
    dropped: int = 0
    decision: Decision | None = None

    def add(self, failures: Sequence[Failure], exits: Sequence[RankExit], page: Page) -> None:
        """Take in what a page held."""
        for failure in failures:
            if len(self.failures) >= MAX_FAILURES:
                # The first failures and the last ones matter; of a flood in between only the number is kept.
                self.dropped += 1
                del self.failures[_KEEP_HEAD]
            self.failures.append(failure)
        self.exits += exits[: max(0, 20_000 - len(self.exits))]
        loose = [page.lines[i] for i in page.free() if page.texts[i]]
        self.evidence += loose
        self.evidence += [
            x.root.line for x in failures if x.kind in ("native", "kernel", "scheduler", "exit") and x.root.line is not None
        ]
        if len(self.evidence) > MAX_EVIDENCE_LINES:
            del self.evidence[_KEEP_HEAD : len(self.evidence) - MAX_EVIDENCE_LINES + _KEEP_HEAD]
        if page.lines:
            self.last_no = max(self.last_no, page.lines[-1].no)
        if loose:
            self.last_lines = (self.last_lines + loose[-60:])[-60:]

    def merge(self, other: Job) -> None:
        """Take over another log of the same job."""
        self.failures += other.failures
        self.exits += other.exits
        self.evidence += other.evidence
        self.notes += other.notes
        self.dropped += other.dropped


@dataclass
class Decision:
    """What began it, and everything that was weighed."""

    cause: Candidate | None
    candidates: list[Candidate]
    failed: bool | None
    wrappers: list[Candidate]
    notes: list[str]
    evidence: list[Line]
    disagreement: str | None = None
    """How the ranks' programs differ, where the log shows it."""
    several_groups: bool = False
    """More than one process group is about, so that equal sequence numbers may belong to different ones."""


def attribute(job: Job, rules: RuleSet, returncode: int | None) -> Decision:
    """Decide which failure began it. ``returncode``: negative or 128+N for signals, None where unknown."""
    notes = list(job.notes)
    if job.dropped:
        notes.append(f"{job.dropped} failures in the middle of the log were counted, not kept")
    evidence = Evidence([line.text for line in job.evidence])
    if job.last_lines:
        mark_finished([x for x in job.failures if x.source is None], job.last_lines, job.last_no)
    failures = [*job.failures, *_deaths(job)]
    failures.sort(key=lambda x: (x.source is not None, x.first.start))
    type_natives(failures)
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
            root = Root(
                min(root.index, len(failure.links) - 1),
                failure.links[min(root.index, len(failure.links) - 1)],
                root.match,
                root.runners,
                root.why,
                Context(failure, failure.links, evidence, notes),
            )
        candidates.append(Candidate(failure, root))
    for index, match in rules.line_matches(evidence, fatal=True, notes=notes):
        line = job.evidence[index]
        if not any(c.failure.first.start == line.start and c.root.match for c in candidates):
            candidates.append(_line_candidate(line, match.rule.id, rules, evidence, notes))
    for c in candidates:
        rate(c)
    candidates = fold_twins(candidates)
    wrappers = [c for c in candidates if c.tier is Tier.WRAPPER or (c.tier is Tier.DEATH and c.failure.kind == "traceback")]
    failed = _failed(returncode, job, candidates)
    cause = settle(candidates, job.exits, failed=failed)
    if cause is not None:
        cause = explain_by_system(best_system_line(cause, candidates), candidates)
        cause = explain_by_native(cause, candidates)
    disagree = disagreement(candidates)
    groups = {m[1] for line in job.evidence for m in _GROUP.finditer(line.text)} if disagree else set()
    if disagree:
        notes.append(disagree)
    if cause is not None and cause.tier is Tier.WRAPPER and cause.failure.signal is None:
        words = _last_words(job, rules, evidence, notes, cause)
        if words is not None:
            candidates.append(words)
            wrappers = [*wrappers, cause]
            cause = words
    if failed and (cause is None or cause.tier in (Tier.WRAPPER, Tier.CLOSING, Tier.DEMOTED, Tier.THREAD)):
        hint = _hint(job, rules, evidence, notes)
        if hint is not None:
            rate(hint)
            candidates.append(hint)
            cause = hint
    if cause is None and failed is None and _parting(job):
        cause = _bare_exit(job, rules, evidence, notes, 1)
        cause.failure.exit_code = None
        cause.why = "the log ends with it"
        candidates.append(cause)
    if failed and cause is None and returncode:
        cause = _bare_exit(job, rules, evidence, notes, returncode)
        candidates.append(cause)
    return Decision(
        cause, candidates, failed, [w for w in wrappers if w is not cause], notes, job.evidence, disagree, len(groups) > 1
    )


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


def _line_candidate(line: Line, rule_id: str, rules: RuleSet, evidence: Evidence, notes: list[str]) -> Candidate:
    link = Link(None, line.text.strip(), [], line=line, first_line=line)
    failure = Failure("line", "rule", [link], line, line, line.stream, line.tags)
    single = Evidence([line.text])
    match = next(
        (m for fatal in (True, False) for _, m in rules.line_matches(single, fatal=fatal, notes=notes) if m.rule.id == rule_id),
        None,
    )
    context = Context(failure, failure.links, evidence, notes)
    return Candidate(failure, Root(0, link, match, [], "a line that a rule knows", context))


def _hint(job: Job, rules: RuleSet, evidence: Evidence, notes: list[str]) -> Candidate | None:
    """The most telling line that a rule knows, asked only when nothing structural explains a failed job."""
    best: tuple[int, int, str] | None = None
    for index, match in rules.line_matches(evidence, fatal=False, notes=notes):
        if match.rule.symptom:
            continue
        key = (match.specificity, index, match.rule.id)
        if best is None or key[0] > best[0]:
            best = key
    if best is None:
        return None
    return _line_candidate(job.evidence[best[1]], best[2], rules, evidence, notes)


_SAYS_FAILED = re.compile(
    r"##\[error\](?:Process completed with exit code|Bash exited with code)|^ERROR: Job failed"
    r"|Build step '.*' marked build as failure|^Finished: FAILURE"
    r"|Main process exited, code=\w+, status=[1-9]|returned a non-zero code: [1-9]"
    r"|Task exited with return code [1-9]|^make(?:\[\d+\])?: \*\*\* .*Error [1-9]"
    r"|^error: [Rr]ecipe .* failed|^Exited with exit code [1-9]|subprocess exited with status [1-9]"
    r"|^Process finished with exit code -?[1-9]|^Command exited with non-zero"
)
"""What CI systems, containers and shells say of a job that failed."""
_NOISE = re.compile(r"^(?:wandb: |.*Warning: |  |\t|.*resource_tracker|Exception ignored)")


def _parting(job: Job) -> bool:
    """Whether the log ends with a complaint; what follows it (``exiting``) goes from the last lines."""
    for back, line in enumerate(reversed(job.last_lines[-4:])):
        if f.SUCCESS.search(line.text) or f.PROGRESS.search(line.text):
            return False
        if _PARTING.match(line.text):
            del job.last_lines[len(job.last_lines) - back :]
            return True
    return False


def _last_line(job: Job) -> Line | None:
    """The last line that could be somebody's parting words: no progress, no warning, no launcher's closing line."""
    for line in reversed(job.last_lines):
        text = line.text
        if text.strip() and not f.PROGRESS.search(text) and not _CLOSING_TEXT.match(text) and not _NOISE.match(text):
            return line
    return None


def _bare_exit(job: Job, rules: RuleSet, evidence: Evidence, notes: list[str], returncode: int) -> Candidate:
    """A job of which only the return code tells that it failed, with its last words."""
    signal, code = decode_returncode(returncode)
    line = None
    if signal is None:
        line = _last_line(job)
    if line is None:
        line = job.last_lines[-1] if job.last_lines else Line(1, 0, 0, "")
        message = f"killed by {signal_name(signal) or f'signal {signal}'}" if signal is not None else None
    else:
        message = line.text.strip()
    link = Link(None, message, [], line=line, first_line=line)
    failure = Failure("exit", "returncode", [link], line, line, "", line.tags)
    failure.signal, failure.exit_code = signal, code
    context = Context(failure, failure.links, evidence, notes)
    ranked = rules.matches(link, context)
    candidate = Candidate(
        failure,
        Root(0, link, ranked[0] if ranked else None, ranked[1:], "the return code, and the last words", context),
        Tier.CLOSING,
    )
    candidate.why = "only the return code tells that the job failed"
    return candidate


_COMPLAINT = re.compile(
    r"(?i)\b(?:error|fail\w*|fatal|invalid|cannot|can't|could not|couldn't|not found|no such|missing|required|must"
    r"|unknown|unable|denied|refused|abort\w*|not \w+|unsupported|expected|no \w+ (?:called|named))\b"
)


def _last_words(job: Job, rules: RuleSet, evidence: Evidence, notes: list[str], wrapper: Candidate) -> Candidate | None:
    """What a child without a traceback said last: the complaint right above its launcher's lines (``sys.exit("text")``)."""
    starts = [e.line.start for e in job.exits] + [wrapper.start]
    until = min(starts)
    above = [x for x in job.evidence if x.start < until and x.text.strip()]
    for line in reversed(above[-6:]):
        if "closing signal" in line.text or line.shape.startswith(("glog", "time")):
            continue
        if f.PROGRESS.search(line.text) or not _COMPLAINT.search(line.text) or "Warning" in line.text:
            return None
        link = Link(None, line.text.strip(), [], line=line, first_line=line)
        failure = Failure("exit", "words", [link], line, line, line.stream, line.tags)
        failure.exit_code = wrapper.failure.exit_code or next(
            (e.exit_code for e in job.exits if e.exit_code and e.exit_code > 0), None
        )
        context = Context(failure, failure.links, evidence, notes)
        ranked = rules.matches(link, context)
        candidate = Candidate(
            failure,
            Root(0, link, ranked[0] if ranked else None, ranked[1:], "the child's last words", context),
            Tier.CLOSING,
        )
        candidate.why = "what the child said last before the launcher reported its end"
        return candidate
    return None


_PARTING = re.compile(r"^(?:[\w./-]+: )?(?:[Ee]rror|ERROR|[Ff]atal(?: error)?|FATAL|[\w ]{0,24} error): \S")
"""A log's last line that can only be a program's last complaint."""

_GROUP = re.compile(r"PG GUID (\S+?)\(")
_NTSTATUS = {0xC0000005: 11, 0xC0000374: 6, 0xC0000409: 6, 0xC000013A: 2, 0xC00000FD: 11, 0xC000001D: 4, 0xC0000094: 8}


def decode_returncode(returncode: int) -> tuple[int | None, int | None]:
    """Signal and exit code: ``-9`` and ``137`` are SIGKILL, a Windows NTSTATUS its nearest signal, anything else a code."""
    if returncode < 0 and (returncode & 0xFFFFFFFF) in _NTSTATUS:
        return _NTSTATUS[returncode & 0xFFFFFFFF], None
    if returncode < 0:
        return -returncode, None
    if returncode in _NTSTATUS:
        return _NTSTATUS[returncode], None
    if 128 < returncode < 160:
        return returncode - 128, None
    return None, returncode
