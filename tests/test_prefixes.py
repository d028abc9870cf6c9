"""What is taken off the front of a line, and what it says (tbparse/text/prefixes.py)."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbparse.records import Line, Tags
from tbparse.text.learned import strip_block
from tbparse.text.prefixes import strip_prefixes

FILE = '  File "train.py", line 3, in <module>'
HEADER = "Traceback (most recent call last):"
SPELLINGS = [
    ("[rank1]: ", Tags(rank=1)),
    ("[rank3]: [rank3]:", Tags(rank=3)),
    ("[default0]:", Tags(local_rank=0)),
    ("[trainer2]:", Tags(local_rank=2)),
    ("[default1]:[rank9]: ", Tags(rank=9, local_rank=1)),
    ("[1,0]<stderr>:", Tags(rank=0)),
    ("[1,12]<stdout>: ", Tags(rank=12)),
    ("(RayTrainWorker pid=3, ip=10.0.0.2) ", Tags(host="10.0.0.2", process="RayTrainWorker")),
    ("(RayTrainWorker pid=3, ip=10.0.0.2) [repeated 3x across cluster] ", Tags(host="10.0.0.2", process="RayTrainWorker")),
    ("(train_fn pid=812) ", Tags(process="train_fn")),
    (
        "(VllmWorker rank=1 pid=7) ERROR 01-02 03:04:05 [worker_base.py:620] ",
        Tags(rank=1, process="VllmWorker", time="01-02 03:04:05"),
    ),
    ("(EngineCore pid=7) ERROR 01-02 03:04:05 [core.py:700] ", Tags(process="EngineCore", time="01-02 03:04:05")),
    ("E1130 18:04:40.217000 11618 torch/_dynamo/utils.py:1002] ", Tags(time="1130 18:04:40.217000")),
    ("W0325 08:47:31.877000 140012 torch/distributed/run.py:779] ", Tags(time="0325 08:47:31.877000")),
    ("2026-01-02T03:04:05.123456789Z ", Tags(time="2026-01-02T03:04:05.123456789Z")),
    ("2026-01-02T03:04:05.123456789Z stderr F ", Tags(time="2026-01-02T03:04:05.123456789Z")),
    ("2026-01-02T03:04:05+01:00 ", Tags(time="2026-01-02T03:04:05+01:00")),
    ("worker-1  | ", Tags(process="worker-1")),
    ("project_trainer_1  | ", Tags(process="project_trainer_1")),
    ("Jan 02 03:04:05 node-07 train[4711]: ", Tags(host="node-07", process="train", time="Jan 02 03:04:05")),
    ("Jan  2 03:04:05 node-07 train: ", Tags(host="node-07", process="train", time="Jan  2 03:04:05")),
    ("2026-01-02 03:04:05,678 - trainer - ERROR - ", Tags(time="2026-01-02 03:04:05,678")),
    ("2026-01-02 03:04:05 | ERROR    | trainer:fit:12 - ", Tags(time="2026-01-02 03:04:05")),
    ("[2026-01-02 03:04:05,678] [ERROR] ", Tags(time="2026-01-02 03:04:05,678")),
    ("[2026-01-02 03:04:05,678][trainer][ERROR] - ", Tags(time="2026-01-02 03:04:05,678")),
    ("ERROR:trainer.loop:", Tags()),
    ("stderr: ", Tags()),
    ("1784 [rank0]: ", Tags(rank=0)),
    ("pod/trainer-0/main ", Tags(process="trainer-0")),
]


@pytest.mark.parametrize(
    "bare", [HEADER, FILE, "KeyError: 'lr'", "subprocess.CalledProcessError: Command '['x']' returned non-zero exit status 1."]
)
@pytest.mark.parametrize(("prefix", "tags"), SPELLINGS, ids=lambda x: x if isinstance(x, str) else "")
def test_a_prefix_is_taken_off_and_read(prefix: str, tags: Tags, bare: str) -> None:
    found = strip_prefixes(prefix + bare)
    # Some writers print a blank after the prefix and some do not: where there is none, the text's own may go with it.
    assert found.text == bare if prefix.endswith(" ") else found.text.lstrip() == bare.lstrip()
    assert found.tags == tags


@pytest.mark.parametrize("prefix", [s[0] for s in SPELLINGS])
def test_a_block_keeps_its_indentation_under_a_prefix(prefix: str) -> None:
    found, _ = block("\n".join(prefix + line for line in TRACEBACK.split("\n")))
    indents = [len(x.text) - len(x.text.lstrip()) for x in found]
    assert [x.text.lstrip() for x in found] == [line.lstrip() for line in TRACEBACK.split("\n")]
    assert indents[0] == 0
    assert 0 < indents[1] < indents[2]


@pytest.mark.parametrize(
    ("outer", "outer_tags"),
    [s for s in SPELLINGS if s[0].startswith(("2026-01-02T", "worker", "Jan", "stderr", "[default"))],
    ids=lambda x: x if isinstance(x, str) else "",
)
@pytest.mark.parametrize(
    ("inner", "inner_tags"),
    [s for s in SPELLINGS if s[0].startswith(("[rank1", "E1130", "[1,0", "(Ray", "2026-01-02 03:04:05,678 -"))],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_prefixes_stack(outer: str, outer_tags: Tags, inner: str, inner_tags: Tags) -> None:
    """All of a stack goes; each says what it knows, and the outer clock is the one that is kept."""
    found = strip_prefixes(outer + inner + FILE)
    assert found.text.strip() == FILE.strip()
    for name in ("rank", "local_rank", "host", "process"):
        told = {getattr(tags, name) for tags in (inner_tags, outer_tags)} - {None}
        assert getattr(found.tags, name) in (told or {None})
    assert found.tags.time == (outer_tags.time or inner_tags.time)


@pytest.mark.parametrize("prefix", [s[0] for s in SPELLINGS])
def test_a_line_that_is_only_a_prefix_is_blank(prefix: str) -> None:
    """A rank's blank lines carry the prefix with or without the blank at its end."""
    assert strip_prefixes(prefix).text.strip() == ""
    assert strip_prefixes(prefix.rstrip()).text.strip() == ""


@pytest.mark.parametrize("text", [
    "KeyError: 'a'", "ValueError: [rank1]: is not a name", FILE, "    x = [1,0]", "[0]: entry", "[gw0] FAILED test_x.py", "[E] nothing", "RuntimeError: 3: x",
    "terminate called after throwing an instance of 'c10::Error'", "  what():  x", "NVRM: Xid (PCI:0000:3b:00): 79", "slurmstepd: error: x", "srun: error: n1: task 0: Killed",
    "torch.distributed.DistBackendError: NCCL error", "2 root error(s) found.", "10: is a number", "std::bad_alloc", "E   assert 1 == 2", "INFO", "Process 3 died",
    "ModuleNotFoundError: No module named 'x'", "hydra.errors.InstantiationException: Error in call", "(0) Resource exhausted: OOM", "(a, b) = f()", "ERROR: file not found",
    "error: unrecognized arguments", "train.py: error: x", "Error executing job with overrides: []", "http://localhost:8080/x", "FAILED test_a.py::test_b - KeyError: 1",
])  # fmt: skip
def test_text_that_is_not_a_prefix_stays(text: str) -> None:
    assert strip_prefixes(text).text == text


def block(text: str) -> tuple[list[Line], dict[int, str]]:
    return strip_block([Line(n, 0, 0, t) for n, t in enumerate(text.split("\n"))])


TRACEBACK = f'{HEADER}\n{FILE}\n    main()\n  File "train.py", line 9, in main\n    raise KeyError(1)\nKeyError: 1'
LEARNED = [
    ("11: ", Tags(rank=11)),
    (" 3: ", Tags(rank=3)),
    ("node-02: ", Tags(host="node-02")),
    ("trainer rank=2 local=0> ", Tags(rank=2, local_rank=0)),
    ("{worker 5}: ", Tags()),
    ("<r7> ", Tags(rank=7)),
    ("job-a.node3 :: ", Tags()),
]


@pytest.mark.parametrize(("prefix", "tags"), LEARNED, ids=lambda x: x if isinstance(x, str) else "")
def test_any_text_before_every_line_is_learned(prefix: str, tags: Tags) -> None:
    found, _ = block("\n".join(prefix + line for line in TRACEBACK.split("\n")))
    assert "\n".join(x.text for x in found) == TRACEBACK
    assert len({x.stream for x in found}) == 1
    for name in ("rank", "local_rank", "host"):
        if getattr(tags, name) is not None:
            assert getattr(found[0].tags, name) == getattr(tags, name)


def test_a_learned_prefix_is_learned_for_every_number_in_it() -> None:
    """``0: `` and ``11: `` are the same prefix of two ranks."""
    lines = [f"{rank}: {line}" for line in TRACEBACK.split("\n") for rank in (0, 11)]
    found, _ = block("\n".join(lines))
    assert {x.stream for x in found} == {"0:", "11:"}
    assert "\n".join(x.text for x in found if x.stream == "11:") == TRACEBACK


@pytest.mark.parametrize("prefix", ["11: ", "node-02: ", "trainer rank=2 local=0> "])
@pytest.mark.parametrize(
    "inner",
    [
        "2026-01-02T03:04:{n}.5Z ",
        "E1130 18:04:{n}.217000 11618 file.py:1002] ",
        "[rank1]: ",
        "2026-01-02 03:04:{n},678 - trainer - ERROR - ",
    ],
)
def test_a_clock_behind_a_learned_prefix_does_not_make_a_writer_of_every_line(prefix: str, inner: str) -> None:
    lines = [prefix + inner.replace("{n}", f"{n:02d}") + line for n, line in enumerate(TRACEBACK.split("\n"))]
    found, _ = block("\n".join(lines))
    assert "\n".join(x.text for x in found) == TRACEBACK
    assert len({x.stream for x in found}) == 1


def test_a_clock_in_a_certain_prefix_does_not_make_a_writer_of_every_line() -> None:
    lines = [f"Jan 02 03:04:{n:02d} node-07 train[4711]: {line}" for n, line in enumerate(TRACEBACK.split("\n"))]
    found, _ = block("\n".join(lines))
    assert len({x.stream for x in found}) == 1


def test_nothing_is_learned_from_a_sentence_about_a_traceback() -> None:
    text = f"the worker printed: {HEADER}\nand nothing else\nthe worker went on"
    found, _ = block(text)
    assert "\n".join(x.text for x in found) == text


def test_nothing_is_learned_from_the_gutter_of_a_group() -> None:
    text = '  + Exception Group Traceback (most recent call last):\n  |   File "a.py", line 1, in <module>\n  |     f()\n  | ExceptionGroup: x (1 sub-exception)\nplain'
    found, _ = block(text)
    assert "\n".join(x.text for x in found) == text


def test_levels_of_logged_lines_are_kept_by_index() -> None:
    _, levels = block("2026-01-02 03:04:05,000 - a - INFO - hello\nplain\nERROR:root:bad\n[2026-01-02 03:04:05,678] [WARNING] x")
    assert levels == {0: "INFO", 2: "ERROR", 3: "WARNING"}


@pytest.mark.parametrize("line", [
    "2026-01-02 03:04:05,678 - trainer - ERROR - evaluation failed", "2026-01-02 03:04:05 ERROR trainer: evaluation failed", "ERROR:trainer:evaluation failed",
    "[2026-01-02 03:04:05,678][trainer][ERROR] - evaluation failed", "2026-01-02 03:04:05.678 | ERROR    | trainer:fit:12 - evaluation failed", "E1130 18:04:40.217000 11618 trainer.py:10] evaluation failed",
    "[2026-01-02 03:04:05,678] [ERROR] [trainer.py:12:fit] evaluation failed", "ERROR 01-02 03:04:05 [trainer.py:12] evaluation failed", "2026-01-02T03:04:05Z ERROR evaluation failed",
])  # fmt: skip
def test_the_level_of_a_log_record_is_read_in_the_common_formats(line: str) -> None:
    found, levels = block(line)
    assert found[0].text.endswith("evaluation failed")
    assert levels.get(0) in ("ERROR", "E")


def test_the_shape_is_equal_for_lines_of_one_writer_and_differs_for_a_bare_line() -> None:
    found, _ = block(f"[rank1]: {HEADER}\n[rank1]: {FILE}\nplain")
    assert found[0].shape == found[1].shape != found[2].shape == ""


@given(st.text(max_size=80))
def test_stripping_is_total_and_only_takes_from_the_front(text: str) -> None:
    found = strip_prefixes(text)
    assert text.endswith(found.text.lstrip())


@given(st.lists(st.text(alphabet="ab1:[]()|- FileTraceback", max_size=30), max_size=12))
def test_blocks_keep_their_lines_in_number_and_order(texts: list[str]) -> None:
    found, _ = strip_block([Line(n, n, n + 1, t) for n, t in enumerate(texts)])
    assert [(x.no, x.start, x.end) for x in found] == [(n, n, n + 1) for n in range(len(texts))]
