"""Prefixes that launchers, loggers and log collectors put before every line, and what they say.

These are the *certain* ones: they have a syntax of their own (``[rank1]: ``, glog, ISO times, Ray, mpirun,
Compose …) and are taken off wherever they stand, one after the other. Those that a block teaches are in
:mod:`tbparse.text.learned`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tbparse.records import NO_TAGS, Tags
from tbparse.text.needles import Haystack

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
_LEVEL = r"(?:TRACE|DEBUG|INFO|SUCCESS|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|EXCEPTION)"
_LEVEL_ANY = r"(?i:trace|debug|info|success|notice|warn|warning|error|critical|fatal|exception)"


class _Said(NamedTuple):
    """What one prefix says: its name, the key of the writer, and what it tells of the line."""

    shape: str
    stream: str
    tags: Tags
    level: str | None


_MAX_KNOWN = 4096
_INFO = re.compile(r"(\w+)=([^\s,()]+)")


class _Kind:
    """One prefix. ``identity``: it says who writes (and so belongs to the stream), or only when and how. ``needs`` is a text that
    a line must have for it.

    The pattern is compiled when a line first begins in a way that could be it.
    """

    __slots__ = ("_known", "compiled", "identity", "name", "needs", "source")

    def __init__(self, name: str, source: str, identity: bool, needs: str) -> None:
        self.name, self.source, self.identity, self.needs = name, source, identity, needs
        self.compiled: re.Pattern[str] | None = None
        self._known: dict[str, _Said] = {}

    @property
    def pattern(self) -> re.Pattern[str]:
        self.compiled = re.compile(self.source)
        return self.compiled

    def said(self, m: re.Match[str]) -> _Said:
        """What this prefix says. A writer's prefix comes again on each of its lines, so it is kept."""
        said = self._known.get(m[0])
        if said is None:
            said = self._read(m)
            if self.identity:
                if len(self._known) >= _MAX_KNOWN:
                    self._known.clear()
                self._known[m[0]] = said
        return said

    def _read(self, m: re.Match[str]) -> _Said:
        rank = local_rank = host = process = time = level = None
        d = m.groupdict()
        for key, value in d.items():
            if not value:
                continue
            if key == "time":
                time = value
            elif key.startswith("level"):
                level = value
            elif key == "host":
                host = value
            elif key == "process":
                process = value
            elif key == "rank":
                rank = int(value)
            elif key == "local_rank":
                local_rank = int(value)
            elif key == "info":
                for name, told in _INFO.findall(value):
                    if name == "rank" and told.isdigit():
                        rank = int(told)
                    elif name in ("ip", "node", "addr"):
                        host = told
        stream = ""
        if self.identity:  # who writes, never when: a clock in the key would make every second a writer of its own
            stream = "".join(f"[{v.strip()}]" for k, v in d.items() if v and k not in ("time", "level"))
        tags = Tags(rank, local_rank, host, process, time)
        return _Said(self.name, stream, tags, level)


def _k(name: str, pattern: str, identity: bool = False, needs: str = "") -> _Kind:
    return _Kind(name, pattern, identity, needs)


_RANK = _k("rank", r"\[rank ?:? ?(?P<rank>\d+)\]:? ?", True, "[rank")
_ROLE = _k("role", r"\[(?P<role>(?!rank|gw)[A-Za-z_][A-Za-z_.-]*?)(?P<local_rank>\d+)\]:", True)
_MPIRUN = _k("mpirun", r"\[(?:\d+,(?:mpirank:)?)?(?P<rank>\d+)(?:,(?P<host>[\w.-]+))?\]<std(?:err|out|diag)>: ?", True, "]<std")
_BRACKET_TIME = _k(
    "time",
    rf"\[(?P<time>\d{{4}}[-/]\d\d[-/]\d\d[ T]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?|{_CLOCK}|\w{{3}} {_MONTH} [ \d]\d {_CLOCK} \d{{4}}"
    rf"|\d\d/\d\d/\d\d(?:\d\d)? {_CLOCK}| *\d+\.\d+)(?:,[^\]]*)?\](?::? |(?=\[)|$)",
)
_BRACKET_LEVEL = _k(
    "level",
    rf"(?:\[[\w.]+\](?=\[))?\[(?P<level>{_LEVEL_ANY})(?:\|[^\]]*)?\](?: - ?| |(?=\[)|$)(?:\[[\w./-]+\.py:\d+(?::\w+)?\] )?(?:\[Rank (?P<rank>\d+)\] )?",
)
_TAG = _k("tag", r"\[[a-z][\w.-]*\] (?=\d{4}-\d\d-\d\d)")
_GREP = _k("grep", r"[\w./-]+\.(?:out|log|txt|err):\d+:")
_LOGGED_FILE = _k("file", r"\[[\w./-]+\.py:\d+(?::\w+)?\] ", needs=".py:")
_RAY = _k(
    "actor",
    r"\((?P<process>[^()\s,]+(?: [^()\s=,]+)?)(?P<info>(?:[ ,]+(?:rank|pid|ip|node|addr|actor_id)=[^\s,()]+)+)\)(?: \[repeated [^\]]*\])? ?",
    True,
)
_ISO = _k(
    "time",
    rf"(?P<time>\d{{4}}[-/]\d\d[-/]\d\d[T _]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?)(?::? |(?= ?[\[|-])|$)",
)
_DATE_LAST = _k("time", rf"(?P<time>\d\d/\d\d/\d{{4}} {_CLOCK}|\d\d-\d\d {_CLOCK}|{_CLOCK})(?: |(?= ?[|\[-])|$)")
_EPOCH = _k("time", r"(?P<time>1[5-9]\d{8}(?:\.\d+)?|2[0-2]\d{8}(?:\.\d+)?)(?: |$)")
_GITLAB = _k("section", r"\d\d[OE][+ ]?")
_SYSLOG_ISO = _k("syslog", r"(?P<host>[\w.-]+) (?P<process>[\w./@-]+)\[(?P<pid>[\w.]+)\]: ?", True)
_HEROKU = _k("dyno", r"(?P<process>(?:app|heroku)\[[\w.]+\]): ?", True)
_PID_RANK = _k("pid", r"(?P<pid>\d+)[ :]+(?=\[rank\d+\]:)", needs="[rank")
_GLOG = _k("glog", rf"(?P<level>[EWIFCDV])(?P<time>(?:20\d\d)?\d{{4}} {_CLOCK}) +(?P<pid>\d+) (?P<file>[^\s\]]+:\d+)\](?: |$)")
_VLLM = _k("vllm", rf"(?P<level>{_LEVEL}) (?P<time>\d\d-\d\d {_CLOCK}) (?P<file>(?:\[[^\]\s]+:\d+\]|[^\s\]]+:\d+\]))(?: |$)")
_SYSLOG = _k(
    "syslog",
    rf"(?P<time>{_MONTH} [ \d]\d {_CLOCK}) (?P<host>[\w.-]+) (?P<process>[\w./@-]+(?:\([^)]*\))?)(?:\[(?P<pid>\d+)\])?: ?",
    True,
)
_RFC5424 = _k(
    "syslog",
    rf"<\d{{1,3}}>1 (?P<time>\d{{4}}-\d\d-\d\dT{_CLOCK}(?:Z|[+-]\d\d:\d\d)?) (?P<host>[\w.:-]+) (?P<process>\S+) (?P<pid>\S+) \S+ (?:-|\[[^\]]*\])(?: |$)",
    True,
)
_BASIC = _k("basic", rf"(?P<level>{_LEVEL}):(?P<logger>[A-Za-z_][\w.]*):(?!//)")
_STD = _k("std", r"(?:stderr|stdout)(?: [FP])?(?:: |:$| \| )", needs="std")
_CRI = _k("cri", r"(?:stderr|stdout) [FP](?: |$)", needs="std")
_COMPOSE = _k("compose", r"(?P<process>[A-Za-z][\w.-]*?[-_]\d+) +\| ?", True, " |")
_BUILDKIT = _k("buildkit", r"#\d+ \d+\.\d+(?: |$)")
_STERN = _k("pod", r"\[?pod/(?P<process>[\w.-]+)/[\w.-]+\]?(?: |$)", True, "pod/")
_LOG_TAIL = _k(
    "format",
    rf"[-|] ?(?:(?P<name1>[\w.:-]+) ?[-|] ?)?(?P<level>{_LEVEL_ANY}) *[-|:](?: ?[\w.<>:-]+:\d+ ?[-|])? ?(?:[\w.<>-]+ \| )?"
    rf"|\[(?P<level2>{_LEVEL_ANY}) *\] ?(?:\[?[\w.]+(?::\d+)?\]?:? )?"
    rf"|(?P<level3>{_LEVEL})(?: *\| ?[\w.<>:-]+(?::\d+)? ?[-|] ?| +[\w./-]+:\d+ ?[-\]:] ?|: | +[A-Za-z_][\w.]*:(?: |$)| +(?=Traceback| +File|\[|[a-z]+ [a-z]))"
    rf"|(?P<logger>[A-Za-z_][\w.]*)(?:: \[(?P<level4>{_LEVEL})\](?: |$)| (?P<level5>{_LEVEL})[: ] ?)",
)

_BY_CHAR: dict[str, tuple[_Kind, ...]] = {
    "[": (_RANK, _MPIRUN, _ROLE, _BRACKET_TIME, _BRACKET_LEVEL, _LOGGED_FILE, _TAG, _STERN),
    "(": (_RAY,),
    "p": (_STERN, _COMPOSE),
    "#": (_BUILDKIT,),
    "<": (_RFC5424,),
    "s": (_CRI, _STD, _COMPOSE),
}
for _c in "0123456789":
    _BY_CHAR[_c] = (_ISO, _DATE_LAST, _PID_RANK, _EPOCH, _GITLAB)
for _c in "EWIFCDV":
    _BY_CHAR[_c] = (_GLOG, _VLLM, _BASIC, _COMPOSE)
for _c in "TSN":
    _BY_CHAR[_c] = (_VLLM, _BASIC, _COMPOSE)
for _c in "JFMASOND":
    _BY_CHAR[_c] = (_SYSLOG, *_BY_CHAR.get(_c, (_COMPOSE,)))
_COMPOSE_ONLY = (_COMPOSE,)
_AFTER_TIME = (_LOG_TAIL, _SYSLOG_ISO, _HEROKU)

_MAX_STACK = 8
_FAST_PLAIN = frozenset(" \t\"'`^~{}>=+-*/\\.,;:!?&%$@|╭│╰─")


class Stripped(NamedTuple):
    """What is left of a line, and what stood before it."""

    text: str
    shape: str
    stream: str
    tags: Tags
    level: str | None


def strip_prefixes(text: str) -> Stripped:
    """Take the certain prefixes off one cleaned line."""
    found: list[_Said] = []
    after_time = False
    for _ in range(_MAX_STACK):
        if not text:
            break
        first = text[0]
        if after_time and (first in "-|[" or first.isalpha()):
            kinds: Sequence[_Kind] = (*_BY_CHAR.get(first, ()), *_AFTER_TIME)
        elif first == " " and (text.startswith((" - ", " | "))) and after_time:
            text = text[1:]
            continue
        elif first in _FAST_PLAIN:
            break
        else:
            kinds = _BY_CHAR.get(first, _COMPOSE_ONLY)
            if not found and _may_be_grepped(text[:160]):
                kinds = (*kinds, _GREP)
        for kind in kinds:
            if kind.needs not in text:
                continue
            m = (kind.compiled or kind.pattern).match(text)
            if m is None:
                continue
            found.append(kind.said(m))
            text = text[m.end() :]
            after_time = kind.name in ("time", "glog", "vllm") or (after_time and kind.name == "level")
            break
        else:
            break
    if not found:
        return Stripped(text, "", "", NO_TAGS, None)
    if len(found) == 1:
        return Stripped(text, *found[0])
    return _together(text, found)


_ENDS = _FAST_PLAIN | {""}
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")


def prefix_ends(hay: Haystack) -> frozenset[str]:
    """First characters (``""`` for an empty rest) of which it is plain, without trying the patterns, that what stands behind a
    prefix begins with no further one, in these lines."""
    # Of the prefixes that begin with a small letter each has a text of its own.
    plain = not (hay.holds(" |") or hay.holds("std") or hay.holds("pod/"))
    return _ENDS | _LETTERS if plain else _ENDS


def _may_be_grepped(head: str) -> bool:
    return ".out:" in head or ".log:" in head or ".err:" in head or ".txt:" in head


def _together(text: str, found: Sequence[_Said]) -> Stripped:
    """What several prefixes say: the last word holds, but for the time, of which the first one is the nearest to the writer."""
    rank = local_rank = host = process = time = level = None
    for said in found:
        tags = said.tags
        rank = rank if tags.rank is None else tags.rank
        local_rank = local_rank if tags.local_rank is None else tags.local_rank
        host, process = tags.host or host, tags.process or process
        time, level = time or tags.time, said.level or level
    shape, stream = "+".join(x.shape for x in found), "".join(x.stream for x in found)
    return Stripped(text, shape, stream, Tags(rank, local_rank, host, process, time), level)
