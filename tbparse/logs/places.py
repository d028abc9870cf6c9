"""What a file's path says of who wrote it: rank, local rank, host, attempt, stream.

Layouts, and where their names come from:

* torchrun and accelerate ``--log_dir``: ``<run id>_<random>/attempt_<n>/<local rank>/{stdout.log,stderr.log,error.json}``
  (torch.distributed.elastic.multiprocessing.api.DefaultLogsSpecs; ``filtered_*.log`` beside the ranks are copies)
* DeepSpeed ``--enable_each_rank_log``: ``<YYYYmmddHHMMSS>_rank<global rank>.log`` (deepspeed/launcher/launch.py)
* Slurm's filename patterns ``%t %n %N %j %A %a`` in ``srun --output``
* Open MPI ``--output-filename``: ``<job>/rank.<n>/{stdout,stderr}``
* Ray: ``worker-<id>-<job>-<pid>.{out,err}``, ``python-core-{worker,driver}-<id>_<pid>.log``, ``raylet.*``, ``gcs_server.*``
* Kubernetes: ``<namespace>_<pod>_<uid>/<container>/<restarts>.log``, ``<pod>_<namespace>_<container>-<id>.log``, ``<pod>.log``
* anything with ``rank``, ``local_rank``, ``node``, ``host``, ``attempt`` or ``restart`` and a number in its name

A name is somebody's setting, and what a process printed is its own word: where both tell a rank, the content wins.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple


class Place(NamedTuple):
    """Who wrote a file, as far as its path tells. ``layout`` is the launcher whose layout it is, ``""`` for none known.

    ``stream`` is ``stdout``, ``stderr``, ``error`` (elastic's error file), or None where the file has both.
    ``unit`` names the run, array task or session that the file belongs to, where the path tells.
    """

    layout: str = ""
    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    attempt: int | None = None
    process: str | None = None
    stream: str | None = None
    unit: str | None = None


PACKED = frozenset({".gz", ".bz2", ".xz", ".zst", ".zstd"})
_STREAMS = {"stdout": "stdout", "out": "stdout", "stderr": "stderr", "err": "stderr", "error": "stderr"}
_ATTEMPT_DIR = re.compile(r"^attempt_(\d+)$")
_RANK_DIR = re.compile(r"^rank[._-]?(\d+)$")
_RAY_WORKER = re.compile(r"^worker-(?P<id>[0-9a-f]{16,})-(?P<job>[0-9a-f]+)-(?P<pid>\d+)$")
_RAY_CORE = re.compile(r"^python-core-(?P<kind>worker|driver)-[0-9a-f]+_(?P<pid>\d+)$")
_RAY_SYSTEM = re.compile(r"^(?:raylet|gcs_server|runtime_env_setup-[0-9a-f]+|runtime_env_agent)$")
_POD_DIR = re.compile(r"^(?P<ns>[a-z0-9-]+)_(?P<pod>[a-z0-9.-]+)_(?P<uid>[0-9a-f-]{8,})$")
_POD_FILE = re.compile(r"^(?P<pod>[a-z0-9.-]+)_(?P<ns>[a-z0-9-]+)_(?P<container>[a-z0-9-]+)-[0-9a-f]{12,}$")
_POD_NAME = re.compile(
    r"^(?P<pod>[a-z0-9][a-z0-9.-]*-(?:master|worker|launcher|chief|ps|head|server|node|trainer|replica)-[a-z0-9-]*\d)$"
)
_SLURM = re.compile(r"^slurm-(?P<job>\d+)(?:_(?P<task>\d+))?$")
_ADDRESS = re.compile(r"^(?:ip-)?\d{1,3}(?:[.-]\d{1,3}){3}$")

_END = r"(?![A-Za-z0-9])"
_LOCAL = re.compile(rf"(?i)(?:^|[^a-z])local[_-]?rank[=._-]?(\d+){_END}")
_RANK = re.compile(
    rf"(?i)(?:^|[^a-z])(?<!local)(?<!local_)(?<!local-)(?<!node)(?<!node_)(?<!node-)(?:global[_-]?)?rank[=._-]?(\d+){_END}"
)
_NODE_RANK = re.compile(rf"(?i)(?:^|[^a-z])node[_-]?rank[=._-]?(\d+){_END}")
_TASK = re.compile(rf"(?i)(?:^|[^a-z])(?:task|proc|process)[=._-]?(\d+){_END}")
_ATTEMPT = re.compile(rf"(?i)(?:^|[^a-z])(?:attempt|restart)s?[=._-]?(\d+){_END}")
_HOST = re.compile(r"(?i)(?:^|[_.-])((?:node|host|gpu|worker|nid|cn|compute|dgx)[a-z]*-?\d+|ip(?:-\d+){4})(?![a-z0-9])")
_NUMBER = re.compile(r"\d+")


def stem_of(name: str) -> tuple[str, str | None]:
    """A file's name without packing, log suffixes and stream, and the stream that the name tells."""
    path = PurePath(name)
    while path.suffix.lower() in PACKED:
        path = path.with_suffix("")
    bare = path.name
    stream = _STREAMS.get(bare.lower())
    if stream is not None:
        return bare, stream
    while True:
        head, dot, last = bare.rpartition(".")
        if not dot or not head:
            return bare, stream
        if last.lower() in _STREAMS:
            stream, bare = _STREAMS[last.lower()], head
        elif last.lower() in ("log", "txt", "output"):
            bare = head
            if bare.lower() in _STREAMS:
                return bare, _STREAMS[bare.lower()]
        else:
            return bare, stream


def place_of(path: PurePath) -> Place:
    """What one path, relative to the folder that was asked about, says by itself."""
    stem, stream = stem_of(path.name)
    parts = path.parts[:-1]
    return (
        _elastic(path, parts, stem, stream)
        or _ray(parts, stem, stream)
        or _pods(parts, stem, stream)
        or _words(parts, stem, stream)
    )


def _elastic(path: PurePath, parts: Sequence[str], stem: str, stream: str | None) -> Place | None:
    error = path.name == "error.json"
    if not error and stem not in ("stdout", "stderr"):
        return None
    above = parts[-1] if parts else ""
    if above.isdecimal():
        attempt = _ATTEMPT_DIR.match(parts[-2]) if len(parts) >= 2 else None
        if attempt is None and not error and len(parts) >= 2 and not parts[-2].isdecimal():
            return None
        run = parts[-3] if attempt and len(parts) >= 3 else None
        host = parts[-4] if attempt and len(parts) >= 4 else None
        return Place(
            "torchrun", None, int(above), host, int(attempt[1]) if attempt else None, None, "error" if error else stem, run
        )
    mpi = _RANK_DIR.match(above)
    if mpi and len(parts) >= 2 and parts[-2].isdecimal():
        return Place("mpirun", int(mpi[1]), stream=stream)
    return Place("torchrun", stream="error") if error else None


def _ray(parts: Sequence[str], stem: str, stream: str | None) -> Place | None:
    worker, core = _RAY_WORKER.match(stem), _RAY_CORE.match(stem)
    if not worker and not core and not _RAY_SYSTEM.match(stem):
        return None
    host = next((p for p in reversed(parts) if _ADDRESS.match(p)), None)
    unit = next((p for p in parts if p.startswith("session_")), None)
    if worker:
        return Place("ray", host=host, process=f"pid={worker['pid']}", stream=stream, unit=unit)
    if core:
        return Place("ray", host=host, process=f"{core['kind']} pid={core['pid']}", unit=unit)
    return Place("ray", host=host, process=stem, stream=stream, unit=unit)


def _pods(parts: Sequence[str], stem: str, stream: str | None) -> Place | None:
    if len(parts) >= 2 and stem.isdecimal() and (pod := _POD_DIR.match(parts[-2])):
        return Place("kubernetes", host=pod["pod"], attempt=int(stem), process=parts[-1])
    m = _POD_FILE.match(stem) or _POD_NAME.match(stem)
    return Place("kubernetes", host=m["pod"], stream=stream) if m else None


def _words(parts: Sequence[str], stem: str, stream: str | None) -> Place:
    """Ranks and hosts by the words beside their numbers, in the name first, then in the folders above it."""
    slurm = _SLURM.match(stem)
    if slurm:
        return Place("slurm", stream=stream, unit=slurm.group())
    texts = [stem, *reversed(parts)]

    def first(pattern: re.Pattern[str]) -> int | None:
        return next((int(m[1]) for t in texts if (m := pattern.search(t))), None)

    local, rank = first(_LOCAL), first(_RANK)
    node = first(_NODE_RANK)
    if rank is None and local is None:
        rank = first(_TASK)
    host = next((m[1] for t in texts if (m := _HOST.search(t))), None)
    if host is None and parts and (_ADDRESS.match(parts[-1]) or (rank is None and local is not None)):
        host = parts[-1]
    if host is None and node is not None:
        host = f"node {node}"
    layout = "deepspeed" if re.match(r"^\d{14}_rank\d+$", stem) else ""
    return Place(layout, rank, local, host, first(_ATTEMPT), None, stream)


def places(paths: Sequence[PurePath]) -> list[Place]:
    """What the paths of one folder say, each by itself and together.

    Together: where names end in numbers that run from 0 on without a gap, they are ranks (``%t``); where every host has the
    same numbers, they are local ranks (``%n``). Folders that hold the same ranks are hosts.
    """
    found = [place_of(p) for p in paths]
    groups: dict[tuple[str | None, ...], list[tuple[int, str, int]]] = defaultdict(list)
    for i, (path, place) in enumerate(zip(paths, found, strict=True)):
        if place.layout == "" and place.rank is None and place.local_rank is None:
            end = _numbered(path)
            if end is not None and not (place.host and stem_of(path.name)[0].endswith(place.host)):
                alike = (place.stream, *end[2])
                groups[alike].append((i, end[0], end[1]))
    for members in groups.values():
        _by_number(found, members)
    _folders(paths, found)
    return found


_LAST_NUMBER = re.compile(r"^(?P<before>.*?)[._-]?(?P<n>\d{1,7})$")


def _numbered(path: PurePath) -> tuple[str, int, tuple[str, ...]] | None:
    """The number that a name ends in, what stands before it, and what names of its kind share; else that of its folder."""
    stem, _ = stem_of(path.name)
    m = _LAST_NUMBER.match(stem)
    if m is not None:
        return m["before"], int(m["n"]), ("name", *path.parts[:-1])
    if path.parts[:-1] and path.parts[-2].isdecimal():
        return "", int(path.parts[-2][:7]), ("folder", *path.parts[:-2], stem)
    return None


def _by_number(found: list[Place], members: Sequence[tuple[int, str, int]]) -> None:
    values = [n for _, _, n in members]
    names = {before for _, before, _ in members}
    if len(members) < 2 or min(values) != 0:
        return
    whole = sorted(values) == list(range(len(values)))
    each = len(names) > 1 and all(
        sorted(n for _, b, n in members if b == before) == list(range(len(members) // len(names))) for before in names
    )
    if not whole and not (each and len(members) > len(names)):
        return
    hosts = len(names) > 1 and all(before[:1].isalpha() for before in names)
    for i, before, n in members:
        host = found[i].host or (before if hosts else None)
        found[i] = found[i]._replace(rank=n, host=host) if whole else found[i]._replace(local_rank=n, host=host)


_NO_HOST = re.compile(
    r"^(?:\d.*|attempt.*|restart.*|version_\d+|logs?|out(?:put)?s?|run.*|(?:local_)?rank.*|std(?:out|err))$", re.IGNORECASE
)


def _folders(paths: Sequence[PurePath], found: list[Place]) -> None:
    """Where several folders hold ranks each is a host; ranks that they all hold again are local ranks."""
    held: dict[str, set[int]] = defaultdict(set)
    mine: dict[int, str] = {}
    for i, (path, place) in enumerate(zip(paths, found, strict=True)):
        if place.layout not in ("", "deepspeed") or place.rank is None:
            continue
        name = place.host or next((p for p in reversed(path.parts[:-1]) if not _NO_HOST.match(p)), None)
        if name is None:
            return
        mine[i] = name
        held[name].add(place.rank)
    if len(held) < 2:
        return
    sets = list(held.values())
    again = all(s == sets[0] for s in sets)
    if not again and len(set().union(*sets)) != sum(map(len, sets)):
        return
    for i, name in mine.items():
        place = found[i]
        if not again:
            found[i] = place._replace(host=name)
        elif place.local_rank is None:
            found[i] = place._replace(rank=None, local_rank=place.rank, host=name)
