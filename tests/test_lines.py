"""Bytes into lines: spans, encodings, carriage returns and control sequences (tbparse/text/lines.py)."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbparse.text.blocks import Segmenter
from tbparse.text.lines import UTF8, clean, detect_encoding, split_block, split_units
from tbparse.text.pages import read_block

LOG = 'step 1\nTraceback (most recent call last):\n  File "größe.py", line 3, in f\n    x()\nKeyError: "漢"\n'


def lines_of(data: bytes) -> list[tuple[int, int, int, str]]:
    return [(x.no, x.start, x.end, x.text) for x in split_block(data, 0, 1)]


def test_spans_are_those_of_the_bytes_not_of_the_characters() -> None:
    data = "é漢🙂\nb\n".encode()
    assert lines_of(data) == [(1, 0, 9, "é漢🙂"), (2, 10, 11, "b")]


def test_offset_and_line_number_of_a_block_are_added() -> None:
    found = split_block(b"a\nbc\n", 100, 7)
    assert [(x.no, x.start, x.end) for x in found] == [(7, 100, 101), (8, 102, 104)]


def test_blank_lines_are_kept_and_a_last_line_needs_no_end() -> None:
    assert [x[3] for x in lines_of(b"a\n\n\nb")] == ["a", "", "", "b"]


def test_crlf_is_one_line_end() -> None:
    assert lines_of(b"a\r\nb\r\n") == [(1, 0, 1, "a"), (2, 3, 4, "b")]


def test_a_carriage_return_parts_a_line_into_pieces_with_spans_of_their_own() -> None:
    data = b" 10%|#   |\r 20%|##  |\rTraceback (most recent call last):\n"
    found = lines_of(data)
    assert [(no, text) for no, _, _, text in found] == [
        (1, " 10%|#   |"),
        (1, " 20%|##  |"),
        (1, "Traceback (most recent call last):"),
    ]
    for _, start, end, text in found:
        assert data[start:end].decode() == text


def test_a_carriage_return_between_characters_of_several_bytes_keeps_the_spans() -> None:
    data = "█é\r漢字\n".encode()
    assert [data[start:end].decode() for _, start, end, _ in lines_of(data)] == ["█é", "漢字"]


def test_of_a_long_progress_bar_the_ends_and_the_failures_are_kept() -> None:
    states = [f"{n}/5000" for n in range(5000)]
    states[2500] = "ValueError: in the middle"
    texts = [x[3] for x in lines_of("\r".join(states).encode())]
    assert len(texts) < 200
    assert {"0/5000", "4999/5000", "ValueError: in the middle"} <= set(texts)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[1;31mValueError\x1b[0m: \x1b[35mbad\x1b[0m", "ValueError: bad"),
        ("\x1b[38;2;10;20;30mx\x1b[m", "x"),
        ("\x1b[2K\x1b[1Ax", "x"),
        ("\x1b]0;a window title\x07x", "x"),
        ("\x1b]8;;file:///a.py\x1b\\a.py\x1b]8;;\x1b\\", "a.py"),
        ("\x1b(Bx\x1b7\x1b8", "x"),
        ("[31mValueError[0m: bad", "ValueError: bad"),
        ("array[3m] of sizes", "array[3m] of sizes"),
        ("a\x00b\x07c\x08d\x7f", "abcd"),
        ("tab\tstays  \t ", "tab\tstays"),
        ("\ufeffa\u200bb", "ab"),
    ],
)
def test_control_sequences_go_and_text_stays(raw: str, shown: str) -> None:
    assert clean(raw) == shown


def test_bytes_that_are_not_utf8_are_replaced_and_counted() -> None:
    data = b"caf\xe9 \xff\xfe\nb\n"
    found = lines_of(data)
    assert found[0][3] == "caf\ufffd \ufffd\ufffd"
    assert data[found[1][1] : found[1][2]] == b"b"


def test_carriage_returns_beside_bytes_that_are_not_utf8_keep_the_spans() -> None:
    data = b"\xe2\x94\r\xffab\rc\n"
    assert [data[start:end] for _, start, end, _ in lines_of(data)] == [b"\xe2\x94", b"\xffab", b"c"]


@pytest.mark.parametrize(
    ("bom", "name", "unit"),
    [
        (codecs.BOM_UTF8, "utf-8", 1),
        (codecs.BOM_UTF16_LE, "utf-16-le", 2),
        (codecs.BOM_UTF16_BE, "utf-16-be", 2),
        (codecs.BOM_UTF32_LE, "utf-32-le", 4),
        (codecs.BOM_UTF32_BE, "utf-32-be", 4),
    ],
)
def test_the_byte_order_mark_tells_the_encoding(bom: bytes, name: str, unit: int) -> None:
    found = detect_encoding((bom + "ab".encode(name))[:4])
    assert (found.name, found.unit, found.bom) == (name, unit, len(bom))


@pytest.mark.parametrize("head", [b"", b"T", b"Tr", b"\xff", b"\xfe", b"Trac", b"\x00\x00"])
def test_without_a_mark_it_is_utf8(head: bytes) -> None:
    assert detect_encoding(head) == UTF8


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_log_in_another_encoding_is_read_with_its_own_offsets(encoding: str, end: str, explain) -> None:
    mark = {
        "utf-16-le": codecs.BOM_UTF16_LE,
        "utf-16-be": codecs.BOM_UTF16_BE,
        "utf-32-le": codecs.BOM_UTF32_LE,
        "utf-32-be": codecs.BOM_UTF32_BE,
    }
    data = mark.get(encoding, b"") + LOG.replace("\n", end).encode(encoding)
    answer = explain(data)
    assert (answer.exception, answer.message, answer.site.path, answer.site.line) == ("KeyError", '"漢"', "größe.py", 3)
    last = answer.evidence[-1]
    name = "utf-8" if encoding == "utf-8-sig" else encoding
    assert (last.line, data[last.start : last.end].decode(name).strip()) == (5, 'KeyError: "漢"')


def test_a_wide_log_that_is_too_large_to_be_read_whole_is_read_too(explain) -> None:
    """Windows redirects as UTF-16: the blocks are cut at whole characters."""
    data = codecs.BOM_UTF16_LE + ("INFO reader: shard read\r\n" * 6_000 + LOG).encode("utf-16-le")
    answer = explain(data)
    assert (answer.exception, answer.site.path, answer.evidence[-1].line) == ("KeyError", "größe.py", 6_005)


def test_wide_line_ends_are_found_at_whole_units_only() -> None:
    # U+0A0A and U+0D0A hold the byte 0A in both halves.
    encoding = detect_encoding(codecs.BOM_UTF16_BE)
    assert split_units("ਊ\nഊb".encode("utf-16-be"), encoding) == ["ਊ".encode("utf-16-be"), "ഊb".encode("utf-16-be")]


def test_a_line_of_many_characters_keeps_its_head_and_tail() -> None:
    data = b"ValueError: " + b"a" * 100_000 + b" the end\n"
    (line,) = split_block(data, 0, 1)
    assert line.text.startswith("ValueError: a")
    assert line.text.endswith("the end")
    assert len(line.text) < 20_000
    assert (line.start, line.end) == (0, len(data) - 1)


@given(st.lists(st.text(alphabet="aé漢🙂 \t\r", max_size=8), max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_every_piece_of_any_text_is_where_its_span_says(pieces: list[str], end: str) -> None:
    data = end.join(pieces).encode()
    for no, start, stop, text in lines_of(data):
        assert data.count(b"\n", 0, start) == no - 1
        assert data[start:stop].decode().rstrip() == text.rstrip()


@given(st.binary(max_size=200))
def test_spans_of_any_bytes_are_in_order_and_inside(data: bytes) -> None:
    found = lines_of(data)
    assert all(0 <= start <= end <= len(data) for _, start, end, _ in found)
    assert [x[1] for x in found] == sorted(x[1] for x in found)


def test_a_whole_log_is_one_block_and_keeps_its_line_numbers() -> None:
    segmenter = Segmenter()
    blocks = [*segmenter.feed(LOG.encode()), *segmenter.finish()]
    (stream,) = read_block(blocks[0])
    assert [x.no for x in stream.lines] == [1, 2, 3, 4, 5]
