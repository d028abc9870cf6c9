"""Laws 2, 3 and 4: prefixes, colours, line ends, progress bars, noise and windows change nothing."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

import pytest
from corpora import Case, field_cases, some_cases
from dress import CLOTHES, PREFIXES, QUIET_AFTER, QUIET_BEFORE, STACKS, Prefix, noise, prefixed
from hypothesis import given, settings
from hypothesis import strategies as st
from known_wrong import WRONG_BEHIND_PREFIXES
from scoring import same
from strategies import MadeLog, groups, logs

from tbparse.engine import Explainer, classify
from tbparse.records import Failure
from tbparse.ruleset.match import RuleSet

pytestmark = pytest.mark.slow

MAX_CHARS = 60_000
NUMBERED = "corpus/field-gpu-nccl-timeout-numbered-lines"
"""Every line of this log carries its number; lines without one in between would not be that log any more."""


def _text(case: Case) -> str | None:
    """The log as text, where it is text and short enough to be read many times."""
    try:
        text = case.read().decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if len(text) <= MAX_CHARS else None


CASES = [pytest.param(n, c, id=c.id) for n, c in enumerate(some_cases(4)) if (t := _text(c)) is not None and t.strip()]
CANONICAL = [pytest.param(c, id=c.id) for c in field_cases() if c.label["id"] in (
    "plain_boom", "chain_three_links", "syntax_imported", "group_taskgroup", "dataloader_key", "elastic_record_console", "notes_fake_header",
)]  # fmt: skip


def _hides(case: Case, text: str, stack: tuple[Prefix, ...]) -> bool:
    """Whether the prefixes hide what the log says: too few lines to learn from, or log levels that the log has itself."""
    filled = [line for line in text.splitlines() if line.strip()]
    if len(filled) < 4 and not all(p.certain for p in stack):
        return True
    return (any(p.level for p in stack) and case.label["kind"] in ("logged", "healthy", "interleaved")) or (
        any(p.level for p in stack) and any(f.fate != "fatal" for f in _failures(text))
    )


def _failures(text: str) -> list[Failure]:
    explainer = Explainer()
    explainer.feed(text.encode())
    explainer.finish()
    return explainer.job.failures


def _differences(before: dict, after: dict) -> dict:
    return {k: (before[k], after[k]) for k in before if before[k] != after[k]}


def _prefix_failures(case: Case, text: str, stacks: list[tuple[Prefix, ...]], rules: RuleSet) -> dict:
    plain = same(classify(text, rules=rules, returncode=case.returncode))
    wrong = {}
    for stack in stacks:
        if _hides(case, text, stack):
            continue
        for bare in (False, True):
            dressed = prefixed(text, *stack, bare_blanks=bare)
            found = _differences(plain, same(classify(dressed, rules=rules, returncode=case.returncode)))
            if found:
                wrong["+".join(p.name for p in stack) + (" with bare blank lines" if bare else "")] = found
    return wrong


@pytest.mark.parametrize("case", CANONICAL)
def test_every_prefix_and_every_pair_changes_nothing(case: Case, rules: RuleSet) -> None:
    stacks = [(p,) for p in PREFIXES] + [tuple(s) for s in STACKS]
    assert _prefix_failures(case, case.read().decode(), stacks, rules) == {}


@pytest.mark.parametrize(("number", "case"), CASES)
def test_prefixes_change_nothing_on_labelled_logs(number: int, case: Case, rules: RuleSet, request: pytest.FixtureRequest) -> None:
    """Each log wears six of the prefixes and two pairs of them; together the logs wear all."""
    if case.id in WRONG_BEHIND_PREFIXES:
        request.applymarker(pytest.mark.xfail(strict=True, reason=WRONG_BEHIND_PREFIXES[case.id]))
    stacks = [(PREFIXES[(number * 6 + k) % len(PREFIXES)],) for k in range(6)]
    stacks += [STACKS[(number * 2 + k) % len(STACKS)] for k in range(2)]
    assert _prefix_failures(case, _text(case) or "", stacks, rules) == {}


@given(logs(), st.sampled_from([(p,) for p in PREFIXES] + [tuple(s) for s in STACKS]), st.booleans())
@settings(max_examples=120)
def test_prefixes_change_nothing_on_made_up_logs(log: MadeLog, stack: tuple[Prefix, ...], bare: bool) -> None:
    plain, dressed = classify(log.text), classify(prefixed(log.text, *stack, bare_blanks=bare))
    assert same(dressed) == same(plain)


@pytest.mark.parametrize("prefix", [p for p in PREFIXES if p.rank is not None], ids=lambda p: p.name)
@pytest.mark.parametrize("case", CANONICAL[:2])
def test_a_prefix_with_a_rank_says_the_rank(case: Case, prefix: Prefix, explain) -> None:
    answer = explain(prefixed(case.read().decode(), prefix))
    assert answer.rank == prefix.rank


def test_two_ranks_prefixes_keep_their_tracebacks_apart(explain) -> None:
    """Lines of two ranks in turn are read as two tracebacks, each with its own frames."""
    a = 'Traceback (most recent call last):\n  File "a.py", line 1, in fa\n    one()\nKeyError: 1\n'.splitlines()
    b = 'Traceback (most recent call last):\n  File "b.py", line 2, in fb\n    two()\nValueError: 2\n'.splitlines()
    text = "".join(f"[rank0]: {x}\n[rank1]: {y}\n" for x, y in zip(a, b, strict=True))
    answer = explain(text, returncode=1)
    assert (answer.exception, answer.rank, answer.site.path) == ("KeyError", 0, "a.py")
    assert [(s.exception, s.rank) for s in answer.secondary] == [("ValueError", 1)]


@pytest.mark.parametrize("name", CLOTHES)
@given(log=logs())
@settings(max_examples=25)
def test_clothes_change_nothing_on_made_up_logs(name: str, log: MadeLog) -> None:
    assert same(classify(CLOTHES[name](log.text))) == same(classify(log.text))


@pytest.mark.parametrize("name", CLOTHES)
@given(made=groups())
@settings(max_examples=15)
def test_clothes_change_nothing_on_exception_groups(name: str, made: tuple) -> None:
    assert same(classify(CLOTHES[name](made[0]))) == same(classify(made[0]))


@pytest.mark.parametrize(("number", "case"), CASES)
def test_clothes_change_nothing_on_labelled_logs(number: int, case: Case, rules: RuleSet) -> None:
    text, code = _text(case) or "", case.returncode
    plain = same(classify(text, rules=rules, returncode=code))
    wrong = {}
    for name, dress in CLOTHES.items():
        if case.id == NUMBERED and name.startswith("bars"):
            continue
        found = _differences(plain, same(classify(dress(text), rules=rules, returncode=code)))
        if found:
            wrong[name] = found
    assert wrong == {}


@given(logs(), st.integers(0, 80), st.integers(0, 80))
@settings(max_examples=60)
def test_noise_around_a_made_up_log_changes_nothing(log: MadeLog, before: int, after: int) -> None:
    noisy = noise(QUIET_BEFORE, before) + log.text + noise(QUIET_AFTER, after)
    assert same(classify(noisy)) == same(classify(log.text))


@pytest.mark.parametrize(("number", "case"), CASES)
def test_noise_around_a_labelled_log_changes_nothing(number: int, case: Case, rules: RuleSet) -> None:
    if case.id == NUMBERED:
        pytest.skip("its lines are numbered; noise without numbers would make it another log")
    text, code = (_text(case) or "").rstrip("\n") + "\n", case.returncode
    plain = same(classify(text, rules=rules, returncode=code))
    before, after = noise(QUIET_BEFORE, 61), noise(QUIET_AFTER, 13)
    # Last words without a traceback are looked for in the last TAIL_LINES lines only.
    times = 6 if plain["exception"] else 2
    noisy = {"before": before + text, "after": text + after, "around": before * 4 + text + after * times}
    wrong = {}
    for name, log in noisy.items():
        found = _differences(plain, same(classify(log, rules=rules, returncode=code)))
        if found:
            wrong[name] = found
    assert wrong == {}


@given(st.lists(logs(max_blocks=2), min_size=2, max_size=4), st.lists(st.integers(0, 60), min_size=4, max_size=4))
@settings(max_examples=40)
def test_noise_between_failures_changes_nothing(made: list[MadeLog], gaps: list[int]) -> None:
    """Several failures in one log: noise that does not say the job went on, put between them, leaves the answer as it was."""
    close = "".join(log.text + noise(QUIET_AFTER, 1) for log in made)
    apart = "".join(log.text + noise(QUIET_AFTER, 1 + gap) for log, gap in zip(made, gaps, strict=False))
    assert same(classify(apart)) == same(classify(close))


@given(logs(), st.integers(0, 120), st.integers(0, 120))
@settings(max_examples=60)
def test_a_window_around_the_failure_says_the_same(log: MadeLog, above: int, below: int) -> None:
    before = noise(QUIET_BEFORE, 400).splitlines(keepends=True)
    after = noise(QUIET_AFTER, 400).splitlines(keepends=True)
    whole = "".join(before) + log.text + "".join(after)
    window = "".join(before[len(before) - above :]) + log.text + "".join(after[:below])
    assert same(classify(window)) == same(classify(whole))


@pytest.mark.parametrize(("number", "case"), CASES[::2])
def test_a_window_around_a_labelled_failure_says_the_same(number: int, case: Case, rules: RuleSet) -> None:
    """Lines that are far from everything that the engine found may be cut off at both ends."""
    text, code = _text(case) or "", case.returncode
    explainer = Explainer(rules=rules)
    explainer.feed(text.encode())
    whole = explainer.finish(code)
    found = [x.no for f in explainer.job.failures for x in (f.first, f.last)]
    found += [e.line.no for e in explainer.job.exits] + [e.line for e in whole.evidence]
    if not found or any(f.fate != "fatal" for f in explainer.job.failures) or "\r" in text:
        return  # what survived is known by lines that come later
    lines = text.splitlines(keepends=True)
    low, high = max(0, min(found) - 1 - 130), max(found) + 45
    window = "".join(lines[low:high])
    assert _differences(same(whole), same(classify(window, rules=rules, returncode=code))) == {}
