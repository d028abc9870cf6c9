"""What tools make of a traceback: rows 17, 18, 25 to 28, 30 and 36 of the dialects."""

# ruff: noqa: E501, W291 - lines of logs stand as they are printed
from __future__ import annotations

import json

import pytest
from scoring import chain_of, place

INNER = 'Traceback (most recent call last):\n  File "/work/prep.py", line 14, in clean\n    return row["text"].strip()\nKeyError: \'text\'\n'

BOX = """╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /work/tools/fit.py:19 in <module>                                            │
│                                                                              │
│   16                                                                         │
│   17 if __name__ == "__main__":                                              │
│   18 │   cfg = load()                                                        │
│ ❱ 19 │   main(cfg)                                                           │
│   20                                                                         │
│                                                                              │
│ /work/a/very/long/way/down/the/tree/of/folders/and/then/some/more/mixlab/sha │
│ res.py:9 in weigh                                                            │
│                                                                              │
│    8 │   total = sum(rows)                                                   │
│ ❱  9 │   return total / count                                                │
│                                                                              │
│ ╭─ locals ─╮                                                                 │
│ │ count = 0 │                                                                │
│ ╰──────────╯                                                                 │
╰──────────────────────────────────────────────────────────────────────────────╯
ZeroDivisionError: division by zero
"""


@pytest.mark.parametrize("prefix", ["", "[rank1]: "])
def test_row_17_a_box_of_rich(prefix: str, explain) -> None:
    """Paths are put together where the box wrapped them; locals are nobody's frames."""
    answer = explain("".join(f"{prefix}{line}\n" for line in BOX.splitlines()))
    assert (answer.exception, answer.message) == ("ZeroDivisionError", "division by zero")
    assert place(answer.site) == (
        "/work/a/very/long/way/down/the/tree/of/folders/and/then/some/more/mixlab/shares.py",
        9,
        "weigh",
    )
    assert place(answer.entry) == ("/work/tools/fit.py", 19, "<module>")
    assert [f.source for f in answer.frames] == ["main(cfg)", "return total / count"]
    assert answer.rank == (1 if prefix else None)


def test_row_17_a_chain_of_boxes(explain) -> None:
    second = BOX.replace("ZeroDivisionError: division by zero", "MixError: no weights")
    answer = explain(BOX + "\nThe above exception was the direct cause of the following exception:\n\n" + second)
    assert chain_of(answer) == [("MixError", "cause"), ("ZeroDivisionError", "root")]


def test_row_17_a_wrapped_message(explain) -> None:
    answer = explain(
        BOX.replace(
            "ZeroDivisionError: division by zero",
            "FileNotFoundError: [Errno 2] No such file or directory: \n'/nope/a/rather/long/path/to/a/file/that/is/not/there.json'",
        )
    )
    assert (
        " ".join(answer.message.split())
        == "[Errno 2] No such file or directory: '/nope/a/rather/long/path/to/a/file/that/is/not/there.json'"
    )


def test_row_18_dynamo_names_the_users_code_after_the_exception_line(explain) -> None:
    answer = explain(
        'Traceback (most recent call last):\n  File "/work/fit.py", line 30, in <module>\n    net(x)\n  File "/opt/venv/lib/python3.11/site-packages/torch/_dynamo/eval_frame.py", line 655, in _fn\n    return fn(*args, **kwargs)\n'
        "torch._dynamo.exc.Unsupported: Data-dependent branching\n  Explanation: Detected data-dependent branching.\n\n\nfrom user code:\n"
        '   File "/work/net.py", line 12, in forward\n    if x.sum() > 0:\n\nSet TORCHDYNAMO_VERBOSE=1 for the internal stack trace (please do this especially if you\'re reporting a bug to PyTorch).\n'
    )
    assert answer.exception == "torch._dynamo.exc.Unsupported"
    assert answer.message.startswith("Data-dependent branching")
    assert place(answer.site) == ("/work/net.py", 12, "forward")


def test_row_18_the_real_line_stands_inside_the_backends_message(explain) -> None:
    answer = explain(
        'Traceback (most recent call last):\n  File "/work/fit.py", line 30, in <module>\n    net(x)\n'
        "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nCppCompileError: C++ compile error\n\nCommand:\ng++ /tmp/x.cpp\n\nSet TORCHDYNAMO_VERBOSE=1 for the internal stack trace\n"
    )
    assert [x for x, _ in chain_of(answer)] == ["torch._dynamo.exc.BackendCompilerFailed", "CppCompileError"]
    assert answer.exception in ("torch._dynamo.exc.BackendCompilerFailed", "CppCompileError")
    assert place(answer.site) == ("/work/fit.py", 30, "<module>")


IPYTHON = """---------------------------------------------------------------------------
KeyError                                  Traceback (most recent call last)
Cell In[3], line 2
      1 mix = load()
----> 2 shares = pick(mix, names)

File /work/blend.py:9, in pick(table, names)
      7 def pick(table, names):
      8     # as they come
----> 9     return [table[n] for n in names]

KeyError: 'maths'
"""


def test_row_25_ipython(explain) -> None:
    answer = explain(IPYTHON)
    assert (answer.exception, answer.message) == ("KeyError", "'maths'")
    assert place(answer.site) == ("/work/blend.py", 9, "pick")
    assert place(answer.entry) == ("Cell In[3]", 2, "<module>")
    assert answer.site.source == "return [table[n] for n in names]"


def test_row_25_an_old_notebook(explain) -> None:
    answer = explain(
        IPYTHON.replace("Cell In[3], line 2", "<ipython-input-3-0a1b2c3d4e5f> in <module>").replace(
            "File /work/blend.py:9, in pick(table, names)", "/work/blend.py in pick(table, names)"
        )
    )
    assert (answer.exception, place(answer.site)) == ("KeyError", ("/work/blend.py", 9, "pick"))


PYTEST = """============================= test session starts ==============================
collected 2 items

tests/test_blend.py .F                                                   [100%]

=================================== FAILURES ===================================
_________________________________ test_shares __________________________________
[gw0] linux -- Python 3.11.7 /opt/venv/bin/python

    def test_shares():
>       assert blend([1, 2]) == 3

tests/test_blend.py:12: 
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _

rows = [1, 2]

    def blend(rows):
>       return rows["total"]
E       TypeError: list indices must be integers or slices, not str

src/blend.py:41: TypeError
----------------------------- Captured stderr call -----------------------------
Traceback (most recent call last):
  File "/work/other.py", line 1, in <module>
ValueError: only captured
=========================== short test summary info ============================
FAILED tests/test_blend.py::test_shares - TypeError: list indices must be integers or slices, not str
========================= 1 failed, 1 passed in 0.03s ==========================
"""


def test_row_26_pytest(explain) -> None:
    answer = explain(PYTEST, returncode=1)
    assert (answer.exception, answer.message) == ("TypeError", "list indices must be integers or slices, not str")
    assert place(answer.site) == ("src/blend.py", 41, "blend")
    assert place(answer.entry) == ("tests/test_blend.py", 12, "test_shares")
    assert answer.rank is None, "a worker of xdist is not a rank"
    assert "ValueError" not in [s.exception for s in answer.secondary], "captured output is nobody's failure"


def test_row_26_only_the_short_summary(explain) -> None:
    answer = explain(PYTEST[PYTEST.index("=========================== short") :], returncode=1)
    assert (answer.exception, answer.process) == ("TypeError", "tests/test_blend.py::test_shares")


def test_row_26_a_run_in_which_all_passed(explain) -> None:
    text = "============================= test session starts ==============================\ntests/test_a.py ..\n============================== 2 passed in 0.03s ===============================\n"
    assert explain(text, returncode=0).verdict == "clean"


LOGURU = """2026-01-02 03:04:05.678 | ERROR    | __main__:<module>:16 - An error has been caught in function '<module>', process 'MainProcess' (4242), thread 'MainThread' (1):
Traceback (most recent call last):

> File "/work/fit.py", line 16, in <module>
    main()
    └ <function main at 0x7f3f>

  File "/work/fit.py", line 5, in main
    return rows["total"]
           └ [1, 2]

TypeError: list indices must be integers or slices, not str
"""


def test_row_27_loguru_annotates_the_frames(explain) -> None:
    answer = explain(LOGURU, returncode=1)
    assert (answer.exception, answer.message) == ("TypeError", "list indices must be integers or slices, not str")
    assert place(answer.site) == ("/work/fit.py", 5, "main")
    assert [f.source for f in answer.frames] == ["main()", 'return rows["total"]']


@pytest.mark.parametrize("row", [
    lambda t: {"log": t, "stream": "stderr", "time": "2026-01-02T03:04:05Z"},
    lambda t: {"event": "failed", "level": "error", "exception": t},
    lambda t: {"message": "failed", "levelname": "ERROR", "exc_info": t},
    lambda t: {"text": "failed", "record": {"level": {"name": "ERROR"}, "message": "failed", "exception": {"type": "KeyError", "value": "'text'", "traceback": t}}},
    lambda t: {"severity": "ERROR", "jsonPayload": {"message": t}},
    lambda t: {"error": {"type": "KeyError", "stack_trace": t}, "message": "failed"},
    lambda t: {"msg": "failed", "stack": t, "rank": 3},
], ids=["docker", "structlog", "python-json-logger", "loguru", "google", "ecs", "stack"])  # fmt: skip
def test_row_28_a_traceback_in_a_field_of_json(row, explain) -> None:
    line = json.dumps(row(INNER))
    answer = explain('{"event": "start", "level": "info"}\n' + line + "\n", returncode=1)
    assert (answer.exception, answer.message, place(answer.site)) == ("KeyError", "'text'", ("/work/prep.py", 14, "clean"))
    assert {e.line for e in answer.evidence} == {2}


def test_row_28_a_line_of_a_traceback_an_object(explain) -> None:
    answer = explain("".join(json.dumps({"log": line + "\n", "stream": "stderr"}) + "\n" for line in INNER.splitlines()))
    assert (answer.exception, place(answer.site), answer.evidence[-1].line) == ("KeyError", ("/work/prep.py", 14, "clean"), 4)


def test_row_30_hydra_shows_only_the_users_part(explain) -> None:
    answer = explain(
        "Error executing job with overrides: ['lr=-1']\n"
        + INNER
        + "\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n",
        returncode=1,
    )
    assert (answer.exception, answer.message, place(answer.site)) == ("KeyError", "'text'", ("/work/prep.py", 14, "clean"))


def test_row_30_hydra_without_a_traceback(explain) -> None:
    answer = explain(
        "Error executing job with overrides: []\nError locating target 'work.nets.Bigg', set env var HYDRA_FULL_ERROR=1 to see chained exception.\nfull_key: model\n\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n",
        returncode=1,
    )
    assert answer.exception is None
    assert answer.message.startswith("Error locating target 'work.nets.Bigg'")
    assert "full_key: model" in answer.message
    assert answer.verdict == "real"


def test_row_36_a_ci_log(explain) -> None:
    text = (
        "##[group]Run python train.py\npython train.py\n##[endgroup]\n" + INNER + "##[error]Process completed with exit code 1.\n"
    )
    answer = explain(
        "".join(f"2026-01-02T03:04:{n:02d}.1234567Z {line}\n" for n, line in enumerate(text.splitlines())), returncode=1
    )
    assert (answer.exception, answer.message, place(answer.site)) == ("KeyError", "'text'", ("/work/prep.py", 14, "clean"))


def test_row_36_a_ci_log_with_nothing_but_its_closing_line(explain) -> None:
    answer = explain(
        "2026-01-02T03:04:05.1234567Z training\n2026-01-02T03:04:06.1234567Z ##[error]Process completed with exit code 137.\n",
        returncode=137,
    )
    assert (answer.exception, answer.signal) == (None, "SIGKILL")
