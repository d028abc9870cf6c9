"""Rules beyond the built-in ones: a folder, a site file, or a pack that another package installs.

A pack is a folder of ``<area>/<rule>.yaml``, as the built-in rules are, with an optional ``site.yaml`` at its top, or
such a file alone. An installed package offers one by an entry point in the group ``tbparse.rules`` whose value names
the folder inside the package (``acme_rules`` or ``acme_rules:packs.gpu``); nothing of the package is imported or run.
Packs are read only where somebody names them, so that a start without any costs nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tbparse.errors import RuleError, RuleProblem, UsageError
from tbparse.ruleset.match import PackedRule, RuleSet, apply_profile, changed
from tbparse.ruleset.store import load_packed, rule_files, rules_dir

BUILTIN = "builtin"
"""The name of the rules that tbparse brings, where a site file extends something."""
INSTALLED = "installed"
"""Stands for every pack that an installed package offers."""
GROUP = "tbparse.rules"
SITE_NAME = "site.yaml"


def load_rules(
    packs: str | Path | Sequence[str | Path] = (), *, profile: str = "job", base: Path | None = None, alone: bool = False
) -> RuleSet:
    """The built-in rules with ``packs`` over them, for ``classify(rules=…)`` and ``Explainer(rules=…)``.

    A pack is a folder, a site file, the name of an installed pack, or ``installed`` for all of these; relative paths are
    below ``base``. A later pack's rule takes the place of an earlier one with the same id. ``alone`` leaves the
    built-in rules out. Raises UsageError for a pack that is not there, and RuleError with every problem of its files.
    """
    names = [packs] if isinstance(packs, (str, Path)) else list(packs)
    rules: dict[str, dict[str, Any]] = {} if alone else _builtin()
    for name in names:
        for path in find_pack(name, base):
            rules = _extended(rules, path, ())
    return RuleSet(apply_profile([PackedRule(d) for d in rules.values()], profile))


def find_pack(name: str | Path, base: Path | None = None) -> list[Path]:
    """The folders or site files that a pack's name stands for. Raises UsageError where there is none."""
    path = Path(name).expanduser()
    if base is not None and not path.is_absolute():
        path = base / path
    if path.exists():
        return [path]
    offered = installed()
    if str(name) == INSTALLED:
        return list(offered.values())
    if str(name) in offered:
        return [offered[str(name)]]
    close = difflib.get_close_matches(str(name), [*offered, INSTALLED], n=1)
    have = f"installed packs: {', '.join(sorted(offered))}" if offered else "no installed package offers one"
    hint = f"did you mean `{close[0]}`?" if close else have
    raise UsageError(f"no rules at `{path}`: give a folder of rules, a site file, or the name of an installed pack ({hint})")


def installed() -> dict[str, Path]:
    """The packs of installed packages: entry point's name and folder."""
    from importlib.metadata import entry_points

    found: dict[str, Path] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda p: p.name):
        folder = _folder(point.value)
        if folder is None:
            raise UsageError(f"the installed pack `{point.name}` names `{point.value}`, and there is no such folder")
        found[point.name] = folder
    return found


def _folder(value: str) -> Path | None:
    """The folder of ``package.sub:folder.sub``, found without running the package."""
    from importlib.util import find_spec

    module, _, inside = value.partition(":")
    top, *rest = [*module.strip().split("."), *(inside.strip().split(".") if inside.strip() else [])]
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        folder = Path(root, *rest)
        if folder.is_dir():
            return folder
    return None


def site_file(path: Path) -> Path | None:
    """The site file of a pack: the path itself, or ``site.yaml`` at the top of the folder."""
    if path.is_file():
        return path
    file = path / SITE_NAME
    return file if file.is_file() else None


def pack_files(root: Path) -> list[tuple[str, Path]]:
    """Id and path of every rule of a pack's folder; its site file is none."""
    return [(rule_id, p) for rule_id, p in rule_files(root) if p != root / SITE_NAME]


def _builtin() -> dict[str, dict[str, Any]]:
    return {d["id"]: d for d in load_packed()}


def _extended(rules: dict[str, dict[str, Any]], path: Path, seen: tuple[Path, ...]) -> dict[str, dict[str, Any]]:
    """``rules`` under the pack at ``path``: its own rules over them, then what its site file changes."""
    from tbparse.ruleset.pack import pack_rule, read_dir, read_site

    here = path.resolve()
    if here in seen:
        raise RuleError([RuleProblem(str(path), 1, 1, "extends itself, over " + " → ".join(str(p) for p in seen))])
    file = site_file(path)
    site = read_site(file) if file is not None else None
    out = dict(rules)
    if site is not None and site.extends is not None:
        out = {}
        for name in site.extends:
            if name == BUILTIN:
                out |= _builtin()
                continue
            for other in find_pack(name, path if path.is_dir() else path.parent):
                out = _extended(out, other, (*seen, here))
    if path.is_dir():
        own = read_dir(path, known=out)
        out |= {rule_id: pack_rule(rule_id, rule) for rule_id, rule in own.items()}
    if site is None:
        return out
    problems = _unknown(file or path, site, out)
    if problems:
        raise RuleError(problems)
    return {r.id: r.data for r in changed((PackedRule(d) for d in out.values()), site)}


def _unknown(path: Path, site: Any, rules: Iterable[str]) -> list[RuleProblem]:
    """Rules that a site file names and that are not there."""
    known = set(rules)
    problems = []
    named = [*site.disable, *site.override, *(r for f in site.filters for r in f.rules)]
    for name in dict.fromkeys(named):
        if name in known or (name.endswith("/*") and any(k.startswith(name[:-1]) for k in known)):
            continue
        close = difflib.get_close_matches(name, known, n=1)
        problems.append(
            RuleProblem(str(path), 0, 0, f"there is no rule `{name}`", f"did you mean `{close[0]}`?" if close else None)
        )
    return problems


def rule_paths(packs: Sequence[str | Path] = (), *, base: Path | None = None, alone: bool = False) -> dict[str, Path]:
    """Id and file of every rule of the built-in set (but ``alone``) and of ``packs``, as :func:`load_rules` puts them together."""
    files = {} if alone else dict(rule_files(rules_dir()))
    for name in packs:
        for path in find_pack(name, base):
            files |= _paths(path, set())
    return files


def _paths(path: Path, seen: set[Path]) -> dict[str, Path]:
    if path.resolve() in seen:
        return {}
    seen.add(path.resolve())
    files: dict[str, Path] = {}
    from tbparse.ruleset.pack import read_site

    file = site_file(path)
    site = read_site(file) if file is not None else None
    for name in (site.extends or ()) if site is not None else ():
        for other in [rules_dir()] if name == BUILTIN else find_pack(name, path if path.is_dir() else path.parent):
            files |= _paths(other, seen)
    return files | (dict(pack_files(path)) if path.is_dir() else {})
