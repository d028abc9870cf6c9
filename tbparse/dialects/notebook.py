"""IPython's and Jupyter's tracebacks: ``---> 12`` arrows, ``Cell In[3], line 2``, no ``File "…"`` line at all.

Formats: IPython.core.ultratb in context mode (5 to 9), as printed by a terminal, by nbconvert, and pasted from a
notebook. The header stands right-aligned on the type's line, and the type comes again at the end with its message.
"""

from __future__ import annotations

import re

from tbparse.dialects import frames as f
from tbparse.dialects.base import Page
from tbparse.dialects.reader import ChainReader, relate
from tbparse.records import Failure, Frame, Link

_HEAD = re.compile(r"^(?P<type>[A-Za-z_][\w.]*) {2,}Traceback \(most recent call last\)(?:: *(?P<message>.*))?$", re.MULTILINE)
_CELL = re.compile(
    r"^(?:(?P<cell>(?:Cell |Input )?In ?\[\d+\])(?:, line (?P<line>\d+))?(?:, in (?P<function>[^\n]+))?"
    r"|(?P<input><ipython-input-[^>]+>|<command-[\w-]+>(?: line \d+)?) in (?P<function2>[^\n]+)"
    r"|(?P<book>\S[^\n]*?\.ipynb) Cell \d+(?: line (?P<line2>\d+)| in (?P<function3>[^\n]+)))$"
)
_FILE = re.compile(r"^File (?P<path>\S.*?):(?P<line>\d+)(?:, in (?P<function>.+))?$")
_OLD_FILE = re.compile(
    r"^(?P<path>(?:~|/|[A-Za-z]:\\|\.{1,2}/)[^\n]*?\.(?:py|pyx|pyc|ipynb|so)|<decorator-gen-\d+>) in (?P<function>[^\n]+)$"
)
_ARROW = re.compile(r"^\s*-{2,}> ?(?P<line>\d+)(?: (?P<source>.*))?$")
_NUMBERED = re.compile(r"^\s*\d+(?:\s|$)")
_SYNTAX = re.compile(r"^(?:SyntaxError|IndentationError|TabError): ", re.MULTILINE)
_FUNCTION = re.compile(r"^(?P<name>(?:<[^>]+>|[\w.])+)")
_MARKDOWN = re.compile(r"\[([^\]\n]+)\]\((?:vscode-notebook-cell|https?|file)[^)\n]*\)")
_CELL_LINK = re.compile(r"<a href='vscode-notebook-cell:[^'\n]*'>(\d+)</a>")
_COMMAND = re.compile(r"^File (?P<path><command-[\w-]+>), line (?P<line>\d+)(?:, in (?P<function>.+))?$")


_PROMPT = re.compile(r"^In \[\d+\]:(?: (?:exit|quit)(?:\(\))?)?$")


class NotebookDialect:
    """Row 25 of the dialects."""

    name = "ipython"

    def read(self, page: Page) -> list[Failure]:
        out: list[Failure] = []
        done = 0
        starts = [(i, True) for i, _ in page.find(_HEAD)]
        starts += [(i, True) for i in self._syntax_errors(page)]
        if not starts:
            arrow = next(((i, False) for i, t in enumerate(page.texts) if _ARROW.match(t) and not page.taken[i]), None)
            if arrow is None:
                return out
            starts = [(max(0, arrow[0] - 4), False)]
        for i, headed in starts:
            if i < done or page.taken[i]:
                continue
            failure, done = self._chain(page, i, headed)
            if failure is not None:
                out.append(failure)
        return out

    def _syntax_errors(self, page: Page) -> list[int]:
        """Where the places of SyntaxErrors stand: of code that never ran there are no frames, and no header."""
        found = []
        for i, _ in page.find(_SYNTAX):
            for j in range(i - 1, max(-1, i - 6), -1):
                place = page.texts[j].strip()
                if _CELL.match(place) or (_FILE.match(place) and page.texts[j][:1] == " "):
                    found.append(j)
                    break
        return found

    def _chain(self, page: Page, i: int, headed: bool) -> tuple[Failure | None, int]:
        first = i
        links: list[Link] = []
        inner: list[list[Link]] = []
        ways: list[str] = []
        while i < len(page.texts):
            head = _HEAD.match(page.texts[i])
            frames, j = self._frames(page, i + 1 if head else i)
            if not frames and not head:
                break
            link, j = self._exception(page, j, head["type"] if head else None, frames, i)
            if link is None:
                break
            quoted, j = self._quoted(page, link, i, j)
            links.append(link)
            inner.append(quoted)
            i = j
            k = j
            while k < len(page.texts) and not page.texts[k].strip():
                k += 1
            if k < len(page.texts) and page.texts[k].strip() in f.SEPARATORS:
                ways.append(f.SEPARATORS[page.texts[k].strip()])
                k += 1
                while k < len(page.texts) and not _HEAD.match(page.texts[k]):
                    if page.texts[k].strip() and not set(page.texts[k].strip()) <= {"-"}:
                        break
                    k += 1
                i = k
                continue
            break
        if not links:
            return None, first + 1
        page.take(first, max(first, i - 1))
        for k, link in enumerate(links[:-1]):
            link.relation = "cause" if k < len(ways) and ways[k] == "cause" else "context"
        links[-1].relation = "root"
        links.reverse()
        inner.reverse()
        links += inner[0]
        links += [link for quoted in inner[1:] for link in quoted]
        start, last = page.lines[first], page.lines[min(max(i - 1, first), len(page.lines) - 1)]
        failure = Failure("traceback", self.name, relate(links), start, last, start.stream, start.tags)
        rest = [text for text in page.texts[i : i + 8] if text.strip()]
        failure.caught = len(rest) == 1 and _PROMPT.match(rest[0]) is not None  # the last thing at a prompt, which exits with 0
        if not headed:
            failure.damaged = "the head of the traceback is cut off"
        return failure, i

    def _quoted(self, page: Page, link: Link, first: int, end: int) -> tuple[list[Link], int]:
        """The chain that the message quotes as CPython prints it (a worker's), and the line after it."""
        start = next((k for k in range(first, end) if page.lines[k] is link.line), end)
        stop = next((k for k in range(start + 1, min(start + 400, len(page.texts))) if _HEAD.match(page.texts[k])), start + 400)
        opens = next((k for k in range(start + 1, min(stop, start + 60, len(page.texts))) if f.HEADER.search(page.texts[k])), None)
        if opens is None or start == end:
            return [], end
        _, quoted, after = ChainReader(page.lines[start:stop])._message(0, link.message or "", False)
        if not quoted:
            return [], end
        if quoted[0].relation == "root":
            quoted[0].relation = "remote"
        after = min(start + after, len(page.texts))
        return quoted, after + (after < len(page.texts) and page.texts[after] == '"""')

    def _frames(self, page: Page, i: int) -> tuple[list[Frame], int]:
        frames: list[Frame] = []
        blanks = 0
        while i < len(page.texts):
            text = page.texts[i]
            if "](" in text:
                text = _MARKDOWN.sub(r"\1", text)  # editors make links of places
            elif "<a href='vscode" in text:
                text = _CELL_LINK.sub(r"\1", text)
            stripped = text.strip()
            arrow = _ARROW.match(text)
            if arrow and frames:
                frames[-1].line = int(arrow["line"])
                frames[-1].source = (arrow["source"] or "").strip() or None
            elif (m := _FILE.match(stripped)) or (m := _COMMAND.match(stripped)):
                frames.append(Frame(m["path"], int(m["line"]), _function(m["function"]) or "<module>"))
            elif m := _CELL.match(stripped):
                name = m["function"] or m["function2"] or m["function3"]
                path = m["cell"] or m["input"] or m["book"]
                path = f"Cell {path}" if path.startswith(("In ", "In[")) else path
                line = m["line"] or m["line2"]
                function = _function(name) or "<module>"
                frames.append(Frame(path, int(line) if line else None, "<module>" if function.startswith("<cell") else function))
            elif m := _OLD_FILE.match(stripped):
                frames.append(Frame(m["path"], None, _function(m["function"])))
            elif f.FILE_LINE.match(text) and "line" in text:
                m2 = f.read_frame(text)
                if m2 is not None:
                    frames.append(m2)
            elif not stripped:
                blanks += 1
            elif _NUMBERED.match(text) or (text[0] in " \t" and frames) or set(stripped) <= {"-"} or stripped.startswith("("):
                pass
            elif f.split_exception(text):
                break
            elif arrow:
                frames.append(Frame("<unknown>", int(arrow["line"]), None, (arrow["source"] or "").strip() or None))
            elif not frames and blanks == 0:
                break
            elif frames and not frames[-1].source:
                pass
            else:
                break
            i += 1
        return [x for x in frames if x.line is not None], i

    def _exception(self, page: Page, i: int, head: str | None, frames: list[Frame], first: int) -> tuple[Link | None, int]:
        if i >= len(page.texts):
            return (Link(head, "", frames, line=page.lines[first], first_line=page.lines[first]), i) if head else (None, i)
        exc = f.split_exception(page.texts[i])
        if exc is None:
            return (
                (Link(head, "", frames, line=page.lines[first], first_line=page.lines[first]), i) if head and frames else (None, i)
            )
        kind, message, _ = exc
        if frames and _SYNTAX.match(page.texts[i]) and frames[-1].function == "<module>" and frames[-1].source is None:
            frames[-1].function = None  # the place in the source that could not be read: nothing ran there
        parts = [message or ""]
        j = i + 1
        while j < len(page.texts) and j - i < 120:
            text = page.texts[j]
            if text and page.lines[j].shape != page.lines[i].shape:
                break
            if text.strip() in f.SEPARATORS or _HEAD.match(text) or (text.strip() and f.ends_message(text)):
                break
            if not text.strip():
                k = j
                while k < len(page.texts) and not page.texts[k].strip():
                    k += 1
                if k >= len(page.texts) or k - j > 1 or page.texts[k].strip() in f.SEPARATORS or f.ends_message(page.texts[k]):
                    break
                if not (page.texts[k][0] in " \t(" or len(parts) > 1):
                    break
            parts.append(text)
            j += 1
        if head and "." in head and head.endswith(kind):
            kind = head
        return Link(kind, f.trim_message(parts), frames, line=page.lines[i], first_line=page.lines[first]), j


def _function(text: str | None) -> str | None:
    """``pick`` out of ``pick(table, names)``, ``<module>`` out of ``<module>()``."""
    m = _FUNCTION.match(text.strip()) if text else None
    return m["name"] if m else None
