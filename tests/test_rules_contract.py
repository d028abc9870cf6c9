"""What every built-in rule owes: examples, look-alikes, advice, literals for the fast scan, no ties, every branch hit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tbparse import classify
from tbparse.ruleset.contract import shortcomings
from tbparse.ruleset.match import RuleSet
from tbparse.ruleset.pack import read_dir
from tbparse.ruleset.store import rules_dir

HERE = Path(__file__).resolve().parent
RULES = read_dir(rules_dir())
LISTED = set((HERE / "rules_incomplete.txt").read_text(encoding="utf-8").split())
"""Rules that still lack an example or a look-alike. The list only gets shorter."""


@pytest.mark.parametrize("rule_id", RULES)
def test_a_rule_is_complete_or_listed_as_not(rule_id: str) -> None:
    found = list(shortcomings(RULES[rule_id]))
    if rule_id in LISTED:
        assert found, "complete by now: take it off tests/rules_incomplete.txt"
        assert all("example" in what for what in found)
    else:
        assert found == []


def test_the_list_names_rules_that_exist() -> None:
    assert set(RULES) >= LISTED


def test_every_signature_went_to_a_rule_or_has_a_reason() -> None:
    page = (HERE.parent / "docs" / "signatures.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ") and not line.startswith("| sig")]
    named: dict[str, list[str]] = {}
    for rule_id, rule in RULES.items():
        for signature in rule.signatures:
            named.setdefault(signature, []).append(rule_id)
    assert len(rows) == 293
    for signature, where in rows:
        if where.startswith("no rule: "):
            assert signature not in named
        else:
            assert where.split(", ") == named.pop(signature)
    assert named == {}, "signatures that the page does not have"


def test_no_two_rules_tie_on_an_example(rules: RuleSet) -> None:
    """The winner's score, or `over`, decides; the order of names never does."""
    from tbparse.engine import Explainer

    tied = []
    for rule_id, rule in RULES.items():
        for example in rule.examples:
            explainer = Explainer(rules=rules)
            explainer.feed(example.text.encode())
            explainer.finish(example.returncode)
            cause = explainer.job.decision.cause if explainer.job.decision else None
            if cause is None or cause.root.match is None:
                continue
            found = rules.matches(cause.root.link, cause.root.context)
            if len(found) > 1 and not any(found[0].rule.beats(m.rule) for m in found[1:2]):
                first, second = found[0], found[1]
                if (first.rule.generic, first.specificity) == (second.rule.generic, second.specificity):
                    tied.append((rule_id, first.rule.id, second.rule.id))
    assert tied == []


def test_advice_places_are_captures_of_their_rule() -> None:
    import re

    for rule_id, rule in RULES.items():
        for line in (*rule.advice, *(a for q in rule.qualifiers for a in q.advice)):
            for name in re.findall(r"\{([a-z_][a-z0-9_]*)\}", line):
                assert name in rule.captures, f"{rule_id}: {{{name}}} is never filled"


def test_a_cache_on_a_full_disk_is_not_run_again(rules: RuleSet) -> None:
    text = "OSError: [Errno 28] No space left on device: '/home/u/.triton/cache/ab12/attn.cubin'\n"
    assert (
        classify(f'Traceback (most recent call last):\n  File "/w/a.py", line 1, in f\n    g()\n{text}', rules=rules).verdict
        == "real"
    )
