"""How torch, its stores and JAX word what they say of collectives: lines into facts.

Wording: torch/csrc/distributed/c10d of torch 1.9 to 2.13 (ProcessGroupNCCL.cpp, ProcessGroupGloo.cpp, ProcessGroupWrapper.cpp,
TraceUtils.h, TCPStore.cpp, control_collectives), torch.distributed.elastic.utils.store, jaxlib's coordination service, Slurm 20
to 25, Ray Train's failure policy. Numbers are bounded: a log may hold any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tbparse.attribute.facts import (
    DEFAULT_GROUP,
    MAX_NAMED,
    NEEDLES,
    Differ,
    Facts,
    Joined,
    Named,
    Progress,
    Restart,
    Work,
)
from tbparse.dialects.base import Page
from tbparse.records import Line, Tags

MAX_TASKS = 128


def read_lines(facts: Facts, page: Page, tags: Tags, source: str | None) -> None:
    """Add what a page's lines say. ``tags``: what the log's own name tells about who writes; ``source``: its name."""
    for i, line in enumerate(page.lines):
        if _TELLING.search(line.text):
            _line(facts, line, tags, source)
            if "imed out task names" in line.text and len(facts.named) < MAX_NAMED:
                tasks = _tasks([x.text for x in page.lines[i : i + MAX_TASKS]])
                if tasks:
                    facts.named.append(Named(tasks, "barrier", line, None, source))


def _line(facts: Facts, line: Line, tags: Tags, source: str | None) -> None:
    text = line.text
    group, inner = _group(text)
    said = line.tags.rank if line.tags.rank is not None else tags.rank
    rank = said if said is not None else inner
    if rank is None and (m := _RANK.search(text)):
        rank = int(m[1])
    if rank is not None:
        for m in _WORK.finditer(text):
            seq = int(m["seq"])
            size = m["n"] if m["n"] == m["out"] or m["out"] is None else f"{m['n']} to {m['out']}"
            facts.add_work((rank, group, seq), Work(rank, group, seq, m["op"], size, line, source))
        if group is not None and (m := _AT.search(text)):
            facts.add_work((rank, group, int(m[1])), Work(rank, group, int(m[1]), "", None, line, source))
        if m := _STATUS.search(text):
            status = Progress(rank, group, int(m["enqueued"]), int(m["completed"]), line, source)
            facts.add_progress((rank, group), status)
    if m := _DUMP_FROM.search(text):
        facts.first_timeout = int(m[1])
    if m := _CLOSING.search(text):
        facts.closed.add(int(m[1]))
    if len(facts.restarts) < MAX_NAMED:
        if _RESTART.search(text):
            facts.restarts.append(Restart("says", line, source))
        elif _QUOTES.search(text):
            facts.restarts.append(Restart("quotes", line, source))
        elif _CANCELLED.search(text):
            facts.restarts.append(Restart("cancelled", line, source))
    if m := _CLIENTS.search(text):
        facts.joined.append(Joined(int(m[1]), int(m[2]), line))
        del facts.joined[MAX_NAMED:]
    for found in _named(text):
        if len(facts.named) < MAX_NAMED:
            facts.named.append(Named(found[0], found[1], line, found[2], source))
    if (m := _DIFFER.search(text)) and len(facts.differ) < MAX_NAMED:
        first, second = _fingerprint(m["a"]), _fingerprint(m["b"])
        seq_ = next((int(x[1]) for x in (_SEQ.search(m["a"]), _SEQ.search(m["b"])) if x), None)
        facts.differ.append(Differ((int(m["rank"]), int(m["other"])), (first, second), seq_, line, source))


def _group(text: str) -> tuple[str | None, int | None]:
    """The process group that a line names, and the rank within it."""
    m = _PG.search(text)
    if m is None:
        return None, None
    # The GUID is the same on every member and differs between groups; the bare number of torch 2.3 counts within a process.
    name, description = m["guid"], m["desc"]
    if description == DEFAULT_GROUP or "0" in (name, m["old"]):
        group = DEFAULT_GROUP
    elif name is None:
        group = f"number {m['old']}" + (f" ({description})" if description else "")
    else:
        group = f"{name} ({description})" if description else name
    return group, int(m["rank"])


def _named(text: str) -> Iterator[tuple[tuple[int, ...], str, int | None]]:
    """Ranks that a text names as missing: the ranks, who names them, and the number of the collective."""
    if m := _MONITORED.search(text):
        yield _numbers(m[1]), "monitored barrier", None
    if m := _NEVER.search(text):
        yield _numbers(m[1]), "desync report", None
    if m := _NOT_JOINED.search(text):
        yield _numbers(m[1]), "desync report", int(m[2])
    if (m := _MISSING.search(text)) and (ranks := _numbers(m[1] or m[2])):
        yield ranks, "store", None


def _tasks(texts: list[str]) -> tuple[int, ...]:
    """Tasks that JAX's coordination service lists, one a line, under the sentence that says that they timed out."""
    found = set(_TASK.findall(texts[0].partition("imed out task names")[2]))
    for text in texts[1:]:
        m = _TASK.fullmatch(text.strip())
        if m is None:
            break
        found.add(m[1])
    return tuple(sorted(int(x) for x in found))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted({int(x) for x in re.findall(r"\d{1,7}", text)}))


def _fingerprint(text: str) -> str:
    """``ALLREDUCE of [4]`` out of torch's CollectiveFingerPrint."""
    op, shape = _OP.search(text), _SHAPE.search(text)
    said = op[1] if op else "a collective"
    return f"{said} of {shape[1]}" if shape else said


_TELLING = re.compile("|".join(re.escape(x) for x in NEEDLES))
_PG = re.compile(
    r"\[PG (?:ID \d+ PG GUID (?P<guid>[^\s()\]]+)|(?P<old>[^\s()\]]+)) ?(?:\((?P<desc>[^)\]]{0,200})\))? ?Rank (?P<rank>\d{1,7})\]"
)
_RANK = re.compile(r"\[Rank (\d{1,7})\]")
_WORK = re.compile(
    r"Work[A-Z]*\(SeqNum=(?P<seq>\d{1,18}), OpType=(?P<op>\w+)(?:, NumelIn=(?P<n>\d{1,18}))?(?:, NumelOut=(?P<out>\d{1,18}))?"
)
_AT = re.compile(r"(?:work sequence id|at NCCL work|watchdog at work): (\d{1,18})")
_STATUS = re.compile(
    r"[Ll]ast enqueued (?:NCCL )?work: (?P<enqueued>-?\d{1,18}), last completed (?:NCCL )?work: (?P<completed>-?\d{1,18})"
)
_DUMP_FROM = re.compile(r"dump signal due to a collective timeout from\s+rank (\d{1,7})")
_CLOSING = re.compile(r"Sending process (\d{1,10}) closing signal")
_RESTART = re.compile(r"will restart worker group|\bSLURM_RESTART_COUNT[=: ]+[1-9]")
_QUOTES = re.compile(r"\[FailurePolicy\] RETRY|so the task will be retried")
_CANCELLED = re.compile(r"CANCELLED AT \S+ DUE TO (?:PREEMPTION|NODE FAILURE|JOB REQUEUE)")
_CLIENTS = re.compile(r"(\d{1,7})/(\d{1,7}) clients joined")
_MONITORED = re.compile(r"Ranks? (\d+(?:, ?\d+)*) failed to pass monitoredBarrier")
_NEVER = re.compile(r"ranks \[([\d, ]+)\] are the lagging ranks")
_NOT_JOINED = re.compile(r"\[([\d, ]+)\] finished collective #\d+, but didn'?t join collective #(\d{1,18})")
_MISSING = re.compile(r"missing_ranks=\[([\d, ]{1,4000})\]|-- missing ranks: \[?([\d, ]{1,4000})")
_TASK = re.compile(r"/job:[\w./:-]*/task:(\d{1,7})")
_DIFFER = re.compile(
    r"Detected mismatch between collectives on ranks\. Rank (?P<rank>\d{1,7}) is running collective: (?P<a>.{0,4000}?),?"
    r" but Rank (?P<other>\d{1,7}) is running collective: (?P<b>.{0,4000})"
)
_SEQ = re.compile(r"SequenceNumber=(\d{1,18})")
_OP = re.compile(r"OpType=(\w+)")
_SHAPE = re.compile(r"TensorShape=(\[[\d, ]*\])")
