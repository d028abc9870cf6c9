"""A block of raw bytes into pages: decoded, JSON unpacked, prefixes off, one page a writer."""

from __future__ import annotations

from typing import NamedTuple

from tbparse.records import NO_TAGS, Line, merge_tags
from tbparse.text.blocks import Block
from tbparse.text.jsonlines import expand
from tbparse.text.learned import strip_block
from tbparse.text.lines import UTF8, Encoding, split_block

MAX_STREAMS = 4096


class StreamLines(NamedTuple):
    """The lines of one writer, in order, and the log levels of those that a logger wrote, by index."""

    stream: str
    lines: list[Line]
    levels: dict[int, str]


def read_block(block: Block, encoding: Encoding = UTF8) -> list[StreamLines]:
    """The block's lines by writer. Lines without an identifying prefix are the writer ``""``."""
    lines = split_block(block.raw, block.offset, block.first_no, encoding)
    stripped, levels = _unpacked(lines) or strip_block(lines)
    again = _unpacked(stripped)  # JSON behind a collector's own prefix
    if again is not None:
        stripped, levels = again
    if not any(line.stream for line in stripped):
        return [StreamLines("", stripped, levels)]
    by_stream: dict[str, StreamLines] = {}
    last: Line | None = None
    for i, line in enumerate(stripped):
        if not line.text and not line.shape and last is not None and last.stream:
            # Some launchers leave the prefix off blank lines: they belong to whoever wrote the line before.
            line = line._replace(shape=last.shape, stream=last.stream, tags=last.tags)
        last = line
        key = line.stream
        page = by_stream.get(key)
        if page is None:
            if len(by_stream) >= MAX_STREAMS:
                page = by_stream.setdefault("", StreamLines("", [], {}))
            else:
                page = by_stream[key] = StreamLines(key, [], {})
        if i in levels:
            page.levels[len(page.lines)] = levels[i]
        page.lines.append(line)
    return list(by_stream.values())


def _unpacked(lines: list[Line]) -> tuple[list[Line], dict[int, str]] | None:
    """Lines out of JSON objects without their prefixes, and their levels; None where no line is such an object."""
    unpacked = expand(lines)
    if unpacked is None:
        return None
    inner, levels = unpacked
    stripped, more = strip_block(inner)
    return [_outer(new, old) for new, old in zip(stripped, inner, strict=True)], {**levels, **more}


def _outer(new: Line, old: Line) -> Line:
    """A line out of JSON keeps what the object said of its writer."""
    if not old.stream and old.tags is NO_TAGS:
        return new
    tags = merge_tags(new.tags, old.tags)
    return new._replace(stream=old.stream + new.stream, tags=tags)
