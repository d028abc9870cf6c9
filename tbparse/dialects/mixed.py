"""Tracebacks of several processes that came line by line into one stream without prefixes (row 22 of the dialects).

Which frame is whose cannot be told any more; the exception lines still say what was raised. Each that no traceback has claimed becomes
a failure of its own, and what was read across the mixture is marked as damaged, so that nothing in it is lost or believed too much.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tbparse.dialects import frames as f
from tbparse.dialects.base import Page
from tbparse.records import Failure, Link

MIXED = "several processes wrote into one another here, without prefixes"
ALONE = f"{MIXED}: no traceback stands whole above the exception line"
ACROSS = f"{MIXED}: frames and message may belong to different ones"
MAX_REGION = 2000
_STRANGERS = 3
_HEADER = "Traceback (most recent call last):"
# An exception line that stands behind half of another writer's line.
_INSIDE = re.compile(r"(?<![\w.'\"(])(?P<type>(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)): (?P<message>\S.*)$")
_TYPED = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Iteration)(?::\s|$)")
# At the margin, or right behind another writer's half line; behind a blank or a gutter it is quoted or a group's.
_OPENS = re.compile(r"(?:^|(?<=[^\s|>\"']))Traceback \(most recent call last\):")
_TAIL = re.compile(r"(?:Traceback \(most recent call last\):|\s{2,}File \"|\s{4,}\S+\().*$")


def sort_out(page: Page, failures: list[Failure]) -> list[Failure]:
    """The failures of a page, and those that only an exception line inside a mixture tells of."""
    texts = page.texts
    regions = list(_regions(texts))
    if not regions:
        return failures
    index = {id(line): i for i, line in enumerate(page.lines)}
    out = list(failures)
    for start, end in regions:
        claimed: set[int] = set()
        for failure in failures:
            first = index.get(id(failure.first))
            if failure.kind != "traceback" or first is None or not start <= first < end:
                continue
            failure.damaged = ACROSS if failure.root.frames else ALONE
            for link in failure.links:
                at = index.get(id(link.line)) if link.line is not None else None
                if at is not None:
                    claimed.add(at)
                if link.message is not None:
                    link.message = _own(link.message)
        for i in range(start, end):
            found = _raised(texts[i])
            if i in claimed or found is None:
                continue
            line = page.lines[i]
            page.take(i, i)
            link = Link(found[0], found[1], [], line=line, first_line=line)
            out.append(Failure("traceback", "mixed", [link], line, line, line.stream, line.tags, damaged=ALONE))
    out.sort(key=lambda failure: failure.first.start)
    return out


def _regions(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Stretches in which a traceback begins before the one above it has come to its exception line."""
    i = 0
    while i < len(texts):
        if _HEADER not in texts[i] or not _OPENS.search(texts[i]):
            i += 1
            continue
        opened, mixed, strangers, j = 0, False, 0, i
        while j < len(texts) and j - i < MAX_REGION and strangers <= _STRANGERS:
            text = texts[j]
            begun = len(_OPENS.findall(text)) if _HEADER in text else 0
            if begun:
                opened += begun
                mixed = mixed or opened > 1
                strangers = 0
            elif text.strip() in f.SEPARATORS:
                break  # what stands above it in a chain has come to its end
            elif _raised(text) is not None or (text[:1] not in (" ", "\t") and f.split_exception(text) is not None):
                opened -= 1
                strangers = 0
                if opened <= 0 and not mixed:
                    break
            elif text[:1] in (" ", "\t"):
                strangers = 0
            elif text.strip():
                strangers += 1
            elif opened <= 0:
                break
            j += 1
        if mixed:
            yield i, min(len(texts), j + 1)
        i = max(j, i + 1)


def _raised(text: str) -> tuple[str, str] | None:
    """Type and message of an exception line, also where it stands behind another writer's half line."""
    if text[:1] not in (" ", "\t") and _TYPED.match(text):
        found = f.split_exception(text, lone=True) or f.split_exception(text)
        if found is not None:
            return found[0], _own(found[1] or "")
    m = _INSIDE.search(text)
    if m is None or "raise " in text[: m.start()]:
        return None
    return m["type"], _own(m["message"])


def _own(message: str) -> str:
    """A message without the lines, or the rest of the line, that another writer put into it."""
    lines = message.split("\n")
    keep = 1
    while (
        keep < len(lines)
        and lines[keep][:1] not in (" ", "\t", "")
        and _raised(lines[keep]) is None
        and not lines[keep].startswith(_HEADER)
    ):
        keep += 1
    lines = lines[:keep]
    lines[-1] = _TAIL.sub("", lines[-1]).rstrip()
    return "\n".join(lines)
