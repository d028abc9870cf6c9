"""What a log costs in which everything looks like a failure, counted and not timed (text/flood.py, attribute/job.py)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import FrameType

import pytest

from tbparse.engine import Explainer
from tbparse.ruleset.match import RuleSet
from tbparse.text import blocks, flood
from tbparse.text.prefilter import load_hyperscan

SPEC = importlib.util.spec_from_file_location("inputs", Path(__file__).resolve().parent.parent / "benchmarks" / "inputs.py")
assert SPEC is not None
inputs = importlib.util.module_from_spec(SPEC)
assert SPEC.loader is not None
SPEC.loader.exec_module(inputs)

# By kind: calls of functions for a kilobyte that is read, and for one more in a log that goes on like that.
LIMITS = {
    "warnings with `Error:`": (3100, 80),
    "handled tracebacks": (3800, 160),
    "one line without an end": (400, 300),
    "one traceback of frames without an end": (1100, 150),
    "10,000 ranks line by line": (10_500, 400),
    "warnings of which no two are alike": (700, 400),
}
PORTION = 64 * 1024


def calls(rules: RuleSet, data: bytes) -> int:
    """Calls of functions, Python's and C's, for the whole answer."""
    made = 0

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    explainer = Explainer(rules=rules, small=0)
    sys.setprofile(count)
    try:
        for at in range(0, len(data), PORTION):
            explainer.feed(data[at : at + PORTION])
        explainer.finish(1)
    finally:
        sys.setprofile(None)
    return made


@pytest.mark.skipif(load_hyperscan() is None, reason="plain Python looks at each line that is new, which takes twice as many calls")
@pytest.mark.parametrize("kind", inputs.FLOODS)
def test_a_flood_costs_no_more_than_is_stated(kind: str, rules: RuleSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds of what is read are made small, so that small floods show what large ones cost."""
    for module, name, size in (
        (flood, "READ_FIRST", 2 * PORTION),
        (flood, "READ_LAST", PORTION),
        (blocks, "MAX_BLOCK_BYTES", PORTION),
        (blocks, "CUT_SLACK", PORTION // 16),
    ):
        monkeypatch.setattr(module, name, size)
    data = b"".join(inputs.flood(kind, 1.2))[:1_200_000]
    small, middle, large = (calls(rules, data[:size]) for size in (150_000, 600_000, 1_200_000))
    read, more = LIMITS[kind]
    assert small / 150 < read
    assert (large - middle) / 600 < more
