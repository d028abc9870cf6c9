"""What CPython itself prints: rows 1 to 7 of the dialects."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

import pytest
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
    answer = explain(
        f'Traceback (most recent call last):\n  File "{path}", line 4, in <module>\n  File "{path}", line 2, in halve\nZeroDivisionError: division by zero\n'
    )
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


@pytest.mark.parametrize(
    "runner",
    [
        '  File "<frozen runpy>", line 198, in _run_module_as_main\n  File "<frozen runpy>", line 88, in _run_code\n',
        '  File "/usr/lib/python3.8/runpy.py", line 194, in _run_module_as_main\n    return _run_code(code, main_globals, None,\n',
    ],
)
def test_row_02_runpy_frames_are_nobodys(runner: str, explain) -> None:
    answer = explain(
        f'Traceback (most recent call last):\n{runner}  File "/work/pkg/__main__.py", line 5, in <module>\n    go()\nRuntimeError: no shards\n'
    )
    assert [f.path for f in answer.frames] == ["/work/pkg/__main__.py"]
    assert place(answer.entry) == ("/work/pkg/__main__.py", 5, "<module>")


def block(line: str, path: str = "/work/a.py", number: int = 1, function: str = "f") -> str:
    return f'Traceback (most recent call last):\n  File "{path}", line {number}, in {function}\n    x()\n{line}'


def test_row_03_of_direct_causes_the_first_block_is_the_root(explain) -> None:
    answer = explain(
        block("FileNotFoundError: [Errno 2] No such file or directory: 'v.json'", "/work/io.py", 3, "read")
        + TAIL
        + block("work.Setup: no vocabulary", "/work/run.py", 9, "main")
        + "\n"
    )
    assert chain_of(answer) == [("work.Setup", "cause"), ("FileNotFoundError", "root")]
    assert place(answer.site) == ("/work/io.py", 3, "read")
    assert answer.message == "[Errno 2] No such file or directory: 'v.json'"


def test_row_03_a_name_error_in_cleanup_is_not_the_cause(explain) -> None:
    answer = explain(
        block("ConnectionResetError: [Errno 104] Connection reset by peer")
        + DURING
        + block("NameError: name 'sesion' is not defined", "/work/a.py", 9, "close")
        + "\n"
    )
    assert answer.exception == "ConnectionResetError"
    assert chain_of(answer) == [("NameError", "context"), ("ConnectionResetError", "root")]


def test_row_03_four_blocks_deep(explain) -> None:
    answer = explain(
        block("KeyError: 'lr'", number=1)
        + DURING
        + block("AttributeError: x", number=2)
        + TAIL
        + block("TypeError: y", number=3)
        + TAIL
        + block("pkg.ConfigFault: z", number=4)
        + "\n"
    )
    assert [x for x, _ in chain_of(answer)] == ["pkg.ConfigFault", "TypeError", "AttributeError", "KeyError"]
    assert [r for _, r in chain_of(answer)] == ["cause", "cause", "context", "root"]


def test_row_04_a_link_without_header_and_frames(explain) -> None:
    answer = explain(
        "httpcore2.ConnectError: [Errno -3] Temporary failure in name resolution"
        + TAIL
        + block("httpx2.ConnectError: [Errno -3] Temporary failure in name resolution", "/work/get.py", 12, "pull")
        + "\n"
    )
    assert chain_of(answer) == [("httpx2.ConnectError", "cause"), ("httpcore2.ConnectError", "root")]
    assert place(answer.site) == ("/work/get.py", 12, "pull"), (
        "the root has no frame: the one that wraps it says where the user's code was"
    )


@pytest.mark.parametrize("version", ["3.9", "3.13"])
def test_row_05_a_syntax_error_in_the_main_file_has_no_header(version: str, explain) -> None:
    caret = "    print('a'\n         ^\n" if version == "3.9" else "    print('a'\n         ~^\n"
    answer = explain(f"  File \"/work/train.py\", line 7\n{caret}SyntaxError: '(' was never closed\n")
    assert (answer.exception, answer.message) == ("SyntaxError", "'(' was never closed")
    assert place(answer.site) == ("/work/train.py", 7, None)


@pytest.mark.parametrize(
    "line",
    [
        "SyntaxError: invalid syntax",
        "IndentationError: unexpected indent",
        "TabError: inconsistent use of tabs and spaces in indentation",
    ],
)
def test_row_05_a_syntax_error_in_an_imported_file_blames_that_file(line: str, explain) -> None:
    answer = explain(
        f'Traceback (most recent call last):\n  File "/work/train.py", line 2, in <module>\n    import layers\n  File "/work/layers.py", line 31\n    def f(x)\n            ^\n{line}\n'
    )
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
    assert chain_of(answer)[0][0] == "RuntimeError"
    assert answer.exception == "IndexError"


def test_row_07_a_message_of_many_lines_is_whole(explain) -> None:
    answer = explain(
        'Traceback (most recent call last):\n  File "/work/a.py", line 3, in load\n    model.load_state_dict(s)\nRuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "a.w".\n\tsize mismatch for b.w: copying a param\n'
    )
    assert (
        answer.message
        == 'Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "a.w".\n\tsize mismatch for b.w: copying a param'
    )


def test_row_07_a_note_with_a_fake_header_is_not_a_traceback(explain) -> None:
    answer = explain(
        'Traceback (most recent call last):\n  File "/work/a.py", line 3, in load\n    go()\nValueError: bad page\nwhile reading this page:\nTraceback (most recent call last):\n  a sentence, not a frame\n'
    )
    assert (answer.exception, place(answer.site)) == ("ValueError", ("/work/a.py", 3, "load"))
    assert answer.secondary == ()


def test_row_07_a_source_line_that_quotes_the_header(explain) -> None:
    answer = explain(
        'Traceback (most recent call last):\n  File "/work/a.py", line 3, in load\n    print("Traceback (most recent call last):")\nOSError: [Errno 5] Input/output error\n'
    )
    assert (answer.exception, place(answer.site)) == ("OSError", ("/work/a.py", 3, "load"))
