"""Where an exception's message ends: what belongs to it, and what programs, launchers and notes print below it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from scoring import place

from tbparse.model import RootCause

Explain = Callable[..., RootCause]

HEAD = """\
Traceback (most recent call last):
  File "/srv/fit/run.py", line 30, in <module>
    main()
  File "/srv/fit/run.py", line 12, in main
    {source}
"""
CHILD = """\
Traceback (most recent call last):
  File "/srv/fit/launch.py", line 40, in <module>
    start()
  File "/srv/fit/launch.py", line 33, in start
    subprocess.run(command, check=True)
  File "/usr/lib/python3.11/subprocess.py", line 571, in run
    raise CalledProcessError(retcode, process.args,
subprocess.CalledProcessError: Command '['fit']' returned non-zero exit status {status}.
"""


def message(explain: Explain, source: str, printed: str) -> str | None:
    return explain(HEAD.format(source=source) + printed).message


@pytest.mark.parametrize("status", [1, 2, 126, 127, 128, 129, 134, 137, 143, 255])
def test_a_command_that_failed_keeps_its_exception_line_whatever_its_status(explain: Explain, status: int) -> None:
    answer = explain(CHILD.format(status=status))
    assert answer.exception == "subprocess.CalledProcessError"
    assert answer.message == f"Command '['fit']' returned non-zero exit status {status}."
    assert place(answer.site) == ("/srv/fit/launch.py", 33, "start")


@pytest.mark.parametrize("status", [128, 129])
def test_a_status_that_programs_give_themselves_is_no_signal(explain: Explain, status: int) -> None:
    answer = explain(CHILD.format(status=status))
    assert (answer.signal, answer.exit_code) == (None, status)


def test_the_exit_code_of_the_process_that_raised_is_what_its_parent_says(explain: Explain) -> None:
    answer = explain(HEAD.format(source="step(batch)") + "KeyError: 'mask'\n" + CHILD.format(status=3), returncode=1)
    assert (answer.exception, answer.exit_code) == ("KeyError", 3)


def test_a_note_below_a_failed_command_is_no_message(explain: Explain) -> None:
    child = HEAD.format(source="step(batch)") + "KeyError: 'mask'\n"
    answer = explain(child + CHILD.format(status=1) + "root cause: KeyError: 'mask' (run.py:12 in main)\n")
    assert answer.chain[0].message == "Command '['fit']' returned non-zero exit status 1."


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("ValueError: workers failed:\nchild 3 exited with exit code 137\nchild 4 ok\n", True),
        ("ValueError: workers failed:\n  child 3: exit code: 139\n", True),
        ("ValueError: bad rate\nworker exited with exit code 137\n", False),
    ],
)
def test_a_notice_about_an_exit_belongs_to_a_message_that_announces_it(explain: Explain, printed: str, expected: bool) -> None:
    whole = printed.partition(": ")[2].rstrip()
    assert message(explain, "check(rows)", printed) == (whole if expected else "bad rate")


@pytest.mark.parametrize(
    ("source", "printed", "expected"),
    [
        ('raise ValueError("no rate")', "ValueError: no rate\n    saving state ... ok\n", "no rate"),
        ('raise ValueError(f"{n} rows are too few")', "ValueError: 3 rows are too few\n  bye\n", "3 rows are too few"),
        ("rate = table[name]", "KeyError: 'rate'\n    saving state ... ok\n", "'rate'"),
        ("check(rows)", "ValueError: odd rows\n  epoch 3 step 12 loss 0.4\n", "odd rows"),
        ("check(rows)", "ValueError: odd rows:\n  row 3\n  row 9\n", "odd rows:\n  row 3\n  row 9"),
        ("check(rows)", "ValueError: odd rows\nusage: run.py [-h]\nrun.py: error: unrecognized arguments: -x\n", "odd rows"),
        ("raise FileNotFoundError(text)", "FileNotFoundError: none of\n  a.bin\n  b.bin\n", "none of\n  a.bin\n  b.bin"),
    ],
)
def test_set_in_lines_belong_to_a_message_that_can_go_on(explain: Explain, source: str, printed: str, expected: str) -> None:
    assert message(explain, source, printed) == expected


@pytest.mark.parametrize(
    ("source", "printed", "expected"),
    [
        (r'raise ConfigError(f"rate {r}\n\nsee conf")', "ConfigError: rate 3\n\nsee conf\nbye\n", "rate 3\n\nsee conf"),
        (r"raise ConfigError('a \'b\'\n  {c}')", "ConfigError: a 'b'\n  {c}\n\nbye\n", "a 'b'\n  {c}"),
        (r'raise ConfigError(f"{a}: {b}\n{c}\n")', "ConfigError: x: y\nTraceback of it:\n", "x: y\nTraceback of it:"),
        (r'raise ConfigError("one\n\ntwo")', "ConfigError: one\n\nsomething else\n", "one"),
    ],
)  # fmt: skip
def test_the_raising_line_shows_how_far_its_message_goes(explain: Explain, source: str, printed: str, expected: str) -> None:
    assert message(explain, source, printed) == expected


def test_many_fields_in_a_raising_line_are_compared_in_linear_time(explain: Explain) -> None:
    source = 'raise ConfigError(f"' + "a{x}" * 60 + r"\n" + 'b")'
    assert message(explain, source, "ConfigError: " + "a" * 8000 + "\nc\n") is not None


@pytest.mark.parametrize(
    ("first", "below"),
    [
        ("403 Client Error: Forbidden for url: https://hub.test/m (Request ID: R)", "Access to model m is restricted. Log in."),
        ("404 Client Error. (Request ID: Root=1-a;b)", "Repository Not Found for url: https://hub.test/m.\nPlease check it."),
        ("An error occurred while generating the dataset", "All the files must have the same columns.\n\nhf://a/b.csv"),
        ("Exception encountered when calling Dense.call().", "Dimensions differ.\n\nArguments received by Dense.call():"),
    ],
)  # fmt: skip
def test_paragraphs_belong_to_messages_that_are_made_of_them(explain: Explain, first: str, below: str) -> None:
    assert message(explain, "load(name)", f"lib.errors.LoadError: {first}\n\n{below}\n") == f"{first}\n\n{below}"


def test_a_paragraph_of_other_words_does_not(explain: Explain) -> None:
    assert message(explain, "load(name)", "ValueError: no such name\n\nWhat does this mean?\n") == "no such name"


REPORT = HEAD.format(source='rate = table["rate"]') + "KeyError: 'rate'\n"


def test_quotation_marks_that_a_forum_made_curly_are_read(explain: Explain) -> None:
    text = REPORT.replace('File "', "File “").replace('", line', "”, line").replace("'rate'", "‘rate’")
    answer = explain(text.encode())
    assert (answer.exception, answer.message) == ("KeyError", "'rate'")
    assert place(answer.site) == ("/srv/fit/run.py", 12, "main")


@pytest.mark.parametrize("stamp", ["", "2024-11-05T09:14:{:02}.118Z ", "11/05/2024 09:14:{:02}.118 "])
def test_a_log_with_its_newest_line_first_is_read_upwards(explain: Explain, stamp: str) -> None:
    rows = ["reading", *REPORT.splitlines(), "exit"]
    text = "".join(f"{stamp.format(i)}{row}\n" for i, row in reversed(list(enumerate(rows))))
    answer = explain(text)
    assert (answer.exception, answer.message) == ("KeyError", "'rate'")
    assert place(answer.site) == ("/srv/fit/run.py", 12, "main")
    assert place(answer.entry) == ("/srv/fit/run.py", 30, "<module>")
    for part in answer.evidence:
        assert part.text in text.splitlines()[part.line - 1]


def test_a_mail_that_quotes_with_bars_is_read(explain: Explain) -> None:
    answer = explain("Dana wrote:\n" + "".join(f"| {row}\n" for row in REPORT.splitlines()) + "\nAny idea?\n")
    assert (answer.exception, answer.message) == ("KeyError", "'rate'")


def test_lines_that_a_terminal_cut_at_its_edge_are_put_together(explain: Explain) -> None:
    source = 'raise ValueError(f"{n} columns, expected {m}: the file {path} may be of another year")'
    text = (
        HEAD.format(source=source)
        + "ValueError: 118 columns, expected 121: the file /data/feats/2023/part-7.bin may be of another year\n"
    )
    cut = "".join(f"{row[k : k + 80]}\n" for row in text.splitlines() for k in range(0, len(row), 80))
    answer = explain(cut)
    assert answer.message == "118 columns, expected 121: the file /data/feats/2023/part-7.bin may be of another year"
    assert answer.site is not None
    assert answer.site.source == source


def test_an_error_at_the_end_of_a_prompt_is_told_though_it_exits_with_0(explain: Explain) -> None:
    rows = [
        "-" * 75,
        "KeyError                                  Traceback (most recent call last)",
        "Cell In[2], line 1",
        '----> 1 table["rate"]',
        "",
        "KeyError: 'rate'",
        "",
        "In [3]: ",
    ]
    shown = "\n".join(rows)
    assert explain(f"In [1]: \nIn [2]: {shown}", returncode=0).exception == "KeyError"
