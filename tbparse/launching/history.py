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
from typing import Any

from tbparse.errors import UsageError

try:
    import fcntl
except ImportError:  # Windows has other locks; single appends are whole there all the same
    fcntl = None  # type: ignore[assignment]

MAX_BYTES = 8_000_000
"""Of a longer file only the end is read."""
_log = logging.getLogger("tbparse")
_JOB_IDS = ("SLURM_JOB_ID", "SKYPILOT_TASK_ID", "LSB_JOBID", "PBS_JOBID")


def job_key(command: Sequence[str], env: Mapping[str, str]) -> str:
    """What tells one job's attempts from another's in one file: the scheduler's id where there is one, and the command."""
    number = next((env[name] for name in _JOB_IDS if env.get(name)), "")
    index = env.get("SLURM_ARRAY_TASK_ID", "")
    return json.dumps([number, index, *command], ensure_ascii=False)


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

    def last(self, job: str) -> dict[str, Any] | None:
        """The latest record of a job; None where there is none."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - MAX_BYTES))
                lines = file.read().split(b"\n")
        except OSError as e:
            _log.warning("%s: cannot be read: %s", self.path, e)
            return None
        for line in reversed(lines):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict) and record.get("job") == job:
                return record
        return None
