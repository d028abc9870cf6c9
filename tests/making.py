"""Rule sets made in a test, by way of the schema and the packed form, as the real ones are."""

from __future__ import annotations

from typing import Any

from tbparse.ruleset.match import PackedRule, RuleSet
from tbparse.ruleset.pack import pack_rule
from tbparse.ruleset.schema import Rule

_REST: dict[str, Any] = {
    "summary": "a rule that a test made up for itself",
    "category": "user-code",
    "verdict": "real",
    "advice": ["look at it"],
    "examples": [{"text": "x", "source": "a test"}],
}


def made_rule(rule_id: str, **parts: Any) -> PackedRule:
    """One rule; ``match`` is a matcher or a list of them."""
    data = {"title": f"rule {rule_id}", **_REST, **parts}
    return PackedRule(pack_rule(rule_id, Rule.model_validate(data)))


def made_rules(**rules: dict[str, Any]) -> RuleSet:
    """Rules by name; ``a__b`` stands for the id ``a/b``."""
    return RuleSet([made_rule(name.replace("__", "/"), **parts) for name, parts in rules.items()])


def traceback(line: str, *frames: tuple[str, int, str]) -> str:
    """A traceback with this exception line; without frames, one of the user's."""
    body = "".join(f'  File "{p}", line {n}, in {f}\n    x()\n' for p, n, f in frames or (("/work/train.py", 3, "step"),))
    return f"Traceback (most recent call last):\n{body}{line}\n"
