"""Files that may hold settings: their text, and whether a ``pyproject.toml`` has a table of ours. No model is loaded for that."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tbparse.errors import RuleProblem, SettingsError

if sys.version_info >= (3, 11):
    import tomllib as tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]


def has_table(path: Path) -> bool:
    """Whether a ``pyproject.toml`` has the table ``[tool.tbparse]``. A file that is no TOML has none, unless it seems to."""
    try:
        data = tomllib.loads(read_text(path))
    except (tomllib.TOMLDecodeError, SettingsError):
        # Whoever wrote our table wants to hear that it cannot be read; of all else in the file we say nothing.
        return re.search(rb"(?m)^\s*\[\s*tool\s*\.\s*tbparse\s*\]", path.read_bytes()) is not None
    tool = data.get("tool")
    return isinstance(tool, dict) and "tbparse" in tool


def read_text(path: Path) -> str:
    """The file's text. Raises SettingsError for one that cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as e:
        raise SettingsError([RuleProblem(str(path), 0, 0, f"is not UTF-8 (byte {e.start})", "TOML is UTF-8")]) from None
    except OSError as e:
        raise SettingsError([RuleProblem(str(path), 0, 0, f"cannot be read: {e.strerror or e}")]) from None
