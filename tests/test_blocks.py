"""The segmenter: which lines are looked at, whatever the portions (tbparse/text/blocks.py)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from dress import filler
from hypothesis import given, settings
from hypothesis import strategies as st

from tbparse.text import blocks
from tbparse.text.blocks import LINES_AFTER, LINES_BEFORE, MAX_LINE_BYTES, TAIL_LINES, Block, Segmenter
from tbparse.text.prefilter import TRIGGERS, Words

QUIET = b"a quiet line\n"
HIT = b"ValueError: x\n"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every log of more than 200 bytes a large one, so that the rules of large logs show in small ones."""
    monkeypatch.setattr(blocks, "SMALL_LOG", 200)


def cut(data: bytes, cuts: list[int] = (), **kw: object) -> list[Block]:
    segmenter = Segmenter(**kw)
    out: list[Block] = []
    edges = [0, *sorted(cuts), len(data)]
    for start, end in pairwise(edges):
        out += segmenter.feed(data[start:end])
    return out + segmenter.finish()


def assert_true_to(data: bytes, found: list[Block]) -> None:
    end = 0
    for block in found:
        assert data[block.offset : block.offset + len(block.raw)] == block.raw
        assert data.count(b"\n", 0, block.offset) == block.first_no - 1
        assert block.offset >= end
        end = block.offset + len(block.raw)


def test_an_empty_log_has_no_block() -> None:
    assert cut(b"") == []


def test_a_small_log_is_one_whole_block() -> None:
    data = QUIET * 10 + HIT
    assert cut(data) == [Block(data, 0, 1, True)]


@pytest.mark.usefixtures("small")
def test_a_block_opens_some_lines_before_a_trigger_and_ends_some_lines_after() -> None:
    data = QUIET * 100 + HIT + QUIET * 100
    first = cut(data)[0]
    lines = first.raw.splitlines(keepends=True)
    assert lines.index(HIT) == LINES_BEFORE
    assert len(lines) == LINES_BEFORE + 1 + LINES_AFTER
    assert first.first_no == 100 - LINES_BEFORE + 1
    assert_true_to(data, cut(data))


@pytest.mark.usefixtures("small")
def test_triggers_close_together_share_a_block() -> None:
    data = QUIET * 50 + (HIT + QUIET * (LINES_AFTER - 1)) * 3 + QUIET * 100
    assert sum(HIT in b.raw for b in cut(data)) == 1


@pytest.mark.usefixtures("small")
def test_the_last_lines_of_a_quiet_log_are_looked_at() -> None:
    data = b"".join(b"quiet %d\n" % n for n in range(200))
    (tail,) = cut(data)
    assert tail.raw.splitlines() == [b"quiet %d" % n for n in range(200 - TAIL_LINES, 200)]
    assert tail.first_no == 200 - TAIL_LINES + 1


@pytest.mark.usefixtures("small")
def test_the_last_lines_after_the_last_block_are_looked_at() -> None:
    data = HIT + b"".join(b"quiet %d\n" % n for n in range(200)) + b"the end"
    assert cut(data)[-1].raw.endswith(b"quiet 199\nthe end")


@pytest.mark.usefixtures("small")
def test_an_extra_literal_is_a_trigger() -> None:
    data = QUIET * 100 + b"zebra on 3\n" + QUIET * 100
    assert not any(b"zebra" in b.raw for b in cut(data))
    assert any(b"zebra" in b.raw for b in cut(data, words=Words(("zebra",))))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("extra", ["(", "[a-z", "a.b*c", "\\"])
def test_an_extra_literal_is_text_not_a_pattern(extra: str) -> None:
    data = QUIET * 100 + extra.encode() + b"!\n" + QUIET * 100
    assert any(extra.encode() + b"!" in b.raw for b in cut(data, words=Words((extra,))))


@pytest.mark.usefixtures("small")
def test_everything_means_every_byte() -> None:
    data = b"".join(b"quiet %d\n" % n for n in range(500))
    assert b"".join(b.raw for b in cut(data, everything=True)) == data


LINES = st.lists(
    st.sampled_from([QUIET, HIT, b"\n", b"Traceback (most recent call last):\n", b"x" * 90 + b"\n", b"\r\n", "é漢\n".encode()]),
    min_size=5,
    max_size=150,
)


@given(LINES, st.lists(st.floats(0, 1), max_size=8), st.booleans(), st.booleans())
@settings(max_examples=120)
def test_where_blocks_begin_and_end_does_not_depend_on_the_portions(
    lines: list[bytes], at: list[float], ended: bool, everything: bool
) -> None:
    data = b"".join(lines) + (b"" if ended else b"Error at the end")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "SMALL_LOG", 200)
        whole = cut(data, everything=everything)
        assert cut(data, [int(x * len(data)) for x in at], everything=everything) == whole
        assert cut(data, list(range(1, len(data))), everything=everything) == whole
    assert_true_to(data, whole)


@given(st.lists(st.integers(0, 150), min_size=1, max_size=6))
def test_no_trigger_is_left_out(gaps: list[int]) -> None:
    data = b"".join(QUIET * gap + HIT for gap in gaps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "SMALL_LOG", 200)
        found = cut(data)
    assert sum(b.raw.count(HIT) for b in found) == len(gaps)
    assert_true_to(data, found)


@given(LINES, st.lists(st.floats(0, 1), max_size=6))
@settings(max_examples=60)
def test_long_lines_are_cut_at_the_same_places_whatever_the_portions(lines: list[bytes], at: list[float]) -> None:
    """With a line limit of 32 bytes many lines are too long; portions and limits must not add up to other blocks."""
    data = b"".join(lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "SMALL_LOG", 200)
        patch.setattr(blocks, "MAX_LINE_BYTES", 32)
        whole = cut(data)
        assert cut(data, [int(x * len(data)) for x in at]) == whole
    assert_true_to(data, whole)


def test_a_line_without_an_end_is_passed_on_in_pieces() -> None:
    segmenter = Segmenter()
    for _ in range(8):
        segmenter.feed(b"Error " * (MAX_LINE_BYTES // 6))
    assert segmenter.cut_lines >= 6
    assert segmenter.total == 8 * (MAX_LINE_BYTES // 6 * 6)


def test_a_stretch_of_triggers_without_an_end_is_passed_on_in_blocks() -> None:
    segmenter = Segmenter()
    out: list[Block] = []
    for _ in range(5):
        out += segmenter.feed(HIT * (1024 * 1024 // len(HIT)))
    assert len(out) >= 2
    assert all(len(b.raw) < 4 * 1024 * 1024 for b in out)


def test_line_numbers_go_on_over_quiet_megabytes() -> None:
    data = filler(600_000)
    found = cut(data + HIT)
    assert found[-1].raw.endswith(HIT)
    assert found[-1].first_no + found[-1].raw.count(b"\n") - 1 == data.count(b"\n") + 1


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_every_trigger_is_plain_text_of_three_bytes_or_more(trigger: str) -> None:
    assert len(trigger.encode()) >= 3 or trigger in ("╭", "╰", "❱")
