"""Prefixes that a block of lines teaches: any text at all, believed because it comes again.

An elastic prefix template, ``node-02: ``, ``11: ``, a collector's own label: the same text (but for its numbers)
stands before nearly every line of the block, or before a failure's opening line and the lines under it.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from tbparse.records import NO_TAGS, Line, Tags, merge_tags, number_of, shape_of, stream_of, tags_of, text_of
from tbparse.text.needles import Haystack
from tbparse.text.prefixes import prefix_ends, strip_prefixes

MOST = 0.9
"""Share of the filled lines before which a label must stand to be believed for the block as a whole."""
MAX_LABEL = 160
_SAMPLE = 400

# Lines that open a failure, in whatever dialect: what stands before them is a prefix if it comes again below.
_OPENER = re.compile(
    r"(?:\+ Exception Group )?Traceback \(most recent call last\)|[╭┌][─-]+ ?Traceback|-{70,}$"
    r"|={8,} (?:FAILURES|ERRORS|test session starts)|Fatal Python error: "
    r"|[Uu]sage: |terminate called|File \"[^\"]+\", line \d+$"
)
_OPENER_WORDS = ("Traceback", 'File "', "sage: ", "Fatal Python", "terminate called", "-" * 70, "=" * 8)
_FILE = re.compile(r'^(?P<lead>.*?\S.*?) {1,4}File "[^"]+", line \d+')
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)(?:: |$)")
_GUTTER = re.compile(r"(?:[ ]+[|+])*(?<![|+])[|+][ ]*$")
_NAMED = re.compile(r"^([A-Za-z][\w.-]*\d[\w.-]*|[a-z][\w-]*): ")
_NOT_NAMES = re.compile(
    r"(?i)^(?:wandb|error|warning|info|note|usage|hint|fatal|python\d*|bash|sh|tail|file|raise|except|try|else|finally|what|srun|slurmstepd|sbatch|salloc|slurm\w*|kernel|mpirun|mpiexec|docker|make|kubectl|conda|pip)$|error$"
)
_WORDS = re.compile(
    r"(?i)^\W*(?:step|epoch|iter\w*|batch|loss|train\w*|eval\w*|file|frame|traceback|e|return|self\S*|raise|\S*error|\{.*|#\d*|\(.*)\W*\d*\W*$"
)
_NUMBER = re.compile(r"\d+")
_CLOCKS = re.compile(r"\d+[:.]\d+(?:[:.,]\d+)*")
_RANK_WORD = re.compile(r"(?:^|[^A-Za-z])(?:rank|r|R|RANK)[ =:#-]?(\d+)(?![\w.])")
_LOCAL_WORD = re.compile(r"(?:local_rank|local|l|LOCAL_RANK)[ =:#-]?(\d+)(?![\w.])")
_RANK_BEGINS, _RANK_ENDS = "[rank", "]: "
_NO_LEAD = ("Original", "traceback :", "raise", "=", "(", '"', "'", "#", "│", "Exception")


def strip_block(lines: Sequence[Line]) -> tuple[list[Line], dict[int, str]]:
    """Take all prefixes off a block of lines. Also returns the log level of each line that had one, by index."""
    levels: dict[int, str] = {}
    hay = Haystack(map(text_of, lines))
    out = _without_ranks(lines, hay)
    for i, (line, before) in enumerate(zip(out, lines, strict=True)):
        if line is before and line.text and line.text[0] not in " \t":
            _certain(out, levels, i)
    begun = len(set(map(number_of, out)))
    for _ in range(2):
        texts = list(map(text_of, out))
        begins = texts
        if begun < len(out):
            begins = [line.text for k, line in enumerate(out) if k == 0 or line.no != out[k - 1].no]
        patterns = [_with_counters(p, texts) for p in learn(texts, begins if len(begins) >= 3 else texts, hay)]
        if not patterns:
            break
        for i in range(len(out)):
            _taught(out, levels, i, patterns)
    overwritten = begun < len(out)
    for k in range(1, len(out)) if overwritten else ():
        line, before = out[k], out[k - 1]
        if line.no == before.no and not line.shape and before.shape:
            # What stands behind a carriage return has the writer of the line that it overwrites.
            out[k] = line._replace(shape=before.shape, stream=before.stream, tags=before.tags)
    _dedent(out)
    if len(levels) >= 5 and len(set(levels.values())) == 1 and len(levels) >= MOST * sum(1 for line in out if line.text.strip()):
        levels.clear()  # a forwarder's stamp, the same on every line, says nothing of one of them
    return out, levels


def _without_ranks(lines: Sequence[Line], hay: Haystack) -> list[Line]:
    """The lines, and those without ``[rank0]: `` that have this one prefix: most of a job's console, which is read at once."""
    told = any(map(shape_of, lines)) or any(map(stream_of, lines)) or set(map(tags_of, lines)) != {NO_TAGS}
    if told or not hay.holds(_RANK_BEGINS):
        return list(lines)  # without any, or out of objects that said more of their writer
    parts = [text.partition(_RANK_ENDS) for text in map(text_of, lines)]
    known: dict[str, tuple[str, str, Tags]] = {}
    for head in set(map(itemgetter(0), parts)):
        whole = strip_prefixes(head + _RANK_ENDS) if head.startswith(_RANK_BEGINS) else None
        if whole is not None and whole.shape == "rank" and not whole.text:
            known[head] = (whole.shape, whole.stream, whole.tags)
    ends = prefix_ends(hay)
    make: Any = tuple.__new__  # Line's own constructor is a Python function, and takes three times as long
    return [
        make(Line, (no, start, end, rest, said[0], said[1], said[2])) if (said := known.get(head)) and rest[:1] in ends else line
        for line, (no, start, end, _, _, _, _), (head, _, rest) in zip(lines, lines, parts, strict=True)
    ]


def _certain(out: list[Line], levels: dict[int, str], i: int) -> None:
    """Take the certain prefixes off line ``i``, in place."""
    line = out[i]
    s = strip_prefixes(line.text)
    if s.shape:
        shape = f"{line.shape}+{s.shape}" if line.shape else s.shape
        tags = s.tags if line.tags is NO_TAGS else merge_tags(s.tags, line.tags)
        out[i] = Line(line.no, line.start, line.end, s.text, shape, line.stream + s.stream, tags)
        if s.level:
            levels[i] = s.level


class Taught(NamedTuple):
    """A learned prefix, and which of its numbers only ever grow: those count lines or seconds and name no writer."""

    pattern: re.Pattern[str]
    counting: frozenset[int]


def _with_counters(pattern: re.Pattern[str], texts: Sequence[str]) -> Taught:
    rows = [[int(n[:18]) for n in _NUMBER.findall(m.group())] for t in texts if (m := pattern.match(t)) and m.group()]
    counting = set()
    if len(rows) >= 3 and len({len(r) for r in rows}) == 1:
        for k in range(len(rows[0])):
            values = [r[k] for r in rows]
            if all(a < b for a, b in itertools.pairwise(values)):
                counting.add(k)
    return Taught(pattern, frozenset(counting))


def _without(prefix: str, counting: frozenset[int]) -> str:
    """The prefix without its counting numbers."""
    if not counting:
        return prefix
    numbers = itertools.count()
    return _NUMBER.sub(lambda m: "" if next(numbers) in counting else m.group(), prefix)


def _taught(out: list[Line], levels: dict[int, str], i: int, patterns: Sequence[Taught]) -> None:
    """Take a learned prefix off line ``i``, and what is certain behind it, in place."""
    line = out[i]
    for pattern, counting in patterns:
        m = pattern.match(line.text)
        if m is None or not m.group():
            continue
        key, tags = ("", NO_TAGS) if "lineno" in pattern.groupindex else _read(_without(m.group(), counting))
        shape = f"{line.shape}+learned" if line.shape else "learned"
        out[i] = Line(line.no, line.start, line.end, line.text[m.end() :], shape, line.stream + key, merge_tags(line.tags, tags))
        if out[i].text and out[i].text[0] not in " \t":
            _certain(out, levels, i)
        return


def learn(texts: Sequence[str], begins: Sequence[str] | None = None, hay: Haystack | None = None) -> list[re.Pattern[str]]:
    """Patterns of the prefixes that a block teaches; none for a block without any.

    ``begins`` are the texts that stand at the start of a line of the log: a carriage return, as bars print it,
    starts a text that has no prefix. ``hay`` holds all of the texts, and may hold more.
    """
    filled = list(filter(str.strip, texts if begins is None else begins))
    if len(filled) < 2:
        return []
    label = _numbers(filled) or _label(filled) or _names(filled)
    if label is not None:
        return [label]
    found: dict[str, re.Pattern[str]] = {}
    hay = hay or Haystack(texts)
    blob = "\n".join(texts)
    words = tuple(w for w in _OPENER_WORDS if hay.holds(w) and not _all_at_margin(w, blob))
    for i in sorted({i for w in words for i, t in enumerate(texts) if w in t}):
        text = texts[i]
        if text.lstrip(" |+").startswith(_OPENER_WORDS):
            continue  # a line that opens at its margin has nothing before it
        opener = _OPENER.search(text)
        lead = text[: opener.start()] if opener else None
        if lead is None and 'File "' in text and not text.lstrip().startswith("File"):
            m = _FILE.match(text)
            lead = f"{m['lead']} " if m else None
        if not lead or not lead.strip(" |+\t"):
            continue
        if lead.strip() == ">" and (opener is None or "Traceback" not in opener.group()):
            continue  # pytest and loguru mark lines with it; a quotation marks the header too
        if len(lead) > MAX_LABEL:
            continue
        lead = _GUTTER.sub("", lead) if _GUTTER.search(lead) and not lead.rstrip().endswith(" |") else lead
        lead = _one_blank(lead, text)
        if not lead.strip() or lead.lstrip().startswith('{"') or _mask(lead) in found or lead.strip().endswith(_NO_LEAD):
            continue
        pattern = _generalise(lead)
        below = sum(
            1
            for t in texts[i + 1 : i + 40]
            if (k := pattern.match(t)) and (t[k.end() :][:1] in " |─╰" or not t[k.end() :] or _RAISED.match(t[k.end() :]))
        )
        if below >= 2 or (below == 1 and opener is not None and "Traceback" in opener.group()):
            found[_mask(lead)] = pattern
    return list(found.values())


def _all_at_margin(word: str, blob: str) -> bool:
    """Whether every line that holds the word begins with it, or is a frame as the interpreter sets it in."""
    margin = "\n  " if word == 'File "' else "\n"
    at = blob.find(word)
    while at >= 0:
        if blob[max(0, at - len(margin)) : at] != margin and at:
            return False
        at = blob.find(word, at + len(word))
    return True


def _one_blank(lead: str, text: str) -> str:
    """The lead with at most one blank at its end: the others are the text's own indentation."""
    bare = lead.rstrip(" ")
    return f"{bare} " if text[len(bare) : len(bare) + 1] == " " else bare


def _mask(prefix: str) -> str:
    return re.sub(r"\d+", "0", prefix)


def _generalise(prefix: str) -> re.Pattern[str]:
    """The prefix with its numbers left open; a blank at its end may be missing where the line ends."""
    bare = prefix.rstrip(" ")
    body = "".join(r"\d+" if p.isdigit() else " +" if p.isspace() else re.escape(p) for p in re.split(r"(\d+| +)", bare) if p)
    return re.compile(f"^{body}{'(?: |$)' if bare != prefix else ''}")


def _numbers(filled: Sequence[str]) -> re.Pattern[str] | None:
    """``11: ``, ``[3] `` or ``12 | `` before nearly every line."""
    head = filled[:24]
    if sum(1 for t in head if t.lstrip(" [")[:1].isdigit()) < 0.6 * len(head):
        return None
    for form in (
        r"^ *(?P<{}>\d{{1,6}}):(?: |$)",
        r"^ *\[(?P<{}>\d{{1,6}})\]:?(?: |$)",
        r"^ *(?P<{}>\d{{1,6}}) ?[|\t│](?: |$)",
        r"^ *(?P<{}>\d{{1,6}})(?: {{1,2}}|$)",
    ):
        pattern = re.compile(form.format("n"))
        values = [int(m["n"]) for t in filled if (m := pattern.match(t))]
        if len(values) >= MOST * len(filled):
            # Numbers that only ever grow count lines (a pager, a web page); numbers that come again name ranks.
            counting = len(values) > 2 and all(a < b for a, b in itertools.pairwise(values))
            if not counting and form.endswith("|$)") and "[:]" not in form and form.startswith(r"^ *(?P<{}>\d{{1,6}})(?: "):
                return None  # a bare number may be data
            return re.compile(form.format("lineno" if counting else "n"))
    return None


def _label(filled: Sequence[str]) -> re.Pattern[str] | None:
    """The same first words (but for numbers) before nearly every line, if they look like a label and not like text."""
    sample = filled[:_SAMPLE]
    initials = ["0" if (c := t.lstrip()[:1]).isdigit() else c for t in sample[:24]]
    if max(map(initials.count, set(initials))) < 0.6 * len(initials):
        return None
    head = Counter(_mask(t.split(None, 1)[0]) for t in sample[:24])
    if head.most_common(1)[0][1] < 0.6 * min(24, len(sample)):
        return None
    firsts: Counter[str] = Counter()
    for first, often in Counter(t.split(None, 1)[0] for t in sample).items():
        firsts[_mask(first)] += often
    token, count = firsts.most_common(1)[0]
    if count < MOST * len(sample) or len(sample) < 3 or _WORDS.match(token) or _NOT_NAMES.search(token.strip("[]():")):
        return None
    if not token.strip("|+"):
        return None  # the gutter of an exception group
    if not (re.search(r"[:|>\])›»/@-]$|\d", token) or re.search(r"^[<\[(]", token)) and not _second_constant(sample):
        return None
    rows = [t for t in sample if _mask(t.split(None, 1)[0]) == token]
    indent = min(len(t) - len(t.lstrip(" ")) for t in rows)
    words = rows[0].split()
    grouped = any("+ Exception Group Traceback" in t for t in sample)  # then a bar is its gutter
    taken = 1
    while taken < min(4, len(words) - 1):
        seconds = Counter(_mask(w[taken]) if len(w := t.split()) > taken else "" for t in rows)
        word, often = seconds.most_common(1)[0]
        if (
            not word
            or often < MOST * sum(1 for t in rows if len(t.split()) > taken)
            or _WORDS.match(word)
            or (grouped and not word.strip("|+"))
            or (not word.strip("│") and any("╭" in t for t in sample))  # the border of a box
        ):
            break
        taken += 1
    longest = max(rows, key=lambda t: len(t.split()))
    m = re.match(rf" {{{indent}}}(?:\S+[ \t]+){{{taken - 1}}}\S+", longest)
    if m is None:
        return None
    body = "".join(
        r"\d+" if p.isdigit() else r"[ \t]+" if p.isspace() else re.escape(p)
        for p in re.split(r"(\d+|[ \t]+)", m.group().lstrip(" "))
        if p
    )
    short = "".join(r"\d+" if p.isdigit() else re.escape(p) for p in re.split(r"(\d+)", m.group().split()[0]) if p)
    return (
        re.compile(f"^ {{{indent}}}(?:{body}(?:[ \t]|$)|{short}$)") if taken > 1 else re.compile(f"^ {{{indent}}}{body}(?: |\t|$)")
    )


def _second_constant(sample: Sequence[str]) -> bool:
    seconds = Counter(_mask(w[1]) if len(w := t.split()) > 1 else "" for t in sample)
    word, count = seconds.most_common(1)[0]
    return bool(word) and count >= MOST * len(sample) and not word[:1].isalnum()


def _names(filled: Sequence[str]) -> re.Pattern[str] | None:
    """``gpu-a: `` and ``gpu-b: ``: several hosts' names before nearly every line."""
    if sum(1 for t in filled[:24] if _NAMED.match(t)) < 0.6 * min(24, len(filled)):
        return None
    names = [m.group(1) for t in filled[:_SAMPLE] if (m := _NAMED.match(t)) and not _NOT_NAMES.search(m.group(1))]
    if len(names) < MOST * len(filled[:_SAMPLE]) or len(names) < 3 or len(set(names)) > max(1, len(names) // 2):
        return None
    choice = "|".join(sorted({re.escape(n) for n in names}, key=len, reverse=True))
    return re.compile(rf"^(?:{choice}):(?: |$)")


def _read(prefix: str) -> tuple[str, Tags]:
    """Stream key and tags of a learned prefix. Clocks in it do not say who writes."""
    key = _CLOCKS.sub("", prefix).strip()
    bare = key.strip("[]():|<>- ")
    if bare.isdigit():
        return key, Tags(rank=int(bare))
    local, rank = _LOCAL_WORD.search(bare), _RANK_WORD.search(bare)
    if rank or local:
        return key, Tags(int(rank[1]) if rank else None, int(local[1]) if local else None)
    if re.fullmatch(r"[A-Za-z][\w.-]*", bare):
        return key, Tags(host=bare)
    return key, Tags(process=bare or None)


def _dedent(out: list[Line]) -> None:
    """Blanks before every line are a prefix too: take off what all lines share, by kind of prefix, in place."""
    if len(set(map(shape_of, out))) == 1 and any(t and t[0] not in " \t" for t in map(text_of, out)):
        return
    least: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for line in out:
        if line.text and least.get(line.shape) != 0:
            bare = line.text.lstrip(" \t")
            indent = len(line.text) - len(bare)
            if indent and bare.startswith("+ Exception Group Traceback"):
                indent = max(0, indent - 2)  # its gutter is set in by two
            least[line.shape] = min(least.get(line.shape, 99), indent)
            counts[line.shape] += 1
    shapes = {s for s, n in least.items() if n and counts[s] >= 3}
    if shapes:
        for i, line in enumerate(out):
            if line.shape in shapes and line.text:
                out[i] = line._replace(text=line.text[least[line.shape] :])
