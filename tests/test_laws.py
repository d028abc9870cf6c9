"""Laws 1, 5, 6, 7 and 9: total, indifferent to chunks and to the prefilter, true to the bytes, and a round trip."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise

import pytest
from corpora import Case, all_cases, some_cases
from dress import CLOTHES, PREFIXES, filler, prefixed
from hypothesis import given, settings
from hypothesis import strategies as st
from scoring import same, squeeze
from strategies import MadeLog, groups, logs

from tbparse.engine import Explainer, classify
from tbparse.model import RootCause
from tbparse.ruleset.match import RuleSet
from tbparse.text.lines import clean

SOME = [pytest.param(c, id=c.id) for c in some_cases(4)]
VERDICTS = {"transient", "real", "unknown", "clean"}
numbered_cases = st.integers(0, len(SOME) - 1)


def feed(rules: RuleSet, data: bytes, cuts: list[int], *, prefilter: bool = True, returncode: int | None = None) -> RootCause:
    """The answer when the data are fed in pieces that end at the cuts."""
    explainer = Explainer(rules=rules, prefilter=prefilter)
    edges = [0, *sorted(c for c in cuts if 0 < c < len(data)), len(data)]
    for start, end in pairwise(edges):
        explainer.feed(data[start:end])
    return explainer.finish(returncode)


def in_portions(size: int, length: int) -> list[int]:
    """Cuts that make portions of one size."""
    return list(range(size, length, size))


# Law 1: total


@given(st.binary(max_size=4000), st.none() | st.integers(-64, 255))
@settings(max_examples=150)
def test_any_bytes_give_an_answer(data: bytes, returncode: int | None) -> None:
    assert classify(data, returncode=returncode).verdict in VERDICTS


_SNIPPETS = st.sampled_from([
    "Traceback (most recent call last):\n", '  File "a.py", line 1, in f\n', '  File "', "  + Exception Group Traceback (most recent call last):\n", "  | ", '"""\n',
    "  +-+---------------- 1 ----------------\n", "    +------------------------------------\n", "ValueError: x\n", "KeyError\n", "\n", "\r", "\x00", "\x1b[31m", "\x1b]", "{", '{"log": "', '"}\n',
    "The above exception was the direct cause of the following exception:\n", "During handling of the above exception, another exception occurred:\n", "╭─ Traceback (most recent call last) ─╮\n",
    "│ a.py:3 in f │\n", "╰───╯\n", "Fatal Python error: Segmentation fault\n", 'Current thread 0x00 (most recent call first):\n', "-- Process 1 terminated with the following error:\n",
    "Original Traceback (most recent call last):\n", "usage: x\n", "x: error: y\n", "= FAILURES =\n", "____ test_x ____\n", "E   assert 1\n", "---> 1 x\n", "Cell In[1], line 1\n", "[0]:\n",
    "  exitcode  : 1 (pid: 5)\n", "run FAILED\n", "=====================\n", "[rank99999999999999999999]: ", "slurmstepd: error: x\n", "NVRM: Xid (PCI:0): 79\n", "from user code:\n", "ray::f() (pid=1)\n",
])  # fmt: skip


@given(st.lists(_SNIPPETS | st.text(max_size=6), max_size=40))
@settings(max_examples=250)
def test_any_mixture_of_the_pieces_of_failures_gives_an_answer(pieces: list[str]) -> None:
    assert classify("".join(pieces)).verdict in VERDICTS


@given(numbered_cases, st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=250)
def test_a_log_cut_at_any_bytes_gives_an_answer(number: int, at: float, to: float) -> None:
    data = SOME[number].values[0].read()
    low, high = sorted((int(at * len(data)), int(to * len(data))))
    assert classify(data[low:high]).verdict in VERDICTS


@given(
    numbered_cases,
    st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from([b"\0", b"\xff", b"\r", b"\n", b"\x1b[", b"\xe2\x94", b'"', b"{"])),
        max_size=30,
    ),
)
@settings(max_examples=120)
def test_a_damaged_log_gives_an_answer(number: int, damage: list[tuple[float, bytes]]) -> None:
    data = bytearray(SOME[number].values[0].read())
    for at, what in damage:
        data[int(at * len(data)) : int(at * len(data))] = what
    assert classify(bytes(data)).verdict in VERDICTS


@given(logs(max_blocks=2), st.sampled_from(["\0", "\0\0\0"]))
@settings(max_examples=30)
def test_nul_bytes_between_lines_change_nothing(log: MadeLog, nul: str) -> None:
    assert same(classify(log.text.replace("\n", f"\n{nul}"))) == same(classify(log.text))


def test_a_line_of_ten_megabytes_before_the_failure_changes_nothing(rules: RuleSet) -> None:
    log = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    f()\nKeyError: 1\n'
    answer = classify("x" * 10_000_000 + "\n" + log, rules=rules)
    assert same(answer) == same(classify(log, rules=rules))
    assert [e.line for e in answer.evidence] == [2, 5]


def test_a_traceback_in_the_middle_of_megabytes_without_a_line_end_does_not_break_the_engine(rules: RuleSet) -> None:
    answer = classify("y" * 6_000_000 + "Traceback (most recent call last):" + "z" * 6_000_000, rules=rules)
    assert answer.verdict in VERDICTS


# Made-up logs are read back as they were made: the ground on which the other laws stand


@given(logs())
@settings(max_examples=150)
def test_a_chain_is_read_as_it_was_printed(log: MadeLog) -> None:
    answer = classify(log.text)
    assert answer.exception == log.root.exception
    assert squeeze(answer.message) == squeeze(log.root.message)
    assert (answer.site.path, answer.site.line, answer.site.function) == log.root.site
    assert [link.exception for link in answer.chain] == log.chain
    assert [f.source for f in answer.frames] == [f.source for f in log.root.frames]


@given(groups())
@settings(max_examples=80)
def test_a_group_is_its_first_leaf(made: tuple) -> None:
    text, leaves = made
    answer = classify(text)
    assert (answer.exception, squeeze(answer.message)) == (leaves[0].exception, squeeze(leaves[0].message))
    assert [link.exception for link in answer.chain] == ["ExceptionGroup", leaves[0].exception]
    assert [s.exception for s in answer.secondary] == [leaf.exception for leaf in leaves[1:]]


# Law 5: chunks


@given(numbered_cases, st.lists(st.floats(0, 1), max_size=12))
@settings(max_examples=60)
def test_a_small_log_fed_in_pieces_is_the_log_fed_at_once(number: int, cuts: list[float]) -> None:
    case = SOME[number].values[0]
    data = case.read()
    explainer = Explainer()
    explainer.feed(data)
    assert feed(explainer.rules, data, [int(c * len(data)) for c in cuts]) == explainer.finish()


@pytest.mark.parametrize("size", [1, 997, 4096, 65_536, 262_143, 262_144, 262_145])
@pytest.mark.parametrize("case", SOME[:60:12])
def test_a_large_log_fed_in_portions_is_the_log_fed_at_once(case: Case, size: int, rules: RuleSet) -> None:
    data = filler(270_000) + case.read() + filler(20_000 if size == 1 else 300_000)
    assert feed(rules, data, in_portions(size, len(data))) == feed(rules, data, [])


@pytest.mark.parametrize("size", [4096, 100_000, 1_048_576])
def test_a_line_of_several_megabytes_fed_in_portions_is_that_line_fed_at_once(size: int, rules: RuleSet) -> None:
    log = b'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    f()\nKeyError: 1\n'
    data = filler(270_000) + log + b"Error " * 500_000 + b"\n" + filler(1000) + log
    assert feed(rules, data, in_portions(size, len(data))) == feed(rules, data, [])


# Law 6: the prefilter


def _every_fourth_at_once(cases: Sequence[Case]) -> list[object]:
    """The others are slow tests."""
    return [pytest.param(c, id=c.id, marks=[pytest.mark.slow] if n % 4 else []) for n, c in enumerate(cases)]


@pytest.mark.parametrize("case", _every_fourth_at_once(some_cases(12)[::2]))
def test_the_prefilter_loses_nothing(case: Case, rules: RuleSet) -> None:
    """Among healthy lines, so that the log is too large to be read whole, both ways of reading agree on everything."""
    raw = case.read()
    data = filler(280_000) + raw.rstrip(b"\n") + b"\n" + filler(30_000)
    fast = feed(rules, data, [], returncode=case.returncode)
    full = feed(rules, data, [], prefilter=False, returncode=case.returncode)
    assert same(fast) == same(full)
    assert (fast.rank, fast.local_rank, fast.signal, fast.exit_code, fast.evidence, fast.frames) == (
        full.rank,
        full.local_rank,
        full.signal,
        full.exit_code,
        full.evidence,
        full.frames,
    )


@pytest.mark.parametrize("case", _every_fourth_at_once(some_cases(12)[1::2]))
def test_a_failure_in_a_large_log_is_the_failure_alone(case: Case, rules: RuleSet) -> None:
    raw = case.read().rstrip(b"\n") + b"\n"
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff") or case.label["verdict"] == "clean":
        return
    padded = feed(rules, filler(300_000) + raw, [], returncode=case.returncode)
    assert same(padded) == same(classify(raw, rules=rules, returncode=case.returncode))


# Law 7: lines and bytes


def assert_points_into(raw: bytes, answer: RootCause) -> None:
    """Every piece of evidence is where it says: its span lies in its line, and its text in its span."""
    assert answer.evidence or answer.exception is None
    for e in answer.evidence:
        if e.source is not None:
            continue
        assert 0 <= e.start <= e.end <= len(raw)
        assert raw.count(b"\n", 0, e.start) == e.line - 1, "the line number is that of the span"
        assert b"\n" not in raw[e.start : e.end], "a span is within one line"
        shown = squeeze(clean(raw[e.start : e.end].decode("utf-8", "replace")))
        wanted = squeeze(e.text.split(" … ")[0])
        if wanted not in shown and "{" in shown:
            inside = re.search(r"\{.*\}", shown)
            assert inside, shown
            shown = squeeze(clean("\n".join(_strings(json.loads(inside.group())))))
        assert wanted in shown


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [s for part in parts for s in _strings(part)]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in all_cases()])
def test_evidence_points_into_the_raw_log(case: Case, rules: RuleSet) -> None:
    raw = case.read()
    assert_points_into(raw, classify(raw, rules=rules, returncode=case.returncode))


@given(logs(), st.sampled_from(sorted(CLOTHES)), st.sampled_from(PREFIXES), st.booleans())
@settings(max_examples=80)
def test_evidence_points_into_the_raw_log_whatever_it_wears(log: MadeLog, clothes: str, prefix, large: bool) -> None:
    raw = CLOTHES[clothes](prefixed(log.text, prefix)).encode()
    if large:
        raw = filler(270_000) + raw
    answer = classify(raw)
    assert_points_into(raw, answer)
    assert any(log.root.message.split("\n")[0] in e.text for e in answer.evidence)


# Law 9: JSON


@pytest.mark.parametrize("case", SOME)
def test_an_answer_survives_json(case: Case, rules: RuleSet) -> None:
    answer = classify(case.read(), rules=rules, returncode=case.returncode)
    text = answer.to_json()
    assert RootCause.from_json(text) == answer
    assert RootCause.from_json(answer.to_json(indent=2)) == answer
    assert RootCause.from_json(text).to_json() == text


@given(st.text(max_size=300))
@settings(max_examples=80)
def test_an_answer_about_any_text_survives_json(text: str) -> None:
    answer = classify(f'Traceback (most recent call last):\n  File "{text}", line 1, in f\n    {text}\nValueError: {text}\n')
    assert RootCause.from_json(answer.to_json()) == answer


@pytest.mark.parametrize("case", SOME[::10])
def test_the_same_log_gives_the_same_answer(case: Case, rules: RuleSet) -> None:
    assert classify(case.read(), rules=rules) == classify(case.read(), rules=rules)
