"""A live exception as the engine reads it: what the interpreter would print, what it carries, and what its types are.

The text decides, as it does for a log; what only the live object knows is added: the output of a child that it carries
(``stderr``, ``output``, ``stdout``, the ``failures`` of torch elastic's ChildFailedError), all leaves of a group however
wide, and the bases of its types, for those that no rule knows by name.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

HEAD_CHARS = 1_000_000
TAIL_CHARS = 3_000_000
"""Of a longer output the head, where the first failure may stand, and the tail."""
GROUP_WIDTH = 10_000
OWN_NOTE = "tbparse: "
"""How the notes begin that this package puts on exceptions; they are no part of the failure."""


def printed(exc: BaseException) -> str:
    """The exception's traceback, after the child's output on the chain, oldest first."""
    carried = [text for link in chain(exc) for text in reversed(outputs(link))]
    parts = [*reversed(carried), _formatted(exc)]
    return "\n".join(p.rstrip("\n") for p in parts) + "\n"


def chain(exc: BaseException) -> Iterator[BaseException]:
    """The exception and what led to it, as the interpreter follows causes and contexts; cycles end."""
    seen: set[int] = set()
    todo: BaseException | None = exc
    while todo is not None and id(todo) not in seen:
        seen.add(id(todo))
        yield todo
        todo = todo.__cause__ or (None if todo.__suppress_context__ else todo.__context__)


def leaves(exc: BaseException) -> tuple[BaseException, ...]:
    """The exceptions of a group (its own ``exceptions``), none for any other exception."""
    if not hasattr(type(exc), "derive"):
        return ()
    found = attribute(exc, "exceptions")
    return tuple(x for x in found if isinstance(x, BaseException)) if isinstance(found, (tuple, list)) else ()


def everything(exc: BaseException) -> Iterator[BaseException]:
    """All exceptions that hang together with this one: chains, leaves, and the ``cause`` that Ray keeps."""
    seen: set[int] = set()
    todo = [exc]
    while todo:
        x = todo.pop()
        if id(x) in seen:
            continue
        seen.add(id(x))
        yield x
        kept = attribute(x, "cause")
        todo += [y for y in (x.__cause__, x.__context__, kept, *leaves(x)) if isinstance(y, BaseException)]


def outputs(exc: BaseException) -> list[str]:
    """What a failed child printed, as far as the exception carries it: its output, then its errors, then its ranks' tracebacks."""
    found: list[str] = []
    for name in ("output", "stdout", "stderr"):
        value = attribute(exc, name)
        if isinstance(value, (bytes, bytearray, memoryview)):
            value = bytes(value).decode("utf-8", "replace")
        if isinstance(value, str) and value.strip() and value not in found:
            found.append(value if len(value) <= HEAD_CHARS + TAIL_CHARS else f"{value[:HEAD_CHARS]}\n{value[-TAIL_CHARS:]}")
    failures = attribute(exc, "failures")
    if isinstance(failures, Mapping):
        told = _text(exc)
        for rank, failure in failures.items():
            text = _rank_text(failure)
            if text is not None and text.strip().rpartition("\n")[2].strip() not in told:
                lead = f"[rank{rank}]: " if isinstance(rank, int) else ""
                found.append("\n".join(f"{lead}{line}" for line in text.strip("\n").split("\n")))
    return found


def attribute(exc: object, name: str) -> Any:
    """An attribute of somebody's object; None where there is none, or where reading it fails."""
    try:
        return getattr(exc, name, None)
    except Exception:  # a property of somebody's exception may fail in any way
        return None


def bases(exc: BaseException) -> dict[str, tuple[str, ...]]:
    """For each type in and around the exception, by the name that is printed: what it derives from, nearest first."""
    found: dict[str, tuple[str, ...]] = {}
    for x in everything(exc):
        kind = type(x)
        names = tuple(type_name(b) for b in kind.__mro__[1:] if b not in _ROOTS)
        if names:
            found.setdefault(type_name(kind), names)
    return found


_ROOTS: tuple[type, ...] = (Exception, BaseException, object)


def type_name(kind: type) -> str:
    """A type's name as a traceback prints it."""
    module = getattr(kind, "__module__", None)
    if not isinstance(module, str):
        module = "<unknown>"
    return kind.__qualname__ if module in ("__main__", "builtins") else f"{module}.{kind.__qualname__}"


def message(exc: BaseException) -> str:
    """The exception's own text, whatever its ``__str__`` does."""
    return _text(exc)


def _text(exc: BaseException) -> str:
    try:
        return str(exc)
    except Exception:
        return "<exception str() failed>"


def _rank_text(failure: object) -> str | None:
    """The traceback in torch elastic's ProcessFailure: its message is the JSON of an error file, or a text."""
    told = attribute(failure, "message")
    if not isinstance(told, Mapping):
        data = attribute(failure, "error_file_data")
        inner = data.get("message") if isinstance(data, Mapping) else None
        told = inner if isinstance(inner, Mapping) else told
    if isinstance(told, Mapping):
        extra = told.get("extraInfo")
        stack = extra.get("py_callstack") if isinstance(extra, Mapping) else None
        told = stack if isinstance(stack, str) and stack.strip() else told.get("message")
    return told if isinstance(told, str) and told.strip() else None


def _formatted(exc: BaseException) -> str:
    try:
        lines = _lines(exc)
    except Exception as failed:  # an exception whose __str__ raises must not hide itself
        return f"{type_name(type(exc))}: <unprintable: {type(failed).__name__}>"
    return "".join(lines)


def _lines(exc: BaseException) -> list[str]:
    grouped = any(leaves(x) for x in everything(exc))
    if grouped and sys.version_info < (3, 11):
        # The backport of groups prints them, even where it could not teach the interpreter to.
        formatter = getattr(sys.modules.get(type(_first_group(exc)).__module__.partition(".")[0]), "format_exception", None)
        if formatter is not None:
            return list(formatter(type(exc), exc, exc.__traceback__))
    if grouped and sys.version_info >= (3, 11):
        whole = traceback.TracebackException(
            type(exc), exc, exc.__traceback__, max_group_width=GROUP_WIDTH, max_group_depth=10, compact=True
        )
        text = list(whole.format())
    else:
        text = traceback.format_exception(type(exc), exc, exc.__traceback__)
    return [x for x in text if not x.lstrip(" |").startswith(OWN_NOTE)]


def _first_group(exc: BaseException) -> BaseException:
    return next(x for x in everything(exc) if leaves(x))
