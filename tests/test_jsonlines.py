"""Logs of one JSON object a line (tbparse/text/jsonlines.py)."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scoring import place

from tbparse.records import Line
from tbparse.text.jsonlines import expand

TRACE = 'Traceback (most recent call last):\n  File "/work/a.py", line 3, in f\n    x["größe"]\nKeyError: "größe"'


def lines(*rows: object) -> list[Line]:
    return [Line(n, 10 * n, 10 * n + 9, r if isinstance(r, str) else json.dumps(r)) for n, r in enumerate(rows, 1)]


def test_text_without_objects_is_left_alone() -> None:
    assert expand(lines("a", "{not json}", "{", "}", "[1]", '{"a": 1')) is None


def test_the_lines_of_a_field_have_the_span_of_their_object() -> None:
    found, _ = expand(lines("before", {"msg": TRACE}, "after"))
    assert [x.text for x in found] == ["before", *TRACE.split("\n"), "after"]
    assert {(x.no, x.start, x.end) for x in found[1:5]} == {(2, 20, 29)}


@pytest.mark.parametrize("key", ["log", "message", "msg", "event", "MESSAGE", "textPayload", "text"])
def test_the_fields_that_hold_the_text(key: str) -> None:
    found, _ = expand(lines({key: "hello\nthere", "n": 1}))
    assert [x.text for x in found] == ["hello", "there"]


@pytest.mark.parametrize("row", [
    {"msg": "x", "exception": TRACE}, {"msg": "x", "exc_info": TRACE}, {"msg": "x", "error": {"stack_trace": TRACE}}, {"msg": "x", "error.stack_trace": TRACE}, {"msg": "x", "traceback": TRACE.splitlines(keepends=True)},
    {"msg": "x", "record": {"exception": {"traceback": TRACE}}}, {"jsonPayload": {"exception": TRACE}, "message": "x"}, {"msg": "x", "something_else": TRACE},
])  # fmt: skip
def test_the_fields_that_hold_the_traceback(row: dict, explain) -> None:
    answer = explain(json.dumps(row), returncode=1)
    assert (answer.exception, place(answer.site)) == ("KeyError", ("/work/a.py", 3, "f"))


def test_a_structured_traceback_of_structlog(explain) -> None:
    row = {
        "event": "failed",
        "exception": [
            {"exc_type": "MixError", "exc_value": "no mix", "frames": [{"filename": "/work/b.py", "lineno": 9, "name": "g"}]},
            {
                "exc_type": "KeyError",
                "exc_value": "'a'",
                "frames": [{"filename": "/work/a.py", "lineno": 3, "name": "f", "line": "x['a']"}],
            },
        ],
    }
    answer = explain(json.dumps(row), returncode=1)
    assert (answer.exception, answer.message, place(answer.site)) == ("KeyError", "'a'", ("/work/a.py", 3, "f"))
    assert [c.exception for c in answer.chain] == ["MixError", "KeyError"]


def test_an_exception_with_only_a_type_and_a_value(explain) -> None:
    answer = explain(
        json.dumps({"msg": "failed", "level": "error", "error": {"type": "ValueError", "message": "bad lr"}}), returncode=1
    )
    assert (answer.exception, answer.message) == ("ValueError", "bad lr")


def test_the_writer_is_what_the_object_says(explain) -> None:
    answer = explain(json.dumps({"msg": TRACE, "rank": 3, "local_rank": 1, "hostname": "n7"}), returncode=1)
    assert (answer.rank, answer.local_rank, answer.host) == (3, 1, "n7")


def test_a_prefix_before_the_object_and_inside_it(explain) -> None:
    rows = "".join(f"2026-01-02T03:04:05.1Z stderr F {json.dumps({'log': f'[rank2]: {t}'})}\n" for t in TRACE.split("\n"))
    answer = explain(rows)
    assert (answer.exception, answer.rank, place(answer.site)) == ("KeyError", 2, ("/work/a.py", 3, "f"))


@pytest.mark.parametrize("level", ["error", "ERROR", {"name": "ERROR"}])
def test_levels_are_read(level: object) -> None:
    _, levels = expand(lines({"msg": "x", "level": level}))
    assert levels == {0: "ERROR"}


def test_a_healthy_log_of_objects_with_words_of_failure_in_its_keys_is_clean(explain) -> None:
    text = "".join(
        json.dumps({"level": "info", "step": n, "errors": 0, "exception": None, "msg": "train step"}) + "\n" for n in range(50)
    )
    assert explain(text).verdict == "clean"


@pytest.mark.parametrize(
    "row",
    [
        '{"msg": 1}',
        '{"msg": null}',
        '{"a": {"b": {}}}',
        "{}",
        '{"msg": ""}',
        '{"level": ["x"], "msg": "y"}',
        '{"rank": "3", "msg": "y"}',
        '{"rank": 1e400, "msg": "y"}',
        '{"msg": "' + "[" * 5000 + '"}',
        "{" * 3000 + "}" * 3000,
        '{"exception": [1], "msg": "x"}',
        '{"exception": [{"exc_type": 1}], "msg": "x"}',
        '{"msg": "\\ud800"}',
        '{"rank": true, "msg": "Traceback (most recent call last):"}',
    ],
)
def test_strange_objects_give_an_answer(row: str, explain) -> None:
    assert explain(f"{row}\n{row}\n").verdict in ("clean", "unknown", "real")


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["msg", "log", "exception", "error", "record", "level", "rank", "frames", "exc_type", "x"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_any_object_can_be_expanded(value: object) -> None:
    found = expand(lines({"msg": "x", "value": value, "exception": value, "record": value, "level": value}))
    assert found is not None
    assert all("\n" not in x.text for x in found[0])


SENTRY = {
    "level": "error",
    "exception": {
        "values": [
            {"type": "KeyError", "value": "'lr'", "stacktrace": {"frames": [{"filename": "/work/a.py", "lineno": 3, "function": "f", "context_line": "  cfg['lr']"}]}},
            {"type": "RuntimeError", "value": "no optimiser", "stacktrace": {"frames": [{"abs_path": "/work/run.py", "lineno": 9, "function": "main"}]}},
        ]
    },
}  # fmt: skip


@pytest.mark.parametrize("row", [
    SENTRY,
    {"body": "failed", "attributes": {"exception.type": "KeyError", "exception.stacktrace": TRACE.replace('"größe"', "'lr'")}},
    {"message": "failed", "error": {"kind": "KeyError", "message": "'lr'", "stack": TRACE.replace('"größe"', "'lr'")}},
    {"msg": "failed", "err": {"type": "KeyError", "message": "'lr'", "frames": [{"file": "/work/a.py", "line": 3, "method": "f"}]}},
])  # fmt: skip
def test_exceptions_told_as_objects(row: dict, explain) -> None:
    answer = explain(json.dumps(row) + "\n", returncode=1)
    assert (answer.exception, answer.message) == ("KeyError", "'lr'")
    assert place(answer.site) == ("/work/a.py", 3, "f")


def test_an_object_that_only_looks_like_an_exception_makes_no_failure(explain) -> None:
    row = {
        "level": "info",
        "stack": [{"file": "a.py", "line": 3}],
        "type": "pipeline",
        "name": "stack of layers",
        "message": "built",
    }
    assert explain(json.dumps(row) + "\n").verdict == "clean"


def test_objects_that_are_printed_over_many_lines(explain) -> None:
    rows = [{"textPayload": text, "severity": "ERROR", "timestamp": "2026-05-05T10:00:00Z"} for text in TRACE.split("\n")]
    log = json.dumps(rows, indent=1, ensure_ascii=False)
    answer = explain(log, returncode=1)
    assert (answer.exception, answer.message, place(answer.site)) == ("KeyError", '"größe"', ("/work/a.py", 3, "f"))
    spans = [log.encode()[e.start : e.end].decode() for e in answer.evidence]
    assert any('"textPayload": "KeyError' in span for span in spans)


def test_a_configuration_that_is_printed_as_an_object_stays_text(explain) -> None:
    log = json.dumps({"message": "hello", "log": "KeyError: 'x'", "depth": {"a": 1}}, indent=2)
    assert explain(f"{log}\nstep 1\nstep 2\n").verdict == "clean"
