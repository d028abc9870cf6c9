"""The mapping behind benchmarks/gpualert.py names rules and areas that exist, and reaches its score where its logs are at hand."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from tbparse.ruleset.match import RuleSet

ROOT = Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location("gpualert", ROOT / "benchmarks" / "gpualert.py")
assert SPEC is not None
assert SPEC.loader is not None
gpualert = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(gpualert)


def test_the_mapping_names_what_exists(rules: RuleSet) -> None:
    mapping = json.loads((ROOT / "benchmarks" / "gpualert.json").read_text(encoding="utf-8"))
    assert set(mapping["rules"]) <= set(rules.by_id)
    assert set(mapping["areas"]) <= {r.id.partition("/")[0] for r in rules.rules}


@pytest.mark.skipif(not gpualert.DEFAULT.is_dir(), reason="the benchmark's logs are not beside this checkout")
def test_the_score_is_reached() -> None:
    assert gpualert.evaluate(gpualert.DEFAULT).macro_f1 >= 0.99
