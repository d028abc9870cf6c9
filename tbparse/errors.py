"""tbparse's own errors. All derive from :class:`TbparseError`; each says what happened, where, and what to do.

TbparseError
 ├─ InputError      a log that cannot be read (exit code 66)
 │   └─ NotALogError     a file that holds something else than text
 ├─ UsageError      a wrong option or argument (exit code 2)
 │   └─ SettingsError  a project's settings that cannot be used; lists every problem of the file
 └─ RuleError       rule files that cannot be used; lists every problem of them (exit code 2)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class TbparseError(Exception):
    """The base of tbparse's own errors."""


class InputError(TbparseError):
    """A log that cannot be read."""


class NotALogError(InputError):
    """A file that holds something else than text: a picture, a checkpoint, a program."""


class UsageError(TbparseError):
    """A wrong option, argument or setting."""


class RuleProblem(NamedTuple):
    """One thing that is wrong with a rule file: path, 1-based line and column (0 where there is none), what, and a hint."""

    path: str
    line: int
    column: int
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}:{self.column}" if self.line else self.path
        return f"{where}: {self.message}" + (f" ({self.hint})" if self.hint else "")


class SettingsError(UsageError):
    """Settings of a project that cannot be used. ``problems`` lists everything that is wrong with the file."""

    def __init__(self, problems: Sequence[RuleProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(p) for p in self.problems))


class RuleError(TbparseError):
    """Rule files that cannot be used. ``problems`` lists everything that is wrong with them, not only the first."""

    def __init__(self, problems: Sequence[RuleProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(p) for p in self.problems))
