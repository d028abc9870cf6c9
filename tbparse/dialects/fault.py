"""faulthandler's dumps and fatal interpreter errors: frames MOST RECENT FIRST, ``line N in f`` without a comma.

Formats: Python/traceback.c and Modules/faulthandler.c, CPython 3.3 to 3.14 (3.14 prints a thread's name in brackets).
"""

from __future__ import annotations

import re

from tbparse.dialects.base import Page
from tbparse.dialects.frames import read_frame
from tbparse.records import Failure, Frame, Link

_FATAL = re.compile(
    r"^(?:.*[^\w\s])?[ \t]?(?:Fatal Python error: (?P<what>.+)|Windows fatal exception: (?P<windows>.+)|(?P<later>Timeout \(\d[\d:.]*\)!))$",
    re.MULTILINE,
)
# Ray's crash handler heads the one stack that it prints with "Stack".
_THREAD = re.compile(
    r"^(?:Stack|(?P<current>Current thread|Thread) 0x[0-9a-fA-F]+(?: \[[^\]]*\])?(?: [^()]*)?) ?\(most recent call first\):$"
)
_FRAME = re.compile(r'^\s*File "(?P<path>[^"]+)", line (?P<line>\d+|\?\?\?) in (?P<function>.+?)\s*$')
_TAIL = re.compile(
    r"^(?:Extension modules:|Current thread's C stack|\s*Binary file|Python runtime state|<truncated|\s*<no Python frame>|\s*\.\.\.)"
)
_TIMEOUT = re.compile(r"\+{10,} Timeout \+{10,}$", re.MULTILINE)
_STACK = re.compile(r"^~+ Stack of (?P<name>.+?) \(\d+\) ~+$")
_SIGNALS = {
    "Segmentation fault": 11, "Aborted": 6, "Bus error": 7, "Floating point exception": 8, "Floating-point exception": 8,
    "Illegal instruction": 4, "access violation": 11,
}  # fmt: skip


class FaultDialect:
    """Row 14 of the dialects."""

    name = "faulthandler"

    def read(self, page: Page) -> list[Failure]:
        out = []
        for i, _ in page.find(_FATAL):
            m = _FATAL.match(page.texts[i])
            if m is None:
                continue
            what = (m["what"] or m["windows"] or m["later"]).strip()
            threads: list[tuple[bool, list[Frame]]] = []
            j = i + 1
            while j < len(page.texts) and j - i < 5000:
                text = page.texts[j]
                if t := _THREAD.match(text):
                    threads.append((t["current"] in (None, "Current thread"), []))
                elif (fr := _FRAME.match(text)) and threads:
                    line = int(fr["line"]) if fr["line"].isdigit() else None
                    threads[-1][1].append(Frame(fr["path"], line, fr["function"]))
                elif text.strip() and not _TAIL.match(text):
                    break
                j += 1
            if m["later"] and not threads:
                continue
            current = next((fs for now, fs in threads if now), threads[0][1] if threads else [])
            link = Link(None, what, list(reversed(current)), line=page.lines[i], first_line=page.lines[i])
            first, last = page.lines[i], page.lines[min(max(i, j - 1), len(page.lines) - 1)]
            failure = Failure("fault", self.name, [link], first, last, first.stream, first.tags)
            failure.signal = next((n for word, n in _SIGNALS.items() if what.startswith(word)), 6 if m["what"] else None)
            if m["later"]:
                failure.fate, failure.fate_why, failure.signal = (
                    "logged",
                    "a watchdog dumped the stacks; the process went on",
                    None,
                )
            page.take(i, max(i, j - 1))
            out.append(failure)
        out += self._timeouts(page)
        return out

    def _timeouts(self, page: Page) -> list[Failure]:
        """pytest-timeout's dump: ``+++ Timeout +++``, a stack a thread, outermost first, ``+++ Timeout +++``."""
        marks = [i for i, _ in page.find(_TIMEOUT)]
        out = []
        for start, end in zip(marks[::2], marks[1::2], strict=False):
            stacks: dict[str, list[Frame]] = {}
            name = ""
            for text in page.texts[start + 1 : end]:
                if m := _STACK.match(text):
                    name = m["name"]
                elif frame := read_frame(text):
                    stacks.setdefault(name, []).append(frame)
                elif stacks.get(name) and text.startswith("    ") and stacks[name][-1].source is None:
                    stacks[name][-1].source = text.strip()
            frames = stacks.get("MainThread") or next(iter(stacks.values()), [])
            link = Link(None, "Timeout", frames, line=page.lines[start], first_line=page.lines[start])
            out.append(
                Failure(
                    "fault", self.name, [link], page.lines[start], page.lines[end], page.lines[start].stream, page.lines[start].tags
                )
            )
            page.take(start, end)
        return out
