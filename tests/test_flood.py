"""Logs in which too much looks like a failure: what repeats is passed over, what is new is read (tbparse/text/flood.py)."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

from itertools import pairwise

import pytest
from dress import filler
from hypothesis import given, settings
from hypothesis import strategies as st

from tbparse import Explainer, RootCause
from tbparse.ruleset.match import RuleSet
from tbparse.text import blocks, flood
from tbparse.text.blocks import Block
from tbparse.text.flood import Flood

FAILURE = b"Traceback (most recent call last):\n  File \"/work/train.py\", line 9, in <module>\n    main()\nKeyError: 'lr'\n"
HANDLED = (
    b'INFO step %d\nTraceback (most recent call last):\n  File "/work/data.py", line 31, in fetch\n    x = get(i)\nValueError: bad sample %d\n'
    b"step %d/900000 loss=0.1\nstep %d/900000 loss=0.2\n"
)


def warnings(count: int) -> bytes:
    return b"".join(b"WARNING data.loader: Error: sample %d at 0x7f%08x skipped\n" % (n, n * 7919) for n in range(count))


def handled(count: int) -> bytes:
    return b"".join(HANDLED % (n, n, n, n + 1) for n in range(count))


def explain(
    rules: RuleSet, data: bytes, *, returncode: int | None = 1, portion: int = 1 << 19, prefilter: bool = True
) -> tuple[RootCause, int]:
    """The answer, and how many bytes were passed over."""
    explainer = Explainer(rules=rules, prefilter=prefilter)
    for at in range(0, len(data), portion):
        explainer.feed(data[at : at + portion])
    return explainer.finish(returncode), explainer.job.passed


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small limits, so that floods of some hundred kilobytes show what gigabytes would."""
    monkeypatch.setattr(flood, "READ_FIRST", 60_000)
    monkeypatch.setattr(flood, "READ_LAST", 60_000)
    monkeypatch.setattr(blocks, "MAX_BLOCK_BYTES", 30_000)
    monkeypatch.setattr(blocks, "CUT_SLACK", 4_000)


@pytest.mark.parametrize(("of", "where"), [(warnings, 0.0), (warnings, 0.5), (warnings, 1.0), (handled, 1.0)])
def test_the_one_failure_that_differs_is_found_in_a_flood(of, where: float, rules: RuleSet) -> None:
    data = of(6000 if of is warnings else 2500)
    at = data.rfind(b"\n", 0, int(len(data) * where) + 1) + 1
    answer, passed = explain(rules, data[:at] + FAILURE + data[at:])
    assert passed > 100_000
    assert (answer.exception, answer.message) == ("KeyError", "'lr'")
    assert answer.verdict != "transient"
    assert any("passed over" in note for note in answer.notes)


@pytest.mark.parametrize(
    "line",
    [
        b"[ 1.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.",
        b"slurmstepd: error: *** JOB 81 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO PREEMPTION ***",
        b"requests.exceptions.HTTPError: 404 Client Error: Not Found for url: https://hub/x",
    ],
)
def test_a_line_of_its_own_is_read_in_a_flood(line: bytes, rules: RuleSet) -> None:
    data = warnings(3000) + line + b"\n" + warnings(3000)
    answer, passed = explain(rules, data)
    full, _ = explain(rules, data, prefilter=False)
    assert passed > 100_000
    assert (answer.rule, answer.verdict) == (full.rule, full.verdict)
    assert answer.rule is not None


@pytest.mark.parametrize(
    "line",
    [b"worker: exit code %d", b"HTTP Error %d: from upstream", b"NVRM: Xid (PCI): %d, pid=1", b"[Errno %d] said the disk, Error"],
)
def test_another_number_where_numbers_mean_something_is_new(line: bytes) -> None:
    taken = Flood()
    block = b"".join(line % 503 + b" Error in sample %d\n" % n for n in range(3000))
    assert list(taken.take(Block(block, 0, 1)))
    again = Block(block, len(block), 3001)
    assert list(taken.take(again)) == []
    other = Block(block + line % 137 + b" Error in sample 5\n", 2 * len(block), 6001)
    assert list(taken.take(other)) == [other]
    assert taken.passed == len(block)


def test_the_last_blocks_of_a_flood_are_read() -> None:
    taken = Flood()
    given = [Block(warnings(400), n, 1 + 400 * n) for n in range(40)]
    read = [b for block in given for b in taken.take(block)]
    last = list(taken.finish())
    assert read == given[: len(read)]
    assert last == given[-len(last) :]
    assert len(last[0].raw) <= sum(len(b.raw) for b in last) <= flood.READ_LAST
    assert taken.passed == sum(len(b.raw) for b in given[len(read) : -len(last)])


def test_lines_that_were_forgotten_are_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flood, "MAX_SEEN", 500)
    taken = Flood()
    words = [b"Error: " + bytes([97 + n % 26, 97 + n // 26 % 26, 97 + n // 676]) for n in range(3000)]
    given = [Block(b"\n".join(words[k : k + 1000]) * 8, 0, 1) for k in (0, 1000, 2000, 0)]
    assert [len(list(taken.take(b))) for b in given] == [1, 1, 1, 1]


PIECES = [
    handled(150),
    warnings(300),
    FAILURE,
    filler(4000),
    b"torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error, ncclRemoteError\n",
    b"[rank3]: torch.distributed.DistNetworkError: Connection reset by peer\n",
    b"slurmstepd: error: *** JOB 81 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO PREEMPTION ***\n",
    b"ConnectionResetError: [Errno 104] Connection reset by peer\n",
]


@given(st.lists(st.sampled_from(PIECES), min_size=4, max_size=14))
@settings(max_examples=10)
def test_what_is_passed_over_never_makes_a_real_failure_transient(rules: RuleSet, pieces: list[bytes]) -> None:
    data = handled(1000) + b"".join(pieces)
    answer, _ = explain(rules, data)
    if answer.verdict == "transient":
        assert explain(rules, data, prefilter=False)[0].verdict == "transient"


@given(st.lists(st.integers(1, 400_000), min_size=1, max_size=6))
@settings(max_examples=5)
def test_what_is_passed_over_does_not_depend_on_the_portions(rules: RuleSet, cuts: list[int]) -> None:
    data = handled(1500) + FAILURE + warnings(1500)
    whole = explain(rules, data, portion=len(data))
    explainer = Explainer(rules=rules)
    for start, end in pairwise([0, *sorted(min(c, len(data)) for c in cuts), len(data)]):
        explainer.feed(data[start:end])
    assert (explainer.finish(1), explainer.job.passed) == whole


def test_a_transient_end_is_not_believed_where_what_was_passed_over_could_refute_it(rules: RuleSet) -> None:
    """Thousands of handled bugs, most of them not read one by one: one may have ended a rank before the network failed."""
    end = b"torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to (10.0.0.1, 29500).\n"
    answer, passed = explain(rules, handled(2500) + filler(4000) + end)
    assert passed > 0
    assert answer.verdict != "transient"
