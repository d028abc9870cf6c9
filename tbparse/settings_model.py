"""The shape of the settings, and what is wrong with a file of them: each problem with line, column and a hint.

TOML parsers say nothing of places, so a key's place is looked up in the text: its first line in the table.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from tbparse.errors import RuleProblem, SettingsError
from tbparse.settings import OWN_FILE
from tbparse.settings_file import read_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]


def _tuple(value: object) -> object:
    """TOML's arrays are lists; a text alone stands for a list of one."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


Texts = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_tuple)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Settings(BaseModel):
    """The keys of ``[tool.tbparse]``.

    ``profile``: ``job`` or ``tests``. ``transient`` and ``real``: rules (ids, or ``area/*``) whose verdict the project sets
    itself. ``attempts``: how often to try at most, the first time included. ``wait``: seconds before the next attempt,
    instead of what the rule advises. ``timeout``: seconds after which no attempt is begun. ``user_paths`` and
    ``library_paths``: whose code lies where. ``rules``: packs of the project's own rules; folders are relative to the file.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    profile: str | None = None
    transient: Texts = ()
    real: Texts = ()
    attempts: Annotated[int, Field(ge=1, le=1000)] | None = None
    wait: Seconds | None = None
    timeout: Seconds | None = None
    user_paths: Texts = ()
    library_paths: Texts = ()
    rules: Texts = ()


def read_settings(path: Path) -> tuple[Settings, dict[str, int]]:
    """The settings of a file, and the line of each key that it has. Raises SettingsError with every problem."""
    text = read_text(path)
    try:
        data: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise SettingsError([_not_toml(path, text, str(e))]) from None
    table = None if path.name == OWN_FILE else "tool.tbparse"
    if table is not None:
        data = data["tool"]["tbparse"]
    if not isinstance(data, dict):
        line, column = place(text, "tool", "tbparse")
        raise SettingsError([RuleProblem(str(path), line, column, "tool.tbparse is a table of keys, such as `attempts = 3`")])
    lines = {key: place(text, table, key)[0] for key in data}
    try:
        settings = Settings.model_validate(data)
    except ValidationError as e:
        problems = [*_problems(e, path, text, table), *_missing_rules(path, data, lines, {str(x["loc"][0]) for x in e.errors()})]
        raise SettingsError(sorted(problems, key=lambda p: (p.line, p.column))) from None
    both = sorted({*settings.transient} & {*settings.real})
    if both:
        line, column = place(text, table, "real", both[0])
        hint = "a rule has one verdict: leave it in one of the two"
        raise SettingsError([RuleProblem(str(path), line, column, f"`{both[0]}` is both in `transient` and in `real`", hint)])
    return settings, lines


def _missing_rules(path: Path, data: dict[str, Any], lines: dict[str, int], wrong: set[str]) -> list[RuleProblem]:
    """Names of no rule among the keys that can be used, so that a file's problems are told at once."""
    if "rules" in wrong or not data.keys() & {"transient", "real"} - wrong:
        return []
    from tbparse.settings import Project
    from tbparse.settings_rules import missing_rules

    settings = Settings.model_validate({k: v for k, v in data.items() if k not in wrong})
    return missing_rules(Project(path, settings, {k: n for k, n in lines.items() if k not in wrong}))


_AT = re.compile(r"\s*\(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$")


def _not_toml(path: Path, text: str, said: str) -> RuleProblem:
    found = _AT.search(said)
    line, column = text.count("\n") + 1, 1
    if found is not None and found["line"]:
        line, column = int(found["line"]), int(found["column"])
    return RuleProblem(str(path), line, column, f"not valid TOML: {_AT.sub('', said)}")


def _problems(error: ValidationError, path: Path, text: str, table: str | None) -> Iterator[RuleProblem]:
    known = list(Settings.model_fields)
    for e in error.errors():
        key = str(e["loc"][0])
        value = e["input"] if isinstance(e["input"], str) and len(e["loc"]) > 1 else None
        line, column = place(text, table, key, value)
        if e["type"] == "extra_forbidden":
            close = difflib.get_close_matches(key.replace("-", "_"), known, n=1, cutoff=0.5)
            hint = f"did you mean `{close[0]}`?" if close else f"known keys: {', '.join(known)}"
            if key == "tool" and table is None:
                hint = f"in {OWN_FILE} the keys stand at the top, without [tool.tbparse]"
            yield RuleProblem(str(path), line, column, f"unknown key `{key}`", hint)
            continue
        what = e["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
        yield RuleProblem(str(path), line, column, f"`{key}` should be {_wanted(e['type'], what)}, not {_shown(e['input'])}")


def _wanted(kind: str, said: str) -> str:
    """Pydantic's words, without those that only its users know."""
    return {"tuple_type": "a list of texts", "string_type": "a text", "string_too_short": "a text that is not empty"}.get(
        kind, said
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


_HEADER = re.compile(r"^\s*\[\[?\s*(?P<name>[^\]]+?)\s*\]")


def place(text: str, table: str | None, key: str, value: str | None = None) -> tuple[int, int]:
    """Line and column (from 1) of a key in a table (None: before the first one), or of a text in its list."""
    plain = re.compile(rf"""^(?P<lead>\s*)["']?{re.escape(key)}["']?\s*(?:=|\.)""")
    dotted = re.compile(rf"""^(?P<lead>\s*(?:tool\s*\.\s*)?tbparse\s*\.\s*)["']?{re.escape(key)}["']?\s*=""")
    inline = re.compile(rf"""^(?P<lead>.*\btbparse\s*=\s*\{{.*?)["']?\b{re.escape(key)}["']?\s*=""")
    as_table = key if table is None else f"{table}.{key}"
    here: str | None = None
    found: tuple[int, int] | None = None
    lines = text.split("\n")
    for n, line in enumerate(lines, 1):
        start = _HEADER.match(line)
        if start is not None:
            here = re.sub(r"[\s\"']", "", start["name"])
        m = plain.match(line) if here == table else None
        m = m or (table is not None and (dotted.match(line) or inline.match(line))) or None
        if m is not None or (start is not None and f"{here}.".startswith(f"{as_table}.")):
            found = n, (m.end("lead") if m is not None else line.index("[")) + 1
            break
    if found is None:
        return 1, 1
    if value is None:
        return found
    for n in range(found[0], len(lines) + 1):
        at = max(lines[n - 1].find(f'"{value}"'), lines[n - 1].find(f"'{value}'"))
        if at >= 0:
            return n, at + 1
    return found
