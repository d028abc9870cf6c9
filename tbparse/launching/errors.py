"""A child's failure as an exception that says why.

:class:`LaunchError` is what :func:`tbparse.launch` raises. :func:`explain_exception` gives the same to an exception that
somebody else raised.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tbparse.errors import TbparseError
from tbparse.model import RootCause
from tbparse.render.line import one_line

_PREFIX = "root cause: "


class LaunchError(subprocess.CalledProcessError, TbparseError):
    """A command ended with a non-zero code.

    ``returncode`` and ``cmd`` as in :class:`subprocess.CalledProcessError` (a negative code is a signal). ``stderr`` is the text
    that was recorded, head and tail, with a line where some is left out; ``output`` is None. ``root_cause`` says why
    it died. A traceback of this exception ends with a line that names the root cause: a note, or, before Python 3.11,
    the last line of the message.
    """

    root_cause: RootCause | None

    def __init__(
        self,
        returncode: int,
        cmd: Sequence[Any] | str,
        output: str | None = None,
        stderr: str | None = None,
        root_cause: RootCause | None = None,
    ) -> None:
        super().__init__(returncode, cmd, output, stderr)
        # The base class leaves ``args`` to whatever was passed by position; pickle needs all of them.
        self.args = (returncode, cmd, output, stderr, root_cause)
        self.root_cause = root_cause
        if root_cause is not None:
            add_note(self, _PREFIX + one_line(root_cause))

    def __str__(self) -> str:
        text = super().__str__()
        if sys.version_info >= (3, 11) or self.root_cause is None:
            return text
        return f"{text}\n{_PREFIX}{one_line(self.root_cause)}"


LaunchError.__module__ = "tbparse"  # as tracebacks and logs name it


def add_note(error: BaseException, note: str) -> None:
    """Put a note on an exception, once. Before Python 3.11 it is kept in ``__notes__``, which pytest and rich show."""
    notes = getattr(error, "__notes__", None)
    if isinstance(notes, list) and note in notes:
        return
    if sys.version_info >= (3, 11):
        error.add_note(note)
    elif isinstance(notes, list):
        notes.append(note)
    else:
        error.__notes__ = [note]  # type: ignore[attr-defined]


def explain_exception(error: BaseException, root_cause: RootCause, stderr: str | None = None) -> None:
    """Give somebody else's exception ``root_cause``, a note that names it, and ``stderr`` where it has none yet."""
    if stderr is not None and getattr(error, "stderr", None) is None:
        error.stderr = stderr  # type: ignore[attr-defined]
    error.root_cause = root_cause  # type: ignore[attr-defined]
    add_note(error, _PREFIX + one_line(root_cause))
