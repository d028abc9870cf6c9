"""The contract: RootCause and its JSON (tbparse/model.py)."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

import json

import jsonschema
import pytest
from corpora import all_cases
from pydantic import ValidationError

from tbparse import RootCause, classify
from tbparse.model import SCHEMA_VERSION, Evidence, Frame, Retry, json_schema, signal_name, signal_number
from tbparse.ruleset.match import RuleSet

CONTRACT = {
    "schema", "verdict", "category", "confidence", "rule", "title", "exception", "message", "site", "entry", "frames", "chain", "rank", "local_rank", "host", "attempt", "process", "signal", "exit_code",
    "evidence", "captures", "secondary", "advice", "retry", "fingerprint",
}  # fmt: skip
SMALLEST = {"schema": 1, "verdict": "clean", "category": None, "confidence": "high"}


def test_the_json_has_every_field_of_the_contract(explain) -> None:
    data = json.loads(explain("hello\n").to_json())
    assert set(data) >= CONTRACT
    assert data["schema"] == SCHEMA_VERSION == 1
    assert set(data["retry"]) == {"action", "delay_s", "max"}


def test_the_smallest_answer_fills_in_the_rest() -> None:
    answer = RootCause.from_json(json.dumps(SMALLEST))
    assert (answer.frames, answer.retry, answer.transient) == ((), Retry(), False)


@pytest.mark.parametrize("change", [
    {"verdict": "maybe"}, {"category": "weather"}, {"confidence": "certain"}, {"schema": 2}, {"schema": "1"}, {"rank": "3"}, {"rank": 1.5}, {"message": 4}, {"unknown_field": 1},
    {"site": {"path": "a", "line": "3"}}, {"site": {"path": "a", "extra": 1}}, {"chain": [{"exception": "X", "relation": "friend"}]}, {"retry": {"action": "pray"}}, {"frames": [{"path": "a"}]}, {"advice": "one"},
    {"evidence": [{"line": 1, "start": 0, "end": 1}]}, {"captures": {"a": {"b": 1}}}, {"signal": 9},
])  # fmt: skip
def test_what_is_not_the_contract_is_refused(change: dict) -> None:
    with pytest.raises(ValidationError):
        RootCause.from_json(json.dumps({**SMALLEST, **change}))


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "{}", '{"verdict": "clean"}'])
def test_what_is_not_an_answer_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        RootCause.from_json(text)


def test_an_answer_is_frozen(explain) -> None:
    answer = explain("hello\n")
    with pytest.raises(ValidationError):
        answer.verdict = "transient"
    with pytest.raises(ValidationError):
        answer.retry.max = 9


def test_the_parts_are_strict() -> None:
    with pytest.raises(ValidationError):
        Evidence(line="1", start=0, end=1, text="x")
    with pytest.raises(ValidationError):
        Frame(path="a.py", line=True, origin="user")


@pytest.mark.parametrize("verdict", ["transient", "real", "unknown", "clean"])
def test_only_transient_is_transient(verdict: str) -> None:
    assert RootCause.from_json(json.dumps({**SMALLEST, "verdict": verdict})).transient is (verdict == "transient")


def test_captures_keep_their_types() -> None:
    data = {**SMALLEST, "captures": {"n": 3, "f": 0.5, "b": True, "t": "x", "l": ["a", 1]}}
    answer = RootCause.from_json(json.dumps(data))
    assert answer.captures == {"n": 3, "f": 0.5, "b": True, "t": "x", "l": ("a", 1)}
    assert RootCause.from_json(answer.to_json()) == answer


def test_the_schema_is_a_schema() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert set(schema["properties"]) >= CONTRACT


def test_every_answer_over_the_corpora_keeps_to_the_schema_and_to_itself(rules: RuleSet) -> None:
    validator = jsonschema.Draft202012Validator(json_schema())
    wrong = {}
    for case in all_cases():
        answer = classify(case.read(), rules=rules, returncode=case.returncode)
        errors = [e.message for e in validator.iter_errors(json.loads(answer.to_json()))]
        errors += list(_contradictions(answer))
        if errors:
            wrong[case.id] = errors
    assert wrong == {}


def _contradictions(answer: RootCause):
    if (answer.category is None) != (answer.verdict == "clean"):
        yield "category is null when clean, and only then"
    if (answer.rule is None) != (answer.title is None):
        yield "a rule has a title"
    if answer.verdict != "transient" and answer.verdict != "clean" and answer.retry.action == "retry":
        yield "only a transient failure is retried as it is"
    if answer.verdict == "transient" and answer.retry.action == "stop":
        yield "a transient failure is tried again"
    if answer.verdict == "clean" and (answer.exception or answer.site or answer.evidence):
        yield "nothing failed, so there is nothing to show"
    if answer.chain and (answer.chain[-1].relation != "root" or answer.chain[-1].exception != answer.exception):
        yield "the chain ends with the root"
    if sum(link.relation == "root" for link in answer.chain) > 1:
        yield "one root"
    if answer.signal is not None and answer.exit_code is not None:
        yield "a process ends by a signal or with a code"
    if answer.site is not None and answer.entry is None:
        yield "who has a site has an entry"
    if any(f.origin == "launcher" for f in answer.frames):
        yield "launcher frames are left out"
    if not (answer.fingerprint or answer.verdict in ("clean", "unknown")):
        yield "a failure has a fingerprint"


@pytest.mark.parametrize(
    ("number", "name"), [(9, "SIGKILL"), (11, "SIGSEGV"), (15, "SIGTERM"), (2, "SIGINT"), (7, "SIGBUS"), (1, "SIGHUP")]
)
def test_signals_have_the_names_of_linux(number: int, name: str) -> None:
    assert (signal_name(number), signal_number(name)) == (name, number)


@pytest.mark.parametrize("number", [0, -1, 64, 999])
def test_a_number_without_a_name_has_none(number: int) -> None:
    assert signal_name(number) is None


RUN = """[rank{r}]: Traceback (most recent call last):
[rank{r}]:   File "/scratch/{job}/train.py", line 61, in step
[rank{r}]:     loss = model(batch)
[rank{r}]: ValueError: bad row {n} of /scratch/{job}/shard.bin at 0x7f{n}00 after {t}
"""


def test_the_fingerprint_is_the_same_for_the_same_failure_in_another_run(explain) -> None:
    one = explain(RUN.format(r=1, job="job-81a", n=12, t="00:10:01"))
    two = explain(RUN.format(r=6, job="job-99c", n=977, t="03:44:59"))
    assert one.fingerprint == two.fingerprint
    assert one.fingerprint


def test_the_fingerprint_differs_for_another_failure(explain) -> None:
    one = explain(RUN.format(r=1, job="a", n=12, t="1"))
    assert explain(RUN.format(r=1, job="a", n=12, t="1").replace("bad row", "torn row")).fingerprint != one.fingerprint
    assert explain(RUN.format(r=1, job="a", n=12, t="1").replace("in step", "in load")).fingerprint != one.fingerprint
    assert explain(RUN.format(r=1, job="a", n=12, t="1").replace("ValueError", "KeyError")).fingerprint != one.fingerprint
