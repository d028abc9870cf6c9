"""In a child: writes the exception that ends it to a file, as JSON. The standard library alone, CPython 3.8 and later.

The folder of the reports is in ``TBPARSE_REPORT_DIR``. What the child prints and how it exits stay as they are: the hook before
this one is called, and every fault in here is swallowed. A hook that the program sets later (``rich.traceback.install``) hides
this one; then the interpreter's own record of the exception (``sys.last_value``) is read when the process ends. Nothing is
imported before there is something to write, so a child starts as fast as ever.

A process of ``multiprocessing`` catches its own exception. Up to CPython 3.12 its finalizers run while that is on its way, and
see it; from 3.13 on there is no such moment, and no report.
"""

from __future__ import annotations

import atexit
import os
import sys

TYPE_CHECKING = False  # typing alone would double the time that an interpreter takes to start
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any

FORMAT = 1
MAX_FRAMES = 200
MAX_LINKS = 64
MAX_LEAVES = 32
MAX_DEPTH = 8
MAX_TEXT = 200_000
_FOLDER = "TBPARSE_REPORT_DIR"
_ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
_OWNED = "TBPARSE_ELASTIC_FILE"
"""Which error file some process has taken for its own: that process's children inherit the name of a file that is not theirs."""
_PLACES = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK", "TORCHELASTIC_RESTART_COUNT", "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "PMI_RANK", "MPI_LOCALRANKID",
    "PMIX_RANK", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEPID", "SLURMD_NODENAME",
    "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_RANK",
)  # fmt: skip

_state: dict[str, Any] = {"installed": False, "previous": None, "seen": None, "error_file": None}


def install(forked: bool = False) -> None:
    """Set the hook, and look once more when the process ends. ``forked``: this is a fork that ``multiprocessing`` may have made."""
    spawned = "--multiprocessing-fork" in getattr(sys, "orig_argv", sys.argv)
    if forked or spawned:
        _watch_multiprocessing(spawned)
    if _state["installed"]:
        return
    _state["installed"] = True
    error_file = os.environ.get(_ERROR_FILE)
    if error_file and os.environ.get(_OWNED) != error_file:
        os.environ[_OWNED] = error_file
        _state["error_file"] = error_file
    default = sys.excepthook is sys.__excepthook__
    _state["previous"] = sys.excepthook
    sys.excepthook = _hook
    if default:
        # Consoles ask whether the hook is the default one, and print another way where it is not; hooks hand on to the default.
        sys.__excepthook__ = _hook
    atexit.register(_at_exit)


def _hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    try:
        if isinstance(error, BaseException) and _ends_the_process(sys._getframe()):
            _report(error, trace)
    except BaseException:
        pass
    _state["previous"](kind, error, trace)


def _ends_the_process(frame: FrameType) -> bool:
    """Whether the interpreter called the hook, rather than a console that goes on: below the hooks there is no program."""
    outermost = frame
    while outermost.f_back is not None:
        outermost = outermost.f_back
    return outermost.f_code.co_name not in ("<module>", "_run_module_as_main", "_bootstrap", "_run_code")


def _at_exit() -> None:
    try:
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        trace = getattr(sys, "last_traceback", None)
        # Only what nothing caught has gone through the program's outermost frame. Test runners and consoles set these too.
        if isinstance(error, BaseException) and trace is not None and trace.tb_frame.f_back is None:
            _report(error, trace)
    except BaseException:
        pass


def _watch_multiprocessing(spawned: bool) -> None:
    """A process of ``multiprocessing`` prints its exception itself; its finalizers run while the exception is on its way."""
    from multiprocessing import util

    def watch(_: object) -> None:
        util.Finalize(None, _at_process_end, exitpriority=1_000_000)

    if spawned:
        watch(None)
    else:
        util.register_after_fork(_state_holder, watch)  # a fork forgets its parent's finalizers when it begins


def _at_process_end() -> None:
    try:
        error = sys.exc_info()[1]
        if isinstance(error, SystemExit) and error.code and _by_torch(error.__traceback__):
            error = error.__context__
        if isinstance(error, BaseException) and not isinstance(error, SystemExit):
            _report(error, error.__traceback__, process=True)
    except BaseException:
        pass


def _by_torch(trace: TracebackType | None) -> bool:
    """Whether ``torch.multiprocessing.spawn`` raised it, which sends the exception to the parent and then exits."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code if trace is not None else None
    path = code.co_filename.replace("\\", "/") if code is not None else ""
    return code is not None and code.co_name == "_wrap" and path.endswith("torch/multiprocessing/spawn.py")


class _Holder:
    """Something to hang the watch on; it lives as long as the module."""


_state_holder = _Holder()


def _report(error: BaseException, trace: TracebackType | None, process: bool = False) -> None:
    # After KeyboardInterrupt the interpreter ends as if by SIGINT, unless any module is imported before: it is left alone.
    if _state["seen"] is error or isinstance(error, (SystemExit, GeneratorExit, KeyboardInterrupt)):
        return
    _state["seen"] = error
    write(error, trace, process)


def write(error: BaseException, trace: TracebackType | None, process: bool = False) -> None:
    """Write the report, and elastic's error file where the agent wants one of this process and has none."""
    import json
    import time
    import traceback

    now = time.time()
    text = "".join(traceback.format_exception(type(error), error, trace))
    folder = os.environ.get(_FOLDER)
    if folder and os.path.isdir(folder):
        data = {
            "format": FORMAT,
            "time": now,
            "pid": os.getpid(),
            "ppid": os.getppid(),
            "host": os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME"),
            "python": ".".join(map(str, sys.version_info[:3])),
            "argv": [str(x)[:4000] for x in getattr(sys, "argv", [])[:200]],
            "env": {k: os.environ[k] for k in _PLACES if k in os.environ},
            "multiprocessing": process,
            "text": _cut(text),
            "links": _chain(error, trace, 0, {}),
        }
        _replace(os.path.join(folder, f"{os.getpid()}-{time.time_ns()}.json"), json.dumps(data))
    error_file = _state["error_file"]
    if error_file and isinstance(error, Exception) and not process and not _filled(error_file):
        extra = {"py_callstack": text, "timestamp": str(int(now))}
        body = {"message": {"message": f"{type(error).__name__}: {_said(error)}", "extraInfo": extra}}
        _replace(error_file, json.dumps(body))


def _filled(path: str) -> bool:
    try:
        return os.path.getsize(path) > 0
    except OSError:
        return False


def _replace(path: str, text: str) -> None:
    """Whole or not at all: whoever reads the file may do so at any time."""
    part = f"{path}.{os.getpid()}.part"
    with open(part, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    os.replace(part, path)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT // 2] + "\n[...]\n" + text[-MAX_TEXT // 2 :]


def _chain(error: BaseException, trace: TracebackType | None, depth: int, seen: dict[int, bool]) -> list[dict[str, Any]]:
    """The exception and what led to it, outermost first."""
    links: list[dict[str, Any]] = []
    todo: BaseException | None = error
    while todo is not None and id(todo) not in seen and len(links) < MAX_LINKS:
        seen[id(todo)] = True
        link = _link(todo, trace if todo is error else todo.__traceback__)
        group = getattr(todo, "exceptions", None)
        if isinstance(group, (tuple, list)) and group and all(isinstance(x, BaseException) for x in group):
            link["count"] = len(group)
            link["leaves"] = [_chain(x, x.__traceback__, depth + 1, seen) for x in group[:MAX_LEAVES]] if depth < MAX_DEPTH else []
        links.append(link)
        if todo.__cause__ is not None:
            link["relation"], todo = "cause", todo.__cause__
        elif todo.__context__ is not None and not todo.__suppress_context__:
            link["relation"], todo = "context", todo.__context__
        else:
            link["relation"], todo = "root", None
    return links


def _link(error: BaseException, trace: TracebackType | None) -> dict[str, Any]:
    kind = type(error)
    link: dict[str, Any] = {
        "module": kind.__module__,
        "type": kind.__qualname__,
        "message": _cut(_said(error)),
        "suppressed": bool(error.__suppress_context__),
        "frames": _frames(trace),
    }
    notes = getattr(error, "__notes__", None)
    if isinstance(notes, (list, tuple)):
        link["notes"] = [_cut(x) if isinstance(x, str) else _cut(repr(x)) for x in notes[:50]]
    if isinstance(error, SyntaxError):
        fields = ("msg", "filename", "lineno", "offset", "end_lineno", "end_offset", "text")
        found = {k: getattr(error, k, None) for k in fields}
        link["syntax"] = {k: v for k, v in found.items() if isinstance(v, (int, str))}
    return link


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:
        return "<exception str() failed>"


def _frames(trace: TracebackType | None) -> list[dict[str, Any]]:
    import linecache
    import traceback

    head: list[tuple[FrameType, int]] = []
    tail: list[tuple[FrameType, int]] = []
    for pair in traceback.walk_tb(trace):
        if len(head) < MAX_FRAMES // 2:
            head.append(pair)
            continue
        tail.append(pair)
        if len(tail) > MAX_FRAMES:
            del tail[: -MAX_FRAMES // 2]
    out = []
    for frame, line in head + tail[-MAX_FRAMES // 2 :]:
        code = frame.f_code
        linecache.checkcache(code.co_filename)
        source = linecache.getline(code.co_filename, line or 0, frame.f_globals).strip()
        out.append({"path": code.co_filename, "line": line, "function": code.co_name, "source": source[:2000] or None})
    return out
