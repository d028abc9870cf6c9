"""A bare ``Type: message`` line that no traceback claims: what is left when only the last line was logged."""

from __future__ import annotations

import re

from tbparse.dialects import frames as f
from tbparse.dialects.base import Page
from tbparse.records import Failure, Link

_LONE = re.compile(
    r"^[ \t]{0,12}(?:\^* ?)?(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Timeout|Failure|Refused|Aborted)(?:\(\w+\))?(?:: .*|:|\s*)$",
    re.MULTILINE,
)
_LOOK = re.compile(r"(?:Error|Exception|Interrupt|Timeout|Failure|Refused|Aborted)\b")
_CARETS = re.compile(r"^[\s^~]+")
_HARMLESS = re.compile(r"Warning$")


class BareDialect:
    """Rows 22 and 37 of the dialects: exception lines that survive a damaged mixture, and logs of last lines."""

    name = "bare"
    triggers = ("Error", "Exception", "Interrupt", "Timeout", "Failure", "Refused", "Aborted")

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
            line = page.lines[i]
            page.take(i, max(i, j - 1))
            link = Link(kind, f.trim_message(parts), [], line=line, first_line=line)
            failure = Failure("traceback", self.name, [link], line, page.lines[max(i, j - 1)], line.stream, line.tags)
            failure.damaged = "no traceback stands above the exception line"
            out.append(failure)
        return out
