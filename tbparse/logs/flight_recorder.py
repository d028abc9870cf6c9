"""torch's flight-recorder dumps: the last collectives of one rank, as pickle or JSON.

``TORCH_NCCL_DUMP_ON_TIMEOUT`` writes them as ``<TORCH_FR_DUMP_TEMP_FILE><rank>`` (``/tmp/nccl_trace_rank_3`` up to torch 2.6,
``comm_lib_trace_rank_3`` after); ``torch._C._distributed_c10d._dump_fr_trace()`` and ``_dump_fr_trace_json()`` hand them to a
program. Format: torch/csrc/distributed/c10d/FlightRecorderDetail.hpp, versions 2.0 to 2.10; gloo fills it, too, in torch 2.13.

A pickle is a program. These are read by an unpickler that knows containers, numbers and text, and that refuses whatever would
import or call anything: nothing of a dump is ever executed.
"""

from __future__ import annotations

import io
import json
import pickle
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tbparse.attribute.facts import DEFAULT_GROUP, Call, Recorded
from tbparse.errors import InputError, TbparseError

if TYPE_CHECKING:
    from tbparse.attribute.job import Job

MAX_BYTES = 256 * 1024 * 1024
"""Larger files are not read: torch keeps a few thousand collectives, which is a few megabytes."""
MAX_CALLS = 100_000
_NAME = re.compile(r"(?:nccl|comm_lib|hccl|gloo|xccl)\w*_trace\w*?_?(?P<rank>\d+)(?:\.(?:json|pkl|pickle))?$")
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python3\.\d+/|^<")
_MAX_DEPTH_ERRORS = (RecursionError, MemoryError, OverflowError)


class DumpError(TbparseError):
    """A file is no flight-recorder dump, or holds what must not be loaded."""


class _Containers(pickle.Unpickler):
    """Loads containers and scalars; asks for nothing outside the pickle."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise DumpError(f"it asks for {module}.{name}, which a dump never needs; nothing was executed")

    def persistent_load(self, pid: object) -> NoReturn:
        raise DumpError("it refers to an object outside itself, which a dump never does")


def dump_rank(name: str) -> int | None:
    """The rank that a file's name tells, or None where it is not named like a dump."""
    m = _NAME.search(name)
    return int(m["rank"]) if m else None


def dump_files(root: Path) -> Iterator[tuple[int, Path]]:
    """Rank and path of the dumps below a folder, in the order of ranks; the pickle where both forms are there."""
    found: dict[int, Path] = {}
    for path in sorted(root.rglob("*_trace*")):
        rank = dump_rank(path.name)
        if rank is not None and path.is_file() and (rank not in found or found[rank].suffix == ".json"):
            found[rank] = path
    yield from sorted(found.items())


def join_dump(job: Job, path: Path, rank: int | None = None) -> bool:
    """Take a rank's dump into a job's facts; whether it could be used. A file that is no dump is noted, and not an error.

    ``rank`` is what the caller knows; without it the file's name tells. Raises InputError where the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as e:
        raise InputError(f"{path}: cannot be read: {(e.strerror or str(e)).lower()}") from None
    rank = dump_rank(path.name) if rank is None else rank
    try:
        if rank is None:
            raise DumpError("its name does not end in a rank")
        job.facts.recorded[rank] = read_dump(data, rank, str(path))
    except DumpError as e:
        job.notes.append(f"{path.name} was not used as a flight recorder's dump: {e}")
        return False
    return True


def read_dump(data: bytes, rank: int, source: str = "") -> Recorded:
    """The calls of one rank's dump, pickled or JSON. Raises DumpError for anything else."""
    if len(data) > MAX_BYTES:
        raise DumpError(f"it is larger than {MAX_BYTES // 2**20} MB")
    content = _loaded(data)
    entries = content.get("entries") if isinstance(content, dict) else None
    if not isinstance(content, dict) or "version" not in content or not isinstance(entries, (list, type(None))):
        raise DumpError("it holds no `version` and `entries`")
    recorded = Recorded(rank, source)
    last: dict[str, int] = {}
    for entry in (entries or [])[-MAX_CALLS:]:
        if not isinstance(entry, dict):
            continue
        group, call = _call(entry)
        if group is None or call is None:
            continue
        recorded.calls.setdefault(group, []).append(call)
        if not call.p2p:
            recorded.cut = recorded.cut or (group not in last and call.seq > 1)
            last[group] = call.seq
    recorded.members = _members(content.get("pg_config"))
    return recorded


def _loaded(data: bytes) -> object:
    """The content, whichever form it has."""
    try:
        if data.lstrip()[:1] in (b"{", b"["):
            loaded: object = json.loads(data)
            return loaded
        return _Containers(io.BytesIO(data)).load()
    except DumpError:
        raise
    except _MAX_DEPTH_ERRORS:
        raise DumpError("it is nested too deeply") from None
    except Exception as e:  # an unpickler raises whatever a damaged stream makes it stumble over
        raise DumpError(f"it is damaged or cut off ({type(e).__name__})") from None


def _call(entry: Mapping[object, Any]) -> tuple[str | None, Call | None]:
    """Group and call of one entry; versions before 2.2 have ``seq_id`` and ``pg_id`` only."""
    named = entry.get("process_group")
    if isinstance(named, (list, tuple)) and len(named) == 2:
        name, description = str(named[0]), str(named[1])
        group = _group(name, description)
    elif isinstance(entry.get("pg_id"), int):
        group = _group(str(entry["pg_id"]), "")
    else:
        return None, None
    p2p = entry.get("is_p2p") is True
    seq = entry.get("p2p_seq_id" if p2p else "collective_seq_id", entry.get("seq_id"))
    if not isinstance(seq, int):
        return None, None
    op = str(entry.get("profiling_name") or "collective").rpartition(":")[2]
    sizes = entry.get("input_sizes")
    return group, Call(seq, op, _shape(sizes), str(entry.get("state", "")), _where(entry.get("frames")), p2p)


def _group(name: str, description: str) -> str:
    if description == DEFAULT_GROUP or name == "0":
        return DEFAULT_GROUP
    return f"{name} ({description})" if description and description != "undefined" else name


def _shape(sizes: object) -> str:
    if not isinstance(sizes, (list, tuple)) or not sizes:
        return ""
    return ", ".join(str(list(x)) if isinstance(x, (list, tuple)) else str(x) for x in sizes[:4])


def _where(frames: object) -> str | None:
    """The deepest frame of the user's own code; frames run from the innermost outwards."""
    for frame in frames if isinstance(frames, (list, tuple)) else ():
        if isinstance(frame, dict):
            path = str(frame.get("filename", ""))
            if path and not _LIBRARY.search(path):
                return f"{path}:{frame.get('line')} in {frame.get('name')}"
    return None


def _members(config: object) -> dict[str, tuple[int, ...]]:
    out: dict[str, tuple[int, ...]] = {}
    for name, group in config.items() if isinstance(config, dict) else ():
        if not isinstance(group, dict):
            continue
        ranks = group.get("ranks")
        numbers = re.findall(r"\d+", ranks) if isinstance(ranks, str) else ranks if isinstance(ranks, (list, tuple)) else ()
        known = tuple(sorted({int(r) for r in numbers if str(r).isdigit()}))
        described = str(group.get("desc", ""))
        # gloo leaves the default group's name empty.
        key = DEFAULT_GROUP if str(name) in ("", "0") or described == DEFAULT_GROUP else _group(str(name), described)
        if known:
            out[key] = known
    return out
