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
    stripped, levels = strip_block(lines)
    unpacked = expand(stripped)
    if unpacked is not None:
        inner, json_levels = unpacked
        again, more = strip_block(inner)
        stripped = [_outer(new, old) for new, old in zip(again, inner, strict=True)]
        levels = {**json_levels, **more}
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


def _outer(new: Line, old: Line) -> Line:
    """A line out of JSON keeps what the object said of its writer."""
    if not old.stream and old.tags is NO_TAGS:
        return new
    tags = merge_tags(new.tags, old.tags)
    return new._replace(stream=old.stream + new.stream, tags=tags)
