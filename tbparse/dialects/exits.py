"""Ends without a traceback: usage errors, a script that cannot be opened, a command that is not found, Hydra's short text.

Formats: argparse, click and typer (plain and rich), CPython's main, bash and dash, Hydra 1.1 to 1.3.
"""

from __future__ import annotations

import re

from tbparse.dialects.base import Page
from tbparse.records import Failure, Link

_USAGE = re.compile(r"^[ \t]*(?:ERROR: )?(?:usage|Usage|USAGE): ?\S?", re.MULTILINE)
_ERROR = re.compile(r": error: ")
_REFUSED = re.compile(
    r"can't |No module named|module specification|not found|No such file|Permission denied|cannot execute|bad interpreter"
)
_ARGPARSE = re.compile(r"^(?P<prog>[^\s:][^:\n]{0,120}?): error: (?P<message>.+)$", re.MULTILINE)
_CLICK = re.compile(r"^(?:Error: (?P<message>.+)|[╭┌+][─-]+ Error [─-]+[╮┐+])$", re.MULTILINE)
_REFUSALS = re.compile(
    r"(?:argument \S+.*: |unrecognized arguments: |the following arguments are required: |one of the arguments |ambiguous option: |invalid choice: )"
)
_ERROR_TITLE = re.compile(r"^Error: |[─-] Error [─-]", re.MULTILINE)
# fire, absl and pytest refuse a command line in words of their own, without a usage text above.
_OWN_WORDS = re.compile(
    r"Could not consume arg|Flags parsing error|file or directory not found|unrecognized arguments|ERROR: not found: |Cannot find key|received no value for"
)
_OWN = re.compile(
    r"^(?:(?:ERROR: )?(?P<words>Could not consume arg: .*|file or directory not found: .*)"
    r"|ERROR: (?P<marked>unrecognized arguments: .*|not found: .*|Cannot find key: .*|The function received no value for the required argument: .*)"
    r"|FATAL (?P<fatal>Flags parsing error:.*))$"
)
_CANNOT_OPEN = re.compile(
    r"^[ \t]*(?P<message>(?:\S*/)?(?:python|pypy)[\w.]*(?:\.exe)?: (?:can't open file .+|can't find '__main__' module in .+|No module named .+|Error while finding module specification for .+))$",
    re.MULTILINE,
)
_NOT_FOUND = re.compile(
    r"^(?P<message>(?:\S*(?:sh|bash|zsh|\.sh)(?:: (?:line )?\d+)?: .+: (?:command not found|not found|No such file or directory|Permission denied|cannot execute.*|bad interpreter.*)"
    r"|env: .+: No such file or directory|exec: .*executable file not found.*))$",
    re.MULTILINE,
)
_HYDRA = re.compile(r"Set the environment variable HYDRA_FULL_ERROR=1|set env var HYDRA_FULL_ERROR=1")
_HYDRA_FIRST = re.compile(
    r"^(?:Error executing job with overrides|Error (?:locating target|in call to target|instantiating)|Could not |In '|Key '|Missing |Error parsing|Multiple values|Error merging|Config|Cannot find|Primary |Ambiguous|Unable to find)"
)
_GRACEFUL = re.compile(r"(?P<message>Detected KeyboardInterrupt, attempting graceful shutdown.*)")


class ExitDialect:
    """Row 16 of the dialects, and the messages of row 30 that have no traceback."""

    name = "exit"

    def read(self, page: Page) -> list[Failure]:
        out = []
        for i, text in page.find(_ERROR):
            m = _ARGPARSE.match(text)
            if not m or not (_REFUSALS.match(m["message"]) or self._usage_above(page, i, 600)):
                continue
            out.append(self._make(page, i, text.strip(), "usage", 2))
        for i, text in page.find(_ERROR_TITLE):
            if not _CLICK.match(text) or not self._usage_above(page, i, 8):
                continue
            message = text
            if not text.startswith("Error"):
                body = []
                j = i + 1
                while j < len(page.texts) and page.texts[j].lstrip().startswith(("│", "|")):
                    body.append(page.texts[j].strip(" │|"))
                    j += 1
                message = "Error: " + " ".join(body)
            out.append(self._make(page, i, message.strip(), "usage", 2))
        for i, text in page.find(_OWN_WORDS):
            level = page.levels.get(i)  # what stands before the words was read as a log level, behind a time
            if m := _OWN.match(f"{level}: {text}" if level == "ERROR" else f"{level} {text}" if level == "FATAL" else text):
                message = (m["words"] or m["marked"] or m["fatal"]).strip()
                if message.endswith(":") and i + 1 < len(page.texts):
                    message = f"{message} {page.texts[i + 1].strip()}"
                out.append(
                    self._make(page, i, message, "usage", 4 if "directory not found" in m[0] else 1 if "FATAL" in m[0] else 2)
                )
        for i, text in page.find(_REFUSED):
            for pattern, code in ((_CANNOT_OPEN, 2), (_NOT_FOUND, 127)):
                if not pattern.match(text):
                    continue
                exit_code = (
                    1
                    if "No module named" in text or "module specification" in text
                    else 126
                    if "ermission denied" in text
                    else code
                )
                out.append(self._make(page, i, text.strip(), "exit", exit_code))
                break
        for i, text in page.find(_GRACEFUL):
            m = _GRACEFUL.search(text)
            failure = self._make(page, i, m["message"] if m else text, "exit", None)
            failure.links[0].exception, failure.signal = "KeyboardInterrupt", 2
            out.append(failure)
        for i, _ in page.find(_HYDRA):
            refused = self._hydra(page, i)
            if refused is not None:
                out.append(refused)
        return out

    def _usage_above(self, page: Page, i: int, reach: int) -> bool:
        return any(_USAGE.match(t) for t in page.texts[max(0, i - reach) : i])

    def _make(self, page: Page, i: int, message: str, kind: str, code: int | None) -> Failure:
        line = page.lines[i]
        page.take(i, i)
        link = Link(None, message, [], line=line, first_line=line)
        failure = Failure("usage" if kind == "usage" else "exit", self.name, [link], line, line, line.stream, line.tags)
        failure.exit_code = code
        return failure

    def _blank_inside(self, page: Page, j: int) -> bool:
        """A blank line within Hydra's text: what it begins with stands somewhere in the paragraph above."""
        k = j - 1
        while k >= 0 and page.texts[k].strip():
            if _HYDRA_FIRST.match(page.texts[k]):
                return True
            k -= 1
        return False

    def _hydra(self, page: Page, i: int) -> Failure | None:
        """The text above Hydra's closing hint, when no traceback stands there."""
        j = i - 1
        while j >= 0 and not page.texts[j].strip():
            j -= 1
        end = j
        if "HYDRA_FULL_ERROR" in page.texts[i] and not page.texts[i].startswith("Set "):
            end = j = i
            while end + 1 < len(page.texts) and page.texts[end + 1].startswith("full_key:"):
                end += 1
        first = -1
        while j >= 0 and end - j < 40 and not page.taken[j] and (page.texts[j].strip() or self._blank_inside(page, j)):
            if _HYDRA_FIRST.match(page.texts[j]) and not page.texts[j].startswith("Error executing"):
                first = j  # the highest line of the paragraph that can begin it
            j -= 1
        j = first
        if j < 0 or page.taken[j] or not _HYDRA_FIRST.match(page.texts[j]) or page.texts[j].startswith("Error executing"):
            return None
        failure = self._make(page, j, "\n".join(page.texts[j : end + 1]).strip(), "exit", 1)
        failure.last = page.lines[end]
        page.take(j, i)
        return failure
