"""rich's traceback boxes (rich.traceback, typer, accelerate's rich mode): frames are ``path:LINE in func`` in a box.

Paths, function names and messages wrap at the box's width; locals boxes stand inside; the type is unqualified.
"""

from __future__ import annotations

import re

from tbparse.dialects import frames as f
from tbparse.dialects.base import Page
from tbparse.dialects.reader import relate
from tbparse.records import Failure, Frame, Line, Link

_TOP = re.compile(r"^.*[╭┌+][─-]+ ?Traceback \(most recent call last\) ?[─-]+[╮┐+].*$", re.MULTILINE)
_PLAIN_TOP = re.compile(r"^\s*[╭┌+][─-]+[╮┐+]\s*$")
_SUB = re.compile(r"^(?P<indent>\s*)[╭┌+][─-]+ Sub-exception #\d+ [─-]+[╮┐+]\s*$")
_SIDES = ("│", "|")
_EDGE = re.compile(r" ?[│|]\s*$")
_SIDE = re.compile(r"^\s*[│|] ?(?P<body>.*?)(?: ?[│|])?\s*$")
_BOTTOM = re.compile(r"^\s*[╰└+][─-]+[╯┘+]?\s*$")
_SITE = re.compile(r"^(?P<path>(?:[A-Za-z]:)?[^:]+?):(?P<line>\d+)(?: in (?P<function>\S+))?$")
_MARK = re.compile(r"^[❱>] *(?P<line>\d+) (?P<source>.*)$")
_NUMBERED = re.compile(r"^\s*(?:[❱>] ?)?\d+ ?(?:│|\s|$)")
_INNER = re.compile(r"^[╭╰│]")


class BoxDialect:
    """Row 17 of the dialects."""

    name = "rich"

    def read(self, page: Page) -> list[Failure]:
        out: list[Failure] = []
        done = 0
        for first, _ in page.find(_TOP):
            if first < done:
                continue
            links, done = self._chain(page, first)
            if links:
                page.take(first, max(first, done - 1))
                start, last = page.lines[first], page.lines[min(max(done - 1, first), len(page.lines) - 1)]
                out.append(Failure("traceback", self.name, relate(links), start, last, start.stream, start.tags))
        return out

    def _chain(self, page: Page, i: int) -> tuple[list[Link], int]:
        """The chain whose first box opens at ``i``, outermost link first, and where it ends."""
        first = i
        printed: list[Link] = []
        ways: list[str] = []
        leaves: list[list[Link]] = []
        while True:
            frames, i = self._box(page, i + 1)
            i = self._syntax_box(page, i, frames)
            link, i = self._exception(page, i, frames, first)
            if link is None:
                break
            found, i = self._subs(page, i)
            leaves = found or leaves
            printed.append(link)
            way, after = self._separator(page, i)
            if way is None:
                break
            ways.append(way)
            i = after
            if i >= len(page.texts):
                break
            if not _TOP.match(page.texts[i]):
                bare, i = self._exception(page, i, [], i)
                if bare is None:
                    break
                printed.append(bare)
                break
        for k, link in enumerate(printed[:-1]):
            link.relation = "cause" if ways[k] == "cause" else "context"
        links = printed[::-1]
        if links and leaves:
            links[-1].leaves = leaves[1:]
            leaves[0][0].relation = "group"
            links += leaves[0]
        return links, i

    def _subs(self, page: Page, i: int) -> tuple[list[list[Link]], int]:
        """The chains in the boxes of a group's sub-exceptions, which follow its message."""
        leaves: list[list[Link]] = []
        while True:
            j = i
            while j < len(page.texts) and not page.texts[j].strip():
                j += 1
            top = _SUB.match(page.texts[j]) if j < len(page.texts) else None
            if top is None:
                return leaves, i
            column = len(top["indent"])
            inside: list[Line] = []
            j += 1
            while j < len(page.texts) and page.texts[j][column : column + 1] in _SIDES:
                inside.append(page.lines[j]._replace(text=_EDGE.sub("", page.texts[j][column + 1 :].removeprefix(" "))))
                j += 1
            i = j + 1
            inner = Page(inside)
            at = next((k for k, text in enumerate(inner.texts) if text.strip()), None)
            if at is None:
                continue
            if _TOP.match(inner.texts[at]):
                links, _ = self._chain(inner, at)
            else:
                link, _ = self._exception(inner, at, [], at)
                links = [link] if link is not None else []
            if links:
                leaves.append(links)

    def _syntax_box(self, page: Page, i: int, frames: list[Frame]) -> int:
        """A SyntaxError's own box, without a title: the place in the source, the line, a mark. Where it ends."""
        if i >= len(page.texts) or not _PLAIN_TOP.match(page.texts[i]):
            return i
        bodies: list[str] = []
        j = i + 1
        while j < len(page.texts) and not _BOTTOM.match(page.texts[j]):
            m = _SIDE.match(page.texts[j])
            if m is None:
                return i
            bodies.append(m["body"].strip())
            j += 1
        for k in range(1, min(6, len(bodies)) + 1):
            m = _SITE.match("".join(bodies[:k]))
            if m is not None and m["function"] is None:
                frames.append(Frame(m["path"], int(m["line"]), None, bodies[k] if k < len(bodies) else None))
                break
        return j + 1

    def _box(self, page: Page, i: int) -> tuple[list[Frame], int]:
        frames: list[Frame] = []
        pending = ""
        while i < len(page.texts):
            text = page.texts[i]
            if _BOTTOM.match(text):
                i += 1
                break
            m = _SIDE.match(text)
            if m is None:
                if not text.strip() or f.split_exception(text.strip()) or _TOP.match(text):
                    break
                i += 1
                continue
            body = m["body"].rstrip()
            stripped = body.strip()
            mark = _MARK.match(stripped)
            if mark and frames:
                if frames[-1].line in (None, int(mark["line"])):
                    frames[-1].line = int(mark["line"])
                    frames[-1].source = re.sub(r"^(?:│\s*)+", "", mark["source"].strip()).strip() or None
            elif not stripped or _INNER.match(stripped) or _NUMBERED.match(body):
                pending = pending if stripped else ""
            elif stripped.startswith("in ") and not pending and frames and frames[-1].function is None:
                frames[-1].function = stripped[3:].strip()
            else:
                pending, frame = self._site(pending, stripped)
                if frame is not None:
                    frames.append(frame)
            i += 1
        return frames, i

    def _site(self, pending: str, text: str) -> tuple[str, Frame | None]:
        """A frame's line, put together again where the box wrapped it."""
        for candidate in (f"{pending}{text}", f"{pending} {text}") if pending else (text,):
            m = _SITE.match(candidate)
            if m is not None:
                return "", Frame(m["path"].strip(), int(m["line"]), m["function"])
        return f"{pending}{text}" if len(pending) < 600 else "", None

    def _exception(self, page: Page, i: int, frames: list[Frame], first: int) -> tuple[Link | None, int]:
        while i < len(page.texts) and not page.texts[i].strip():
            i += 1
        if i >= len(page.texts):
            return None, i
        exc = f.split_exception(page.texts[i]) or f.split_exception(page.texts[i].strip())
        if exc is None:
            return None, i
        kind, message, _ = exc
        link = Link(kind, message, [x for x in frames if x.line is not None], line=page.lines[i], first_line=page.lines[first])
        parts = [message or ""]
        j = i + 1
        shape = page.lines[i].shape
        while j < len(page.texts) and j - i < 80:
            text = page.texts[j]
            if not text.strip() or page.lines[j].shape != shape or _TOP.match(text) or page.taken[j]:
                break
            if f.ends_message(text) or text.strip() in f.SEPARATORS or re.match(r"^\s*\[\d\d:\d\d:\d\d\]", text):
                break
            wrapped = len(page.texts[j - 1]) >= 60 and parts[-1] and not text.startswith(" ")
            if wrapped and page.texts[j - 1] and not re.search(r"[.:]$", page.texts[j - 1]):
                parts[-1] = f"{parts[-1].rstrip()} {text}"
            else:
                parts.append(text)
            j += 1
        link.message = f.trim_message(parts)
        return link, j

    def _separator(self, page: Page, i: int) -> tuple[str | None, int]:
        while i < len(page.texts) and not page.texts[i].strip():
            i += 1
        text = " ".join(t.strip() for t in page.texts[i : i + 3])
        for sentence, way in f.SEPARATORS.items():
            if text.startswith(sentence):
                covered = 0
                while len(" ".join(t.strip() for t in page.texts[i : i + covered])) < len(sentence):
                    covered += 1
                j = i + covered
                while j < len(page.texts) and not page.texts[j].strip():
                    j += 1
                return way, j
        return None, i
