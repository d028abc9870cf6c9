"""The ranks' own logs beside the console's: torchrun's ``--log-dir`` layout.

``<log-dir>/<run_id>_<rand>/attempt_<n>/<local_rank>/{stdout.log,stderr.log,error.json}``
(torch.distributed.elastic, 1.9 to 2.13).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tbparse.attribute.origin import NO_SETTINGS, PathSettings
from tbparse.errors import InputError
from tbparse.logs.flight_recorder import dump_files, join_dump
from tbparse.logs.source import CHUNK
from tbparse.records import Tags

if TYPE_CHECKING:
    from tbparse.engine import Explainer

_ATTEMPT = re.compile(r"^attempt_(\d+)$")
_NAMES = ("stderr.log", "stdout.log", "error.json")
_MAX_ERROR_FILE = 16 * 1024 * 1024
_DEPTH = 4
"""Folders below the one that is given: run, attempt, rank, and one more above them. Deeper lies another's log."""
_ASK = "give the --log-dir that torchrun was given"


class RankLog(NamedTuple):
    """One file of one rank: its path, and what its place says."""

    path: Path
    attempt: int | None
    local_rank: int | None


def rank_logs(root: Path) -> Iterator[RankLog]:
    """Files of torchrun's layout below ``root``, by attempt, rank and name.

    Raises InputError for a folder that cannot be read.
    """
    found: list[tuple[int, int, int, Path]] = []
    for folder, below, names in os.walk(root, onerror=_unreadable):
        below.sort()
        here = Path(folder)
        if len(here.relative_to(root).parts) >= _DEPTH:
            below.clear()
        if not here.name.isdecimal():
            continue
        attempt = _ATTEMPT.match(here.parent.name)
        for name in set(names).intersection(_NAMES):
            found.append((int(attempt[1]) if attempt else -1, int(here.name), _NAMES.index(name), here / name))
    for attempt_no, local_rank, _, path in sorted(found):
        yield RankLog(path, attempt_no if attempt_no >= 0 else None, local_rank)


def runs(root: Path) -> list[Path]:
    """The folders of single runs below ``root``, each holding attempts; one for each agent of each run."""
    return sorted({log.path.parent.parent.parent for log in rank_logs(root) if log.attempt is not None})


def join_log_dir(explainer: Explainer, root: Path, *, paths: PathSettings = NO_SETTINGS) -> int:
    """Read the ranks' own logs into the explainer; how many files there were.

    Raises InputError where there are none, or one cannot be read.
    """
    from tbparse.engine import Explainer as Engine

    if not root.is_dir():
        raise InputError(f"{root}: no such folder of logs; {_ASK}")
    explainer.drain()
    mapped: dict[int | None, int] = {
        e.local_rank: e.rank for e in explainer.job.exits if e.rank is not None and e.local_rank is not None
    }
    count = 0
    for log in rank_logs(root):
        count += 1
        rank = mapped.get(log.local_rank, log.local_rank)
        engine = Engine(rules=explainer.rules, source=str(log.path), tags=Tags(rank, log.local_rank), paths=paths)
        try:
            _feed(engine, log.path)
        except OSError as e:
            raise InputError(f"{log.path}: cannot be read: {(e.strerror or str(e)).lower()}") from None
        engine.drain()
        for failure in engine.job.failures:
            failure.attempt = log.attempt if failure.attempt is None else failure.attempt
        explainer.job.merge(engine.job)
    for rank, path in dump_files(root):
        count += join_dump(explainer.job, path, rank)
    if count == 0:
        layout = "<attempt>/<rank>/stderr.log, stdout.log, error.json"
        raise InputError(f"{root}: holds no logs in torchrun's layout ({layout}){_others(root)}")
    return count


def _feed(engine: Explainer, path: Path) -> None:
    with path.open("rb") as file:
        if path.name == "error.json":
            text = error_file_text(file.read(_MAX_ERROR_FILE))
            if text is not None:
                engine.feed(text.encode("utf-8", "replace"))
            return
        while data := file.read(CHUNK):
            engine.feed(data)


def _unreadable(error: OSError) -> None:
    raise InputError(f"{error.filename}: cannot be read: {(error.strerror or str(error)).lower()}") from None


def _others(root: Path) -> str:
    """What to do instead: the folder's plain files may be logs of their own."""
    files = sorted(p.name for p in root.iterdir() if p.is_file() and not p.name.startswith("."))
    if not files:
        return f"; {_ASK}"
    shown = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
    return f"; it holds {shown}: give such files by name"


def error_file_text(raw: bytes) -> str | None:
    """The traceback in elastic's error file, or its message; None where it is empty or not JSON."""
    try:
        data: Any = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    message = data.get("message") if isinstance(data, dict) else None
    if isinstance(message, str):
        return message
    if not isinstance(message, dict):
        return None
    extra = message.get("extraInfo")
    stack = extra.get("py_callstack") if isinstance(extra, dict) else None
    if isinstance(stack, str) and stack.strip():
        return stack
    text = message.get("message")
    return text if isinstance(text, str) else None
