"""The grammar of CPython's tracebacks: chains, groups, notes, and tracebacks inside messages.

One reader serves every dialect that prints ``File "…", line N, in f`` lines: it works on a list of lines
whose prefixes and indentation are off, so a dialect that nests a traceback hands over a dedented copy.
Formats: CPython's traceback module (2.7–3.14), multiprocessing.pool.RemoteTraceback, torch's
ExceptionWrapper and spawn, ray.exceptions.RayTaskError, torch._dynamo, loguru.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tbparse.dialects import frames as f
from tbparse.dialects.messages import PARAGRAPHS, RESUMES, give_back, lines_shown, message_ends, take_rank
from tbparse.records import Frame, Line, Link, text_of

MAX_DEPTH = 12
"""CPython prints groups ten deep and no more; deeper nesting is not a traceback of its making."""
MAX_MESSAGE_LINES = 400
MIN_WIDTH = 60
MAX_LOOSE_LINES = 40
"""How many unindented lines may follow an exception line as its message."""

_NEST_SENTENCES = ("Original Traceback (most recent call last):",)
_TERMINATED = re.compile(r"^(?:-- )?Process (\d+) terminated with the following error:$")  # Paddle puts it between two rulers
_SUB_OPEN = re.compile(r"^\+-\+-{4,} (?:\d+|\.\.\.) -{4,}$")
_SUB_NEXT = re.compile(r"^\+-{4,} (?:\d+|\.\.\.) -{4,}$")
_SUB_END = re.compile(r"^\+-{8,}$")
_GROUP_HEADER = re.compile(r"^(?P<gutter> *)[+|] Exception Group Traceback \(most recent call last\):$")
_BARE_GROUP = re.compile(r"^(?P<gutter> *)\| [A-Za-z_][\w.]*: .*\(\d+ sub-exceptions?\)$")  # one that was never raised
_SNIPPET = re.compile(r"^\[Rank (?P<rank>\d{1,6}) Error Snippet\]:$")
_PROFILE = re.compile(r"^ +\d+ function calls (?:\(\d+ primitive calls\) )?in \d")  # cProfile prints it at the exit
_GROUP_INNER = "Exception Group Traceback (most recent call last):"
_DEVICE = re.compile(r"in replica (\d+) on device (\d+)")
_RAY_TASK = re.compile(r"^(?P<name>ray::[^\s(]+(?:\([^)]*\))?)\s*\((?P<info>[^()]*(?:\([^()]*\)[^()]*)*)\)?")
_SYNTAX = re.compile(r"^(?:SyntaxError|IndentationError|TabError): ")
_POINTED = re.compile(r"^-{2,}> +\d+ (?P<source>.*)$")  # stackprinter shows lines around the one that raised
_BANNER = re.compile(r"^[*=#-]{16,}$")
_RULER = re.compile(r"^-{10,}$")
_REMOTE_OPEN = re.compile(r"^[\w.]*RemoteTraceback:\s*$")
_SUBPROCESS = "An exception occurred in a subprocess:"  # inductor's compile workers; a blank line and `Name=` follow
_OF_RANKS = "CheckpointException ranks:"  # torch.distributed.checkpoint quotes each rank's traceback, and closes it with its number
_REMOTE_HEADER = re.compile(r"^: \S.*Exception: Traceback \(most recent call last\):\s*$")  # the same, through py4j
_JAVA = re.compile(r"^\s+at [\w.$/<>]+\([^()]*\)$")
_POINTS_DOWN = re.compile(r"(?:[Ss]tack ?trace|[Tt]raceback) below[:.]?\s*$")  # pyspark quotes the worker's traceback
_MORE = re.compile(r"^(?:and )?\d+ more exceptions?$|^\.\.\. \(max_group_depth is \d+\)$")


class ChainReader:
    """Reads chains from a list of lines (with ``text`` free of prefixes and outer indentation)."""

    def __init__(self, lines: Sequence[Line], depth: int = 0) -> None:
        self.lines = lines
        self.texts = list(map(text_of, lines))
        self.depth = depth
        self.damaged: str | None = None
        self.width = 0
        """Where a terminal cut the lines of a copied log; 0 where nothing tells."""
        self._extra_frames: list[Frame] = []
        self._leaves: list[list[Link]] = []
        self._elided = False

    def chain(self, i: int) -> tuple[list[Link], int]:
        """The chain that starts at line ``i`` (a header, a frame, or an exception line before a separator).

        Returns its links outermost first, and the index of the first line that is not part of it. Each link's
        ``relation`` says here how the one before it came from it; :func:`relate` turns that round at the end.
        """
        printed: list[tuple[list[Link], str]] = []  # as printed: innermost first
        while True:
            links, end = self._one(i)
            if not links:
                break
            separator = self._separator(end)
            if separator is None:
                printed.append((links, "root"))
                i = end
                break
            relation, after = separator
            printed.append((links, relation))
            start = self._skip_blank(after)
            if start >= len(self.texts) or not self._starts(start):
                i = after
                break
            i = start
        out: list[Link] = []
        nested: list[Link] = []
        for position, (links, relation) in enumerate(reversed(printed)):
            head = links[0]
            # The separator after a link says how it led to the one printed next, which stands before it in `out`.
            head.relation = "root" if position == 0 else ("cause" if relation == "cause" else "context")
            out.append(head)
            nested = links[1:] + nested if position == 0 else nested + links[1:]
        out += nested
        return out, i

    def _one(self, i: int) -> tuple[list[Link], int]:
        text = self.texts[i]
        if _GROUP_HEADER.match(text) or _BARE_GROUP.match(text):
            return self._group(i)
        if text == _GROUP_INNER:
            return self._traceback(i + 1, i, group=True)
        if text.endswith(("Traceback (most recent call last):", "Traceback (most recent call last)")):
            return self._traceback(i + 1, i)
        if f.read_frame(text):
            return self._traceback(i, i)
        if _REMOTE_OPEN.match(text) and i + 1 < len(self.texts) and self.texts[i + 1] == '"""':
            return self._exception(i, (text.rstrip(": "), "", None), [], i)
        lone = f.split_exception(text, lone=True) or (f.split_exception(text) if self._separator(i + 1) else None)
        if lone is None:
            return [], i
        return self._exception(i, lone, [], i)

    def _starts(self, i: int) -> bool:
        text = self.texts[i]
        if "Traceback (most recent call last)" in text or f.read_frame(text) or _BARE_GROUP.match(text):
            return True
        return f.split_exception(text, lone=True) is not None or (
            f.split_exception(text) is not None and self._separator(i + 1) is not None
        )

    def _separator(self, i: int) -> tuple[str, int] | None:
        """Relation and next index when a separator sentence stands at or after blank lines at ``i``."""
        j = self._skip_blank(i + 1 if i < len(self.texts) and self.texts[i] == '"""' else i)
        if j >= len(self.texts) or j - i > 4:
            return None
        text = self.texts[j].strip()
        if text in f.SEPARATORS:
            return f.SEPARATORS[text], j + 1
        if j + 1 < len(self.texts) and text.startswith(("The above exception", "During handling")):  # wrapped
            joined = f"{text} {self.texts[j + 1].strip()}"
            if joined in f.SEPARATORS:
                return f.SEPARATORS[joined], j + 2
        return None

    def _skip_blank(self, i: int) -> int:
        while i < len(self.texts) and not self.texts[i].strip():
            i += 1
        return i

    def _traceback(self, i: int, first: int, *, group: bool = False) -> tuple[list[Link], int]:
        frames, i = self._frames(i)
        if i >= len(self.texts):  # the log ends in the middle of it
            return ([self._cut(frames, first)] if frames or self.depth == 0 else []), i
        exc = f.split_exception(self.texts[i])
        if exc is None:
            return ([self._cut(frames, first)] if frames else []), i
        if not frames and f.split_exception(self.texts[i], lone=True) is None and not group:
            return [], i
        return self._exception(i, exc, frames, first)

    def _cut(self, frames: list[Frame], first: int) -> Link:
        line = self.lines[min(first, len(self.lines) - 1)]
        return Link(None, None, frames, line=line, first_line=line)

    def frames_only(self, i: int) -> int:
        """Where the frames from line ``i`` on end."""
        return self._frames(i)[1]

    def _frames(self, i: int) -> tuple[list[Frame], int]:
        """Frames from ``i`` on; stops at the exception line or at what cannot be part of a traceback."""
        frames: list[Frame] = []
        last: Frame | None = None
        texts, n = self.texts, len(self.texts)
        strays, flat = 0, False
        while i < n:
            text = texts[i]
            frame = None
            if not text:
                j = self._skip_blank(i)
                if j < n and j - i <= 2 and (f.read_frame(texts[j]) or (frames and self._spaced(i, j))):
                    i = j
                    continue
                break
            filed = "File " in text
            frame = f.read_frame(text) if filed else None
            if frame is not None:
                frames.append(frame)
                last = frame
            elif text[0] in " \t":
                if last is not None and last.source is None and f.is_source_text(stripped := text.lstrip()):
                    last.source = stripped
                if filed and i + 1 < n and text.lstrip().startswith('File "'):  # a File line that a terminal wrapped
                    joined = f.read_frame(text + texts[i + 1]) or f.read_frame(text + texts[i + 1].lstrip())
                    if joined is not None:
                        frames.append(joined)
                        last = joined
                        i += 1
            elif f.HEADER.search(text):
                torn = i > 0 and ("File " in texts[i - 1] or f.HEADER.search(texts[i - 1]) is not None)
                if torn and i + 1 < n and f.read_frame(texts[i + 1]):
                    self.damaged = self.damaged or "two tracebacks are mixed together"
                else:
                    break
            elif text.startswith(("> File", "│", "└")) or set(text) <= set("^~ "):
                pass
            elif frames and (arrow := _POINTED.match(text)):
                frames[-1].source = arrow["source"].strip() or None
            elif f.split_exception(text, lone=True) is not None or (
                f.split_exception(text) is not None and not self._frame_follows(i)
            ):
                break
            elif frames and flat and frames[-1].source is None:
                frames[-1].source = text.strip()  # indentation was lost on the way: the source stands at the margin
            elif last is not None and last.source is not None and self._wrapped(i, last.source):
                last.source += text
            else:
                strays += 1
                if strays > 3 or not self._frame_follows(i):
                    break
                self.damaged = self.damaged or "other text stands between the frames"
            if frame is not None:
                strays, flat = 0, text[0] == "F"
            i += 1
        return frames, i

    def _wrapped(self, i: int, source: str) -> bool:
        """Whether line ``i`` is what a terminal's edge cut off the source line above it."""
        before = self.texts[i - 1]
        if len(before) < MIN_WIDTH or before.lstrip() != source or i + 1 >= len(self.texts):
            return False
        below = self.texts[i + 1]
        if f.split_exception(below, lone=True) is None and f.read_frame(below) is None:
            return False
        self.width = len(before)
        return True

    def _spaced(self, i: int, j: int) -> bool:
        """A blank line between frames and exception line is loguru's habit, where frames are set apart too."""
        text = self.texts[j]
        return (text[:1] in " >│└" and text.strip() != "") or f.split_exception(text, lone=True) is not None

    def _frame_follows(self, i: int) -> bool:
        for text in self.texts[i + 1 : i + 4]:
            if f.HEADER.search(text):
                return False
            if f.read_frame(text):
                return True
        return False

    def _exception(
        self, i: int, exc: tuple[str, str | None, str | None], frames: list[Frame], first: int
    ) -> tuple[list[Link], int]:
        kind, message, inner_type = exc
        link = Link(kind, message, frames, line=self.lines[i], first_line=self.lines[first])
        shown = lines_shown(message or "", frames, self.texts[i + 1 : i + 81]) if frames else 0
        if shown:
            parts, nested, end = [message or "", *self.texts[i + 1 : i + 1 + shown]], list[Link](), i + 1 + shown
        else:
            parts, nested, end = self._message(i, message or "", inner_type is not None)
        while self.width and len(parts) > 1 and not nested:
            cut = self.lines[end - len(parts)]
            if abs(len(cut.text) - self.width) > 1:
                break
            blank = " " if not cut.shape and cut.end - cut.start > len(cut.text.encode()) else ""  # it went with the line's end
            parts[:2] = [f"{parts[0]}{blank}{parts[1]}"]
        if len(parts) > 1 and not (shown or nested or self._leaves or self._extra_frames):
            ends = message_ends(kind, parts[0], frames)
            if ends:
                keep = next((k for k, p in enumerate(parts) if k and p and (ends == "line" or p[0] not in " \t")), len(parts))
                parts, end = parts[:keep], min(end, i + keep)
        link.message = f.trim_message(parts)
        device = _DEVICE.search(link.message) if nested else None
        if device:
            link.process = f"replica {device[1]}"
        if inner_type is not None and nested and link.message:
            ray = _RAY_TASK.match(link.message)
            if ray:
                info = dict(p.strip().split("=", 1) for p in ray["info"].split(",") if "=" in p)
                link.process, link.host = ray["name"], info.get("ip")
        if inner_type is not None and not nested:
            nested = [
                Link(
                    inner_type.rpartition(".")[2] if "." not in inner_type else inner_type,
                    link.message,
                    [],
                    line=link.line,
                )
            ]
        for n in nested:
            if n.relation == "root":
                n.relation = "remote"
        frames += self._extra_frames
        self._extra_frames = []
        if self._leaves:
            leaves, self._leaves = self._leaves, []
            for leaf in leaves:
                leaf[0].relation = "group"
            nested = leaves[0] + nested
            link.leaves = leaves[1:]
        link.elided, self._elided = self._elided, False
        return [link, *nested], end

    def _message(self, i: int, text: str, remote: bool) -> tuple[list[str], list[Link], int]:
        """Message lines after the exception line at ``i``, the chain nested in them, and where they end."""
        parts, nested = [text], list[Link]()
        texts, lines, n = self.texts, self.lines, len(self.texts)
        shape, loose = lines[i].shape, 0
        one_record = "json" in shape and i > 0 and lines[i - 1].no == lines[i].no  # the whole traceback is in one object
        j = i + 1
        process = None
        if remote and j < n and f.read_frame(texts[j]):
            nested, j = self._nested(j)
        while j < n and j - i < MAX_MESSAGE_LINES:
            t = texts[j]
            if not t:
                k = self._skip_blank(j)
                if k >= n or k - j > 3 or not (self._resumes(k, shape, parts) or self._leads_to_separator(k, shape)):
                    break
                parts += [""] * (k - j)
                j = k
                continue
            if lines[j].shape != shape or (one_record and lines[j].no != lines[i].no):
                break
            if not nested and parts[0] and "ray::" in parts[0] and f.read_frame(t):
                nested, j = self._nested(j)  # an actor's own traceback, quoted without a header
                parts = [p for p in parts if f.is_source_text(p.strip())]
                continue
            stripped = t.strip()
            if stripped in f.SEPARATORS or (
                stripped.startswith(("The above exception was", "During handling of")) and self._separator(j)
            ):
                break
            if nested and (stripped in _NEST_SENTENCES or _TERMINATED.match(t)):
                break  # one message quotes one chain; what is nested deeper was read with it
            if stripped in _NEST_SENTENCES:
                nested, j = self._nested(j)
                continue
            m = _TERMINATED.match(t)
            if m:
                process = int(m[1])
                k = self._skip_blank(j + 2 if j + 1 < n and _RULER.match(texts[j + 1]) else j + 1)
                if k < n and f.HEADER.search(texts[k]):
                    parts.append(t)
                    nested, j = self._nested(k)
                    for link in nested:
                        link.rank = process if link.rank is None else link.rank
                    continue
            snippet = _SNIPPET.match(t)
            if snippet and j + 1 < n and f.HEADER.search(texts[j + 1]) and not nested:
                parts.append(t)
                nested, j = self._nested(j + 1)  # Ray Train quotes the failed worker's traceback
                for link in nested:
                    link.rank = int(snippet["rank"]) if link.rank is None else link.rank
                break
            if _RULER.match(t) and j + 1 < n and f.HEADER.search(texts[j + 1]) and parts[-1].rstrip().endswith(":") and not nested:
                nested, j = self._nested(j + 1)  # submitit quotes the job's traceback between two rules
                break
            if t == '"""' and not (j + 1 < n and f.HEADER.search(texts[j + 1])):
                break
            if t == '"""':
                nested, j = self._nested(j + 1)
                j = self._skip_blank(j)
                if j < n and texts[j] == '"""':
                    j += 1
                break
            if stripped == "from user code:":
                self._extra_frames, j = self._frames(j + 1)
                for frame in self._extra_frames:
                    frame.hint_user = True
                continue
            if _SUB_OPEN.match(t):
                self._leaves, j = self._subs(j)
                continue
            if (
                not nested
                and f.HEADER.search(t)
                and (
                    _POINTS_DOWN.search(parts[-1])
                    or _REMOTE_HEADER.search(t)
                    or parts[0].endswith(_SUBPROCESS)
                    or parts[0].startswith(_OF_RANKS)
                )
            ):
                nested, j = self._nested(j)
                take_rank(nested)
                break
            if f.HEADER.search(t) and j + 1 < n and (f.read_frame(texts[j + 1]) or self._exception_at(j + 1)):
                j = give_back(parts, nested, j)
                break
            if _BANNER.match(t) and len(parts) == 1 and not parts[0].strip():
                stop = next((k for k in range(j + 1, min(j + 40, n)) if texts[k] == t), j)
                if stop > j and all(x[:1] in ("", " ") for x in texts[j + 1 : stop]):  # a message framed like a notice
                    parts += texts[j : stop + 1]
                    j = stop + 1
                    break
            if t[0] in " \t":
                if j == i + 1 and not nested and text[-1:] not in (":", "", ",", "(", "[", "{") and f.PROGRESS.search(t):
                    break  # the program's own next words, set in
                if f.is_bar(t) or _PROFILE.match(t) or self._syntax_error_at(j) or (self.depth and _JAVA.match(t)):
                    break
                parts.append(t)
            else:
                if (f.ends_message(t) and not self._paddle_section(j)) or loose >= MAX_LOOSE_LINES or self._usage_at(j):
                    break
                if parts[-1].endswith("raised:") and not nested:
                    inner = f.split_exception(t, lone=True)
                    if inner:
                        nested = [Link(inner[0], inner[1], [], line=lines[j], relation="cause")]
                loose += 1
                parts.append(t)
            j += 1
        return parts, nested, j

    def _usage_at(self, j: int) -> bool:
        """Whether a command's usage text begins here, which ends with what is wrong."""
        return self.texts[j][:6] in ("usage:", "Usage:") and any(
            ": error: " in t or t.startswith("Error: ") for t in self.texts[j + 1 : j + 60]
        )

    def _paddle_section(self, j: int) -> bool:
        """PaddlePaddle and MindSpore set the titles of their message's sections between rules."""
        return any(
            t.startswith(
                (
                    "C++ Traceback (most recent call last)",
                    "C++ Call Stacks (",
                    "Error Message Summary:",
                    "- Memory not enough:",
                    "- C++ Call Stack:",
                )
            )
            or _TERMINATED.match(t) is not None
            for t in self.texts[max(0, j - 2) : j + 2]
        )

    def _syntax_error_at(self, i: int) -> bool:
        """Another SyntaxError without a header: its File line, the source, a caret, the exception line."""
        frame = f.read_frame(self.texts[i])
        if frame is None or frame.function is not None:
            return False
        return any(_SYNTAX.match(t) for t in self.texts[i + 1 : i + 5])

    def _exception_at(self, i: int) -> bool:
        return f.split_exception(self.texts[i], lone=True) is not None

    def _leads_to_separator(self, k: int, shape: str) -> bool:
        """Whether the paragraphs from ``k`` on end at a separator: then they are all the message of a link of the chain."""
        for i in range(k, min(k + 40, len(self.texts))):
            text = self.texts[i]
            if text.strip() in f.SEPARATORS:
                return True
            if text and (self.lines[i].shape != shape or f.HEADER.search(text) or f.read_frame(text)):
                return False
        return False

    def _resumes(self, k: int, shape: str, parts: Sequence[str]) -> bool:
        """Whether the text at ``k`` goes on with a message after a blank line."""
        text = self.texts[k]
        if self.lines[k].shape != shape or text.strip() in f.SEPARATORS:
            return False
        if text[0] in " \t":
            return not f.HEADER.search(text) and f.PROGRESS.search(text) is None and not (self.depth and _JAVA.match(text))
        if f.ends_message(text) and not text.startswith("-- Process"):
            return parts[0].rstrip()[-1:] in ("", ":") and self._paddle_section(k)
        if any("defined at (most recent call last)" in p or "Detected at node" in p for p in parts[:8]):
            return True  # TensorFlow tells where a node was made before it says what was wrong with it
        return (
            RESUMES.match(text) is not None
            or PARAGRAPHS.search(parts[0]) is not None
            or (len(parts) == 1 and not parts[0].strip() and not f.HEADER.search(text))
            or _SUB_OPEN.match(text) is not None
            or parts[-1].rstrip().endswith(":")
            or (parts[0].endswith(_SUBPROCESS) and text.startswith(("Name=", "Traceback ")))
        )

    def _nested(self, i: int) -> tuple[list[Link], int]:
        """A chain inside a message. A separator set apart by two blank lines is the outer chain's."""
        if self.depth >= MAX_DEPTH:
            return [], i + 1
        stop = len(self.texts)
        for j in range(i + 1, stop):
            if self.texts[j] == '"""' or _RULER.match(self.texts[j]):
                stop = j
                break
            if self.texts[j].strip() in f.SEPARATORS:
                blanks = 0
                while j - 1 - blanks > i and not self.texts[j - 1 - blanks]:
                    blanks += 1
                follow = self._skip_blank(j + 1)
                top = f.read_frame(self.texts[follow + 1]) if follow + 1 < len(self.texts) else None
                if blanks >= 2 or (top is not None and top.function == "<module>"):
                    stop = j - blanks
                    break
        inner = ChainReader(self.lines[i:stop], self.depth + 1)
        links, used = inner.chain(0)
        return links, i + max(used, 1)

    def _group(self, i: int) -> tuple[list[Link], int]:
        """An exception group with its gutter: dedent it, then read it as a traceback with sub-exceptions."""
        header = _GROUP_HEADER.match(self.texts[i]) or _BARE_GROUP.match(self.texts[i])
        column = len(header["gutter"]) if header else 0
        end = i
        derived: list[Line] = []
        while end < len(self.texts):
            text = self.texts[end]
            if (
                end > i
                and _GROUP_HEADER.match(text)
                and not text.startswith(" " * (column + 1))
                and text[column : column + 1] == "+"
            ):
                break
            if text[:column].strip() or text[column : column + 1] not in ("+", "|", " ") or not text.strip():
                break
            if text[column] == " " and text.lstrip()[:1] not in ("|", "+"):
                break
            rest = text[column + 2 :] if text[column] == "|" or end == i else text[column:]
            derived.append(self.lines[end]._replace(text=rest))
            end += 1
        inner = ChainReader(derived, self.depth + 1)
        bare = f.split_exception(inner.texts[0]) if inner.texts[0] != _GROUP_INNER else None
        links, _ = inner._exception(0, bare, [], 0) if bare else inner.chain(0)
        return links, end

    def _subs(self, i: int) -> tuple[list[list[Link]], int]:
        """Sub-exceptions from the opening rule ``+-+--- 1 ---`` on: one chain a leaf."""
        segments: list[list[Line]] = [[]]
        j = i + 1
        while j < len(self.texts):
            text = self.texts[j]
            if text[:2].strip() or not text.strip():
                break
            body = text[2:]
            if _SUB_END.match(body):
                j += 1
                break
            if _SUB_NEXT.match(body):
                segments.append([])
            elif body.startswith("|"):
                segments[-1].append(self.lines[j]._replace(text=body[2:]))
            else:
                segments[-1].append(self.lines[j]._replace(text=body))
            j += 1
        if self.depth >= MAX_DEPTH:
            self._elided = True
            return [], j
        leaves = []
        for segment in segments:
            inner = ChainReader(segment, self.depth + 1)
            start = inner._skip_blank(0)
            if start >= len(segment) or _MORE.match(segment[start].text):
                self._elided = True
                continue
            links, _ = inner.chain(start)
            if not links:
                bare = f.split_exception(segment[start].text)
                links = inner._exception(start, bare, [], start)[0] if bare else []
            if links:
                leaves.append(links)
            else:
                self._elided = True
        return leaves, j


def relate(links: list[Link]) -> list[Link]:
    """Move relations so that each link says how it came from the next one towards the root; the last is the root."""
    for link in links:
        for leaf in link.leaves:
            relate(leaf)
    ways = [link.relation for link in links]
    for k, link in enumerate(links):
        link.relation = ways[k + 1] if k + 1 < len(links) else "root"
    return links
