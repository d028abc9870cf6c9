"""A project's settings: ``tbparse.toml``, or ``[tool.tbparse]`` in ``pyproject.toml``.

:func:`load_project` looks for them from a folder upwards; the nearest folder with either decides, and of two files in one
folder ``tbparse.toml`` does. Only the command, the pytest plugin and the decorator read them, and hand what they say to the
engine as arguments: :func:`tbparse.engine.classify` itself opens no file. Where there are none, no parser is loaded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tbparse.attribute.origin import NO_SETTINGS, PathSettings

if TYPE_CHECKING:
    from tbparse.ruleset.match import RuleSet
    from tbparse.settings_model import Settings

OWN_FILE = "tbparse.toml"
SHARED_FILE = "pyproject.toml"
DEFAULT_ATTEMPTS = 3
_KEY = re.compile(rb"tbparse[\"']?[ \t]*[\].=]")
"""What stands in every file that has the table, however it is written."""


@dataclass(frozen=True)
class Project:
    """What is in force for one project: the settings, the file that they are from (None: there is none), and the line of each key.

    ``ignored`` is a ``pyproject.toml`` whose ``[tool.tbparse]`` does not count, as a ``tbparse.toml`` lies beside it.
    """

    path: Path | None = None
    settings: Settings | None = None
    lines: dict[str, int] = field(default_factory=dict)
    ignored: Path | None = None

    def get(self, key: str) -> Any:
        """The value of a key, None where the file does not say."""
        return getattr(self.settings, key) if self.settings is not None and key in self.lines else None

    def profile(self, wanted: str | None, default: str = "job") -> str:
        """The profile to use: what the caller was told, else the file's, else the default."""
        return wanted or self.get("profile") or default

    @property
    def attempts(self) -> int:
        """How often to try at most, the first time included."""
        return int(self.get("attempts") or DEFAULT_ATTEMPTS)

    @cached_property
    def paths(self) -> PathSettings:
        """Whose code is where, as the file says."""
        if self.settings is None:
            return NO_SETTINGS
        return PathSettings(self.settings.user_paths, self.settings.library_paths)

    def rules(self, profile: str, packs: Sequence[str] = ()) -> RuleSet | None:
        """The rules under a profile with the project's packs and verdicts; None where the built-in ones hold unchanged.

        ``packs`` are more of them, as :func:`tbparse.ruleset.packs.load_rules` takes them, over the project's own. The verdicts
        that the project sets are the last word. Raises UsageError for a profile or a pack that does not exist, SettingsError
        for a rule that does not, RuleError for a pack with faults.
        """
        if not packs and not (self.get("rules") or self.get("transient") or self.get("real")):
            return None
        from tbparse.settings_rules import project_rules

        return project_rules(self, profile, packs)


NO_PROJECT = Project()


def load_project(start: str | os.PathLike[str] | None = None) -> Project:
    """The settings that hold in ``start`` (the working directory when None), from there upwards.

    Raises SettingsError with everything that is wrong with the file: each problem with path, line and column.
    """
    path, ignored = find_settings(Path(start) if start is not None else Path.cwd())
    if path is None:
        return NO_PROJECT
    from tbparse.settings_model import read_settings

    settings, lines = read_settings(path)
    return Project(path, settings, lines, ignored)


def find_settings(start: Path) -> tuple[Path | None, Path | None]:
    """The file with the settings for ``start``, and one beside it that does not count."""
    here = Path(os.path.abspath(start))
    for folder in (here, *here.parents):
        own, shared = folder / OWN_FILE, folder / SHARED_FILE
        if own.is_file():
            return own, shared if _mentions_us(shared) else None
        if _mentions_us(shared):
            return shared, None
    return None, None


def _mentions_us(path: Path) -> bool:
    """Whether a ``pyproject.toml`` has a table of ours. Most have none, and are not worth loading a parser for."""
    try:
        text = path.read_bytes()
    except OSError:
        return False
    if _KEY.search(text) is None:
        return False
    from tbparse.settings_file import has_table

    return has_table(path)
