"""A bare ``Type: message`` line that no traceback claims: what is left when only the last line was logged."""

from __future__ import annotations

import re

from tbparse.dialects import frames as f
from tbparse.dialects.base import Page
from tbparse.records import Failure, Frame, Link

_LONE = re.compile(
    r"^[ \t]{0,12}(?:\^* ?)?(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Timeout|Failure|Refused|Aborted)(?:\(\w+\))?(?:: .*|:|\s*)$",
    re.MULTILINE,
)
_LOOK = re.compile(r"(?:Error|Exception|Interrupt|Timeout|Failure|Refused|Aborted)\b")
_CARETS = re.compile(r"^[\s^~]+")
_BELOW = re.compile(r'^\s*File "(?P<path>[^"]+)", line (?P<line>\d+),? in (?P<function>\S+)$')
_HARMLESS = re.compile(r"Warning$")


class BareDialect:
    """Rows 22 and 37 of the dialects: exception lines that survive a damaged mixture, and logs of last lines."""

    name = "bare"

    def read(self, page: Page) -> list[Failure]:
        out = []
        for i, raw in page.find(_LOOK):
            if not _LONE.match(raw):
                continue
            text = _CARETS.sub("", raw)
            exc = f.split_exception(text, lone=True)
            if exc is None or _HARMLESS.search(exc[0]):
                continue
            kind, message, _ = exc
            parts = [message or ""]
            j = i + 1
            while (
                j < len(page.texts)
                and page.texts[j].startswith((" ", "\t"))
                and j - i < 40
                and not page.taken[j]
                and not f.HEADER.search(page.texts[j])
                and f.read_frame(page.texts[j]) is None
            ):
                parts.append(page.texts[j])
                j += 1
            if raw.endswith(":") and j == i + 1 and j < len(page.texts) and self._said(page, j):
                parts.append(page.texts[j])  # pretty_errors sets the message on a line of its own
                j += 1
            frames, after = self._frames_below(page, j)
            if frames:
                j = after
            line = page.lines[i]
            page.take(i, max(i, j - 1))
            link = Link(kind, f.trim_message(parts), frames, line=line, first_line=line)
            failure = Failure("traceback", self.name, [link], line, page.lines[max(i, j - 1)], line.stream, line.tags)
            if not frames:
                failure.damaged = "no traceback stands above the exception line"
            out.append(failure)
        return out

    def _said(self, page: Page, j: int) -> bool:
        text = page.texts[j]
        return bool(text) and not page.taken[j] and not f.ends_message(text) and f.split_exception(text, lone=True) is None

    def _frames_below(self, page: Page, i: int) -> tuple[list[Frame], int]:
        """Frames that follow the exception line instead of standing above it, as Airflow 3 prints them."""
        while i < len(page.texts) and not page.texts[i].strip():
            i += 1
        frames: list[Frame] = []
        while i < len(page.texts) and not page.taken[i]:
            m = _BELOW.match(page.texts[i])
            if m:
                frames.append(Frame(m["path"], int(m["line"]), m["function"]))
            elif not (frames and page.texts[i].startswith("    ")):
                break
            i += 1
        return frames, i
