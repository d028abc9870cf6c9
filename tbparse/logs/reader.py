"""Many files as one job: each read by an engine of its own, several at a time, and joined in an order that is always the same.

The engines share their rules. A worker holds one file open and one portion of it in memory; what it found is small,
and no more than a few results wait for their turn, so memory does not grow with the number of files.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tbparse.attribute.origin import NO_SETTINGS, PathSettings
from tbparse.attribute.survived import mark_finished
from tbparse.errors import InputError, NotALogError
from tbparse.logs.error_file import MAX_BYTES, read_error_file
from tbparse.logs.flight_recorder import join_dump
from tbparse.logs.folder import JobFolder, JobLog
from tbparse.logs.source import LogSource
from tbparse.records import Tags, merge_tags
from tbparse.text.blocks import SMALL_LOG

if TYPE_CHECKING:
    from pathlib import Path

    from tbparse.attribute.job import Job
    from tbparse.engine import Explainer
    from tbparse.ruleset.match import RuleSet

WORKERS = 4
"""Files that are read at the same time; hyperscan and reading leave the interpreter to the others."""
_AHEAD = 4
"""Results that may wait for their turn, for each worker."""
_THREADS_FROM = 4 * 1024 * 1024
"""A job of fewer bytes is read faster without threads."""
_FEW = 64
_SMALL_OF_MANY = 4 * 1024

Tick = Callable[[int], None]
"""Told the size of each file after it was read."""


@dataclass(slots=True)
class Part:
    """What one file held. ``other`` says what a file is that is no log, ``failed`` why it cannot be read."""

    log: JobLog
    job: Job | None = None
    notes: list[str] = field(default_factory=list)
    other: bool = False
    failed: str | None = None


def read_job(explainer: Explainer, folder: JobFolder, *, paths: PathSettings = NO_SETTINGS, tick: Tick | None = None) -> int:
    """Read the logs of a job into the explainer; how many there were.

    What an explainer was fed before is the job's console. Raises InputError where the folder holds no log that can be read.
    """
    explainer.drain()
    consoles = [x for x in folder.logs if _is_console(x)]
    others = [x for x in folder.logs if not _is_console(x)]
    seen: Counter[str] = Counter()
    failed: list[str] = []
    count = 0
    for group in (consoles, others):
        tags = _tagger(explainer.job, others)
        for part in _parts(group, explainer.rules, paths, tags):
            if tick is not None:
                tick(part.log.size)
            if part.failed is not None:
                failed.append(part.failed)
            elif part.other:
                seen["no text"] += 1
            elif part.job is not None:
                count += 1
                explainer.job.merge(part.job)
                explainer.job.notes += part.notes
                if group is consoles and not explainer.job.last_lines:
                    explainer.job.last_lines, explainer.job.last_no = part.job.last_lines, part.job.last_no
    for path in _one_form(folder.dumps):
        try:
            count += join_dump(explainer.job, path)
        except InputError as e:
            failed.append(str(e))
    if count == 0:
        raise InputError(_nothing(folder, seen, failed))
    _note(explainer.job.notes, folder.skipped + seen, failed)
    return count


def _one_form(dumps: Sequence[Path]) -> list[Path]:
    """A dump that lies there as pickle and as JSON once: the pickle."""
    stems = {p.with_suffix("") for p in dumps if p.suffix != ".json"}
    return [p for p in dumps if p.suffix != ".json" or p.with_suffix("") not in stems]


def _is_console(log: JobLog) -> bool:
    p = log.place
    return p.layout in ("", "slurm") and p.rank is None and p.local_rank is None and p.host is None


def _tagger(job: Job, logs: Sequence[JobLog]) -> Callable[[JobLog], Tags]:
    """What is known of a file's writer: its path's word, and the global rank that the console's table gives a local one."""
    homes = {(x.place.host, x.place.unit) for x in logs if x.place.local_rank is not None}
    by_local = {e.local_rank: e.rank for e in job.exits if e.rank is not None and e.local_rank is not None}
    by_host = {(e.host, e.local_rank): e.rank for e in job.exits if e.rank is not None and e.host is not None}

    def tags(log: JobLog) -> Tags:
        p = log.place
        rank = p.rank
        if rank is None and p.local_rank is not None:
            rank = by_host.get((p.host, p.local_rank)) if p.host is not None else None
            if rank is None and len(homes) == 1:
                rank = by_local.get(p.local_rank, p.local_rank)
        return Tags(rank, p.local_rank, p.host, p.process)

    return tags


def _parts(logs: Sequence[JobLog], rules: RuleSet, paths: PathSettings, tags: Callable[[JobLog], Tags]) -> Iterator[Part]:
    """What each file holds, in the order of the files."""
    # Of a few files all lines are read; of thousands only those near a trigger, as of a large log.
    small = SMALL_LOG if len(logs) <= _FEW else _SMALL_OF_MANY
    if len(logs) < 3 or sum(x.size for x in logs) < _THREADS_FROM:
        for log in logs:
            yield read_one(log, rules, paths, tags(log), small)
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    workers = max(1, min(WORKERS, os.cpu_count() or 1, len(logs)))
    waiting: deque[Future[Part]] = deque()
    with ThreadPoolExecutor(workers, "tbparse-read") as pool:
        try:
            for log in logs:
                waiting.append(pool.submit(read_one, log, rules, paths, tags(log), small))
                if len(waiting) >= workers * _AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def read_one(log: JobLog, rules: RuleSet, paths: PathSettings, tags: Tags, small: int = SMALL_LOG) -> Part:
    """One file of a job, read by an engine of its own. Never raises for what the file is or holds."""
    from tbparse.engine import Explainer

    part = Part(log)
    name = str(log.path)
    source = LogSource(name)
    try:
        if log.place.stream == "error":
            with log.path.open("rb") as file:
                told = read_error_file(file.read(MAX_BYTES))
            tags = merge_tags(tags, Tags(time=told.time if told else None))
            engine = Explainer(rules=rules, source=name, tags=tags, paths=paths)
            if told is not None:
                engine.feed(told.text.encode("utf-8", "replace"))
        else:
            engine = Explainer(rules=rules, source=name, tags=tags, paths=paths, small=small)
            for chunk in source.portions():
                engine.feed(chunk)
        engine.drain()
    except NotALogError:
        part.other = True
        return part
    except InputError as e:
        part.failed = str(e)
        return part
    except OSError as e:
        part.failed = f"{name}: cannot be read: {(e.strerror or str(e)).lower()}"
        return part
    part.job, part.notes = engine.job, [f"{name}: {n}" for n in source.notes]
    for failure in engine.job.failures:
        failure.attempt = log.place.attempt if failure.attempt is None else failure.attempt
    if engine.job.last_lines:
        mark_finished(engine.job.failures, engine.job.last_lines, engine.job.last_no)
    return part


def _note(notes: list[str], skipped: Counter[str], failed: Sequence[str]) -> None:
    if skipped:
        total = sum(skipped.values())
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(skipped.items(), key=lambda kv: (-kv[1], kv[0])))
        notes.append(f"{total} other file{'s' if total > 1 else ''} of the folder were not read: {kinds}")
    if failed:
        more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
        notes.append(f"a log could not be read: {failed[0]}{more}")


def _nothing(folder: JobFolder, seen: Counter[str], failed: Sequence[str]) -> str:
    what = folder.skipped + seen
    kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(what.items(), key=lambda kv: (-kv[1], kv[0])))
    if failed:
        return failed[0] if len(failed) == 1 else f"{failed[0]} (and {len(failed) - 1} more)"
    held = f"it holds {kinds}" if kinds else "it is empty"
    return f"{folder.root}: holds no logs ({held}); give the folder in which the job's processes wrote them"
