"""A block of raw bytes into pages: decoded, JSON unpacked, prefixes off, one page a writer."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import NamedTuple

from tbparse.records import NO_TAGS, Line, merge_tags, stream_of, text_of
from tbparse.text.blocks import Block
from tbparse.text.jsonlines import expand
from tbparse.text.learned import strip_block
from tbparse.text.lines import UTF8, Encoding, split_block
from tbparse.text.prefixes import strip_prefixes

MAX_STREAMS = 4096
_BYTES = bytes(range(256))


# A forum's editor makes quotation marks curly; it does so in the whole text.
_CURLY_FILE = re.compile(rb"File \xe2\x80[\x9c-\x9f]")
# Mail programs quote with a bar as well, which is an exception group's gutter else.
_BAR_QUOTED = re.compile(rb"^\| Traceback \(most recent call last\):\r?\n\|   File ", re.MULTILINE)
_STRAIGHT = str.maketrans("\u201c\u201d\u201e\u201f\u2018\u2019\u201a\u201b", 4 * '"' + 4 * "'")


class StreamLines(NamedTuple):
    """The lines of one writer, in order, and the log levels of those that a logger wrote, by index."""

    stream: str
    lines: list[Line]
    levels: dict[int, str]


def read_block(block: Block, encoding: Encoding = UTF8) -> list[StreamLines]:
    """The block's lines by writer. Lines without an identifying prefix are the writer ``""``."""
    lines = split_block(block.raw, block.offset, block.first_no, encoding)
    absent = _BYTES.translate(None, block.raw)  # to look for a text takes longer than to know that it cannot be there
    if b"&" not in absent and b"File &quot;" in block.raw:
        import html  # a web page's copy is rare, and its table of entities is large

        lines = [x._replace(text=html.unescape(x.text)) if "&" in x.text else x for x in lines]
    if b"\xe2" not in absent and _CURLY_FILE.search(block.raw):
        lines = [x if x.text.isascii() else x._replace(text=x.text.translate(_STRAIGHT)) for x in lines]
    if b"|" not in absent and _BAR_QUOTED.search(block.raw) and b"+ Exception Group" not in block.raw:
        lines = [x._replace(text=x.text[1:].removeprefix(" ")) if x.text.startswith("|") else x for x in lines]
    quoted = (
        encoding.unit > 1
        or (b"{" not in absent and b'{"' in block.raw)
        or (b"\\" not in absent and b"last):\\n" in block.raw)
        or b'": "Traceback' in block.raw
    )
    if b"P" not in absent and (b"err P " in block.raw or b"out P " in block.raw):
        lines = _completed(lines, block)
    stripped, levels = (_unpacked(lines) if quoted else None) or strip_block(lines)
    again = _unpacked(stripped) if quoted else None  # JSON behind a collector's own prefix
    if again is not None:
        stripped, levels = again
    if b"%" not in absent and b"%|" in block.raw:
        stripped, levels = _unbarred(stripped, levels)
    if b"(most recent call last): " in block.raw:
        stripped, levels = _unglued(stripped, levels)
    filed = [text for text in map(text_of, stripped) if 'File "' in text]
    if filed and _upside_down(stripped):
        end = len(stripped) - 1
        stripped, levels = stripped[::-1], {end - k: level for k, level in levels.items()}
    whole = all(map(_WHOLE_FILE.match, filed))
    if not whole and any(_MERGED.match(x) for x in filed if not x.lstrip(" |>+").startswith("File")):
        stripped, levels = _unglued(stripped, levels)
        filed = [x.text for x in stripped if 'File "' in x.text]
    width = _wrap_width(stripped) if not whole and any(map(_is_torn, filed)) else 0
    if width:
        stripped, levels = _unwrapped(stripped, levels, width)
    if not any(map(stream_of, stripped)):
        return [StreamLines("", stripped, levels)]
    if not levels and all(map(text_of, stripped)) and len(set(map(stream_of, stripped))) < MAX_STREAMS:
        apart: defaultdict[str, list[Line]] = defaultdict(list)
        for line in stripped:
            apart[line.stream].append(line)
        return [StreamLines(stream, own, {}) for stream, own in apart.items()]
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
        if levels and i in levels:
            page.levels[len(page.lines)] = levels[i]
        page.lines.append(line)
    return list(by_stream.values())


def _upside_down(lines: list[Line]) -> bool:
    """Whether the newest line comes first, as consoles of clouds export logs: a traceback's header stands under its frames."""
    for i, text in enumerate(map(text_of, lines)):
        if text.endswith(_HEADER_ENDS) and not text[:1].isspace():
            above = [x.text.lstrip() for x in lines[max(0, i - 3) : i] if x.text]
            below = next((x.text for x in lines[i + 1 : i + 3] if x.text), "")
            return (
                not below.startswith("  File")
                and bool(above)
                and above[-1].startswith('File "')
                and len(above) > 1
                and not above[-2].startswith("Traceback")
            )
    return False


_HEADER_ENDS = ("Traceback (most recent call last):", "Traceback (most recent call last)")


# CRI's log format: a line that the runtime cut carries P, its last piece F.
_PIECE = re.compile(r"^(?P<head>.{0,80}?\b(?:stderr|stdout) )(?P<flag>[FP]) (?P<text>.*)$")


def _completed(lines: list[Line], block: Block) -> list[Line]:
    """Lines that a container runtime cut, put together again."""
    out: list[Line] = []
    for line in lines:
        before = _PIECE.match(out[-1].text) if out else None
        here = _PIECE.match(line.text) if before is not None and before["flag"] == "P" else None
        if before is None or here is None or before["head"][-7:] != here["head"][-7:]:
            out.append(line)
            continue
        cut = out[-1].end - block.offset
        blank = " " * (block.raw[cut - 1 : cut] == b" ")  # it went with the blanks at the line's end
        text = f"{before['head']}{here['flag']} {before['text']}{blank}{here['text']}"
        out[-1] = out[-1]._replace(text=text, end=line.end)
    return out


# NumPy's C code prints the header without a line end.
_GLUED = re.compile(r'^(?P<head>.*Traceback \(most recent call last\):)(?P<frame> +File "[^"]+", line \d+(?:, in \S+)?)$')
# A terminal's copy, padded with blanks to its width, in which two lines became one.
_MERGED = re.compile(r'^(?P<head> *[\w"(\[{].*?)(?P<frame> {3,}File "[^"]+", line \d+, in \S+)$')
_OPEN_FILE = re.compile(r'^ {2,4}File "(?:[^"]*|[^"]*"(?:,(?: (?:l(?:i(?:n(?:e(?: \d*)?)?)?)?)?)?)?)$')


# tqdm ends no line: what another writer prints next stands right behind the bar's closing bracket.
_BARRED = re.compile(r"^(?P<bar>[^\n]{0,300}?\d{1,3}%\|[^\n]{0,200}?\[[^\]\n]{0,80}\])(?P<rest>[\[(A-Za-z].*)$")


def _unbarred(lines: list[Line], levels: dict[int, str]) -> tuple[list[Line], dict[int, str]]:
    """Progress bars on a line of their own; what stood behind them may have prefixes of its own."""
    out: list[Line] = []
    moved: dict[int, str] = {}
    for i, line in enumerate(lines):
        if i in levels:
            moved[len(out)] = levels[i]
        m = _BARRED.match(line.text) if "%|" in line.text else None
        if m is None:
            out.append(line)
            continue
        s = strip_prefixes(m["rest"])
        shape = f"{line.shape}+{s.shape}".strip("+")
        out.append(line._replace(text=m["bar"]))
        if s.level:
            moved[len(out)] = s.level
        out.append(line._replace(text=s.text, shape=shape, stream=line.stream + s.stream, tags=merge_tags(s.tags, line.tags)))
    return out, moved


# A File line as the interpreter prints it: nothing before it, nothing torn off behind its path.
_WHOLE_FILE = re.compile(r' {2,4}File "[^"\n]+", line \d')
_FILE_STARTS = ('  File "', '   File "', '    File "')


def _unglued(lines: list[Line], levels: dict[int, str]) -> tuple[list[Line], dict[int, str]]:
    """Headers on a line of their own."""
    out: list[Line] = []
    moved: dict[int, str] = {}
    for i, line in enumerate(lines):
        if i in levels:
            moved[len(out)] = levels[i]
        m = _GLUED.match(line.text) or _MERGED.match(line.text) if 'File "' in line.text else None
        if m is None:
            out.append(line)
        else:
            out += [line._replace(text=m["head"]), line._replace(text="  " + m["frame"].lstrip())]
    return out, moved


def _is_torn(text: str) -> bool:
    """Whether a File line stops before its line number."""
    return text.startswith(_FILE_STARTS) and ('", line ' not in text or text.endswith('", line '))


def _wrap_width(lines: list[Line]) -> int:
    """The width at which a terminal wrapped the lines, 0 where none did: a File line stops at it in mid-path."""
    widths = [len(line.text) for line in lines]
    longest = max(widths)
    torn = [w for line, w in zip(lines, widths, strict=True) if w >= longest - 1 and _OPEN_FILE.match(line.text)]
    return longest if torn and 40 <= longest <= 300 and sum(w == longest for w in widths) >= 2 else 0


def _unwrapped(lines: list[Line], levels: dict[int, str], width: int) -> tuple[list[Line], dict[int, str]]:
    """Lines of full width joined with what follows them."""
    out: list[Line] = []
    moved: dict[int, str] = {}
    joins = False
    for i, line in enumerate(lines):
        if joins and out:
            before = out[-1]
            out[-1] = before._replace(text=before.text + line.text, end=line.end)
        else:
            if i in levels:
                moved[len(out)] = levels[i]
            out.append(line)
        joins = len(line.text) == width or (len(line.text) == width - 1 and _OPEN_FILE.match(line.text) is not None)
    return out, moved


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
