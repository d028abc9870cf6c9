"""From an exception that left a block, and the block's children, to why: whose children it is about, their text, the answer."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tbparse.dialects.frames import HEADER_TEXT
from tbparse.dialects.wrappers import is_wrapper
from tbparse.launching.recording import HeadAndTail
from tbparse.launching.report import apply_reports
from tbparse.records import Link

if TYPE_CHECKING:
    from tbparse.engine import Explainer
    from tbparse.launching.capture_child import Child, OwnFile
    from tbparse.launching.report import ChildReport
    from tbparse.model import RootCause
    from tbparse.ruleset.match import RuleSet

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Of a child's own log so much of its end is read."""
_CHUNK = 1024 * 1024
_LAUNCHERS = frozenset(
    {"CalledProcessError", "ChildFailedError", "ProcessException", "ProcessRaisedException", "ProcessExitedException"}
)
_log = logging.getLogger("tbparse")


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """The exception, then what it was raised from, or while handling what; each once."""
    seen: set[int] = set()
    todo: BaseException | None = error
    while todo is not None and id(todo) not in seen:
        seen.add(id(todo))
        yield todo
        todo = todo.__cause__ or (None if todo.__suppress_context__ else todo.__context__)


def launcher_error(error: BaseException, children: Sequence[Child]) -> BaseException | None:
    """The exception of the chain that says that a child failed, None where there is none."""
    for one in chain_of(error):
        if isinstance(one, SystemExit):
            # `accelerate launch --quiet` ends so; without a child that failed it is the program's own end.
            if one.code not in (None, 0) and any(c.returncode for c in children):
                return one
            continue
        if any(k.__name__ in _LAUNCHERS for k in type(one).__mro__):
            return one
        if children and is_wrapper(Link(type(one).__qualname__, _said(one))):
            return one
    return None


def children_of(error: BaseException, children: Sequence[Child]) -> list[Child]:
    """The children that a launcher's exception is about, those that ended first before the others."""
    pids = {getattr(x, "pid", None) for x in _failures(error)} | {getattr(error, "error_pid", None)}
    found = [c for c in children if c.pid is not None and c.pid in pids]
    code, command = getattr(error, "returncode", None), getattr(error, "cmd", None)
    if not found and command is not None:
        same = [c for c in children if c.returncode == code]
        found = [c for c in same if c.command == command][-1:] or same[-1:]
    if not found and isinstance(error, SystemExit):
        found = [c for c in children if c.returncode][-1:]
    if not found:
        found = [c for c in children if c.returncode != 0 and not c.running()]
    return sorted(found, key=lambda c: (not c.returncode and c.popen is not None, c.ended_at or float("inf")))


def text_of(error: BaseException | None, children: Sequence[Child]) -> str:
    """What the children wrote, child after child; and the tracebacks that they handed to the launcher instead of printing them."""
    parts = [x for c in children for x in (c.recording.text(), *_file_texts(c))]
    text = "".join(p if p.endswith("\n") or not p else p + "\n" for p in parts)
    if HEADER_TEXT in text or error is None:
        return text
    return text + "".join(x.rstrip("\n") + "\n" for x in _handed_over(error))


def _handed_over(error: BaseException) -> list[str]:
    """Tracebacks inside a launcher's exception: elastic's error files, and what mp.spawn puts into its message."""
    found = []
    for failure in _failures(error):
        message = getattr(failure, "message", None)
        extra = message.get("extraInfo") if isinstance(message, dict) else None
        stack = extra.get("py_callstack") if isinstance(extra, dict) else None
        if isinstance(stack, str) and stack.strip():
            found.append(stack)
    said = _said(error)
    if not found and HEADER_TEXT in said and not _failures(error):
        found.append(said[said.index(HEADER_TEXT) :])
    return found


def _failures(error: BaseException) -> list[Any]:
    failures = getattr(error, "failures", None)
    return list(failures.values()) if isinstance(failures, dict) else []


def explain(
    error: BaseException,
    launcher: BaseException | None,
    children: Sequence[Child],
    reports: Sequence[ChildReport],
    rules: RuleSet,
) -> RootCause:
    """Why the block failed. ``children`` are those that the launcher's exception is about, see :func:`children_of`."""
    import os

    from tbparse.attribute.live import printed
    from tbparse.engine import Explainer, classify
    from tbparse.launching.place import fill_place, place_of

    code = _code(launcher if launcher is not None else error, children)
    if launcher is None or not (reports or any(c.recording.total or c.files for c in children)):
        return classify(error, returncode=code, rules=rules)
    base = None
    for child in children:
        child.recording.drain()
        engine = child.recording.explainer
        engine.drain()
        _read_files(engine, child)
        if base is None:
            base = engine
            continue
        for failure in engine.job.failures:
            failure.source = failure.source or f"stderr of {child.name()}"
        base.join(engine)
    if base is None:
        base = Explainer(rules=rules)
    if not isinstance(error, SystemExit):
        own = Explainer(rules=rules, source="the launcher's exception")
        own.feed(printed(error).encode("utf-8", "replace"))
        base.join(own)
    apply_reports(base, reports)
    return fill_place(base.finish(code), base.job, place_of(os.environ))


def _code(error: BaseException, children: Sequence[Child]) -> int | None:
    """The return code that the launcher's exception tells, as ``subprocess`` has it."""
    if isinstance(error, SystemExit):
        failed = [c.returncode for c in children if c.returncode]
        return failed[0] if failed else error.code if isinstance(error.code, int) else 1 if error.code else 0
    for name in ("returncode", "exit_code"):
        code = getattr(error, name, None)
        if isinstance(code, int) and not isinstance(code, bool):
            return code
    return None


def _read_files(engine: Explainer, child: Child) -> None:
    """A child whose output went to files of its own (torchrun's ``--redirects`` and ``--tee``): those."""
    from tbparse.engine import Explainer

    for file in child.files:
        reader = Explainer(rules=engine.rules, source=str(file.path), tags=child.place)
        for data in _chunks(file):
            reader.feed(data)
        engine.join(reader)


def _file_texts(child: Child) -> Iterator[str]:
    for file in child.files:
        if file.stderr:
            kept = HeadAndTail()
            for data in _chunks(file):
                kept.add(data)
            yield kept.text()


def _chunks(own: OwnFile) -> Iterator[bytes]:
    """What the child wrote there. A file that is gone is logged, and gives nothing."""
    try:
        with own.path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(own.start if own.start <= size else 0, size - MAX_FILE_BYTES))
            while data := file.read(_CHUNK):
                yield data
    except OSError as e:
        _log.info("%s: a child's log cannot be read: %s", own.path, e)


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # somebody's __str__ may fail in any way
        return ""
