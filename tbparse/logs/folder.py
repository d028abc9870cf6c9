"""A folder of logs: which of its files are logs, whose they are, and how many jobs they belong to.

Files that are no logs are told by their names where that is enough; the others when they are read (their first bytes).
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from tbparse.errors import InputError
from tbparse.logs.flight_recorder import dump_rank
from tbparse.logs.places import PACKED, Place, places

MAX_DEPTH = 5
"""Folders below the one that is given: host, run, attempt, rank, and one more. Deeper lies another's log."""

_NOT_LOGS = {
    "checkpoints and weights": "pt pth bin safetensors ckpt distcp gguf onnx h5 hdf5 pb index msgpack",
    "data": "npy npz pkl pickle parquet arrow feather csv tsv db sqlite sqlite3 mmap idx tfrecord json",
    "settings": "yaml yml toml ini cfg xml lock env",
    "code": "py pyc pyi pyx c cc cpp cu cuh h hpp so o a sh sbatch slurm ipynb rs go js whl egg pth",
    "pictures and documents": "png jpg jpeg gif svg webp pdf mp4 wav md rst html css ico",
    "archives": "tar tgz zip 7z rar",
}
_BY_SUFFIX = {f".{x}": kind for kind, suffixes in _NOT_LOGS.items() for x in suffixes.split()}
_EVENTS = re.compile(
    r"^events\.out\.tfevents\.|\.tfevents\.|^requirements.*\.txt$|^(?:README|LICENSE)(?:\.txt)?$|^debug_state|\.wandb$|^debug-internal\.log$"
)
# Ray's own housekeeping: the dashboard, its agents, and the event streams say nothing of a job that raylet and workers do not.
_RAY_SIDE = re.compile(r"^(?:dashboard|monitor|log_monitor|gcs_server_port|event_[A-Z]|ray_client_proxier)")
_COPIES = re.compile(r"^filtered_std(?:out|err)\.log$")
_SKIP_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages", "events", "export_events", "wheels", "sockets"})


@dataclass(frozen=True, slots=True)
class JobLog:
    """One file of a job: its path, its size in bytes, and what the path says of its writer."""

    path: Path
    size: int
    place: Place


@dataclass(slots=True)
class JobFolder:
    """The logs of one job, in the order in which they are read; ``dumps`` are flight recorder dumps.

    ``skipped`` counts the files that by their names are no logs, by kind. ``root`` is what the job is called.
    """

    root: Path
    logs: list[JobLog] = field(default_factory=list)
    dumps: list[Path] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def size(self) -> int:
        """Bytes of all logs together, as they lie on disk."""
        return sum(log.size for log in self.logs)


def find_jobs(root: Path) -> list[JobFolder]:
    """The jobs of a folder, most often one; never none. Raises InputError where the folder cannot be read.

    Several are told apart where the layout is one job a folder or a name by its own making: Hydra's sweeps (``.hydra`` in
    each), several Ray sessions, ``lightning_logs/version_N``, and the files of several Slurm jobs (``slurm-<id>.out``).
    """
    if not root.is_dir():
        raise InputError(f"{root}: no such folder of logs; give the folder in which the job's processes wrote them")
    found = JobFolder(root)
    sweeps: list[PurePath] = []
    paths = sorted(_walk(root, found, sweeps))
    told = places([PurePath(os.path.relpath(p, root)) for p, _ in paths])
    logs = [JobLog(p, size, place) for (p, size), place in zip(paths, told, strict=True)]
    parted = _parted(root, logs, sweeps)
    if len(parted) < 2:
        found.logs = in_order(logs)
        return [found]
    jobs = [JobFolder(Path(name), in_order(members)) for name, members in sorted(parted.items(), key=lambda kv: _natural(kv[0]))]
    jobs[0].skipped, jobs[0].dumps = found.skipped, found.dumps
    return jobs


def one_job(paths: Sequence[str], *, root: Path | None = None) -> JobFolder:
    """Several files and folders as one job, called ``root``. Raises InputError for one that is not there."""
    common = Path(os.path.commonpath([os.path.abspath(p) for p in paths]))
    base = common if common.is_dir() else common.parent
    whole = JobFolder(root or common)
    seen: dict[str, tuple[Path, int]] = {}
    for given in paths:
        path = Path(given)
        if path.is_dir() or path == root:
            for job in find_jobs(path):
                seen.update({os.path.realpath(x.path): (x.path, x.size) for x in job.logs})
                whole.dumps += job.dumps
                whole.skipped += job.skipped
            continue
        try:
            seen[os.path.realpath(path)] = (path, path.stat().st_size)
        except (OSError, ValueError) as e:
            raise InputError(f"{given}: cannot be read: {(getattr(e, 'strerror', None) or str(e)).lower()}") from None
    files = sorted(seen.values())
    told = places([PurePath(os.path.relpath(p, base)) for p, _ in files])
    whole.logs = in_order([JobLog(p, size, place) for (p, size), place in zip(files, told, strict=True)])
    return whole


def in_order(logs: Sequence[JobLog]) -> list[JobLog]:
    """Consoles first, then by attempt, host, rank and stream: the order never depends on how the files were found."""

    def key(log: JobLog) -> tuple[object, ...]:
        p = log.place
        ranked = p.rank is not None or p.local_rank is not None
        return (
            ranked or bool(p.layout),
            -1 if p.attempt is None else p.attempt,
            p.unit or "",
            _natural(p.host or ""),
            -1 if p.rank is None else p.rank,
            -1 if p.local_rank is None else p.local_rank,
            p.stream or "",
            _natural(str(log.path)),
        )

    return sorted(logs, key=key)


def _natural(text: str) -> tuple[tuple[int, str], ...]:
    """Text with its numbers as numbers, so that 10 comes after 9."""
    return tuple((int(x[:18]), "") if x.isdecimal() else (-1, x) for x in re.split(r"(\d+)", text))


def _walk(root: Path, found: JobFolder, sweeps: list[PurePath]) -> Iterator[tuple[Path, int]]:
    """Files that may be logs, with their sizes; the others are counted in ``found``."""
    base = len(root.parts)
    seen: set[tuple[int, int]] = set()

    def closed(error: OSError) -> None:
        if error.filename is None or Path(error.filename) == root:
            raise InputError(f"{error.filename}: cannot be read: {(error.strerror or str(error)).lower()}") from None
        found.skipped["folders that cannot be read"] += 1

    for folder, below, names in os.walk(root, onerror=closed):
        here = Path(folder)
        if ".hydra" in below:
            sweeps.append(here)
        below[:] = sorted(x for x in below if not x.startswith(".") and x not in _SKIP_FOLDERS)
        if len(here.parts) - base >= MAX_DEPTH:
            below.clear()
        ranked = any(x.isdecimal() for x in below)
        for name in names:
            if name.startswith("."):
                continue
            path = here / name
            kind = _kind_by_name(name)
            if dump_rank(name) is not None:
                found.dumps.append(path)
                continue
            if kind is None and _COPIES.match(name) and ranked:
                kind = "copies of other logs"
            if kind is None:
                try:
                    info = path.stat()
                except OSError:
                    kind = "links to nothing"
                else:
                    if not stat.S_ISREG(info.st_mode):
                        kind = "sockets and pipes"
                    elif (info.st_dev, info.st_ino) in seen and info.st_ino:
                        kind = "copies of other logs"
            if kind is not None:
                found.skipped[kind] += 1
                continue
            seen.add((info.st_dev, info.st_ino))
            yield path, info.st_size
    found.dumps.sort()


def _kind_by_name(name: str) -> str | None:
    """What kind of other file a name belongs to; None for what may be a log."""
    if name == "error.json":
        return None
    path = PurePath(name)
    while path.suffix.lower() in PACKED:
        path = path.with_suffix("")
    if _RAY_SIDE.match(name):
        return "Ray's own housekeeping"
    return "event files and notes" if _EVENTS.search(name) else _BY_SUFFIX.get(path.suffix.lower())


def _parted(root: Path, logs: Sequence[JobLog], sweeps: Sequence[PurePath]) -> dict[str, list[JobLog]]:
    """The logs by job, where the layout tells several apart; else nothing."""
    jobs: dict[str, list[JobLog]] = defaultdict(list)
    if len(sweeps) > 1:
        homes = {str(s) for s in sweeps if s != root}
        for log in logs:
            home = next((str(p) for p in log.path.parents if str(p) in homes), None)
            jobs[home if home is not None else str(root)].append(log)
        return jobs
    for log in logs:
        parts = log.path.relative_to(root).parts
        version = next((i for i, p in enumerate(parts[:-1]) if re.match(r"^version_\d+$", p)), None)
        if log.place.layout in ("ray", "slurm") and log.place.unit is not None:
            at = next((i for i, p in enumerate(parts) if p == log.place.unit), None)
            jobs[str(root.joinpath(*parts[: at + 1])) if at is not None else str(log.path.with_name(log.place.unit))].append(log)
        elif version is not None:
            jobs[str(root.joinpath(*parts[: version + 1]))].append(log)
        else:
            return {}
    return jobs
