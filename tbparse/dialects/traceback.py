"""CPython tracebacks wherever they stand on a page: with header, without (cut), flattened, logged, ignored."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tbparse.dialects import frames as f
from tbparse.dialects.base import Page
from tbparse.dialects.reader import ChainReader, relate
from tbparse.records import Failure, Fate, Line, Link

_START = re.compile(
    r"Traceback \(most recent call last\):?[ \t]*$"
    r'|^[ \t>]*File "[^"\n]+", line \d+'
    r"|^ *\| [A-Za-z_][\w.]*: .*\(\d+ sub-exceptions?\)$"
    r"|^[\w.]*RemoteTraceback:[ \t]*\n\"{3}$"
    r"|^(?:The above exception was the direct cause of the following exception:|During handling of the above exception, another exception occurred:)$",
    re.MULTILINE,
)
_START_WORDS = (
    "Traceback (most recent call last)", 'File "', " sub-exception", "RemoteTraceback:", "The above exception was the direct cause",
    "During handling of the above exception",
)  # fmt: skip
"""Of these every match of the pattern has one, in its first line: to look for them is a hundred times faster."""
_FLAT = re.compile(r'Traceback \(most recent call last\):?\s+File "')
_FLAT_FRAME = re.compile(r'File "(?P<path>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)\s+')
_RETRIED = re.compile(
    r"retries remaining, so the task will be retried|\bwill be retried\b|\b[Rr]etrying (?:in|after)\b(?!.*\b(?P<last>\d+)/(?P=last)\b)|\battempt \d+ (?:of|/) ?\d+ failed"
)
_INTRODUCED = re.compile(r"[A-Za-z]{3,}.*[:=-] ?$")
_THREAD = re.compile(
    r"^(?:Exception in thread (?P<name>.+?)(?: \(most likely raised during interpreter shutdown\))?:|Exception in thread .*)$"
)
_IGNORED = re.compile(
    r"^(?:Exception ignored (?:in|on|while)\b|Error in atexit\._run_exitfuncs|Error in sys\.exitfunc|Error in sys\.excepthook|--- Logging error ---|Object allocated at"
    r"|Task exception was never retrieved|Future exception was never retrieved|Unclosed )"
)
_LOGGED_BEFORE = re.compile(r"^(?:exception calling callback\b|Exception in callback\b)")
_CAUGHT = re.compile(r"^An error has been caught in function '")
_PROCESS = re.compile(r"^Process (?P<name>\S+?):$")
_FORWARD = re.compile(
    r"(?:Traceback of forward call that caused the error|Call stack|Stack \(most recent call last\)|The detailed stack trace):?\s*\(?(?:.*)$"
)
_SIGNAL_HANDLER = re.compile(r"signal_handling\.py$|_utils/signal_handling")
_WINDOW = 256
_ERRORS = {"ERROR", "CRITICAL", "FATAL", "EXCEPTION", "E", "F", "C", "error", "critical", "exception", "fatal"}
_PYTEST_RECORD = re.compile(r"^(?:ERROR|CRITICAL) {2,}\S+:\S+:\d+ ")
_NOTABLE = {
    "ERROR",
    "CRITICAL",
    "FATAL",
    "EXCEPTION",
    "WARNING",
    "WARN",
    "E",
    "W",
    "F",
    "C",
    "error",
    "critical",
    "warning",
    "exception",
}


class _Starts:
    """Where tracebacks begin in a page's text."""

    def __init__(self, blob: str) -> None:
        self._blob = blob
        self._next = dict.fromkeys(_START_WORDS, -1)  # where each word stands next

    def after(self, at: int) -> re.Match[str] | None:
        """The first start from ``at`` on."""
        blob = self._blob
        while True:
            for word, place in self._next.items():
                if place < at:
                    found = blob.find(word, at)
                    self._next[word] = found if found >= 0 else len(blob) + 1
            here = min(self._next.values())
            if here > len(blob):
                return None
            end = blob.find("\n", here)
            below = blob.find("\n", end + 1) if end >= 0 else -1
            match = _START.search(blob, max(at, blob.rfind("\n", 0, here) + 1), below if below >= 0 else len(blob))
            if match is not None:
                return match
            if end < 0:
                return None
            at = end + 1


class TracebackDialect:
    """Row 1–11, 13, 18–22, 24, 27, 29, 35 and 37 of the dialects: all that prints ``File "…", line N``."""

    name = "python"

    def read(self, page: Page) -> list[Failure]:
        out: list[Failure] = []
        done = 0
        at = 0
        found = _Starts(page.blob)
        while (match := found.after(at)) is not None:
            i = page.index_at(match.start())
            at = max(match.end(), page.offset_of(done))
            if i < done or page.taken[i]:
                continue
            if page.texts[i].strip() in f.SEPARATORS:
                i = _lone_before(page, i, done)
                if i < 0:
                    continue
            failure, end = self._at(page, i)
            if failure is not None:
                out.append(failure)
            done = max(end, i + 1)
            at = max(at, page.offset_of(done))
        out += self._flattened(page)
        return out

    def _at(self, page: Page, i: int) -> tuple[Failure | None, int]:
        text = page.texts[i]
        header = f.HEADER.search(text)
        indent = len(text) - len(text.lstrip(" "))
        lead = text[: header.start()] if header else ""
        grouped = lead.strip(" |+").startswith("Exception Group")
        forward = not header and i > 0 and _FORWARD.search(page.texts[i - 1]) is not None
        size = _WINDOW
        while True:
            window = page.lines[i : i + size]
            lines = _dedented(window, indent) if header and indent and not grouped and not lead.strip() else list(window)
            if header and lead.strip() and not grouped and not lead.rstrip().endswith("Original"):
                lines[0] = lines[0]._replace(text=f.HEADER_TEXT + ":")
            reader = ChainReader(lines[: _first_taken(page, i, len(lines))])
            links, used = ([], max(1, reader.frames_only(0))) if forward else reader.chain(0)
            # Reading begins with a small window, so that many short tracebacks cost no more than their lines; a
            # chain that comes near the window's end may go on behind it.
            if used < len(window) - 80 or i + size >= len(page.lines):
                break
            size *= 4
        end = i + used
        if forward:  # frames that somebody printed to be helpful: no failure
            page.take(i, end - 1)
            return None, end
        if len(links) == 1 and links[0].exception is None and links[0].frames:
            _name_from_above(page, i, links[0], header is not None)
        if not links or (not header and all(x.exception is None for x in links)):
            return None, max(end, i + 1)
        relate(links)
        first = page.lines[i]
        last = page.lines[min(max(end - 1, i), len(page.lines) - 1)]
        failure = Failure("traceback", self.name, links, first, last, first.stream, first.tags, damaged=reader.damaged)
        if not header and text.strip() and f.read_frame(text):
            failure.damaged = failure.damaged or "the head of the traceback is cut off"
        if links[-1].exception is None:
            failure.damaged = "the traceback is cut off before its exception line"
            if any(x.strip() for x in page.texts[end:]) and reader.damaged is None:
                failure.fate, failure.fate_why = "ignored", "it shows where the program was; no exception follows"
        _set_fate(page, i, failure)
        if failure.fate == "fatal" and _INTRODUCED.search(lead):
            failure.fate, failure.fate_why = "logged", "a program printed it after words of its own"
        for link in links:
            if link.rank is not None:
                failure.rank_hint = link.rank
            if any("signal_handling" in x.path and _SIGNAL_HANDLER.search(x.path) for x in link.frames):
                link.handler = True
        page.take(i, max(i, end - 1))
        return failure, end

    def _flattened(self, page: Page) -> list[Failure]:
        """A traceback whose line ends became blanks: one physical line holds all of it."""
        out = []
        for m in _FLAT.finditer(page.blob):
            i = page.index_at(m.start())
            text = page.texts[i]
            if page.taken[i] or page.index_at(m.end()) != i:
                continue
            links = _read_flat(text, page.lines[i])
            if links:
                page.take(i, i)
                line = page.lines[i]
                out.append(
                    Failure(
                        "traceback",
                        self.name,
                        links,
                        line,
                        line,
                        line.stream,
                        line.tags,
                        damaged="the traceback was flattened into one line",
                    )
                )
        return out


def _read_flat(text: str, line: Line) -> list[Link]:
    links: list[Link] = []
    pieces = re.split(r"Traceback \(most recent call last\):?\s+(?=File \")", text)
    for piece in pieces[1:]:
        body = piece
        for sentence in f.SEPARATORS:
            body = body.split(sentence)[0]
        found = list(_FLAT_FRAME.finditer(body))
        if not found:
            continue
        frames = []
        for k, m in enumerate(found):
            frame = f.read_frame(f'  File "{m["path"]}", line {m["line"]}, in {m["function"]}')
            if frame is not None:
                until = found[k + 1].start() if k + 1 < len(found) else None
                if until is not None:
                    frame.source = body[m.end() : until].strip(" ^~") or None
                frames.append(frame)
        tail = body[found[-1].end() :].strip()
        exceptions = list(
            re.finditer(
                r"(?:^|(?<=\s))((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout|Warning)|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:: (.*)|$)",
                tail,
            )
        )
        if exceptions:
            m = exceptions[0]
            frames[-1].source = tail[: m.start()].strip(" ^~") or None
            links.append(Link(m[1], (m[2] or "").strip(), frames, line=line, first_line=line))
    links.reverse()
    for k, link in enumerate(links):
        link.relation = "context" if k + 1 < len(links) else "root"
    if f.CAUSE_SENTENCE in text:
        for link in links[:-1]:
            link.relation = "cause"
    return links


_STACK = re.compile(r"^\s*(?:stack ?trace|traceback|stack)\s*:?\s*$", re.IGNORECASE)


def _name_from_above(page: Page, i: int, link: Link, titled: bool) -> None:
    """Some platforms (AWS Lambda, Dagster) print the exception line before the frames: complete the link from there."""
    for j in range(i - 1, max(-1, i - 5), -1):
        text = page.texts[j]
        if page.taken[j]:
            return
        if not text.strip():
            continue
        found = f.split_exception(text, lone=True)
        if found is not None and titled:
            link.exception, link.message, _ = found
            link.line = page.lines[j]
            page.take(j, j)
        if found is not None or _STACK.match(text) is None:
            return
        titled = True


def _lone_before(page: Page, i: int, done: int) -> int:
    """Index of the bare ``Type: message`` line above a separator at ``i``, or -1."""
    j = i - 1
    while j >= done and not page.texts[j].strip():
        j -= 1
    low = max(done, j - 12)
    while j >= low and page.texts[j].strip() and not page.taken[j]:
        if f.split_exception(page.texts[j], lone=True) or (j == i - 2 and f.split_exception(page.texts[j])):
            return j
        j -= 1
    return -1


def _dedented(window: Sequence[Line], indent: int) -> list[Line]:
    """The lines without ``indent`` blanks, up to the first one that is indented less."""
    pad = " " * indent
    out: list[Line] = []
    for line in window:
        if line.text and not line.text.startswith(pad):
            # The header alone may be set in: what follows at the margin then belongs to it all the same.
            if len(out) == 1:
                return [out[0], *window[1:]]
            break
        out.append(line._replace(text=line.text[indent:]))
    if len(out) > 1 and out[1].text and not out[1].text.startswith(" ") and window[1].text.startswith("  File"):
        return [out[0], *window[1:]]
    return out


def _first_taken(page: Page, i: int, count: int) -> int:
    at = page.taken.find(1, i + 1, i + count)
    return count if at < 0 else at - i


def _from_top(failure: Failure) -> bool:
    """Whether the traceback begins at a script's top level: then it was most likely not caught, whatever was said before."""
    frames = failure.links[0].frames
    return bool(frames) and frames[0].function == "<module>"


def _set_fate(page: Page, i: int, failure: Failure) -> None:
    """What the lines above a traceback say of it."""
    j = i - 1
    while j >= 0 and not page.texts[j].strip() and i - j < 3 and page.levels.get(j) not in _ERRORS:
        j -= 1
    if j > 0 and page.texts[j].startswith("future: <"):
        j -= 1  # asyncio shows the task between its sentence and the traceback
    above = page.texts[j] if j >= 0 else ""
    level = page.levels.get(i)
    if level and i + 1 < len(page.lines) and page.lines[i + 1].shape == page.lines[i].shape:
        level = None  # a collector or glog puts it before every line: that is no logging.exception
    fate: Fate | None = None
    why = None
    thread = _THREAD.match(above)
    process = _PROCESS.match(above)
    if any(_RETRIED.search(t) for t in page.texts[max(0, i - 2) : i]) and not _from_top(failure):
        fate, why = "survived", "the log says that it is tried again"
    elif thread:
        fate, why = "thread", "it ended a thread, not the process"
        failure.tags = failure.tags._replace(process=failure.tags.process or thread["name"])
    elif _IGNORED.match(above):
        fate, why = "ignored", "the interpreter caught it and went on"
    elif _CAUGHT.search(above):
        fate, why, failure.caught = "logged", "loguru caught it and let the program go on", True
    elif _LOGGED_BEFORE.match(above):
        fate, why = "logged", "it was printed by a logger or a callback"
    elif process:
        failure.tags = failure.tags._replace(process=failure.tags.process or process["name"])
    elif _PYTEST_RECORD.match(above):
        fate, why = "logged", "a test logged it"
    elif level in _NOTABLE:
        fate, why = "logged", "it was printed through a logger"
    elif (
        j >= 0
        and page.levels.get(j) in _ERRORS
        and i - j <= 2
        and page.lines[j].stream == failure.first.stream
        and not page.taken[j]
    ):
        fate, why = "logged", "a log record introduces it"
    if fate is not None:
        failure.fate, failure.fate_why = fate, why
