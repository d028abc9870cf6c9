"""Logs that mean harm, or that nobody meant to be read: an answer in bounded time, and text that stays text."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

import json

import pytest
from dress import filler
from limits import at_most
from making import traceback
from scoring import place

from tbparse import Explainer, RootCause, classify
from tbparse.ruleset.match import RuleSet

pytestmark = pytest.mark.slow

FAILURE = traceback("KeyError: 'lr'", ("/work/train.py", 9, "step"))
VERDICTS = ("transient", "real", "unknown", "clean")


def within(seconds: float, data: bytes, rules: RuleSet, returncode: int | None = None) -> RootCause:
    """The answer, where it comes within so many seconds of wall time on a busy machine."""
    explainer = Explainer(rules=rules)
    with at_most(seconds):
        for at in range(0, len(data), 1 << 20):
            explainer.feed(data[at : at + (1 << 20)])
        answer = explainer.finish(returncode)
    assert RootCause.from_json(answer.to_json()) == answer
    return answer


def test_one_line_of_50_megabytes(rules: RuleSet) -> None:
    answer = within(15, b"Error: x " * (50_000_000 // 9) + b"\n" + FAILURE.encode(), rules)
    assert (answer.exception, answer.evidence[-1].line) == ("KeyError", 5)


def test_a_message_of_50_megabytes(rules: RuleSet) -> None:
    answer = within(15, FAILURE.encode().rstrip() + b"x" * 50_000_000, rules)
    assert answer.exception == "KeyError"
    assert len(answer.to_json()) < 5_000_000


def test_a_hundred_thousand_nested_groups(rules: RuleSet) -> None:
    depth = 100_000
    rows = [
        b"  " * min(n, 400)
        + b"+-+---------------- 1 ----------------\n"
        + b"  " * min(n, 400)
        + b"  | Exception Group Traceback (most recent call last):\n"
        for n in range(0, depth, 10)
    ]
    assert within(30, b"  + Exception Group Traceback (most recent call last):\n" + b"".join(rows), rules).verdict in VERDICTS


def test_groups_nested_a_thousand_deep(rules: RuleSet) -> None:
    text = ""
    for n in range(1000):
        pad = "  " * n
        text += f'{pad}  {"+" if n == 0 else "|"} Exception Group Traceback (most recent call last):\n{pad}  |   File "/w/a.py", line {n + 1}, in f\n{pad}  | ExceptionGroup: g (1 sub-exception)\n{pad}  +-+---------------- 1 ----------------\n'
    assert within(30, text.encode(), rules).verdict in VERDICTS


def test_a_hundred_thousand_tracebacks(rules: RuleSet) -> None:
    data = "".join(traceback(f"ValueError: bad row {n}", ("/work/a.py", n % 700 + 1, "f")) for n in range(100_000)).encode()
    answer = within(30, data + FAILURE.encode(), rules, 1)
    assert answer.exception == "ValueError"
    assert len(answer.secondary) <= 200


def test_a_chain_of_ten_thousand_links(rules: RuleSet) -> None:
    link = FAILURE + "\nThe above exception was the direct cause of the following exception:\n\n"
    answer = within(30, (link * 10_000 + FAILURE).encode(), rules)
    assert answer.exception == "KeyError"


def test_a_traceback_of_a_hundred_thousand_frames(rules: RuleSet) -> None:
    frames = b'  File "/work/a.py", line 3, in f\n    f()\n' * 100_000
    answer = within(30, b"Traceback (most recent call last):\n" + frames + b"RecursionError: deep\n", rules)
    assert place(answer.site) == ("/work/a.py", 3, "f")
    assert len(answer.frames) <= 200


@pytest.mark.parametrize(
    "opener",
    [
        '"""\n',
        'RemoteTraceback: \n"""\n',
        "Original Traceback (most recent call last):\n",
        "-- Process 1 terminated with the following error:\n",
        "from user code:\n",
    ],
)
def test_quotations_inside_quotations(opener: str, rules: RuleSet) -> None:
    assert within(15, (FAILURE + (opener + FAILURE) * 3000).encode(), rules).verdict in VERDICTS


@pytest.mark.parametrize(
    "text",
    [
        "%s {0} {exception} {{}} %(x)d",
        "[bold red]x[/]",
        "[link=file:///etc]x[/link]",
        "<script>alert(1)</script>",
        "::error file=a,line=1::x",
        "`code` **bold** | pipe",
        "\\1 \\g<0>",
        "$HOME $(id)",
        "a\u202eb",
        "'; DROP TABLE x; --",
    ],
)
def test_text_that_means_something_elsewhere_is_text_here(text: str, rules: RuleSet) -> None:
    answer = classify(traceback(f"ValueError: {text}", (f"/work/{text}.py".replace('"', ""), 3, "f")), rules=rules)
    assert answer.message == text
    assert json.loads(answer.to_json())["message"] == text


def strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [s for part in parts for s in strings(part)]


CONTROLS = "".join(chr(c) for c in range(32) if chr(c) not in "\t\n\r") + "\x7f"


@pytest.mark.parametrize("where", ["ValueError: a{0}b", "Value{0}Error: ab"])
def test_control_characters_never_reach_the_answer(where: str, rules: RuleSet) -> None:
    text = f'Tracebac{CONTROLS}k (most recent call last):\n  File "/work/{CONTROLS}a.py", line 3, in f{CONTROLS}\n    x(){CONTROLS}\n{where.replace("{0}", CONTROLS)}\n'
    answer = classify(text, rules=rules, returncode=1)
    assert not set("".join(strings(answer.model_dump()))) & set(CONTROLS)


@pytest.mark.parametrize(
    "sequence",
    [
        "\x1b[2J\x1b[H",
        "\x1b]0;title\x07",
        "\x1b]8;;http://x\x1b\\",
        "\x1bP1$r\x1b\\",
        "\x1b[?1049h",
        "\x1b(0",
        "\x9b31m",
        "\x1b[",
        "\x1b",
        "\x1b]52;c;AAAA\x07",
    ],
)
def test_escape_sequences_never_reach_the_answer(sequence: str, rules: RuleSet) -> None:
    answer = classify(
        traceback(f"ValueError: a{sequence}b {sequence}", (f"/work/{sequence}a.py", 3, "f")), rules=rules, returncode=1
    )
    assert "\x1b" not in "".join(strings(answer.model_dump()))


BIG = "9" * 4000


@pytest.mark.parametrize("text", [
    f'Traceback (most recent call last):\n  File "a.py", line {BIG}, in f\nKeyError: 1\n',
    'Traceback (most recent call last):\n  File "a.py", line 99999999999999999999999, in f\nKeyError: 1\n',
    f"[rank{BIG}]: {FAILURE}", f"[default{BIG}]:{FAILURE}", f"[1,{BIG}]<stderr>:{FAILURE}", "[rank99999999999999999999]: KeyError: 1\n", f"(W rank={BIG} pid={BIG}) {FAILURE}",
    f"╭── Traceback (most recent call last) ──╮\n│ a.py:{BIG} in f │\n│ ❱ {BIG} │ x │\n╰──╯\nKeyError: 1\n",
    f"KeyError    Traceback (most recent call last)\nCell In[1], line {BIG}\n---> {BIG} x\n\nKeyError: 1\n",
    f"Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n  File \"a.py\", line {BIG} in f\n",
    f"=== FAILURES ===\n____ t ____\n>   x\nE   KeyError: 1\n\na.py:{BIG}: KeyError\n",
    f"failed (exitcode: {BIG}) local_rank: {BIG} (pid: {BIG}) of binary\n", f"===========\nx FAILED\n-----------\nFailures:\n[0]:\n  rank : {BIG} (local_rank: {BIG})\n  exitcode : -{BIG} (pid: {BIG})\n===========\n",
    f"mpirun noticed that process rank {BIG} with PID {BIG} on node n exited on signal {BIG} (Killed).\n", f"srun: error: n: task {BIG}: Exited with exit code {BIG}\n", f"[x] exits with return code = -{BIG}\n",
    traceback(f"subprocess.CalledProcessError: Command 'x' returned non-zero exit status {BIG}."), traceback(f"subprocess.CalledProcessError: Command 'x' died with unknown signal {BIG}."),
    traceback(f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {BIG} GiB. GPU {BIG} has a total capacity of {BIG}.{BIG} GiB of which {BIG} GiB is free."),
    f"Caught signal {BIG} (Segmentation fault)\n", f'{{"msg": "x", "rank": {BIG}}}\n', '{"msg": "x", "rank": 1e999}\n', f"-- Process {BIG} terminated with the following error:\n{FAILURE}",
    traceback(f"X: in replica {BIG} on device {BIG}.\nOriginal Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 1"), f"process {BIG} terminated with signal SIGKILL\n",
], ids=lambda t: t.strip()[:30].replace("\n", " "))  # fmt: skip
def test_numbers_of_any_size_give_an_answer_that_can_be_written(text: str, rules: RuleSet) -> None:
    for returncode in (None, 1, 10**30, -(10**30)):
        answer = classify(text, rules=rules, returncode=returncode)
        assert RootCause.from_json(answer.to_json()) == answer


@pytest.mark.parametrize("returncode", [2**31, -(2**31), 2**63, 255, 256, 128, 129, 192, 0xC0000005, -1073741819, 10**40])
def test_return_codes_of_any_size(returncode: int, rules: RuleSet) -> None:
    assert classify("bye\n", rules=rules, returncode=returncode).verdict != "clean"


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\ud83d\ude42", "\udcff" * 50])
def test_lone_surrogates(text: str, rules: RuleSet) -> None:
    answer = classify(traceback(f"ValueError: {text}", (f"/work/{text}.py", 3, "f")), rules=rules)
    assert answer.exception == "ValueError"
    assert RootCause.from_json(answer.to_json()) == answer


def test_a_log_that_pretends_to_be_an_answer(rules: RuleSet) -> None:
    fake = classify("bye\n", rules=rules, returncode=1).model_copy(update={"verdict": "transient", "message": FAILURE}).to_json()
    assert classify(fake + "\n", rules=rules, returncode=1).verdict != "transient"


def test_a_log_that_quotes_a_transient_failure_does_not_make_a_bug_transient(rules: RuleSet) -> None:
    quoted = "slurmstepd: error: *** JOB 81 CANCELLED AT 2026-01-02T03:04:05 DUE TO PREEMPTION ***"
    answer = classify(traceback(f'TypeError: expected int, got "{quoted}"'), rules=rules, returncode=1)
    assert not answer.transient
    answer = classify(f"user said: {quoted!r}\n" + FAILURE, rules=rules, returncode=1)
    assert not answer.transient


def test_the_last_line_without_an_end_after_megabytes(rules: RuleSet) -> None:
    answer = within(15, filler(8_000_000) + FAILURE.encode().rstrip(), rules)
    assert (answer.exception, answer.message) == ("KeyError", "'lr'")


def test_many_writers(rules: RuleSet) -> None:
    data = "".join(f"[rank{n}]: {line}\n" for n in range(6000) for line in FAILURE.splitlines()).encode()
    assert within(30, data, rules, 1).exception == "KeyError"
