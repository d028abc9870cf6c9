"""Prefixes that launchers, loggers and log collectors put before every line, and what they say.

Two kinds. *Certain* ones have a syntax of their own (``[rank1]: ``, glog, ISO times, Ray, mpirun, Compose …)
and are taken off wherever they stand, one after the other. *Learned* ones are any text at all (an elastic
prefix template, ``node-02: ``, ``11: ``): they are believed when the same text stands before a traceback's
header and its first File line, or before nearly every line of the block.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tbparse.records import NO_TAGS, Line, Tags, merge_tags

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
_LEVEL = r"(?:TRACE|DEBUG|INFO|SUCCESS|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|EXCEPTION)"
_LEVEL_ANY = r"(?i:trace|debug|info|success|notice|warn|warning|error|critical|fatal|exception)"


class _Kind(NamedTuple):
    name: str
    pattern: re.Pattern[str]
    identity: bool
    """Whether it says who writes (and so belongs to the stream), or only when and how."""


def _k(name: str, pattern: str, identity: bool = False) -> _Kind:
    return _Kind(name, re.compile(pattern), identity)


_RANK = _k("rank", r"\[rank ?:? ?(?P<rank>\d+)\]:? ?", True)
_ROLE = _k("role", r"\[(?P<role>(?!rank|gw)[A-Za-z_][A-Za-z_.-]*?)(?P<local_rank>\d+)\]:", True)
_MPIRUN = _k("mpirun", r"\[\d+,(?P<rank>\d+)\]<std(?:err|out|diag)>: ?", True)
_BRACKET_TIME = _k(
    "time",
    rf"\[(?P<time>\d{{4}}[-/]\d\d[-/]\d\d[ T]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?|{_CLOCK}|\w{{3}} {_MONTH} [ \d]\d {_CLOCK} \d{{4}}"
    rf"|\d\d/\d\d/\d\d(?:\d\d)? {_CLOCK}| *\d+\.\d{{6}})(?:,[^\]]*)?\](?::? |(?=\[)|$)",
)
_BRACKET_LEVEL = _k(
    "level",
    rf"\[(?P<level>{_LEVEL_ANY})(?:\|[^\]]*)?\](?: |(?=\[))(?:\[[\w./-]+\.py:\d+(?::\w+)?\] )?(?:\[Rank (?P<rank>\d+)\] )?",
)
_LOGGED_FILE = _k("file", r"\[[\w./-]+\.py:\d+(?::\w+)?\] ")
_RAY = _k(
    "actor",
    r"\((?P<process>[^()\s,]+(?: [^()\s=,]+)?)(?P<info>(?:[ ,]+(?:rank|pid|ip|node|addr|actor_id)=[^\s,()]+)+)\)(?: \[repeated [^\]]*\])? ?",
    True,
)
_ISO = _k(
    "time",
    rf"(?P<time>\d{{4}}[-/]\d\d[-/]\d\d[T _]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?)(?::? |(?= ?[\[|-])|$)",
)
_DATE_LAST = _k("time", rf"(?P<time>\d\d/\d\d/\d{{4}} {_CLOCK}|\d\d-\d\d {_CLOCK}|{_CLOCK})(?: |(?= ?[|\[-]))")
_PID_RANK = _k("pid", r"(?P<pid>\d+)[ :]+(?=\[rank\d+\]:)")
_GLOG = _k("glog", rf"(?P<level>[EWIFCDV])(?P<time>\d{{4}} {_CLOCK}) +(?P<pid>\d+) (?P<file>[^\s\]]+:\d+)\](?: |$)")
_VLLM = _k("vllm", rf"(?P<level>{_LEVEL}) (?P<time>\d\d-\d\d {_CLOCK}) (?P<file>(?:\[[^\]\s]+:\d+\]|[^\s\]]+:\d+\]))(?: |$)")
_SYSLOG = _k(
    "syslog",
    rf"(?P<time>{_MONTH} [ \d]\d {_CLOCK}) (?P<host>[\w.-]+) (?P<process>[\w./@-]+(?:\([^)]*\))?)(?:\[(?P<pid>\d+)\])?: ?",
    True,
)
_BASIC = _k("basic", rf"(?P<level>{_LEVEL}):(?P<logger>[A-Za-z_][\w.]*):(?!//)")
_STD = _k("std", r"(?:stderr|stdout)(?: [FP])?(?:: |:$| \| )", False)
_CRI = _k("cri", r"(?:stderr|stdout) [FP](?: |$)", False)
_COMPOSE = _k("compose", r"(?P<process>[A-Za-z][\w.-]*?[-_]\d+) +\| ?", True)
_STERN = _k("pod", r"\[?pod/(?P<process>[\w.-]+)/[\w.-]+\]? ", True)
_LOG_TAIL = _k(
    "format",
    rf"[-|] ?(?:(?P<name1>[\w.:-]+) ?[-|] ?)?(?P<level>{_LEVEL_ANY}) *[-|:](?: ?[\w.<>:-]+:\d+ ?[-|])? ?(?:[\w.<>-]+ \| )?"
    rf"|\[(?P<level2>{_LEVEL_ANY}) *\] ?(?:\[?[\w.]+(?::\d+)?\]?:? )?"
    rf"|(?P<level3>{_LEVEL})(?: *\| ?[\w.<>:-]+(?::\d+)? ?[-|] ?| +[\w./-]+:\d+ ?[-\]:] ?|: | +(?=Traceback| +File|\[))"
    rf"|(?P<logger>[A-Za-z_][\w.]*)(?:: \[(?P<level4>{_LEVEL})\] | (?P<level5>{_LEVEL})[: ] ?)",
)
_HOST_BRACKET = _k("host", r"\[(?P<host>[a-z][\w.-]*-?\d+)\]:? (?=\[|Traceback| )", True)

_BY_CHAR: dict[str, tuple[_Kind, ...]] = {
    "[": (_RANK, _MPIRUN, _ROLE, _BRACKET_TIME, _BRACKET_LEVEL, _LOGGED_FILE, _STERN),
    "(": (_RAY,),
    "p": (_STERN,),
    "s": (_CRI, _STD, _COMPOSE),
}
for _c in "0123456789":
    _BY_CHAR[_c] = (_ISO, _DATE_LAST, _PID_RANK)
for _c in "EWIFCDV":
    _BY_CHAR[_c] = (_GLOG, _VLLM, _BASIC, _COMPOSE)
for _c in "TSN":
    _BY_CHAR[_c] = (_VLLM, _BASIC, _COMPOSE)
for _c in "JFMASOND":
    _BY_CHAR[_c] = (_SYSLOG, *_BY_CHAR.get(_c, (_COMPOSE,)))
_COMPOSE_ONLY = (_COMPOSE,)
_AFTER_TIME = (_LOG_TAIL,)

_MAX_STACK = 8
_FAST_PLAIN = frozenset(" \t\"'`^~{}<>=+-*/\\.,;:!?#&%$@|╭│╰─")


class Stripped(NamedTuple):
    """What is left of a line, and what stood before it."""

    text: str
    shape: str
    stream: str
    tags: Tags
    level: str | None


def strip_prefixes(text: str) -> Stripped:
    """Take the certain prefixes off one cleaned line."""
    shape: list[str] = []
    stream: list[str] = []
    rank = local_rank = host = process = time = level = None
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
        for kind in kinds:
            m = kind.pattern.match(text)
            if m is None:
                continue
            d = m.groupdict()
            if d.get("rank") is not None:
                rank = int(d["rank"])
            if d.get("local_rank") is not None:
                local_rank = int(d["local_rank"])
            info = d.get("info")
            if info:
                for key, value in re.findall(r"(\w+)=([^\s,()]+)", info):
                    if key == "rank" and value.isdigit():
                        rank = int(value)
                    elif key in ("ip", "node", "addr"):
                        host = value
            host = d.get("host") or host
            process = d.get("process") or process
            time = time or d.get("time")
            for name in ("level", "level2", "level3", "level4", "level5"):
                if d.get(name):
                    level = d[name]
            shape.append(kind.name)
            if kind.identity:
                stream.append(m.group().strip())
            text = text[m.end() :]
            after_time = kind.name in ("time", "glog", "vllm") or (after_time and kind.name == "level")
            break
        else:
            break
    if not shape:
        return Stripped(text, "", "", NO_TAGS, None)
    return Stripped(text, "+".join(shape), "".join(stream), Tags(rank, local_rank, host, process, time), level)


_HEADER = "Traceback (most recent call last):"
_FILE_LINE = re.compile(r'^(?P<p>.*?\S.*?) {1,4}File "[^"]+", line \d+')
_GUTTER = re.compile(r"(?:(?<=[^ ]) )?[ |+]*[|+] (?:Exception Group )?$")
_NUMBERED = re.compile(r"^ *(\d{1,6}): ?")
_ANY_LABEL = re.compile(r"^ *(?:\[?\d{1,6}\]?[:|\t│ ]|[A-Za-z][\w.-]*: )")
_BRACKETED = re.compile(r"^ *\[(\d{1,6})\]:? ")
_BARRED = re.compile(r"^ *(\d{1,6}) ?[|\t│](?: |$)")
_NAMED = re.compile(r"^([A-Za-z][\w.-]*\d[\w.-]*|[a-z][\w-]*): ")
_RANK_WORD = re.compile(r"(?:^|[^A-Za-z])(?:rank|r|R|RANK)[ =:#-]?(\d+)(?![\w.])")
_LOCAL_WORD = re.compile(r"(?:local_rank|local|l|LOCAL_RANK)[ =:#-]?(\d+)(?![\w.])")
_NOT_NAMES = re.compile(
    r"(?i)^(?:wandb|error|warning|info|note|usage|hint|fatal|python\d*|bash|sh|tail|file|raise|except|try|else|finally|what)$|error$"
)


def learn(texts: Sequence[str]) -> list[tuple[re.Pattern[str], Callable[[str], tuple[str, Tags]]]]:
    """Prefixes that the block itself teaches: patterns, and how to read stream key and tags out of a match."""
    found: dict[str, re.Pattern[str]] = {}
    for i, text in enumerate(texts):
        at = text.find(_HEADER) if "T" in text else -1
        if at > 0 and text[:at].strip(" |+-\t"):
            p = _GUTTER.sub("", text[:at])
            if not p.strip() or p.endswith(("Original ", "traceback : ")) or _mask(p) in found:
                continue
            if not p.endswith(" ") and text[len(p) : len(p) + 1] == " ":
                p += " "
            pattern = _generalise(p)
            following = [t for t in texts[i + 1 : i + 40] if pattern.match(t)][:4]
            if any(_follows(t, pattern) for t in following):
                found[_mask(p)] = pattern
    candidates: dict[str, int] = {}
    for text in texts:
        m = _FILE_LINE.match(text) if 'File "' in text and not text.lstrip().startswith("File") else None
        if m is not None and not m.group("p").lstrip().startswith(("|", "#", ">", "│", "File", "Traceback", '"', "'", "{")):
            candidates[_mask(m.group("p"))] = candidates.get(_mask(m.group("p")), 0) + 1
            if candidates[_mask(m.group("p"))] >= 2 and _mask(m.group("p")) not in found:
                p = m.group("p")
                if p.endswith((":", "]", "|", ">", ")", "-")) and len(p) < 80:
                    found[_mask(p)] = _generalise(p + (" " if p.endswith((":", "|")) else ""))
    if not found:
        dominant = _dominant(texts)
        if dominant is not None:
            found["dominant"] = dominant
    return [(p, _reader) for p in found.values()]


def _follows(text: str, pattern: re.Pattern[str]) -> bool:
    m = pattern.match(text)
    return m is not None and text[m.end() :].lstrip().startswith('File "') and text[m.end() :].startswith(" ")


def _mask(prefix: str) -> str:
    return re.sub(r"\d+", "0", prefix)


def _generalise(prefix: str) -> re.Pattern[str]:
    parts = re.split(r"(\d+| +)", prefix)
    body = "".join(
        r"\d+" if p.isdigit() else (r" *" if p.isspace() and i == len(parts) - 2 else " +" if p.isspace() else re.escape(p))
        for i, p in enumerate(parts)
        if p
    )
    if prefix.endswith(" "):  # blank lines lose the blank, and the text's own indentation must stay
        body = body[: body.rfind(" ")] + "(?: |$)" if body.endswith((" *", " +")) else body
    return re.compile("^" + body)


def _dominant(texts: Sequence[str]) -> re.Pattern[str] | None:
    """``11: `` or ``node-02: `` before nearly every line of the block."""
    filled = [t for t in texts if t.strip()]
    if len(filled) < 2:
        return None
    head = filled[:24]  # a prefix of nearly every line stands before most of the first ones too
    if sum(1 for t in head if _ANY_LABEL.match(t)) < 0.6 * len(head):
        return None
    for numbered, taken in (
        (_NUMBERED, r"^ *(?P<{}>\d{{1,6}}):(?: |$)"),
        (_BRACKETED, r"^ *\[(?P<{}>\d{{1,6}})\]:?(?: |$)"),
        (_BARRED, r"^ *(?P<{}>\d{{1,6}}) ?[|\t│](?: |$)"),
    ):
        values = [int(m.group(1)) for t in filled if (m := numbered.match(t))]
        if len(values) >= 0.9 * len(filled):
            # Numbers that only ever grow count lines (a pager, a web page); numbers that come again name ranks.
            counting = len(values) > 2 and all(a < b for a, b in itertools.pairwise(values))
            return re.compile(taken.format("lineno" if counting else "dominant"))
    names = [m.group(1) for t in filled if (m := _NAMED.match(t)) and not _NOT_NAMES.search(m.group(1))]
    if len(names) >= 0.9 * len(filled) and len(filled) >= 3 and len(set(names)) <= max(1, len(filled) // 2):
        choice = "|".join(sorted({re.escape(n) for n in names}, key=len, reverse=True))
        return re.compile(rf"^(?:{choice}):(?: |$)")
    return None


def _reader(prefix: str) -> tuple[str, Tags]:
    """Stream key and tags of a learned prefix."""
    key = prefix.strip()
    bare = key.strip("[]():|<>- ")
    if bare.isdigit():
        return key, Tags(rank=int(bare))
    local = _LOCAL_WORD.search(bare)
    rank = _RANK_WORD.search(bare)
    if rank or local:
        return key, Tags(
            rank=int(rank.group(1)) if rank else None,
            local_rank=int(local.group(1)) if local else None,
        )
    if re.fullmatch(r"[A-Za-z][\w.-]*", bare):
        return key, Tags(host=bare)
    return key, Tags(process=bare or None)


def strip_block(lines: Sequence[Line]) -> tuple[list[Line], dict[int, str]]:
    """Take the prefixes off a block of lines. Also returns the log level of each line that had one, by index."""
    texts = [line.text for line in lines]
    out = list(lines)
    levels: dict[int, str] = {}
    changed = False
    for i, text in enumerate(texts):
        if not text or text[0] in _FAST_PLAIN:
            continue
        s = strip_prefixes(text)
        if s.shape:
            changed = True
            line = out[i]
            out[i] = Line(line.no, line.start, line.end, s.text, s.shape, s.stream, s.tags)
            if s.level:
                levels[i] = s.level
    learned = learn([line.text for line in out]) if changed else learn(texts)
    for pattern, read in learned:
        for i, line in enumerate(out):
            m = pattern.match(line.text)
            if m is None or not m.group():
                continue
            key, tags = ("", NO_TAGS) if "lineno" in pattern.groupindex else read(m.group())
            rest = line.text[m.end() :]
            shape, stream = f"{line.shape}+learned".lstrip("+"), line.stream + key
            merged = merge_tags(line.tags, tags)
            again = strip_prefixes(rest)
            if again.shape:
                rest, shape, stream = again.text, f"{shape}+{again.shape}", stream + again.stream
                merged = merge_tags(again.tags, merged)
            out[i] = Line(line.no, line.start, line.end, rest, shape, stream, merged)
    return out, levels
