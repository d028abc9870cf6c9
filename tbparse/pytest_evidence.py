"""What a failed test shows of a child process: the child that its failing statement is about, and the output that it captured.

A test reaches a child in many ways. ``subprocess.run(check=True)`` raises; ``assert run.returncode == 0`` and its cousins
only say that something ended badly, and what it printed is in a local variable, in ``capfd``, or in what pytest captured.
A child's output counts only where the failing statement itself asks whether the child ended well: a test that fails for
another reason may well have started a child that was meant to fail.
"""

from __future__ import annotations

import ast
import linecache
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

from tbparse.attribute.live import attribute

_CODE_NAMES = frozenset({"returncode", "exit_code", "exitcode", "exitstatus", "exit_status", "return_code", "ret"})
_CODE_WORDS = re.compile(r"(?:rc|ret|retcode|status|code|(?:return|exit)_?(?:code|status))\d*", re.IGNORECASE)
_RUNNERS = frozenset({"call", "system", "main", "wait", "poll", "run", "cli"})
MAX_SOURCE = 4_000_000


@dataclass(frozen=True)
class Child:
    """A child process, or a command run in-process, that ended badly; what it printed as far as the test has it.

    ``returncode`` is None where the test did not keep it. ``exception`` is what an in-process runner caught.
    """

    returncode: int | None
    text: str = ""
    exception: BaseException | None = None


def failed_child(exc: BaseException) -> Child | None:
    """The child whose bad end the failing statement reports; None where the statement is about something else."""
    place = next(user_frames(exc), None)
    if place is None:
        return None
    frame, line = place
    path = statement(frame.f_code.co_filename, line)
    if not path:
        return None
    found = _blamed(path, frame.f_locals)
    if found is None:
        return None
    code, owner = found
    if owner is None:
        return Child(code)
    thrown = attribute(owner, "exception")
    if isinstance(thrown, BaseException) and not isinstance(thrown, SystemExit):
        return Child(code, exception=thrown)
    texts = list(_printed(owner))
    if isinstance(owner, subprocess.Popen):
        texts += _assigned(path, frame, "communicate")
    return Child(code, "\n".join(texts))


def is_assertion(exc: BaseException) -> bool:
    """Whether a statement of the test itself, not a library, found something wrong."""
    return isinstance(exc, AssertionError) or type(exc).__module__.startswith("_pytest.outcomes")


def read_before(exc: BaseException) -> list[str]:
    """What the test took out of ``capfd`` or ``capsys`` (``readouterr()``) and kept in a variable."""
    out: list[str] = []
    for frame, line in user_frames(exc):
        out += _assigned(statement(frame.f_code.co_filename, line), frame, "readouterr")
    return out


def user_frames(exc: BaseException) -> Iterator[tuple[FrameType, int]]:
    """Frames of the traceback with their lines, the deepest first, without those of pytest, unittest and hidden ones."""
    places: list[tuple[FrameType, int]] = []
    tb: TracebackType | None = exc.__traceback__
    while tb is not None:
        places.append((tb.tb_frame, tb.tb_lineno))
        tb = tb.tb_next
    for frame, line in reversed(places):
        module = str(frame.f_globals.get("__name__", ""))
        if frame.f_locals.get("__tracebackhide__") or "__unittest" in frame.f_globals or module.partition(".")[0] in _PLUMBING:
            continue
        yield frame, line


_PLUMBING = frozenset({"_pytest", "pytest", "pluggy", "unittest"})


def peek(fixture: Any) -> list[str]:
    """What ``capfd``, ``capsys`` or their binary forms hold, without taking it out of them."""
    out: list[str] = []
    for name in ("_captured_out", "_captured_err"):
        out += _texts(attribute(fixture, name))
    capture = attribute(fixture, "_capture")
    for name in ("out", "err"):
        file = attribute(attribute(capture, name), "tmpfile")
        if file is None:
            continue
        try:
            file.flush()
            try:
                # Reading at a place leaves the offset alone, which children share.
                data = os.pread(file.fileno(), 16_000_000, 0)
            except (OSError, ValueError, AttributeError):
                data = file.buffer.getvalue()
        except (OSError, ValueError, AttributeError):
            continue
        out += _texts(data)
    return out


def _texts(value: object) -> list[str]:
    if isinstance(value, (bytes, bytearray)):
        value = bytes(value).decode("utf-8", "replace")
    return [value] if isinstance(value, str) and value.strip() else []


def _printed(owner: object) -> Iterator[str]:
    """Standard output and errors that a result object keeps."""
    seen: list[str] = []
    for name in ("stdout", "output", "stderr"):
        value = attribute(owner, name)
        for text in _texts(value):
            if text not in seen:
                seen.append(text)
                yield text
    if not seen:
        for name in ("outlines", "errlines"):
            value = attribute(owner, name)
            if isinstance(value, list) and value and all(isinstance(x, str) for x in value):
                yield "\n".join(value)


def statement(filename: str, line: int) -> list[ast.AST]:
    """The statement at a line, after everything that it stands in, the outermost first; empty where there is no source."""
    lines = linecache.getlines(filename)
    source = "".join(lines)
    if not source or len(source) > MAX_SOURCE:
        return []
    try:
        tree: ast.AST = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    path: list[ast.AST] = []
    node: ast.AST | None = tree
    while node is not None:
        inner = None
        for child in _statements(node):
            end = child.end_lineno or child.lineno
            # A decorated function begins at its first decorator.
            start = min([child.lineno, *(d.lineno for d in getattr(child, "decorator_list", ()))])
            if start <= line <= end:
                inner = child
                break
        if inner is not None:
            path.append(inner)
        node = inner
    return path


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    for _, value in ast.iter_fields(node):
        for x in value if isinstance(value, list) else ():
            if isinstance(x, ast.stmt):
                yield x
            elif isinstance(x, (ast.ExceptHandler, ast.match_case)):
                yield from _statements(x)


def _blamed(path: Sequence[ast.AST], names: Mapping[str, Any]) -> tuple[int | None, object] | None:
    """The child's code and the object that holds it, where the statement failed since the child did."""
    failing = path[-1]
    if isinstance(failing, ast.Assert):
        return _says_failed(failing.test, False, names)
    call = failing.value if isinstance(failing, ast.Expr) else None
    if isinstance(call, ast.Call):
        asked = _unittest(call)
        if asked is not None:
            return _says_failed(*asked, names)
        if not _gives_up(call):
            return None
    elif not isinstance(failing, ast.Raise):
        return None
    # `if run.returncode: raise …`: the condition is the nearest around it, within the same function.
    inner: ast.AST = failing
    for outer in reversed(path[:-1]):
        if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.Try)):
            return None
        if isinstance(outer, ast.If):
            return _says_failed(outer.test, inner in outer.body, names)
        inner = outer
    return None


_UNITTEST = {"assertEqual": None, "assertEquals": None, "assertFalse": True, "assertTrue": False}


def _unittest(call: ast.Call) -> tuple[ast.expr, bool] | None:
    """What unittest's method asked, as an expression and the value that made it fail."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name not in _UNITTEST or not call.args:
        return None
    value = _UNITTEST[name]
    if value is not None:
        return call.args[0], value
    if len(call.args) < 2:
        return None
    return ast.Compare(call.args[0], [ast.Eq()], [call.args[1]]), False


def _gives_up(call: ast.Call) -> bool:
    """``pytest.fail(…)``, ``self.fail(…)``, ``fail(…)``."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name) else ""
    return name == "fail"


def _says_failed(test: ast.expr, value: bool, names: Mapping[str, Any]) -> tuple[int | None, object] | None:
    """Whether an expression that came out as ``value`` says that a child ended with another code than 0."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _says_failed(test.operand, not value, names)
    if isinstance(test, ast.BoolOp):
        # All of `a and b` must hold, so that one that does not is enough; of `a or b` either could have been meant.
        if isinstance(test.op, ast.And) is value:
            return None
        return next((x for x in (_says_failed(v, value, names) for v in test.values) if x is not None), None)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        left, right = test.left, test.comparators[0]
        if _is_zero(left):
            left, right = right, left
        if not _is_zero(right):
            return None
        unequal = isinstance(test.ops[0], (ast.NotEq, ast.Gt, ast.IsNot))
        if (unequal and value) or (isinstance(test.ops[0], (ast.Eq, ast.Is)) and not value):
            return _code(left, names)
        return None
    return _code(test, names) if value else None


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == 0


def _code(node: ast.expr, names: Mapping[str, Any]) -> tuple[int | None, object] | None:
    """An expression that is a child's code: its value where it can be looked up, and the object whose attribute it is."""
    if isinstance(node, ast.Attribute) and node.attr in _CODE_NAMES:
        if isinstance(node.value, ast.Call):
            return None, None
        owner = _lookup(node.value, names)
        code = attribute(owner, node.attr)
        return (int(code), owner) if isinstance(code, int) and code != 0 else None
    if isinstance(node, ast.Name) and _CODE_WORDS.fullmatch(node.id):
        code = names.get(node.id)
        return (int(code), None) if isinstance(code, int) and not isinstance(code, bool) and code != 0 else None
    if isinstance(node, ast.Call):
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
        return (None, None) if name in _RUNNERS else None
    return None


def _lookup(node: ast.expr, names: Mapping[str, Any]) -> object:
    """The value of ``a`` or ``a.b.c``."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        return attribute(_lookup(node.value, names), node.attr)
    return None


def _assigned(path: Sequence[ast.AST], frame: FrameType, method: str) -> list[str]:
    """Texts in variables of the frame that ``x.method()`` was assigned to."""
    function = next((x for x in reversed(path) if isinstance(x, (ast.FunctionDef, ast.AsyncFunctionDef))), None)
    if function is None:
        return []
    out: list[str] = []
    for node in ast.walk(function):
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
            continue
        called = node.value.func
        if not (isinstance(called, ast.Attribute) and called.attr == method):
            continue
        for name in (x for t in node.targets for x in ast.walk(t) if isinstance(x, ast.Name)):
            value = frame.f_locals.get(name.id)
            parts = value if isinstance(value, tuple) else (value,)
            out += [text for part in parts for text in _texts(part)]
    return out
