"""How much work a large log takes, counted and not timed: Python's calls, and the bytes that reach the parser."""

from __future__ import annotations

import sys
from types import FrameType

import pytest
from dress import filler

from tbparse.engine import Explainer
from tbparse.ruleset.match import PackedRule, RuleSet
from tbparse.text.blocks import Segmenter
from tbparse.text.prefilter import Words, load_hyperscan

MEGABYTE = 1024 * 1024
PORTION = MEGABYTE // 2
FAILURE = b'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    f()\nKeyError: 1\n'


def calls(explainer: Explainer, data: bytes) -> int:
    """Calls of functions, Python's and C's, while the data is fed."""
    made = 0

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        for at in range(0, len(data), PORTION):
            explainer.feed(data[at : at + PORTION])
    finally:
        sys.setprofile(None)
    return made


def site_rules(rules: RuleSet, count: int) -> RuleSet:
    """So many rules: the built-in ones, and a site's own that each search single lines for a text."""
    own = {"title": "A unit was lost", "category": "gpu-hardware", "verdict": "unknown"}
    more = [
        PackedRule(
            {**own, "id": f"site/{k}", "match": [{"line": f"unit {k} lost", "line_literals": [f"unit {k} lost"], "specificity": 9}]}
        )
        for k in range(count - len(rules.rules))
    ]
    return RuleSet([*rules.rules[:count], *more])


@pytest.mark.skipif(load_hyperscan() is None, reason="plain Python works line by line where lines are new")
def test_a_quiet_megabyte_takes_a_few_hundred_calls(rules: RuleSet) -> None:
    """A call for each line would be ten thousand."""
    explainer = Explainer(rules=rules)
    explainer.feed(filler(MEGABYTE))
    assert calls(explainer, filler(8 * MEGABYTE)) / 8 < 400


@pytest.mark.skipif(load_hyperscan() is None, reason="plain Python searches for each text")
def test_a_quiet_megabyte_takes_as_many_calls_under_a_thousand_rules(rules: RuleSet) -> None:
    made = []
    for count in (50, 1000):
        explainer = Explainer(rules=site_rules(rules, count))
        explainer.feed(filler(MEGABYTE))
        made.append(calls(explainer, filler(4 * MEGABYTE)))
    assert made[1] <= 1.1 * made[0]


@pytest.mark.parametrize("backend", ["auto", "python"])
def test_only_what_stands_near_a_trigger_reaches_the_parser(backend: str) -> None:
    segmenter = Segmenter(Words(), backend=backend)
    data = filler(4 * MEGABYTE) + FAILURE + filler(4 * MEGABYTE)
    found = [b for at in range(0, len(data), PORTION) for b in segmenter.feed(data[at : at + PORTION])] + segmenter.finish()
    assert any(FAILURE in b.raw for b in found)
    assert sum(len(b.raw) for b in found) < 40_000


def test_a_file_is_read_through_one_buffer(rules: RuleSet, tmp_path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(filler(3 * MEGABYTE) + FAILURE)
    explainer = Explainer(rules=rules)
    seen: set[int] = set()
    feed = explainer.feed
    explainer.feed = lambda data: (seen.add(id(data)) if len(data) == PORTION else None, feed(data))[1]  # type: ignore[method-assign]
    with path.open("rb", buffering=0) as file:
        assert explainer.read(file) == path.stat().st_size
    assert len(seen) == 1
    assert explainer.finish(1).exception == "KeyError"


@pytest.mark.parametrize("backend", ["python", "hyperscan"])
def test_back_ends_give_the_same_answer(backend: str, rules: RuleSet) -> None:
    if backend == "hyperscan" and load_hyperscan() is None:
        pytest.skip("hyperscan is an extra, and this machine lacks it or AVX2")
    data = filler(MEGABYTE) + b"srun: error: n3: task 5: Killed\n" + filler(MEGABYTE) + FAILURE + filler(MEGABYTE)
    answers = []
    for explainer in (Explainer(rules=rules, backend=backend), Explainer(rules=rules, prefilter=False)):
        explainer.feed(data)
        answers.append(explainer.finish(1))
    assert answers[0] == answers[1]
