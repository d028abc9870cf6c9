"""Failures that have no structure: a line that a rule knows, a program's last words, a return code and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tbparse.attribute.cascade import Candidate, Tier
from tbparse.attribute.job import Job
from tbparse.attribute.unwrap import Root
from tbparse.dialects import frames as f
from tbparse.records import Failure, Line, Link
from tbparse.ruleset.match import Context, Evidence, RuleSet
from tbparse.terms import signal_name

_CLOSING_TEXT = re.compile(
    r"^(?:##\[error\]|Process finished with exit code|Error: Process completed|make(?:\[\d+\])?: \*\*\*"
    r"|(?i:exiting|shutting down|cleaning up|bye)\b"
    r"|ERROR conda\.cli|\[?\w*Error\]? ?$|.*\bexited with code \d+$|srun: |slurmstepd: )"
)


def line_candidate(line: Line, rule_id: str, rules: RuleSet, evidence: Evidence, notes: list[str]) -> Candidate:
    link = Link(None, line.text.strip(), [], line=line, first_line=line)
    failure = Failure("line", "rule", [link], line, line, line.stream, line.tags)
    single = Evidence([line.text])
    match = next(
        (m for fatal in (True, False) for _, m in rules.line_matches(single, fatal=fatal, notes=notes) if m.rule.id == rule_id),
        None,
    )
    context = Context(failure, failure.links, evidence, notes)
    return Candidate(failure, Root(0, link, match, [], "a line that a rule knows", context))


def hint(job: Job, rules: RuleSet, evidence: Evidence, notes: list[str]) -> Candidate | None:
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
    return line_candidate(job.evidence[best[1]], best[2], rules, evidence, notes)


_NOISE = re.compile(r"^(?:wandb: |.*Warning: |  |\t|.*resource_tracker|Exception ignored)")


def parting(job: Job) -> bool:
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


def bare_exit(job: Job, rules: RuleSet, evidence: Evidence, notes: list[str], returncode: int) -> Candidate:
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


def last_words(job: Job, rules: RuleSet, evidence: Evidence, notes: list[str], wrapper: Candidate) -> Candidate | None:
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


_HARMLESS = re.compile(
    r"(?i)\bcorrected\b|events logged|GPU at PCI|\brecover(?:ed|y action)|unhandlable|\bignored\b|\bdeprecated\b|\bwarning\b"
)
"""Words of events that a node logs and lives on with."""


def last_event(job: Job, candidates: Sequence[Candidate]) -> Candidate | None:
    """A scheduler's or the kernel's complaint that no rule knows, where the log ends with it and says of no success."""
    events = [
        c for c in candidates if c.failure.kind in ("scheduler", "kernel") and c.root.match is None and c.failure.fate == "fatal"
    ]
    told = {line.no for c in events for line in (c.failure.first, c.failure.last)}
    rest = list(reversed(job.last_lines[-8:]))
    while rest and (rest[0].no in told or not rest[0].text.strip() or _CLOSING_TEXT.match(rest[0].text)):
        rest.pop(0)
    if any(f.SUCCESS.search(line.text) for line in rest):
        return None
    after = rest[0].no if rest else 0
    for c in events:
        message = c.root.link.message or ""
        if c.failure.first.no > after and _COMPLAINT.search(message) and not _HARMLESS.search(message):
            c.tier, c.why = Tier.CLOSING, "the log ends with it, and no rule knows it"
            return c
    return None


_PARTING = re.compile(r"^(?:[\w./-]+: )?(?:[Ee]rror|ERROR|[Ff]atal(?: error)?|FATAL|[\w ]{0,24} error): \S|^Aborted!$")
"""A log's last line that can only be a program's last complaint."""

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
