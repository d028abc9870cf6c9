"""A rule's words in a harmless sentence, a quotation, source code, locals, a config, a help text or a metric decide nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from near_misses import near_misses, words_of
from ruamel.yaml import YAML

from tbparse import classify
from tbparse.ruleset.match import RuleSet
from tbparse.ruleset.pack import read_dir
from tbparse.ruleset.store import rules_dir
from tbparse.text.quotes import mentioned, quoted

RULES = read_dir(rules_dir())
CASES: list[dict[str, Any]] = YAML(typ="safe").load(
    (Path(__file__).resolve().parent.parent / "fixtures" / "near_misses" / "cases.yaml").read_text(encoding="utf-8")
)
WITHOUT_WORDS = {"host-memory/memory-error"}
"""Rules whose example is one bare name: too short to be quoted."""


@pytest.mark.parametrize("rule_id", RULES)
def test_a_rules_words_decide_nothing_where_they_are_only_mentioned(rule_id: str, rules: RuleSet) -> None:
    words = words_of(rule_id, RULES[rule_id], rules)
    assert (words is None) == (rule_id in WITHOUT_WORDS)
    for miss in near_misses(words or ""):
        if words is None:
            continue
        answer = classify(miss.text, rules=rules)
        assert answer.rule == miss.wins, f"{miss.form}: {miss.text}"
        if miss.form == "message":
            assert answer.verdict in ("real", "unknown"), miss.text
        else:
            assert answer.verdict == ("clean" if miss.wins is None else "real"), f"{miss.form}: {miss.text}"


def test_there_are_many_of_them(rules: RuleSet) -> None:
    made = sum(1 for i in list(RULES)[:50] for _ in near_misses(words_of(i, RULES[i], rules) or "x"))
    assert made >= 200


@pytest.mark.parametrize("case", CASES, ids=[c["why"] for c in CASES])
def test_what_somebody_thought_of(case: dict[str, Any], rules: RuleSet) -> None:
    answer = classify(case["text"], rules=rules, returncode=case.get("returncode"))
    assert answer.rule == case["wins"], answer
    assert answer.verdict == ("clean" if case["wins"] is None else "real"), answer


@pytest.mark.parametrize(
    ("text", "words", "within"),
    [
        ('it ended with "NVRM: Xid 79"', "NVRM", True),
        ('level=error msg="NVRM: Xid 79"', "NVRM", False),
        ('{"statusReason": "Host EC2 terminated"}', "Host", False),
        ("the worker's log: NVRM: Xid 79", "NVRM", False),
        ('a lone " mark, NVRM: Xid 79', "NVRM", False),
        ("it said “NVRM: Xid 79” once", "NVRM", True),
    ],
)
def test_what_a_quotation_is(text: str, words: str, within: bool) -> None:
    assert quoted(text, text.index(words)) is within


def test_a_repr_in_an_exceptions_message_is_no_quotation_of_a_sentence() -> None:
    message = "('Connection broken: IncompleteRead(10 bytes read)', IncompleteRead(10))"
    assert not quoted(message, message.index("Connection"), prose=True)
    assert quoted("no plan for 'NCCL error'", 13, prose=True)


def test_a_supposition_mentions() -> None:
    text = "if a rank prints NVRM: Xid 79 then drain it"
    assert mentioned(text, text.index("NVRM"))
    assert not mentioned("step 3 loss 0.1 NVRM: Xid 79", 16)
