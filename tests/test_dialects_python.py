"""What CPython itself prints: rows 1 to 7, 19 to 21, 23, 24, 35 and 37 of the dialects."""

from __future__ import annotations

import pytest
from dress import QUIET_BEFORE, noise
from scoring import chain_of, place

TAIL = "\n\nThe above exception was the direct cause of the following exception:\n\n"
DURING = "\n\nDuring handling of the above exception, another exception occurred:\n\n"


def test_row_01_plain(explain) -> None:
    answer = explain(
        "loading tokenizer\n"
        "Traceback (most recent call last):\n"
        '  File "/work/pretrain.py", line 88, in <module>\n    main()\n'
        '  File "/work/pretrain.py", line 61, in main\n    batch = collate(rows)\n            ^^^^^^^^^^^^^\n'
        '  File "/opt/venv/lib/python3.11/site-packages/datakit/pack.py", line 19, in collate\n    raise ValueError(f"row of {n} tokens")\n'
        "ValueError: row of 0 tokens\n"
    )
    assert (answer.exception, answer.message) == ("ValueError", "row of 0 tokens")
    assert place(answer.site) == ("/work/pretrain.py", 61, "main")
    assert place(answer.entry) == ("/work/pretrain.py", 88, "<module>")
    assert answer.site.source == "batch = collate(rows)"
    assert [f.origin for f in answer.frames] == ["user", "user", "library"]
    assert chain_of(answer) == [("ValueError", "root")]


@pytest.mark.parametrize("path", ["<string>", "<stdin>"])
def test_row_01_a_program_without_a_file_is_the_users(path: str, explain) -> None:
    answer = explain(f'Traceback (most recent call last):\n  File "{path}", line 4, in <module>\n  File "{path}", line 2, in halve\nZeroDivisionError: division by zero\n')
    assert place(answer.site) == (path, 2, "halve")
    assert place(answer.entry) == (path, 4, "<module>")
    assert answer.site.source is None


def test_row_01_frames_without_source_lines(explain) -> None:
    """Zipapps, Cython and frozen modules print no source."""
    answer = explain(
        "Traceback (most recent call last):\n"
        '  File "/jobs/app.pyz/__main__.py", line 3, in <module>\n'
        '  File "/jobs/app.pyz/trainer/loop.py", line 40, in run\n'
        '  File "src/fastpack.pyx", line 77, in fastpack.pack\n'
        "IndexError: list index out of range\n"
    )
    assert answer.exception == "IndexError"
    assert place(answer.site) == ("/jobs/app.pyz/trainer/loop.py", 40, "run")
    assert [f.function for f in answer.frames] == ["<module>", "run", "fastpack.pack"]


@pytest.mark.parametrize(("line", "exception", "message"), [
    ("KeyboardInterrupt", "KeyboardInterrupt", ""), ("AssertionError", "AssertionError", ""), ("mypkg.errors.Stop: now", "mypkg.errors.Stop", "now"), ("KeyError: ''", "KeyError", "''"),
    ("ValueError: a: b: c", "ValueError", "a: b: c"), ("outer.<locals>.Oops: x", "outer.<locals>.Oops", "x"), ("UnicodeDecodeError: 'utf-8' codec can't decode byte 0x80", "UnicodeDecodeError", "'utf-8' codec can't decode byte 0x80"),
    ("socket.gaierror: [Errno -2] Name or service not known", "socket.gaierror", "[Errno -2] Name or service not known"), ("Exception", "Exception", ""),
])  # fmt: skip
def test_row_01_exception_lines(line: str, exception: str, message: str, explain) -> None:
    answer = explain(f'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    f()\n{line}\n')
    assert (answer.exception, answer.message) == (exception, message)


@pytest.mark.parametrize("runner", ['  File "<frozen runpy>", line 198, in _run_module_as_main\n  File "<frozen runpy>", line 88, in _run_code\n', '  File "/usr/lib/python3.8/runpy.py", line 194, in _run_module_as_main\n    return _run_code(code, main_globals, None,\n'])
def test_row_02_runpy_frames_are_nobodys(runner: str, explain) -> None:
    answer = explain(f'Traceback (most recent call last):\n{runner}  File "/work/pkg/__main__.py", line 5, in <module>\n    go()\nRuntimeError: no shards\n')
    assert [f.path for f in answer.frames] == ["/work/pkg/__main__.py"]
    assert place(answer.entry) == ("/work/pkg/__main__.py", 5, "<module>")


def block(line: str, path: str = "/work/a.py", number: int = 1, function: str = "f") -> str:
    return f'Traceback (most recent call last):\n  File "{path}", line {number}, in {function}\n    x()\n{line}'


def test_row_03_of_direct_causes_the_first_block_is_the_root(explain) -> None:
    answer = explain(block("FileNotFoundError: [Errno 2] No such file or directory: 'v.json'", "/work/io.py", 3, "read") + TAIL + block("work.Setup: no vocabulary", "/work/run.py", 9, "main") + "\n")
    assert chain_of(answer) == [("work.Setup", "cause"), ("FileNotFoundError", "root")]
    assert place(answer.site) == ("/work/io.py", 3, "read")
    assert answer.message == "[Errno 2] No such file or directory: 'v.json'"


def test_row_03_a_name_error_in_cleanup_is_not_the_cause(explain) -> None:
    answer = explain(block("ConnectionResetError: [Errno 104] Connection reset by peer") + DURING + block("NameError: name 'sesion' is not defined", "/work/a.py", 9, "close") + "\n")
    assert answer.exception == "ConnectionResetError"
    assert chain_of(answer) == [("NameError", "context"), ("ConnectionResetError", "root")]


def test_row_03_four_blocks_deep(explain) -> None:
    answer = explain(block("KeyError: 'lr'", number=1) + DURING + block("AttributeError: x", number=2) + TAIL + block("TypeError: y", number=3) + TAIL + block("pkg.ConfigFault: z", number=4) + "\n")
    assert [x for x, _ in chain_of(answer)] == ["pkg.ConfigFault", "TypeError", "AttributeError", "KeyError"]
    assert [r for _, r in chain_of(answer)] == ["cause", "cause", "context", "root"]


def test_row_04_a_link_without_header_and_frames(explain) -> None:
    answer = explain("httpcore2.ConnectError: [Errno -3] Temporary failure in name resolution" + TAIL + block("httpx2.ConnectError: [Errno -3] Temporary failure in name resolution", "/work/get.py", 12, "pull") + "\n")
    assert chain_of(answer) == [("httpx2.ConnectError", "cause"), ("httpcore2.ConnectError", "root")]
    assert place(answer.site) == ("/work/get.py", 12, "pull"), "the root has no frame: the one that wraps it says where the user's code was"


@pytest.mark.parametrize("version", ["3.9", "3.13"])
def test_row_05_a_syntax_error_in_the_main_file_has_no_header(version: str, explain) -> None:
    caret = "    print('a'\n         ^\n" if version == "3.9" else "    print('a'\n         ^\n"
    answer = explain(f"  File \"/work/train.py\", line 7\n{caret}SyntaxError: '(' was never closed\n")
    assert (answer.exception, answer.message) == ("SyntaxError", "'(' was never closed")
    assert place(answer.site) == ("/work/train.py", 7, None)


@pytest.mark.parametrize("line", ["SyntaxError: invalid syntax", "IndentationError: unexpected indent", "TabError: inconsistent use of tabs and spaces in indentation"])
def test_row_05_a_syntax_error_in_an_imported_file_blames_that_file(line: str, explain) -> None:
    answer = explain(f'Traceback (most recent call last):\n  File "/work/train.py", line 2, in <module>\n    import layers\n  File "/work/layers.py", line 31\n    def f(x)\n            ^\n{line}\n')
    assert place(answer.site) == ("/work/layers.py", 31, None)
    assert place(answer.entry) == ("/work/train.py", 2, "<module>")
    assert answer.exception == line.split(":")[0]


GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "/work/pull.py", line 30, in <module>
  |     asyncio.run(main())
  |   File "/usr/lib/python3.12/asyncio/taskgroups.py", line 145, in __aexit__
  |     raise me from None
  | ExceptionGroup: unhandled errors in a TaskGroup (3 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/work/pull.py", line 11, in shard
    |     return rows[n]
    |            ~~~~^^^
    | IndexError: list index out of range
    |
    | The above exception was the direct cause of the following exception:
    |
    | Traceback (most recent call last):
    |   File "/work/pull.py", line 13, in shard
    |     raise ShardError(n) from e
    | __main__.ShardError: 4
    +---------------- 2 ----------------
    | TimeoutError: no answer
    +---------------- ... ----------------
    | and 1 more exception
    +------------------------------------
"""


def test_row_06_a_group_is_read_leaf_by_leaf(explain) -> None:
    answer = explain(GROUP)
    assert chain_of(answer) == [("ExceptionGroup", "group"), ("__main__.ShardError", "cause"), ("IndexError", "root")]
    assert place(answer.site) == ("/work/pull.py", 11, "shard")
    assert place(answer.entry) == ("/work/pull.py", 30, "<module>")
    assert "TimeoutError" in [s.exception for s in answer.secondary]


def test_row_06_nested_groups(explain) -> None:
    answer = explain(
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "/work/a.py", line 3, in <module>\n  |     outer()\n'
        "  | ExceptionGroup: outer (1 sub-exception)\n"
        "  +-+---------------- 1 ----------------\n"
        "    | Exception Group Traceback (most recent call last):\n"
        '    |   File "/work/a.py", line 8, in inner\n    |     raise eg\n'
        "    | ExceptionGroup: inner (2 sub-exceptions)\n"
        "    +-+---------------- 1 ----------------\n"
        "      | Traceback (most recent call last):\n"
        '      |   File "/work/a.py", line 12, in leaf\n      |     int("x")\n'
        "      | ValueError: invalid literal for int() with base 10: 'x'\n"
        "      +---------------- 2 ----------------\n"
        "      | KeyError: 'b'\n"
        "      +------------------------------------\n"
    )
    assert [x for x, _ in chain_of(answer)] == ["ExceptionGroup", "ExceptionGroup", "ValueError"]
    assert place(answer.site) == ("/work/a.py", 12, "leaf")


def test_row_06_a_group_as_the_cause_of_a_plain_exception(explain) -> None:
    answer = explain(GROUP.rstrip("\n") + TAIL + block("RuntimeError: the pull failed", "/work/main.py", 5, "<module>") + "\n")
    assert [x for x, _ in chain_of(answer)][0] == "RuntimeError"
    assert answer.exception == "IndexError"


def test_row_07_a_message_of_many_lines_is_whole(explain) -> None:
    answer = explain('Traceback (most recent call last):\n  File "/work/a.py", line 3, in load\n    model.load_state_dict(s)\nRuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "a.w".\n\tsize mismatch for b.w: copying a param\n')
    assert answer.message == 'Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "a.w".\n\tsize mismatch for b.w: copying a param'


def test_row_07_a_note_with_a_fake_header_is_not_a_traceback(explain) -> None:
    answer = explain(
        'Traceback (most recent call last):\n  File "/work/a.py", line 3, in load\n    go()\nValueError: bad page\nwhile reading this page:\nTraceback (most recent call last):\n  a sentence, not a frame\n'
    )
    assert (answer.exception, place(answer.site)) == ("ValueError", ("/work/a.py", 3, "load"))
    assert answer.secondary == ()


def test_row_07_a_source_line_that_quotes_the_header(explain) -> None:
    answer = explain('Traceback (most recent call last):\n  File "/work/a.py", line 3, in load\n    print("Traceback (most recent call last):")\nOSError: [Errno 5] Input/output error\n')
    assert (answer.exception, place(answer.site)) == ("OSError", ("/work/a.py", 3, "load"))


STEPS = "".join(f"step {n}: loss=0.{n}\n" for n in range(40, 60))


@pytest.mark.parametrize("lead", ["Exception in thread Thread-3 (_pin_memory_loop):\n", "Exception ignored in: <function Pool.__del__ at 0x7f>\n", "Exception ignored while calling deallocator <function Handle.__del__ at 0x12f1328>:\n", "--- Logging error ---\n", "Error in atexit._run_exitfuncs:\n", "ERROR:root:evaluation failed\n", "2026-01-02 03:04:05,678 - trainer - ERROR - evaluation failed\n", "Exception ignored in atexit callback: <function bye at 0x7f>\n"])
def test_row_19_what_was_only_logged_loses_against_what_ended_the_process(lead: str, explain) -> None:
    logged = lead + block("OSError: metrics server gone", "/work/metrics.py", 2, "push") + "\n"
    fatal = block("KeyError: 'labels'", "/work/train.py", 9, "step") + "\n"
    for text in (logged + STEPS + fatal, logged + fatal, fatal + logged):
        answer = explain(text, returncode=1)
        assert (answer.exception, place(answer.site)) == ("KeyError", ("/work/train.py", 9, "step"))
    assert explain(logged + STEPS, returncode=0).verdict == "clean"


def test_row_19_autograds_forward_trace_is_information(explain) -> None:
    text = (
        "/opt/venv/lib/python3.11/site-packages/torch/autograd/graph.py:823: UserWarning: Error detected in MulBackward0. Traceback of forward call that caused the error:\n"
        '  File "/work/net.py", line 20, in forward\n    y = a * b\n (Triggered internally at ../torch/csrc/autograd/python_anomaly_mode.cpp:116.)\n  return Variable._execution_engine.run_backward(\n'
        'Traceback (most recent call last):\n  File "/work/train.py", line 31, in <module>\n    loss.backward()\nRuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation\n'
    )
    assert place(explain(text).site) == ("/work/train.py", 31, "<module>")


def test_row_20_a_bar_and_the_header_on_one_line(explain) -> None:
    answer = explain(" 20%|██        | 2/10 [00:01<00:04,  1.9it/s]" + block("ValueError: odd", "/work/a.py", 3, "f") + "\n")
    assert (answer.exception, place(answer.site)) == ("ValueError", ("/work/a.py", 3, "f"))


def test_row_20_a_bar_of_240_kilobytes_on_one_line(explain) -> None:
    bar = "".join(f"\r {n / 50:.0f}%|██  | {n}/5000 [00:01<00:04,  1.9it/s]" for n in range(5000))
    answer = explain(bar + "\n" + block("ValueError: odd", "/work/a.py", 3, "f") + "\n")
    assert (answer.exception, answer.evidence[-1].line) == ("ValueError", 5)


def test_row_20_a_bar_drawn_once_more_is_no_part_of_the_message(explain) -> None:
    answer = explain(block("IndexError: index out of range in self", "/work/a.py", 3, "f") + "\n 33%|███▎      | 4/12 [00:00<00:00, 12.74it/s]\n")
    assert answer.message == "index out of range in self"


def test_row_21_the_frame_of_a_recursion_is_the_first_of_the_cycle(explain) -> None:
    answer = explain(
        'Traceback (most recent call last):\n  File "/work/a.py", line 20, in <module>\n    walk(tree)\n  File "/work/a.py", line 5, in walk\n    walk(n)\n  File "/work/a.py", line 5, in walk\n    walk(n)\n'
        '  File "/work/a.py", line 5, in walk\n    walk(n)\n  [Previous line repeated 996 more times]\nRecursionError: maximum recursion depth exceeded\n'
    )
    assert (answer.exception, place(answer.site)) == ("RecursionError", ("/work/a.py", 5, "walk"))


def test_row_21_three_thousand_frames_of_two_functions(explain) -> None:
    pair = '  File "/work/a.py", line 2, in f\n    return g(n)\n  File "/work/b.py", line 6, in g\n    return f(n)\n'
    answer = explain('Traceback (most recent call last):\n  File "/work/a.py", line 20, in <module>\n    f(1)\n' + pair * 1500 + "RecursionError: maximum recursion depth exceeded in comparison\n")
    assert place(answer.site) == ("/work/a.py", 2, "f")
    assert len(answer.frames) <= 200
    assert any("left out" in n for n in answer.notes)


def test_row_23_coloured_pieces_of_file_lines(explain) -> None:
    answer = explain(
        'Traceback (most recent call last):\n  File \x1b[35m"/work/a.py"\x1b[0m, line \x1b[35m3\x1b[0m, in \x1b[35m<module>\x1b[0m\n    \x1b[31mhalve\x1b[0m\x1b[1;31m(0)\x1b[0m\n    \x1b[31m~~~~~\x1b[0m\x1b[1;31m^^^\x1b[0m\n\x1b[1;35mZeroDivisionError\x1b[0m: \x1b[35mdivision by zero\x1b[0m\n'
    )
    assert (answer.exception, answer.message, place(answer.site)) == ("ZeroDivisionError", "division by zero", ("/work/a.py", 3, "<module>"))


def test_row_24_a_users_file_that_shadows_a_module_of_pythons(explain) -> None:
    answer = explain(
        'Traceback (most recent call last):\n  File "/work/train.py", line 1, in <module>\n    import logging\n  File "/usr/lib/python3.11/logging/__init__.py", line 26, in <module>\n    import sys, os, time, string\n'
        '  File "/work/string.py", line 4, in <module>\n    TABLE = load()\nNameError: name \'load\' is not defined\n'
    )
    assert place(answer.site) == ("/work/string.py", 4, "<module>")


def test_row_35_windows_paths(explain) -> None:
    answer = explain('Traceback (most recent call last):\r\n  File "C:\\jobs\\fit.py", line 8, in <module>\r\n    run()\r\n  File "C:\\Python311\\Lib\\site-packages\\kit\\core.py", line 3, in run\r\n    raise KeyError(k)\r\nKeyError: \'lr\'\r\n')
    assert place(answer.site) == ("C:\\jobs\\fit.py", 8, "<module>")
    assert [f.origin for f in answer.frames] == ["user", "library"]


def test_row_35_python_2(explain) -> None:
    answer = explain('Traceback (most recent call last):\n  File "fit.py", line 8, in <module>\n    run()\n  File "fit.py", line 3, in run\n    print total\nNameError: global name \'total\' is not defined\n')
    assert (answer.message, place(answer.site)) == ("global name 'total' is not defined", ("fit.py", 3, "run"))


def test_row_35_pyinstaller(explain) -> None:
    answer = explain('Traceback (most recent call last):\n  File "fit.py", line 8, in <module>\n  File "PyInstaller/loader/pyimod02_importers.py", line 419, in exec_module\n  File "torch/jit/_script.py", line 13, in <module>\n  File "inspect.py", line 958, in findsource\nOSError: could not get source code\n[4711] Failed to execute script \'fit\' due to unhandled exception!\n')
    assert (answer.exception, place(answer.site)) == ("OSError", ("fit.py", 8, "<module>"))


def test_row_37_flattened_to_one_line(explain) -> None:
    answer = explain('Traceback (most recent call last):   File "/work/a.py", line 9, in <module>     main()   File "/work/a.py", line 4, in main     return rows[0] IndexError: list index out of range\n')
    assert (answer.exception, answer.message, place(answer.site)) == ("IndexError", "list index out of range", ("/work/a.py", 4, "main"))
    assert answer.confidence == "low"


def test_row_37_a_tail_without_its_head(explain) -> None:
    answer = explain('    batch = next(it)\n  File "/work/a.py", line 4, in main\n    return rows[0]\nIndexError: list index out of range\n')
    assert (answer.exception, place(answer.site), answer.confidence) == ("IndexError", ("/work/a.py", 4, "main"), "low")


def test_row_37_a_head_without_its_tail(explain) -> None:
    answer = explain('Traceback (most recent call last):\n  File "/work/a.py", line 4, in main\n    return rows[0]\n', returncode=1)
    assert (answer.exception, place(answer.site), answer.confidence) == (None, ("/work/a.py", 4, "main"), "low")
    assert answer.verdict == "unknown"


def test_row_37_hard_wrapped_by_a_terminal(explain) -> None:
    answer = explain('Traceback (most recent call last):\n  File "/work/a/long/way/down/the/tree/of/fol\nders/train.py", line 41, in fit\n    loss.backward()\nRuntimeError: element 0 of tensors does not require grad\n')
    assert answer.exception == "RuntimeError"
    assert place(answer.site) == ("/work/a/long/way/down/the/tree/of/folders/train.py", 41, "fit")


def test_row_37_a_ranks_blank_lines_lose_their_prefix(explain) -> None:
    text = block("ValueError: one", number=1) + TAIL + block("RuntimeError: two", number=2)
    bare = "\n".join(f"[rank2]: {line}" if line else "" for line in text.split("\n"))
    answer = explain(noise(QUIET_BEFORE, 5) + bare + "\n")
    assert (chain_of(answer), answer.rank) == ([("RuntimeError", "cause"), ("ValueError", "root")], 2)
