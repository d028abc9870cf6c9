"""``tbparse doctor``: is this installation whole?"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from pathlib import Path

import typer

from tbparse.cli.exits import ExitCode
from tbparse.cli.terminal import guarded, write
from tbparse.errors import RuleError, SettingsError, UsageError
from tbparse.render.safe import printable

OURS = "tbparse-triage"
THEIRS = "tbparse"
"""Another project: a reader of TensorBoard logs. Its package has the name of ours, so its files come to lie among
them."""
THEIR_FILES = ("summary_reader.py", "version.py", "tensorflow_stub")
_NEEDED = ("regex", "pydantic", "typer", "rich", "ruamel.yaml")
_EXTRAS = ("hyperscan", "torch", "accelerate")


def doctor() -> None:
    """Check that this installation is whole."""
    problems: list[str] = []
    with guarded():
        for line in _facts(problems):
            write(printable(line) + "\n")
        write("\n")
        for line in _settings_facts(problems):
            write(printable(line) + "\n")
        problems += shadowing(Path(__file__).resolve().parent.parent)
        write("\n")
        for problem in problems:
            write(f"problem: {printable(problem)}\n")
        if not problems:
            write("all is well\n")
    if problems:
        raise typer.Exit(ExitCode.REAL)


def _facts(problems: list[str]) -> Iterator[str]:
    from tbparse._version import __version__

    package = Path(__file__).resolve().parent.parent
    yield f"tbparse      {__version__} ({OURS} {_version(OURS) or 'not installed as a distribution'})"
    yield f"python       {'.'.join(map(str, sys.version_info[:3]))} at {sys.executable}"
    yield f"package      {package}"
    yield from _rule_facts(problems)
    for name in _NEEDED:
        version = _version(name)
        yield f"{name:<12} {version or 'missing'}"
        if version is None:
            problems.append(f"{name} is needed and not installed: pip install {name}")
    for name in _EXTRAS:
        yield f"{name:<12} {_version(name) or 'not installed (optional)'}"


def _rule_facts(problems: list[str]) -> Iterator[str]:
    import json

    from tbparse.ruleset.store import PACKED, digest, rule_files, rules_dir

    try:
        root = rules_dir()
    except RuleError as e:
        yield "rules        missing"
        problems.append(str(e))
        return
    files = list(rule_files(root))
    yield f"rules        {len(files)} in {root}"
    if not files:
        problems.append(f"{root} holds no rules: reinstall {OURS}")
    try:
        current = json.loads(PACKED.read_bytes()).get("digest") == digest(files)
        yield f"packed rules {'current' if current else 'stale: the YAML is read at every start, which is slow'}"
        if not current:
            problems.append("the packed rules are not those of the YAML files: python -m tbparse.ruleset.pack")
    except (OSError, ValueError, AttributeError) as e:
        yield f"packed rules missing ({type(e).__name__})"
        problems.append("the packed rules are missing, so every start is slow: python -m tbparse.ruleset.pack")


def _settings_facts(problems: list[str]) -> Iterator[str]:
    """What is in force here, and where it was said."""
    from tbparse.settings import DEFAULT_ATTEMPTS, OWN_FILE, SHARED_FILE, find_settings, load_project

    try:
        path, ignored = find_settings(Path.cwd())
        project = load_project()
    except SettingsError as e:
        yield "settings     cannot be used"
        problems += [str(p) for p in e.problems]
        return
    if path is None:
        yield f"settings     none: no {OWN_FILE} and no [tool.tbparse] in a {SHARED_FILE} from {Path.cwd()} upwards"
    else:
        yield f"settings     {path}"
    if ignored is not None:
        problems.append(f"{ignored}: its [tool.tbparse] does not count, since {OWN_FILE} lies beside it: leave one of the two")
    defaults = {
        "profile": "job (the pytest plugin: tests)",
        "attempts": str(DEFAULT_ATTEMPTS),
        "wait": "as the rule advises",
        "timeout": "none",
    }
    for key in ("profile", "attempts", "wait", "timeout", "transient", "real", "user_paths", "library_paths", "rules"):
        value = project.get(key)
        shown = defaults.get(key, "none") if value is None else ", ".join(value) if isinstance(value, tuple) else str(value)
        where = f"line {project.lines[key]}" if key in project.lines else "default"
        yield f"  {key:<13} {shown}  ({where})"
    try:
        for profile in dict.fromkeys((project.profile(None), "job", "tests")):
            project.rules(profile)
    except RuleError as e:
        problems += [str(p) for p in e.problems]
    except UsageError as e:
        problems += str(e).split("\n")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def shadowing(package: Path, path: list[str] | None = None) -> list[str]:
    """What the other ``tbparse`` does to this one.

    ``package`` is our folder, ``path`` where distributions are looked for (``sys.path`` when None).
    """
    found = list(importlib.metadata.distributions(name=THEIRS, path=path if path is not None else sys.path))
    theirs = next((d for d in found if (d.metadata["Name"] or "").lower() == THEIRS), None)
    mixed = [name for name in THEIR_FILES if (package / name).exists()]
    remedy = f"pip uninstall {THEIRS}, then pip install --force-reinstall --no-deps {OURS}; keep the two in separate environments"
    out: list[str] = []
    if theirs is not None:
        place = Path(str(theirs.locate_file("tbparse"))).resolve()
        out.append(
            f"the distribution `{THEIRS}` {theirs.version} (a reader of TensorBoard logs) is installed too, "
            f"with a package of the same name: {remedy}"
        )
        if place == package.resolve():
            both = [f for f in ("__init__.py", *mixed) if (package / f).exists()]
            out.append(f"its files lie among ours in {package}: {', '.join(both)}; whichever was installed last wrote __init__.py")
        elif place.is_dir():
            out.append(
                f"its package is in {place}, ours in {package}: which one `import tbparse` takes depends on the order of sys.path"
            )
    elif mixed:
        out.append(f"files of another project lie in {package}: {', '.join(mixed)}: {remedy}")
    return out
