"""torch's flight-recorder dumps: the last collectives of one rank, as pickle or JSON.

``TORCH_NCCL_DUMP_ON_TIMEOUT`` writes them as ``<TORCH_FR_DUMP_TEMP_FILE><rank>`` (``/tmp/nccl_trace_rank_3`` up to torch 2.6,
``comm_lib_trace_rank_3`` after); ``torch._C._distributed_c10d._dump_fr_trace()`` and ``_dump_fr_trace_json()`` hand them to a
program. Format: torch/csrc/distributed/c10d/FlightRecorderDetail.hpp, versions 2.0 to 2.10; gloo fills it, too, in torch 2.13.

A pickle is a program. Before one is loaded, its instructions are read, and it is refused unless they only build containers, numbers
and text; the unpickler then could not find a class if it were asked to: nothing of a dump is ever executed.
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
MAX_TEXT = 500
_NAME = re.compile(r"(?:nccl|comm_lib|hccl|gloo|xccl)\w*_trace\w*?_?(?P<rank>\d+)(?:\.(?:json|pkl|pickle))?$")
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python3\.\d+/|^<")
_DEPTH_ERRORS = (RecursionError, MemoryError, OverflowError)
_BUILDING = frozenset(
    {
        "PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK", "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS", "EMPTY_LIST", "LIST",
        "APPEND", "APPENDS", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "NONE", "NEWTRUE", "NEWFALSE", "INT", "BININT",
        "BININT1", "BININT2", "LONG", "LONG1", "FLOAT", "BINFLOAT", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
        "STRING", "BINSTRING", "SHORT_BINSTRING", "GET", "BINGET", "LONG_BINGET", "PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE",
    }
)  # fmt: skip
"""What a pickle of containers and scalars is made of: nothing that imports (GLOBAL, INST), calls (REDUCE, OBJ, NEWOBJ) or sets
state (BUILD)."""


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
        _inspect(data)
        return _Containers(io.BytesIO(data)).load()
    except DumpError:
        raise
    except _DEPTH_ERRORS:
        raise DumpError("it is nested too deeply") from None
    except Exception as e:  # an unpickler raises whatever a damaged stream makes it stumble over
        raise DumpError(f"it is damaged or cut off ({type(e).__name__})") from None


def _inspect(data: bytes) -> None:
    """Raises DumpError for a pickle that does more than build containers, or numbers its objects wildly (which costs memory)."""
    from pickletools import genops

    for count, (code, argument, _) in enumerate(genops(data)):
        if code.name not in _BUILDING:
            raise DumpError(f"it is no plain data ({code.name} {str(argument or '')[:80]}); nothing of it was executed")
        if "PUT" in code.name and (not isinstance(argument, int) or argument > count):
            raise DumpError("its objects are numbered wildly")


def _call(entry: Mapping[object, Any]) -> tuple[str | None, Call | None]:
    """Group and call of one entry; versions before 2.2 have ``seq_id`` and ``pg_id`` only."""
    named = entry.get("process_group")
    if isinstance(named, (list, tuple)) and len(named) == 2:
        group = _group(_text(named[0]), _text(named[1]))
    elif (pg := _number(entry.get("pg_id"))) is not None:
        group = _group(str(pg), "")
    else:
        return None, None
    p2p = entry.get("is_p2p") is True
    seq = _number(entry.get("p2p_seq_id" if p2p else "collective_seq_id", entry.get("seq_id")))
    if seq is None:
        return None, None
    op = _text(entry.get("profiling_name")).rpartition(":")[2] or "collective"
    return group, Call(seq, op, _shape(entry.get("input_sizes")), _text(entry.get("state")), _where(entry.get("frames")), p2p)


def _text(value: object) -> str:
    """A text of the dump, bounded; a number as one; nothing for anything else (a container may be endless when it is shown)."""
    if isinstance(value, str):
        return value[:MAX_TEXT]
    number = _number(value)
    return "" if number is None else str(number)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None


def _group(name: str, description: str) -> str:
    if description == DEFAULT_GROUP or name == "0":
        return DEFAULT_GROUP
    return f"{name} ({description})" if description and description != "undefined" else name


def _shape(sizes: object) -> str:
    """``[8, 4], [2]`` of a list of sizes."""
    if not isinstance(sizes, (list, tuple)):
        return ""
    shapes = (x[:16] if isinstance(x, (list, tuple)) else (x,) for x in sizes[:4])
    return ", ".join(f"[{', '.join(_text(n) for n in shape)}]" for shape in shapes)


def _where(frames: object) -> str | None:
    """The deepest frame of the user's own code; frames run from the innermost outwards."""
    for frame in frames if isinstance(frames, (list, tuple)) else ():
        if isinstance(frame, dict):
            path = _text(frame.get("filename"))
            if path and not _LIBRARY.search(path):
                return f"{path}:{_text(frame.get('line'))} in {_text(frame.get('name'))}"
    return None


def _members(config: object) -> dict[str, tuple[int, ...]]:
    """Ranks by group. Older torch writes them as a list, newer as text (``[0, 1]``); gloo leaves the default group's name empty."""
    out: dict[str, tuple[int, ...]] = {}
    for name, group in config.items() if isinstance(config, dict) else ():
        if not isinstance(group, dict):
            continue
        ranks = group.get("ranks")
        if isinstance(ranks, str):
            known = {int(r) for r in re.findall(r"\d{1,7}", ranks)}
        else:
            known = {n for r in (ranks if isinstance(ranks, (list, tuple)) else ()) if (n := _number(r)) is not None}
        described = _text(group.get("desc"))
        key = DEFAULT_GROUP if _text(name) in ("", "0") or described == DEFAULT_GROUP else _group(_text(name), described)
        if known:
            out[key] = tuple(sorted(known))
    return out
