"""The history of a job's attempts: a file with one JSON object a line.

Lines are appended whole, under a lock, and forced to the disk, so that attempts of several processes do not mix and a crash
loses at most the line that was being written; what is left of such a line is skipped by readers.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tbparse.errors import UsageError

try:
    import fcntl
except ImportError:  # Windows has other locks; single appends are whole there all the same
    fcntl = None  # type: ignore[assignment]

MAX_BYTES = 8_000_000
"""Of a longer file only the end is read."""
_log = logging.getLogger("tbparse")
_JOB_IDS = ("SKYPILOT_TASK_ID", "SLURM_JOB_ID", "LSB_JOBID", "PBS_JOBID", "FLUX_JOB_ID", "AWS_BATCH_JOB_ID")
"""Ids that a job keeps when its scheduler starts it anew. SkyPilot's first: it outlives the cluster below."""
_TASKS = ("SLURM_PROCID", "SKYPILOT_NODE_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "FLUX_TASK_RANK", "LSB_JOBINDEX",
          "PBS_ARRAY_INDEX", "AWS_BATCH_JOB_NODE_INDEX", "JOB_COMPLETION_INDEX")  # fmt: skip
"""Which of several tasks of one job it is: each has attempts of its own."""


class Job(NamedTuple):
    """Which job an attempt belongs to. ``certain``: the key is of this job alone, whenever it is started."""

    key: str
    certain: bool


def job_of(command: Sequence[str], env: Mapping[str, str], key: str | None = None) -> Job:
    """What tells one job's attempts from another's in one file: the key that was given; else the scheduler's id, the task and the
    command; where there is no id, the working folder and the user in its place."""
    if key is not None:
        return Job(key, True)
    found = next((f"{name}={env[name]}" for name in _JOB_IDS if env.get(name)), None)
    tasks = [f"{name}={env[name]}" for name in _TASKS if env.get(name)]
    place = [found] if found is not None else [f"folder={_folder()}", f"user={os.getuid() if hasattr(os, 'getuid') else ''}"]
    return Job(json.dumps([*place, *tasks, *command], ensure_ascii=False), found is not None)


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return ""


class History:
    """The attempts in one file. Raises UsageError where the file cannot be written."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            os.close(self._open())
        except OSError as e:
            raise UsageError(f"--history {self.path}: cannot be written: {(e.strerror or str(e)).lower()}") from None

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)

    def add(self, record: Mapping[str, Any]) -> None:
        """Append a record. A disk that is full is logged: the job matters more than its history."""
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace") + b"\n"
        try:
            file = self._open()
            try:
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX)
                size = os.fstat(file).st_size
                if size and os.pread(file, 1, size - 1) != b"\n":
                    line = b"\n" + line  # somebody died within a line
                if os.write(file, line) != len(line):
                    _log.warning("%s: the attempt could not be written whole: the disk is full", self.path)
                os.fsync(file)
            finally:
                os.close(file)
        except OSError as e:
            _log.warning("%s: the attempt could not be written: %s", self.path, e)

    def of(self, job: str) -> list[dict[str, Any]]:
        """The records of a job, oldest first, of the last :data:`MAX_BYTES`; lines that are no records are skipped."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - MAX_BYTES))
                lines = file.read().split(b"\n")
        except OSError as e:
            _log.warning("%s: cannot be read: %s", self.path, e)
            return []
        found = []
        for line in lines:
            try:
                record = json.loads(line) if line.strip() else None
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict) and record.get("job") == job:
                found.append(record)
        return found
