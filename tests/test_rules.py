"""Each rule wins its own examples and loses its counter-examples under the full rule set."""

from __future__ import annotations

import pytest

from tbparse import classify
from tbparse.ruleset.match import RuleSet
from tbparse.ruleset.pack import read_dir
from tbparse.ruleset.schema import CounterExample, Example
from tbparse.ruleset.store import rules_dir

RULES = read_dir(rules_dir())
EXAMPLES = [pytest.param(i, e, id=f"{i}-{n}") for i, r in RULES.items() for n, e in enumerate(r.examples, 1)]
COUNTER = [pytest.param(i, e, id=f"{i}-{n}") for i, r in RULES.items() for n, e in enumerate(r.counter_examples, 1)]


def _listed(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


@pytest.mark.parametrize(("rule_id", "example"), EXAMPLES)
def test_a_rule_wins_its_examples(rule_id: str, example: Example, rules: RuleSet) -> None:
    answer = classify(example.text, rules=rules, returncode=example.returncode)
    assert answer.rule == rule_id, f"{answer.rule} won: {answer.exception}: {answer.message}"
    if example.verdict is not None:
        assert answer.verdict == example.verdict
    if example.category is not None:
        assert answer.category == example.category
    for name, value in example.captures.items():
        assert answer.captures.get(name) == _listed(value), name
    assert answer.advice, "an answer of a rule says what to do"


@pytest.mark.parametrize(("rule_id", "example"), COUNTER)
def test_a_rule_loses_its_counter_examples(rule_id: str, example: CounterExample, rules: RuleSet) -> None:
    answer = classify(example.text, rules=rules, returncode=example.returncode)
    assert answer.rule == example.wins, example.why
    assert answer.rule != rule_id


@pytest.mark.parametrize("rule_id", RULES)
def test_a_rule_never_calls_a_category_of_the_users_transient(rule_id: str) -> None:
    """A bug of the user's fails again; whoever calls one transient has to say so in a qualifier, with a reason."""
    rule = RULES[rule_id]
    assert not (rule.verdict == "transient" and rule.category in ("user-code", "config", "dependency"))


@pytest.mark.parametrize("rule_id", RULES)
def test_a_rule_is_retried_only_where_it_is_transient_or_says_why(rule_id: str) -> None:
    rule = RULES[rule_id]
    if rule.verdict == "real" and rule.retry is not None:
        assert rule.retry.action == "stop"
