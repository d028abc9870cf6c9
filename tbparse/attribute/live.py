"""A live exception as text: what the interpreter would print, with the output that it carries before it."""

from __future__ import annotations

import traceback

MAX_OUTPUT_CHARS = 4_000_000


def printed(exc: BaseException) -> str:
    """The exception's traceback, after the child's output on the chain (``.stderr`` or ``.output``), oldest first."""
    parts: list[str] = []
    seen: set[int] = set()
    todo: BaseException | None = exc
    carried: list[str] = []
    while todo is not None and id(todo) not in seen:
        seen.add(id(todo))
        for name in ("stderr", "output"):
            try:
                value = getattr(todo, name, None)
            except Exception:  # a property of somebody's exception may fail in any way
                continue
            if isinstance(value, (bytes, bytearray)):
                value = bytes(value).decode("utf-8", "replace")
            if isinstance(value, str) and value.strip():
                carried.append(value[-MAX_OUTPUT_CHARS:])
                break
        todo = todo.__cause__ or (None if todo.__suppress_context__ else todo.__context__)
    parts += reversed(carried)
    try:
        parts.append("".join(traceback.format_exception(type(exc), exc, exc.__traceback__)))
    except Exception as failed:  # an exception whose __str__ raises must not hide itself
        parts.append(f"{type(exc).__module__}.{type(exc).__qualname__}: <unprintable: {type(failed).__name__}>")
    return "\n".join(p.rstrip("\n") for p in parts) + "\n"
