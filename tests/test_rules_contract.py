"""What every built-in rule owes: examples, look-alikes, advice, literals for the fast scan, no ties, every branch hit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tbparse import classify
from tbparse.attribute.unwrap import Root
from tbparse.engine import Explainer
from tbparse.ruleset.contract import shortcomings
from tbparse.ruleset.match import _LINE_KEYS, PackedRule, RuleSet
from tbparse.ruleset.pack import read_dir
from tbparse.ruleset.patterns import required_literals
from tbparse.ruleset.store import rules_dir

HERE = Path(__file__).resolve().parent
RULES = read_dir(rules_dir())
HEALTHY = sorted(p for p in (HERE.parent / "fixtures" / "healthy").rglob("*") if p.suffix in (".log", ".txt"))


@pytest.mark.parametrize("rule_id", RULES)
def test_a_rule_is_complete(rule_id: str) -> None:
    assert list(shortcomings(RULES[rule_id])) == []


@pytest.mark.parametrize("rule_id", RULES)
def test_a_rule_says_where_its_text_is_from(rule_id: str) -> None:
    """A page of the library's documentation, or the file that prints the text."""
    references = RULES[rule_id].references
    assert references
    assert len(set(references)) == len(references)
    assert all(re.fullmatch(r"https://[\w.-]+/[^\s<>]*", r) for r in references)


def _explained(text: str, returncode: int | None, rules: RuleSet, *, prefilter: bool = True) -> Explainer:
    explainer = Explainer(rules=rules, prefilter=prefilter)
    explainer.feed(text.encode())
    explainer.finish(returncode)
    return explainer


def _root(explainer: Explainer) -> Root | None:
    cause = explainer.job.decision.cause if explainer.job.decision else None
    return None if cause is None or cause.root.match is None else cause.root


def _holds(rules: RuleSet, rule: PackedRule, matcher: dict[str, Any], root: Root) -> bool:
    """Whether a matcher holds where its rule won: in the failure itself, or, for one of a line alone, in the lines around it."""
    if rules._try(rule, matcher, root.link, root.link.message or "", root.context, own=True) is not None:
        return True
    if not matcher.keys() <= _LINE_KEYS:
        return False
    return root.context.evidence.find(matcher["line"], matcher["line_literals"], matcher["line_caseless"]) is not None


@pytest.mark.parametrize("rule_id", RULES)
def test_every_branch_of_a_rule_is_shown_by_an_example_that_it_wins(rule_id: str, rules: RuleSet) -> None:
    """A matcher that no example needs may be misspelt, or dead because another rule always wins; a qualifier likewise."""
    rule = rules.by_id[rule_id]
    matchers, qualifiers = set(range(len(rule.match))), set(range(len(rule.qualifiers)))
    for example in RULES[rule_id].examples:
        root = _root(_explained(example.text, example.returncode, rules))
        if root is None or root.match is None or root.match.rule.id != rule_id:
            continue  # told by another test
        matchers -= {i for i in matchers if _holds(rules, rule, rule.match[i], root)}
        turned = rules.qualify(root.match, root.link, root.context)
        if turned is not None:
            qualifiers.discard(rule.qualifiers.index(turned))
    assert [rule.match[i] for i in sorted(matchers)] == []
    assert [rule.qualifiers[i]["because"] for i in sorted(qualifiers)] == []


@pytest.mark.parametrize("rule_id", RULES)
def test_the_fast_scan_loses_nothing_that_a_rule_needs(rule_id: str, rules: RuleSet) -> None:
    """Message, frames and lines: each example has the same winner where every line is read."""
    for example in RULES[rule_id].examples:
        root = _root(_explained(example.text, example.returncode, rules, prefilter=False))
        won = root.match.rule.id if root is not None and root.match is not None else None
        assert won == rule_id, example.source


def test_a_frame_pattern_has_fixed_text() -> None:
    """A frame is looked at only after type and message; one without either is looked for in every failure."""
    for rule_id, rule in RULES.items():
        for m in (*rule.match, *rule.unless, *(when for q in rule.qualifiers for when in q.when)):
            if m.frame is not None and m.type is None and m.message is None:
                assert required_literals(m.frame) is not None, f"{rule_id}: {m.frame}"


@pytest.mark.parametrize("path", HEALTHY, ids=[p.name for p in HEALTHY])
def test_no_rule_speaks_up_in_a_healthy_log(path: Path, rules: RuleSet) -> None:
    answer = classify(path.read_bytes(), rules=rules)
    assert (answer.rule, answer.verdict) == (None, "clean")


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
    tied = []
    for rule_id, rule in RULES.items():
        for example in rule.examples:
            root = _root(_explained(example.text, example.returncode, rules))
            if root is None:
                continue
            found = rules.matches(root.link, root.context)
            if len(found) > 1 and not any(found[0].rule.beats(m.rule) for m in found[1:2]):
                first, second = found[0], found[1]
                if (first.rule.generic, first.specificity) == (second.rule.generic, second.specificity):
                    tied.append((rule_id, first.rule.id, second.rule.id))
    assert tied == []


def test_advice_places_are_captures_of_their_rule() -> None:
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
