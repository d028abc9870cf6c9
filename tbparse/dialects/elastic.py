"""torch elastic: the summary of ChildFailedError, the agent's lines, and other launchers' notices of a child's end.

Formats: torch.distributed.elastic.multiprocessing.errors.ChildFailedError.format_msg and
multiprocessing/api.py (torch 1.9 with a starred border, to 2.13), deepspeed.launcher.launch, mpirun, srun, accelerate, Lightning, paddle.distributed.launch, Kubeflow's operator.
The summary's tracebacks are copies: they become failures marked ``in_summary``. How workers ended goes to ``page.exits``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tbparse.dialects import frames as f
from tbparse.dialects.base import Page
from tbparse.dialects.reader import ChainReader, relate
from tbparse.records import Failure, Line, Link, RankExit, Tags
from tbparse.text.quotes import mentioned

_ENTRY = re.compile(r"^\s*\*?\s*\[(?P<index>\d+)\]:\s*\*?\s*$")
_FIELD = re.compile(r"^\s*\*?\s*(?P<key>time|host|rank|exitcode|error_file|traceback|msg)\s*: ?(?P<value>.*?)\s*\*?\s*$")
_FAILED_TITLE = re.compile(r"^[\s*]*(?P<name>\S.*?) FAILED[\s*]*$", re.MULTILINE)
_RANK = re.compile(r"(?P<rank>\d+) \(local_rank: (?P<local>\d+)\)")
_EXIT = re.compile(r"(?P<code>-?\d+) +\(pid: (?P<pid>\d+)\)")
_SIGNALLED = re.compile(r"Signal (?P<number>\d+) \((?P<name>SIG\w+)\) received by PID (?P<pid>\d+)")
_RULE = re.compile(r"^\s*[=\-*]{10,}\s*$")

_AGENT = re.compile(
    r"^.*failed \(exitcode: (?P<code>-?\d+)\)(?: local_rank: (?P<local>\d+) \(pid: (?P<pid>\d+)\))?.*$", re.MULTILINE
)
_DEEPSPEED = re.compile(r"^.*\[(?P<argv>.*)\] exits with return code = (?P<code>-?\d+).*$", re.MULTILINE)
_DEEPSPEED_RANK = re.compile(r"--local_rank=(\d+)")
_MPIRUN = re.compile(
    r"^.*(?:mpirun|mpiexec|prterun) noticed that process rank (?P<rank>\d+) with PID (?P<pid>\d+) on node (?P<host>\S+) exited on signal (?P<signal>\d+).*$",
    re.MULTILINE,
)
_SRUN = re.compile(
    r"^.*srun: error: (?P<host>[\w.-]+): tasks? (?P<tasks>[\d,\-]{1,400}): (?P<how>Exited with exit code (?P<code>\d+)|Killed|Terminated|Aborted|Segmentation fault|Bus error|Out Of Memory|Floating point exception|Illegal instruction)(?: \(core dumped\))?.*$",
    re.MULTILINE,
)
# IDEs, managed services and MPI banners: codes from 128 on are signals, and so are Windows' 0xC… ones.
_ENDED = re.compile(
    r"^.*(?:Process finished with exit code (?P<code>-?\d+)|exited with (?:a )?(?:non-zero )?(?:exit )?(?:code|status)(?: of)?:? (?P<code2>1[2-5]\d)\b|exit (?:code|status):? (?P<code3>1[2-5]\d)\b"
    r"|EXIT (?:CODE|STATUS): (?P<code4>\d+)|KILLED BY SIGNAL: (?P<signal>\d+)|EXIT STRING: .*\(signal (?P<signal2>\d+)\)).*$"
)
_RUNNING_AT = re.compile(r"RANK (?P<rank>\d+) PID (?P<pid>\d+) RUNNING AT (?P<host>\S+)")
_CONTAINER = re.compile(r"^(?:.*\| |.*\bPod: )?(?P<host>[\w.-]+) exited with code (?P<code>\d+)(?:\t\{.*)?$")
_PADDLE = re.compile(r"^Container (?:rank (?P<rank>\d+) )?status failed cmd .* code (?P<code>-?\d+) log .*$")
_COMPOSER = re.compile(
    r"^.*\b[Rr]ank (?P<rank>\d+) (?:\(PID (?P<pid>\d+)\) exited with|crashed with exit) code (?P<code>-?\d+)\.?$"
)
_NOTICES = (
    (re.compile(r"ank \d+ (?:\(PID \d+\) exited|crashed) with (?:exit )?code "), _COMPOSER, "composer"),
    (re.compile(r"status failed cmd "), _PADDLE, "paddle"),
    (re.compile(r"failed \(exitcode: "), _AGENT, "torchrun"),
    (re.compile(r"exits with return code = "), _DEEPSPEED, "deepspeed"),
    (re.compile(r"noticed that process rank "), _MPIRUN, "mpirun"),
    (re.compile(r"srun: error: "), _SRUN, "srun"),
    (re.compile(r" exited with code \d+(?:\t\{|$)", re.MULTILINE), _CONTAINER, "docker"),
    (
        re.compile(r"exit(?:ed)? (?:code|status)|non-zero (?:exit )?status|EXIT (?:CODE|STATUS|STRING)|KILLED BY SIGNAL"),
        _ENDED,
        "system",
    ),
)
_SHELL_SIGNAL = {
    "Killed": 9, "Terminated": 15, "Aborted": 6, "Segmentation fault": 11, "Bus error": 7, "Out Of Memory": 9,
    "Floating point exception": 8, "Illegal instruction": 4,
}  # fmt: skip


_MESSAGE_REACH = 40


def _in_exception(texts: Sequence[str], i: int) -> bool:
    """Whether words about an exit are an exception's own: on its line, or within the message below it.

    A message goes on where it is set in, or where the line above it ends with a colon; a notice that stands directly under an
    exception line else is a launcher's.
    """
    if _raises(texts[i]):
        return True
    for j in range(i - 1, max(-1, i - _MESSAGE_REACH), -1):
        text = texts[j]
        if not text or f.read_frame(text):
            return False
        if _raises(text):
            return texts[i][:1] in (" ", "\t") or text.endswith(":")
        if f.ends_message(text):
            return False
    return False


def _raises(text: str) -> bool:
    """Whether it is an exception line; a shell's or a tool's ``Error: …`` is none."""
    found = f.split_exception(text, lone=True)
    return found is not None and found[0].lower() not in ("error", "exception", "warning")


class ElasticDialect:
    """Row 12 of the dialects, and the closing lines of other launchers."""

    name = "elastic"

    def read(self, page: Page) -> list[Failure]:
        out: list[Failure] = []
        for i, _ in page.find(_FAILED_TITLE):
            if i == 0 or not (_RULE.match(page.texts[i - 1]) and i + 1 < len(page.texts)):
                continue
            out += self._summary(page, i)
        self._notices(page)
        return out

    def _summary(self, page: Page, title: int) -> list[Failure]:
        out: list[Failure] = []
        i = title + 1
        named = False
        entry: dict[str, str] | None = None
        start = i
        end = title

        def close(last: int) -> None:
            if entry is not None:
                failure = self._entry(page, entry, start, last, named)
                if failure is not None:
                    out.append(failure)

        while i < len(page.texts) and i - title < 100_000:
            text = page.texts[i]
            if text.strip(" *").startswith("Root Cause"):
                close(i - 1)
                entry, named = None, True
            elif _ENTRY.match(text):
                close(i - 1)
                entry, start = {}, i
            elif (m := _FIELD.match(text)) and entry is not None:
                entry[m["key"]] = m["value"]
                if m["key"] == "traceback" and f.HEADER_TEXT in m["value"]:
                    i = self._skip_nested(page, i)
                    continue
            elif text.strip(" *") in ("Failures:", "Other Failures:", "<NO_OTHER_FAILURES>"):
                close(i - 1)
                entry = None
                if text.strip(" *").startswith(("Other",)):
                    named = False
            elif _RULE.match(text):
                close(i - 1)
                entry = None
                if set(text.strip()) <= {"=", "*"} and (named or out or page.exits):
                    end = i
                    break
            elif text.strip() and entry is None:
                break
            end = i
            i += 1
        else:
            close(i - 1)
        page.take(max(0, title - 1), end)
        return out

    def _skip_nested(self, page: Page, i: int) -> int:
        i += 1
        while i < len(page.texts):
            text = page.texts[i]
            if _RULE.match(text) or _ENTRY.match(text) or (_FIELD.match(text) and not text.startswith("    ")):
                return i
            if text.strip() and not text.startswith("  "):
                return i
            i += 1
        return i

    def _entry(self, page: Page, entry: dict[str, str], start: int, last: int, named: bool) -> Failure | None:
        line = page.lines[start]
        rank = _RANK.search(entry.get("rank", ""))
        code = _EXIT.search(entry.get("exitcode", ""))
        fact = RankExit(
            line=line,
            launcher="torchrun",
            rank=int(rank["rank"]) if rank else None,
            local_rank=int(rank["local"]) if rank else None,
            host=entry.get("host"),
            pid=int(code["pid"]) if code else None,
            exit_code=int(code["code"]) if code else None,
            time=entry.get("time"),
            named_root=named,
        )
        page.exits.append(fact)
        tags = Tags(fact.rank, fact.local_rank, fact.host, None, fact.time)
        trace = entry.get("traceback", "") or entry.get("msg", "")
        if f.HEADER_TEXT in trace:
            links = self._nested_links(page, start, last)
            if links:
                failure = Failure(
                    "traceback",
                    self.name,
                    links,
                    line,
                    page.lines[last],
                    line.stream,
                    tags,
                    in_summary=True,
                    launcher="torchrun",
                )
                failure.exit_code, failure.pid = fact.exit_code, fact.pid
                return failure
        signalled = _SIGNALLED.search(trace)
        number = (
            int(signalled["number"])
            if signalled
            else (-fact.exit_code if fact.exit_code is not None and fact.exit_code < 0 else None)
        )
        if number is not None:
            message_line = next((x for x in page.lines[start : last + 1] if "received by PID" in x.text), line)
            message = signalled.group() if signalled else f"exitcode {fact.exit_code}"
            link = Link(None, message, [], line=message_line, first_line=line)
            failure = Failure("launcher", self.name, [link], message_line, page.lines[last], line.stream, tags, launcher="torchrun")
            failure.signal, failure.pid, failure.in_summary = number, fact.pid, True
            return failure
        return None

    def _nested_links(self, page: Page, start: int, last: int) -> list[Link]:
        """The traceback of an entry, set in by two blanks under ``traceback :``."""
        lines: list[Line] = []
        for line in page.lines[start : last + 1]:
            if not lines:
                at = line.text.find(f.HEADER_TEXT)
                if at >= 0:
                    lines.append(line._replace(text=line.text[at:]))
                continue
            lines.append(line._replace(text=line.text[2:] if line.text.startswith("  ") else line.text.strip()))
        links, _ = ChainReader(lines).chain(0) if lines else ([], 0)
        return relate(links)

    def _place_ended(self, page: Page, i: int, fact: RankExit) -> bool:
        """Rank, pid and host of an MPI banner's lines above; False for an exit that is no failure."""
        for text in page.texts[max(0, i - 4) : i]:
            if m := _RUNNING_AT.search(text):
                fact.rank, fact.pid, fact.host, fact.launcher = int(m["rank"]), int(m["pid"]), m["host"], "mpirun"
        return fact.exit_code != 0

    def _notices(self, page: Page) -> None:
        for look, pattern, launcher in _NOTICES:
            for i, text in page.find(look, free_only=False):
                m = pattern.match(text)
                hit = look.search(text)
                if m is None or (hit is not None and mentioned(text, hit.start())):
                    continue
                if launcher == "system" and _in_exception(page.texts, i):
                    continue
                page.take(i, i)
                d = m.groupdict()
                fact = RankExit(
                    line=page.lines[i],
                    launcher=launcher,
                    host=d.get("host"),
                    pid=int(d["pid"]) if d.get("pid") else None,
                )
                code = d.get("code") or d.get("code2") or d.get("code3") or d.get("code4")
                if code is not None:
                    fact.exit_code = int(code)
                if launcher == "system" and not self._place_ended(page, i, fact):
                    continue
                signal = d.get("signal") or d.get("signal2")
                if signal:
                    fact.exit_code = -int(signal)
                if d.get("rank"):
                    fact.rank = int(d["rank"])
                if d.get("local"):
                    fact.local_rank = int(d["local"])
                if d.get("argv"):
                    local = _DEEPSPEED_RANK.search(d["argv"])
                    fact.local_rank = int(local[1]) if local else None
                if d.get("how") in _SHELL_SIGNAL:
                    fact.exit_code = -_SHELL_SIGNAL[d["how"]]
                tasks = d.get("tasks")
                if tasks and tasks.isdigit():
                    fact.rank = int(tasks)
                page.exits.append(fact)
