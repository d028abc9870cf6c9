"""What tools make of a traceback: rows 17, 18, 25 to 28, 30 and 36 of the dialects."""

# ruff: noqa: E501, W291 - lines of logs stand as they are printed
from __future__ import annotations

import json

import pytest
from scoring import chain_of, place

HEADER = "Traceback (most recent call last):\n"
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


@pytest.mark.parametrize("prefix", ["", "[rank1]: "])
def test_row_17_a_group_in_boxes_in_boxes(prefix: str, explain) -> None:
    inner = BOX.splitlines()
    boxed = [f"│ {line:<80} │" for line in inner]
    log = [*inner[:-1], "ExceptionGroup: two shards (2 sub-exceptions)", ""]
    log += [f"╭{' Sub-exception #1 ':─^82}╮", *boxed, f"╰{'─' * 82}╯", ""]
    log += [f"╭{' Sub-exception #2 ':─^82}╮", f"│ {'TypeError: no list':<80} │", f"╰{'─' * 82}╯", "done"]
    answer = explain("".join(f"{prefix}{line}\n" for line in log), returncode=1)
    assert chain_of(answer) == [("ExceptionGroup", "group"), ("ZeroDivisionError", "root")]
    assert place(answer.site)[1:] == (9, "weigh")
    assert "TypeError" in [s.exception for s in answer.secondary]


def test_row_17_a_syntax_error_has_a_box_of_its_own(explain) -> None:
    place_box = f"╭{'─' * 40}╮\n│ {' /work/very/long/path/to/the/source/of/':<38} │\n│ {'steps.py:4':<38} │\n│ {'def f(:':<38} │\n│ {'      ▲':<38} │\n╰{'─' * 40}╯\n"
    answer = explain(BOX.replace("ZeroDivisionError: division by zero", f"{place_box}SyntaxError: invalid syntax"))
    assert place(answer.site) == ("/work/very/long/path/to/the/source/of/steps.py", 4, None)
    assert answer.site.source == "def f(:"


@pytest.mark.parametrize(
    ("where", "path"), [("  Cell In[5], line 3", "Cell In[5]"), ("  File /work/nb/steps.py:3", "/work/nb/steps.py")]
)
def test_row_25_a_syntax_error_has_no_header(where: str, path: str, explain) -> None:
    answer = explain(f"{where}\n    for x in loader\n                   ^\nSyntaxError: expected ':'\n", returncode=1)
    assert (answer.exception, place(answer.site)) == ("SyntaxError", (path, 3, None))


def test_row_25_colab_leaves_frames_out_and_names_decorators(explain) -> None:
    answer = explain(
        f"{'-' * 75}\nKeyError                                  Traceback (most recent call last)\n<ipython-input-5-1d2f> in <cell line: 1>()\n----> 1 run(cfg)\n\n"
        "4 frames\n<decorator-gen-53> in run(self, cfg)\n\n/work/lib/steps.py in pick(cfg)\n    243     x = 1\n--> 245     return cfg['lr']\n\nKeyError: 'lr'\n",
        returncode=1,
    )
    assert (answer.exception, answer.message, place(answer.site)) == ("KeyError", "'lr'", ("/work/lib/steps.py", 245, "pick"))


@pytest.mark.parametrize("between", ["", "\nStack Trace:\n"])
def test_a_platform_prints_the_exception_before_its_frames(between: str, explain) -> None:
    head = f"KeyError: 'text'\n{between or HEADER}"
    frames = '  File "/work/handler.py", line 14, in handler\n    return embed(event)\n  File "/work/embed.py", line 9, in embed\n    t = event["text"]\n'
    answer = explain(f"START RequestId: 1a\n[ERROR] {head}{frames}END RequestId: 1a\n", returncode=1)
    assert (answer.exception, answer.message, place(answer.site)) == ("KeyError", "'text'", ("/work/embed.py", 9, "embed"))


def test_blanks_that_do_not_break_are_blanks(explain) -> None:
    answer = explain(INNER.replace("  File", "\xa0\xa0File").replace("    return", "\xa0\xa0\xa0\xa0return"))
    assert place(answer.site) == ("/work/prep.py", 14, "clean")


def test_stackprinter_shows_the_lines_around(explain) -> None:
    answer = explain(
        'File "/work/run.py", line 9, in <module>\n    8    if __name__ == "__main__":\n--> 9        fit(cfg)\n    ....................\n     cfg = {}\n    ....................\n\n'
        'File "/work/opt.py", line 12, in make\n    11   def make(c):\n--> 12       return TABLE[c["name"]]\n\nKeyError: \'adamw8\'\n',
        returncode=1,
    )
    assert (answer.exception, place(answer.site)) == ("KeyError", ("/work/opt.py", 12, "make"))
    assert answer.site.source == 'return TABLE[c["name"]]'


def test_a_message_framed_like_a_notice_is_the_message(explain) -> None:
    notice = f"{'*' * 70}\n  Resource punkt_tab not found.\n\n  Searched in:\n    - '/root/nltk_data'\n{'*' * 70}\n"
    answer = explain(INNER.replace("KeyError: 'text'\n", f"LookupError: \n{notice}") + "step 3 done\n", returncode=1)
    assert answer.message.splitlines()[1:5:3] == ["  Resource punkt_tab not found.", "    - '/root/nltk_data'"]


def test_row_26_a_quiet_session_that_passes_later_heals_the_first(explain) -> None:
    failed = "F.    [100%]\n==== FAILURES ====\n____ test_tok ____\ntest_tok.py:7: in test_tok\n    assert table['a']\nE   KeyError: 'a'\n==== short test summary info ====\nFAILED test_tok.py::test_tok - KeyError: 'a'\n1 failed, 1 passed in 0.04s\n"
    assert explain(failed).exception == "KeyError"
    assert explain(f"Attempt 1\n{failed}Attempt 2\n..    [100%]\n2 passed in 0.04s\n").verdict == "clean"


def test_row_26_a_fixture_that_is_missing_has_a_place(explain) -> None:
    log = "==== ERRORS ====\n____ ERROR at setup of test_train ____\nfile /work/tests/test_train.py, line 8\n  def test_train(mocker):\nE       fixture 'mocker' not found\n>       available fixtures: cache\n\n/work/tests/test_train.py:8\n==== short test summary info ====\nERROR tests/test_train.py::test_train\n1 error in 0.03s\n"
    assert place(explain(log, returncode=1).site) == ("/work/tests/test_train.py", 8, "test_train")


def test_retry_words_before_an_uncaught_traceback_do_not_make_it_handled(explain) -> None:
    answer = explain(
        "Retrying in 1s [Retry 1/5].\nTraceback (most recent call last):\n  File \"/work/main.py\", line 12, in <module>\n    main()\n  File \"/work/io.py\", line 9, in main\n    row['labels']\nKeyError: 'labels'\n"
    )
    assert (answer.verdict, answer.exception) == ("real", "KeyError")


def test_a_container_runtime_cuts_long_lines(explain) -> None:
    rows = [
        ("F", "Traceback (most recent call last):"),
        ("F", '  File "/work/b.py", line 9, in main'),
        ("F", "    check()"),
        ("P", "ValueError: the quick brown "),
        ("F", "fox is missing"),
    ]
    answer = explain("".join(f"2026-03-14T09:26:01.123456789Z stderr {flag} {text}\n" for flag, text in rows), returncode=1)
    assert answer.message == "the quick brown fox is missing"
