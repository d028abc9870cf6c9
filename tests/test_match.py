"""Which rule names a failure: specificity, over, unless, captures, qualifiers, time limits (tbparse/ruleset/match.py, patterns.py)."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

import time

import pytest
from making import made_rule, made_rules, traceback

from tbparse import classify
from tbparse.ruleset.match import RuleSet, convert, default_retry, type_fits
from tbparse.ruleset.pack import specificity
from tbparse.ruleset.patterns import PatternError, check_pattern, required_literals
from tbparse.ruleset.schema import Matcher

BAD = traceback("RuntimeError: bad batch: row 3 of shard 7")


def winner(text: str, rules: RuleSet, **kw) -> str | None:
    return classify(text, rules=rules, **kw).rule


def test_of_two_patterns_the_one_with_more_fixed_text_wins() -> None:
    rules = made_rules(
        a__short={"match": {"type": "RuntimeError", "message": "bad batch"}},
        a__long={"match": {"type": "RuntimeError", "message": r"bad batch: row \d+ of shard"}},
    )
    assert winner(BAD, rules) == "a/long"


def test_the_order_in_which_rules_are_given_does_not_matter() -> None:
    one = made_rule("a/one", match={"type": "RuntimeError", "message": "bad batch"})
    two = made_rule("a/two", match={"type": "RuntimeError", "message": "bad batch: row"})
    tie = made_rule("a/tie", match={"type": "RuntimeError", "message": "bad b?tch: row"})
    assert {winner(BAD, RuleSet(order)) for order in ([one, two, tie], [tie, two, one], [two, one, tie])} == {"a/two"}


def test_a_rule_with_a_message_beats_one_with_a_type_alone() -> None:
    rules = made_rules(a__type={"match": {"type": "pkg.BadBatch"}}, a__message={"match": {"type": "BadBatch", "message": "row 3"}})
    assert winner(traceback("pkg.BadBatch: row 3"), rules) == "a/message"


def test_over_wins_whatever_the_scores() -> None:
    rules = made_rules(
        a__weak={"match": {"message": "bad batch"}, "over": ["b/*"]},
        b__strong={"match": {"type": "RuntimeError", "message": "bad batch: row 3 of shard 7"}},
    )
    assert winner(BAD, rules) == "a/weak"


def test_over_that_goes_round_in_a_circle_still_gives_one_answer() -> None:
    rules = made_rules(
        a__x={"match": {"message": "bad batch"}, "over": ["a/y"]}, a__y={"match": {"message": "bad batch: row"}, "over": ["a/x"]}
    )
    assert winner(BAD, rules) in ("a/x", "a/y")


def test_a_generic_rule_loses_to_any_other() -> None:
    rules = made_rules(
        a__generic={"match": {"type": "RuntimeError", "message": "bad batch: row 3 of shard 7"}, "generic": True},
        a__other={"match": {"message": "bad batch"}},
    )
    assert winner(BAD, rules) == "a/other"


def test_unless_forbids_a_rule() -> None:
    rules = made_rules(a__x={"match": {"message": "bad batch"}, "unless": [{"message": "shard 7"}]})
    assert winner(BAD, rules) is None
    assert winner(BAD.replace("shard 7", "shard 8"), rules) == "a/x"


@pytest.mark.parametrize("matcher", [
    {"type": "KeyError", "message": "lr"}, {"frame": r"train\.py:9 in step"}, {"frame": r"^/work/train\.py"}, {"chain": "ValueError", "message": "lr"}, {"kind": "traceback", "type": "KeyError"},
])  # fmt: skip
def test_every_key_of_a_matcher_must_hold(matcher: dict) -> None:
    rules = made_rules(a__x={"match": matcher})
    chain = (
        traceback("KeyError: 'lr'", ("/work/train.py", 9, "step"))
        + "\nThe above exception was the direct cause of the following exception:\n\n"
        + traceback("ValueError: x")
    )
    assert winner(chain, rules) == "a/x"
    assert winner(traceback("OSError: disk", ("/work/other.py", 1, "f")), rules) is None


def test_a_matcher_with_an_exit_code_or_a_signal() -> None:
    rules = made_rules(a__code={"match": {"exit_code": 66}}, a__signal={"match": {"signal": "SIGKILL"}})
    assert winner("no input\n", rules, returncode=66) == "a/code"
    assert winner("no input\n", rules, returncode=137) == "a/signal"


def test_a_windows_path_is_matched_with_slashes() -> None:
    rules = made_rules(a__x={"match": {"frame": "kit/core.py:3 in run"}})
    assert winner(traceback("KeyError: 1", ("C:\\py\\kit\\core.py", 3, "run")), rules) == "a/x"


def test_a_line_rule_decides_only_when_it_is_fatal_or_nothing_else_explains() -> None:
    rules = made_rules(
        a__quiet={"match": {"line": "quota of /scratch exceeded"}},
        a__fatal={"match": {"line": "node is being drained"}, "fatal": True},
    )
    assert winner("quota of /scratch exceeded\n", rules) is None
    assert classify("quota of /scratch exceeded\n", rules=rules).verdict == "clean"
    assert winner("quota of /scratch exceeded\nbye\n", rules, returncode=1) == "a/quiet"
    assert winner("node is being drained\n", rules) == "a/fatal"
    assert winner("quota of /scratch exceeded\n" + BAD, rules) is None


@pytest.mark.parametrize(("text", "kind", "value"), [
    ("20.00 GiB", "bytes", 21474836480), ("512 MB", "bytes", 512_000_000), ("4096", "bytes", 4096), ("1,024 KiB", "bytes", 1048576), ("17 bytes", "bytes", 17), ("64000K", "bytes", 65536000), ("1.5G", "bytes", 1610612736),
    ("1800000ms", "seconds", 1800.0), ("30 seconds", "seconds", 30.0), ("10 min", "seconds", 600.0), ("2h", "seconds", 7200.0), ("1.5s", "seconds", 1.5), ("1-02:03:04", "seconds", 93784.0), ("00:10:00", "seconds", 600.0),
    ("1,234", "int", 1234), ("0x1f", "int", 31), ("-3", "int", -3), ("1e-3", "float", 0.001), ("nan of it", "float", "nan of it"), ("many", "int", "many"), ("huge", "bytes", "huge"), ("soon", "seconds", "soon"),
    ("[0, 1, 2]", "list", ("0", "1", "2")), ("'a', 'b'", "list", ("a", "b")), ("as it is ", "text", "as it is "),
])  # fmt: skip
def test_captures_are_converted_or_stay_text(text: str, kind: str, value: object) -> None:
    got = convert(text, kind)
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize("kind", ["bytes", "seconds", "int", "float", "list", "text"])
@pytest.mark.parametrize("text", ["9" * 400, "1e999", "", "٣", "-", "0x", "nan", "inf", "1.2.3.4 GiB", ",,,", "\ud800", "9" * 5000])
def test_any_captured_text_can_be_converted(text: str, kind: str) -> None:
    assert isinstance(convert(text, kind), (str, int, float, tuple))


def test_captures_advice_and_their_places() -> None:
    rules = made_rules(a__x={
        "match": {"message": r"row (?P<row>\d+) of shard(?: (?P<shard>\d+))?"},
        "captures": {"row": "int", "shard": "text"},
        "advice": ["look at row {row}", "of shard {shard}", "braces {stay} out"],
    })  # fmt: skip
    answer = classify(BAD, rules=rules)
    assert answer.captures == {"row": 3, "shard": "7"}
    assert answer.advice == ("look at row 3", "of shard 7")
    assert classify(traceback("X.Y: row 4 of shard"), rules=rules).advice == ("look at row 4",)


def test_a_captured_text_is_data_in_advice() -> None:
    rules = made_rules(
        a__x={
            "match": {"message": r"no (?P<what>.+) here, in (?P<where>.+)"},
            "captures": {"what": "text", "where": "text"},
            "advice": ["bring {what} to {where}"],
        }
    )
    answer = classify(traceback("KeyError: no {where} %s {0} here, in \\1"), rules=rules)
    assert answer.advice == ("bring {where} %s {0} to \\1",)


QUALIFIED = {
    "match": {"message": r"row (?P<row>\d+)"},
    "captures": {"row": "int"},
    "verdict": "real",
    "advice": ["mend it"],
    "retry": {"action": "stop"},
    "qualifiers": [
        {"when": [{"message": r"of shard (?P<shard>7)"}], "verdict": "transient", "because": "shard 7 comes back", "advice": ["wait"], "retry": {"action": "retry_later", "delay_s": 9, "max": 2}},
        {"when": [{"message": "of shard"}], "category": "data", "because": "shards are data"},
    ],
}  # fmt: skip


def test_the_first_qualifier_that_holds_turns_the_verdict() -> None:
    rules = made_rules(a__x=QUALIFIED)
    turned = classify(BAD, rules=rules)
    assert (turned.verdict, turned.category, turned.advice) == ("transient", "user-code", ("wait",))
    assert (turned.retry.action, turned.retry.delay_s, turned.retry.max) == ("retry_later", 9.0, 2)
    other = classify(BAD.replace("shard 7", "shard 8"), rules=rules)
    assert (other.verdict, other.category, other.advice) == ("real", "data", ("mend it",))
    plain = classify(traceback("RuntimeError: row 9"), rules=rules)
    assert (plain.verdict, plain.category, plain.retry.action) == ("real", "user-code", "stop")


def test_a_transient_rule_without_a_retry_is_retried_a_few_times_and_no_other() -> None:
    assert default_retry("transient").action == "retry"
    assert default_retry("transient").max >= 1
    assert default_retry("real").action == default_retry("unknown").action == "stop"


SLOW = r"(?:x|xx)+(?:x|xx)+(?:x|xx)+!"


def test_a_pattern_without_end_is_skipped_with_a_note_and_the_answer_still_comes() -> None:
    rules = made_rules(a__slow={"match": {"message": SLOW}}, a__ok={"match": {"type": "RuntimeError", "message": "xxxx"}})
    start = time.monotonic()
    answer = classify(traceback("RuntimeError: " + "x" * 4000), rules=rules)
    assert time.monotonic() - start < 5
    assert answer.rule == "a/ok"
    assert any("a/slow" in note and "skipped" in note for note in answer.notes)


def test_a_line_pattern_without_end_is_skipped_too() -> None:
    rules = made_rules(a__slow={"match": {"line": SLOW}, "fatal": True})
    answer = classify("Error " + "x" * 4000 + "\n" + BAD, rules=rules)
    assert answer.exception == "RuntimeError"
    assert any("a/slow" in note for note in answer.notes)


def test_a_qualifier_without_end_is_skipped_too() -> None:
    rules = made_rules(
        a__x={
            "match": {"type": "RuntimeError"},
            "qualifiers": [{"when": [{"message": SLOW}], "verdict": "transient", "because": "never"}],
        }
    )
    answer = classify(traceback("RuntimeError: " + "x" * 4000), rules=rules)
    assert (answer.rule, answer.verdict) == ("a/x", "real")
    assert any("a/x" in note for note in answer.notes)


@pytest.mark.parametrize(("wanted", "printed", "fits"), [
    ("KeyError", "KeyError", True), ("KeyError", "pkg.KeyError", True), ("KeyError", "MyKeyError", False), ("torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError", False),
    ("torch.OutOfMemoryError", "OutOfMemoryError", True), ("cuda.OutOfMemoryError", "torch.cuda.OutOfMemoryError", True), ("torch.cuda.OutOfMemoryError", "cuda.OutOfMemoryError", True), ("a.B", "c.B", False), ("B", None, False),
])  # fmt: skip
def test_a_type_is_known_by_its_tail(wanted: str, printed: str | None, fits: bool) -> None:
    assert type_fits(wanted, printed) is fits


@pytest.mark.parametrize("pattern", ["", "a*", "(a+)+", "(?:a*)*b", "(a|b", "[z-a]", "(?P<x>a", "a{3,1}", "x?|y"])
def test_patterns_that_cannot_be_used_are_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        check_pattern(pattern)


@pytest.mark.parametrize(("pattern", "literals"), [
    ("out of memory", ("out of memory",)), (r"a\d+bcdef", ("bcdef",)), ("(?:abc|def)x", ("abc", "def")), ("(?i)Out Of", ("out of",)), ("ab", None), (r"\d+", None), ("(?:abc)?defg", ("defg",)), ("(?:abc|d)", None),
])  # fmt: skip
def test_the_text_that_any_match_must_contain(pattern: str, literals: tuple | None) -> None:
    assert required_literals(pattern) == literals


def test_more_conditions_make_a_matcher_more_specific() -> None:
    base = Matcher(message="bad batch")
    for more in (
        {"type": "RuntimeError"},
        {"frame": "train"},
        {"chain": "KeyError"},
        {"kind": "traceback"},
        {"signal": "SIGKILL"},
        {"exit_code": 1},
        {"line": "a long line of text"},
    ):
        assert specificity(base.model_copy(update=Matcher(**more, message="bad batch").model_dump())) > specificity(base)
