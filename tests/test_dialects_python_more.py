"""What CPython prints in strange places: rows 19 to 21, 23, 24, 35 and 37 of the dialects."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

import pytest
from dress import QUIET_BEFORE, noise
from scoring import chain_of, place

TAIL = "\n\nThe above exception was the direct cause of the following exception:\n\n"


def block(line: str, path: str = "/work/a.py", number: int = 1, function: str = "f") -> str:
    return f'Traceback (most recent call last):\n  File "{path}", line {number}, in {function}\n    x()\n{line}'


STEPS = "".join(f"step {n}: loss=0.{n}\n" for n in range(40, 60))


@pytest.mark.parametrize(
    "lead",
    [
        "Exception in thread Thread-3 (_pin_memory_loop):\n",
        "Exception ignored in: <function Pool.__del__ at 0x7f>\n",
        "Exception ignored while calling deallocator <function Handle.__del__ at 0x12f1328>:\n",
        "--- Logging error ---\n",
        "Error in atexit._run_exitfuncs:\n",
        "ERROR:root:evaluation failed\n",
        "2026-01-02 03:04:05,678 - trainer - ERROR - evaluation failed\n",
        "Exception ignored in atexit callback: <function bye at 0x7f>\n",
    ],
)
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
    answer = explain(
        block("IndexError: index out of range in self", "/work/a.py", 3, "f") + "\n 33%|███▎      | 4/12 [00:00<00:00, 12.74it/s]\n"
    )
    assert answer.message == "index out of range in self"


def test_row_21_the_frame_of_a_recursion_is_the_first_of_the_cycle(explain) -> None:
    answer = explain(
        'Traceback (most recent call last):\n  File "/work/a.py", line 20, in <module>\n    walk(tree)\n  File "/work/a.py", line 5, in walk\n    walk(n)\n  File "/work/a.py", line 5, in walk\n    walk(n)\n'
        '  File "/work/a.py", line 5, in walk\n    walk(n)\n  [Previous line repeated 996 more times]\nRecursionError: maximum recursion depth exceeded\n'
    )
    assert (answer.exception, place(answer.site)) == ("RecursionError", ("/work/a.py", 5, "walk"))


def test_row_21_three_thousand_frames_of_two_functions(explain) -> None:
    pair = '  File "/work/a.py", line 2, in f\n    return g(n)\n  File "/work/b.py", line 6, in g\n    return f(n)\n'
    answer = explain(
        'Traceback (most recent call last):\n  File "/work/a.py", line 20, in <module>\n    f(1)\n'
        + pair * 1500
        + "RecursionError: maximum recursion depth exceeded in comparison\n"
    )
    assert place(answer.site) == ("/work/a.py", 2, "f")
    assert len(answer.frames) <= 200
    assert any("left out" in n for n in answer.notes)


def test_row_23_coloured_pieces_of_file_lines(explain) -> None:
    answer = explain(
        'Traceback (most recent call last):\n  File \x1b[35m"/work/a.py"\x1b[0m, line \x1b[35m3\x1b[0m, in \x1b[35m<module>\x1b[0m\n    \x1b[31mhalve\x1b[0m\x1b[1;31m(0)\x1b[0m\n    \x1b[31m~~~~~\x1b[0m\x1b[1;31m^^^\x1b[0m\n\x1b[1;35mZeroDivisionError\x1b[0m: \x1b[35mdivision by zero\x1b[0m\n'
    )
    assert (answer.exception, answer.message, place(answer.site)) == (
        "ZeroDivisionError",
        "division by zero",
        ("/work/a.py", 3, "<module>"),
    )


def test_row_24_a_users_file_that_shadows_a_module_of_pythons(explain) -> None:
    answer = explain(
        'Traceback (most recent call last):\n  File "/work/train.py", line 1, in <module>\n    import logging\n  File "/usr/lib/python3.11/logging/__init__.py", line 26, in <module>\n    import sys, os, time, string\n'
        "  File \"/work/string.py\", line 4, in <module>\n    TABLE = load()\nNameError: name 'load' is not defined\n"
    )
    assert place(answer.site) == ("/work/string.py", 4, "<module>")


def test_row_35_windows_paths(explain) -> None:
    answer = explain(
        'Traceback (most recent call last):\r\n  File "C:\\jobs\\fit.py", line 8, in <module>\r\n    run()\r\n  File "C:\\Python311\\Lib\\site-packages\\kit\\core.py", line 3, in run\r\n    raise KeyError(k)\r\nKeyError: \'lr\'\r\n'
    )
    assert place(answer.site) == ("C:\\jobs\\fit.py", 8, "<module>")
    assert [f.origin for f in answer.frames] == ["user", "library"]


def test_row_35_python_2(explain) -> None:
    answer = explain(
        'Traceback (most recent call last):\n  File "fit.py", line 8, in <module>\n    run()\n  File "fit.py", line 3, in run\n    print total\nNameError: global name \'total\' is not defined\n'
    )
    assert (answer.message, place(answer.site)) == ("global name 'total' is not defined", ("fit.py", 3, "run"))


def test_row_35_pyinstaller(explain) -> None:
    answer = explain(
        'Traceback (most recent call last):\n  File "fit.py", line 8, in <module>\n  File "PyInstaller/loader/pyimod02_importers.py", line 419, in exec_module\n  File "torch/jit/_script.py", line 13, in <module>\n  File "inspect.py", line 958, in findsource\nOSError: could not get source code\n[4711] Failed to execute script \'fit\' due to unhandled exception!\n'
    )
    assert (answer.exception, place(answer.site)) == ("OSError", ("fit.py", 8, "<module>"))


def test_row_37_flattened_to_one_line(explain) -> None:
    answer = explain(
        'Traceback (most recent call last):   File "/work/a.py", line 9, in <module>     main()   File "/work/a.py", line 4, in main     return rows[0] IndexError: list index out of range\n'
    )
    assert (answer.exception, answer.message, place(answer.site)) == (
        "IndexError",
        "list index out of range",
        ("/work/a.py", 4, "main"),
    )
    assert answer.confidence == "low"


def test_row_37_a_tail_without_its_head(explain) -> None:
    answer = explain(
        '    batch = next(it)\n  File "/work/a.py", line 4, in main\n    return rows[0]\nIndexError: list index out of range\n'
    )
    assert (answer.exception, place(answer.site), answer.confidence) == ("IndexError", ("/work/a.py", 4, "main"), "low")


def test_row_37_a_head_without_its_tail(explain) -> None:
    answer = explain('Traceback (most recent call last):\n  File "/work/a.py", line 4, in main\n    return rows[0]\n', returncode=1)
    assert (answer.exception, place(answer.site), answer.confidence) == (None, ("/work/a.py", 4, "main"), "low")
    assert answer.verdict == "unknown"


def test_row_37_hard_wrapped_by_a_terminal(explain) -> None:
    answer = explain(
        'Traceback (most recent call last):\n  File "/work/a/long/way/down/the/tree/of/fol\nders/train.py", line 41, in fit\n    loss.backward()\nRuntimeError: element 0 of tensors does not require grad\n'
    )
    assert answer.exception == "RuntimeError"
    assert place(answer.site) == ("/work/a/long/way/down/the/tree/of/folders/train.py", 41, "fit")


def test_row_37_a_ranks_blank_lines_lose_their_prefix(explain) -> None:
    text = block("ValueError: one", number=1) + TAIL + block("RuntimeError: two", number=2)
    bare = "\n".join(f"[rank2]: {line}" if line else "" for line in text.split("\n"))
    answer = explain(noise(QUIET_BEFORE, 5) + bare + "\n")
    assert (chain_of(answer), answer.rank) == ([("RuntimeError", "cause"), ("ValueError", "root")], 2)
