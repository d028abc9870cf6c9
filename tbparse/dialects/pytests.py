"""pytest's and unittest's reports: ``E   `` lines, ``file.py:41: KeyError``, the short summary.

Formats: pytest 6 to 9 with --tb=long, short, line, native and auto; pytest-xdist's ``[gw0]`` names a worker, not a
rank. Captured-output sections repeat what tests printed and logged: they are nobody's failure.
"""

from __future__ import annotations

import re

from tbparse.dialects import frames as f
from tbparse.dialects.base import Page
from tbparse.dialects.reader import ChainReader, relate
from tbparse.dialects.traceback import TracebackDialect
from tbparse.dialects.wrappers import is_wrapper
from tbparse.records import Failure, Frame, Line, Link

_SECTION = re.compile(r"^=+ (?P<name>[^=]+?) =+$")
_SESSION = re.compile(r"^=+ (?:test session starts|FAILURES|ERRORS|short test summary info) =+$", re.MULTILINE)
_TEST = re.compile(r"^_{3,} (?P<name>.+?) _{3,}$")
_CAPTURED = re.compile(r"^-{3,} ?Captured .*-{3,}$")
_LIVE = re.compile(r"^-{3,} live log \w+ -{3,}$")
_OUTCOME = re.compile(r"^(?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS|RERUN)\b.*\[ *\d+%\]|^\S+\.py::\S+")
_CRASHED = re.compile(r"^worker '\w+' crashed while running ")
_CONFTEST = re.compile(r"^\w*Error while loading conftest ", re.MULTILINE)
_WHERE = re.compile(r"^(?P<path>[^\s:][^:]*?|[A-Za-z]:\\[^:]*?):(?P<line>\d+)(?:: ?(?P<type>[A-Za-z_][\w.]*)?)?\s*$")
_WHERE_IN = re.compile(r"^(?P<path>[^\s:][^:]*?|[A-Za-z]:\\[^:]*?):(?P<line>\d+): in (?P<function>\S+)$")
_ERROR_LINE = re.compile(r"^E(?: {1,}(?P<text>.*))?$")
_SOURCE = re.compile(r"^>\s+(?P<source>.*)$")
_DEF = re.compile(r"^ {2,}(?:async )?def (?P<name>\w+)\(|^(?:    )+def (?P<name2>\w+)\(")
_SUMMARY = re.compile(r"^(?:FAILED|ERROR) (?P<node>\S+?)(?: - (?P<what>.*))?$", re.MULTILINE)
_RESULT = re.compile(r"^(?:=+ .*\b\d+ (?:passed|failed|error)|(?:\d+ \w+, )*\d+ (?:passed|failed|errors?)(?:, \d+ \w+)* in \d)")
_TB_LINE = re.compile(r"^(?P<path>/\S+|[A-Za-z]:\\\S+):(?P<line>\d+): (?P<rest>.*)$")


class PytestDialect:
    """Row 26 of the dialects."""

    name = "pytest"

    def read(self, page: Page) -> list[Failure]:
        out: list[Failure] = []
        i = 0
        texts = page.texts
        for i, _ in page.find(_CONFTEST):
            end = next((k for k in range(i + 1, len(texts)) if not texts[k].strip()), len(texts))
            failure = self._test(page, i, end, "conftest")
            if failure is not None:
                page.take(i, end - 1)
                out.append(failure)
        if not any(True for _ in page.find(_SESSION)) and not any(_CAPTURED.match(t) for t in texts):
            return out
        section = ""
        while i < len(texts):
            m = _SECTION.match(texts[i])
            if m:
                section = m["name"].strip()
                page.take(i, i)
                if section == "short test summary info" and not out:
                    out += self._from_summary(page, i + 1)
            elif section in ("FAILURES", "ERRORS") and (title := _TEST.match(texts[i])):
                end = self._test_end(texts, i + 1)
                failure = self._test(page, i, end, title["name"])
                if failure is not None:
                    if is_wrapper(failure.root):
                        out += self._captured_child(page, i, end)
                    out.append(failure)
                page.take(i, end - 1)
                i = end
                continue
            elif section in ("FAILURES", "ERRORS") and (line := _TB_LINE.match(texts[i])):
                failure = self._one_line(page, i, line)
                if failure is not None:
                    out.append(failure)
                page.take(i, i)
            elif _LIVE.match(texts[i]):
                end = i + 1
                while end < len(texts) and not _OUTCOME.match(texts[end]) and not _SECTION.match(texts[end]):
                    end += 1
                page.take(i, end - 1)  # what a test logs while it runs is nobody's failure
                i = end
                continue
            elif _CAPTURED.match(texts[i]) or section in ("PASSES", "XFAILURES", "XPASSES", "warnings summary"):
                end = i + 1
                while end < len(texts) and not _SECTION.match(texts[end]) and not _TEST.match(texts[end]):
                    if section in ("FAILURES", "ERRORS") and _TB_LINE.match(texts[end]):
                        break  # --tb=line prints no titles: its one line follows what was captured
                    end += 1
                page.take(i, end - 1)
                i = end
                continue
            i += 1
        self._handled(page, out)
        return out

    def _handled(self, page: Page, out: list[Failure]) -> None:
        """Failures of a session that was run again, and then passed, are handled."""
        results = [i for i, text in enumerate(page.texts) if _RESULT.match(text)]
        if len(results) < 2 or re.search(r"\b(?:failed|errors?)\b", page.texts[results[-1]]):
            return
        before = page.lines[results[-2]].start
        for failure in out:
            if failure.first.start <= before:
                failure.fate, failure.fate_why = "survived", "a later run of the tests passed"

    def _test_end(self, texts: list[str], i: int) -> int:
        while i < len(texts) and not _SECTION.match(texts[i]):
            m = _TEST.match(texts[i])
            if m and not set(m["name"]) <= {"_", " "}:
                break
            i += 1
        return i

    def _test(self, page: Page, start: int, end: int, name: str) -> Failure | None:
        frames: list[Frame] = []
        errors: list[tuple[int, str]] = []
        chains: list[tuple[list[Frame], list[tuple[int, str]], str | None, str]] = []
        source: str | None = None
        function: str | None = None
        kind: str | None = None
        captured = False
        native: list[Line] = []
        for i in range(start + 1, end):
            text = page.texts[i]
            if _CAPTURED.match(text):
                captured = True
            if captured:
                continue
            if native or f.HEADER.search(text):
                native.append(page.lines[i])
                continue
            if text.strip() in f.SEPARATORS:
                chains.append((frames, errors, kind, f.SEPARATORS[text.strip()]))
                frames, errors, kind, source, function = [], [], None, None, None
                continue
            if m := _ERROR_LINE.match(text):
                errors.append((i, m["text"] or ""))
            elif m := _SOURCE.match(text):
                source = m["source"].strip()
            elif m := _WHERE_IN.match(text):
                frames.append(Frame(m["path"], int(m["line"]), m["function"]))
            elif m := _WHERE.match(text):
                frames.append(Frame(m["path"], int(m["line"]), function, source))
                kind = m["type"] or kind
                source = function = None
            elif m := _DEF.match(text):
                function = m["name"] or m["name2"]
            elif frames and frames[-1].source is None and text.startswith("    ") and function is None:
                frames[-1].source = text.strip()
        crashed = next((t for t in page.texts[start + 1 : end] if _CRASHED.match(t)), None)
        if crashed is not None and not errors and not native:
            lost = Link(None, crashed.strip(), [], line=page.lines[start + 1], first_line=page.lines[start])
            return self._failure(page, start, end, [lost], name)
        if native and not errors:
            links, _ = ChainReader(native).chain(0)
            if links:
                return self._failure(page, start, end, relate(links), name)
        chains.append((frames, errors, kind, "root"))
        links = []
        for fr, er, kd, way in chains:
            link = self._link(page, fr, er, kd, start)
            if link is not None:
                link.relation = "cause" if way == "cause" else "context" if way == "context" else "root"
                links.append(link)
        links.reverse()
        return self._failure(page, start, end, relate(links), name) if links else None

    def _captured_child(self, page: Page, start: int, end: int) -> list[Failure]:
        """What a child printed that a test ran: the cause of the CalledProcessError that failed the test."""
        captured = next((i for i in range(start, end) if _CAPTURED.match(page.texts[i])), end)
        inner = Page([line for line in page.lines[captured + 1 : end] if not _CAPTURED.match(line.text)])
        return [x for x in TracebackDialect().read(inner) if x.fate == "fatal" and x.root.exception is not None]

    def _link(self, page: Page, frames: list[Frame], errors: list[tuple[int, str]], kind: str | None, start: int) -> Link | None:
        if not errors and kind is None:
            return None
        first = errors[0][1].strip() if errors else ""
        exc = f.split_exception(first, lone=True) or (f.split_exception(first) if kind and first.startswith(kind) else None)
        body = [t for _, t in errors]
        if exc is not None and (kind is None or exc[0].endswith(kind) or kind.endswith(exc[0])):
            kind = exc[0] if kind is None or len(exc[0]) > len(kind) else kind
            indent = len(body[0]) - len(body[0].lstrip())
            message = "\n".join([exc[1] or "", *(b[indent:] if b[:indent].isspace() else b for b in body[1:])])
        else:
            indent = min((len(b) - len(b.lstrip()) for b in body if b.strip()), default=0)
            message = "\n".join(b[indent:] for b in body)
            if kind is None:
                kind = "AssertionError" if first.startswith("assert") else None
        return Link(
            kind,
            f.trim_message([message]),
            frames,
            line=page.lines[errors[0][0] if errors else start],
            first_line=page.lines[start],
        )

    def _failure(self, page: Page, start: int, end: int, links: list[Link], name: str) -> Failure:
        for link in links:
            if link.frames and link.frames[-1].function is None:
                plain = name.partition("[")[0].rpartition(".")[2]
                if len(link.frames) == 1 or link.frames[-1].path.rpartition("/")[2].startswith("test"):
                    link.frames[-1].function = plain
            if link.frames and link.frames[0].function is None:
                link.frames[0].function = name.partition("[")[0].rpartition(".")[2]
        first, last = page.lines[start], page.lines[min(end - 1, len(page.lines) - 1)]
        return Failure("traceback", self.name, links, first, last, first.stream, first.tags._replace(process=name))

    def _one_line(self, page: Page, i: int, m: re.Match[str]) -> Failure | None:
        exc = f.split_exception(m["rest"], lone=True)
        kind, message = (exc[0], exc[1]) if exc else ("AssertionError", m["rest"])
        link = Link(kind, message, [Frame(m["path"], int(m["line"]), None)], line=page.lines[i], first_line=page.lines[i])
        line = page.lines[i]
        return Failure("traceback", self.name, [link], line, line, line.stream, line.tags)

    def _from_summary(self, page: Page, i: int) -> list[Failure]:
        out = []
        while i < len(page.texts) and not _RESULT.match(page.texts[i]):
            m = _SUMMARY.match(page.texts[i])
            if m:
                path = m["node"].split("::")[0]
                exc = f.split_exception(m["what"] or "", lone=True)
                kind = exc[0] if exc else ("AssertionError" if (m["what"] or "").startswith("assert") else None)
                link = Link(kind, exc[1] if exc else m["what"], [], line=page.lines[i], first_line=page.lines[i])
                line = page.lines[i]
                failure = Failure("traceback", self.name, [link], line, line, line.stream, line.tags._replace(process=m["node"]))
                failure.damaged = "only the short summary is in the log"
                del path
                out.append(failure)
            i += 1
        return out
