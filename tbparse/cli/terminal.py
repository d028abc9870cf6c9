"""What commands share: writing answers and messages, and ending without a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from tbparse.cli.exits import ExitCode
from tbparse.errors import InputError, RuleError, SettingsError, TbparseError
from tbparse.render.safe import printable

_PLAINER = str.maketrans({"—": "-", "–": "-", "…": "...", "─": "-", "×": "x", "·": "-"})


@contextmanager
def guarded() -> Iterator[None]:
    """Turn tbparse's own errors, Ctrl-C and a closed pipe into messages and exit codes."""
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        raise SystemExit(ExitCode.INTERRUPTED) from None
    except BrokenPipeError:
        drop_output()
        raise SystemExit(ExitCode.PIPE_CLOSED) from None
    except TbparseError as e:
        complain(e)
        raise SystemExit(ExitCode.NO_INPUT if isinstance(e, InputError) else ExitCode.USAGE) from None


def complain(error: TbparseError) -> None:
    """Say what went wrong, on standard error; every problem of rule files or settings on its own line."""
    if isinstance(error, (RuleError, SettingsError)):
        for problem in error.problems:
            message(str(problem))
        n = len(error.problems)
        where = "rule files" if isinstance(error, RuleError) else "the settings"
        message(f"tbparse: {n} problem{'s' if n > 1 else ''} in {where}")
        return
    message(f"tbparse: {error}")


def message(text: str) -> None:
    """One line on standard error."""
    if sys.stderr is not None:
        put(sys.stderr, printable(text) + "\n")


def write(text: str, *, data: bool = False) -> None:
    """Put text on standard output. ``data``: for programs, so UTF-8 whatever the locale says."""
    if sys.stdout is None:
        return
    if data and hasattr(sys.stdout, "buffer"):
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
        return
    put(sys.stdout, text)


def put(stream: TextIO, text: str) -> None:
    """Text on a stream, in whatever encoding that has."""
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_PLAINER).encode(encoding, "replace").decode(encoding)
    stream.write(text)


def drop_output() -> None:
    """Let what is still buffered go nowhere, so that the interpreter's last flush does not complain."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())


def colour_wanted() -> bool:
    """Whether standard output is a terminal that shows colours, and nobody asked for none (no-color.org)."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def width() -> int:
    """Cells of a line: the terminal's, or ``COLUMNS``; 80 when piped, so that piped output stays the same."""
    import shutil

    return shutil.get_terminal_size((80, 24)).columns
