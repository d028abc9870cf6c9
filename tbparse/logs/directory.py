"""The ranks' own logs beside the console's: torchrun's ``--log-dir`` layout.

``<log-dir>/<run_id>_<rand>/attempt_<n>/<local_rank>/{stdout.log,stderr.log,error.json}`` (torch.distributed.elastic, 1.9 to 2.13).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tbparse.errors import InputError
from tbparse.records import Tags

if TYPE_CHECKING:
    from tbparse.classify import Explainer

CHUNK = 1024 * 1024
_ATTEMPT = re.compile(r"^attempt_(\d+)$")
_NAMES = ("stderr.log", "stdout.log", "error.json")


class RankLog(NamedTuple):
    """One file of one rank: its path, and what its place says."""

    path: Path
    attempt: int | None
    local_rank: int | None


def rank_logs(root: Path) -> Iterator[RankLog]:
    """Files of torchrun's layout below ``root``, by attempt, rank and name."""
    found: list[tuple[int, int, int, Path]] = []
    for name in _NAMES:
        for path in root.rglob(name):
            local = path.parent.name
            attempt = _ATTEMPT.match(path.parent.parent.name)
            if local.isdigit():
                found.append((int(attempt[1]) if attempt else -1, int(local), _NAMES.index(name), path))
    for attempt_no, local_rank, _, path in sorted(found):
        yield RankLog(path, attempt_no if attempt_no >= 0 else None, local_rank)


def join_log_dir(explainer: Explainer, root: Path) -> int:
    """Read the ranks' own logs into the explainer; how many files there were. Raises InputError where there are none."""
    from tbparse.classify import Explainer as Engine

    if not root.is_dir():
        raise InputError(f"{root}: no such folder of logs; give the --log-dir that torchrun was given")
    explainer.drain()
    mapped = {e.local_rank: e.rank for e in explainer.job.exits if e.rank is not None and e.local_rank is not None}
    count = 0
    for log in rank_logs(root):
        count += 1
        rank = mapped.get(log.local_rank, log.local_rank)
        engine = Engine(rules=explainer.rules, source=str(log.path), tags=Tags(rank, log.local_rank))
        if log.path.name == "error.json":
            text = error_file_text(log.path.read_bytes())
            if text is None:
                continue
            engine.feed(text.encode("utf-8", "replace"))
        else:
            with log.path.open("rb") as file:
                while data := file.read(CHUNK):
                    engine.feed(data)
        engine.drain()
        for failure in engine.job.failures:
            failure.attempt = log.attempt if failure.attempt is None else failure.attempt
        explainer.job.merge(engine.job)
    if count == 0:
        raise InputError(f"{root}: holds no <attempt>/<rank>/stderr.log, stdout.log or error.json; give the --log-dir that torchrun was given")
    return count


def error_file_text(raw: bytes) -> str | None:
    """The traceback in elastic's error file, or its message; None where it is empty or not JSON."""
    try:
        data: Any = json.loads(raw)
    except ValueError:
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
