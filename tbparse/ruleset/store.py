"""Where the rules are, and how they are read: YAML for authors, a packed form for a fast start.

``rules/`` lies beside the package in a checkout (and so in an editable install) and inside it in a wheel; one function
finds it in both cases. The packed form, ``tbparse/ruleset/packed.json``, holds what the engine needs of every
rule. It is used while it was made from the very files that are there, else the YAML is read.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tbparse.errors import RuleError, RuleProblem

PACKAGE = Path(__file__).resolve().parent.parent
PACKED = Path(__file__).resolve().parent / "packed.json"
PROFILES = Path(__file__).resolve().parent / "profiles"


def rules_dir() -> Path:
    """The folder of the built-in rules. Raises RuleError when neither place has it."""
    for candidate in (PACKAGE / "rules", PACKAGE.parent / "rules"):
        if candidate.is_dir():
            return candidate
    raise RuleError([RuleProblem(str(PACKAGE / "rules"), 0, 0, "the built-in rules are missing: reinstall tbparse-triage")])


def rule_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Id and path of every rule below ``root``, in the order of their ids."""
    found = sorted(p for p in root.rglob("*.yaml") if not p.name.startswith((".", "_")))
    for path in found:
        yield path.relative_to(root).with_suffix("").as_posix(), path


def digest(files: Iterable[tuple[str, Path]]) -> str:
    """A fingerprint of rule files by name and content."""
    h = hashlib.blake2b(digest_size=16)
    for rule_id, path in files:
        h.update(rule_id.encode() + b"\0" + path.read_bytes() + b"\0")
    return h.hexdigest()


def load_packed() -> list[dict[str, Any]]:
    """The built-in rules, ready for the engine."""
    root: Path | None = None
    if (PACKAGE.parent / "rules").is_dir() and not (PACKAGE / "rules").is_dir():
        root = PACKAGE.parent / "rules"
    if PACKED.is_file():
        data = json.loads(PACKED.read_bytes())
        # A wheel's rules cannot change under it; a checkout's can: times are looked at first, and the content where they differ.
        if root is None or _older(root, len(data["rules"])) or data["digest"] == digest(rule_files(root)):
            rules: list[dict[str, Any]] = data["rules"]
            return rules
    from tbparse.ruleset.pack import pack_dir

    return pack_dir(root or rules_dir())


def _older(root: Path, count: int) -> bool:
    """Whether every rule file, as many as were packed, is older than the packed form."""
    limit = PACKED.stat().st_mtime_ns
    seen = 0
    with os.scandir(root) as areas:
        for area in areas:
            if not area.is_dir() or area.stat().st_mtime_ns > limit:
                continue
            with os.scandir(area.path) as files:
                for file in files:
                    if file.name.endswith(".yaml"):
                        seen += 1
                        if file.stat().st_mtime_ns > limit:
                            return False
    return seen == count


def profile_path(name: str) -> Path:
    """The site file of a built-in profile."""
    return PROFILES / f"{name}.yaml"
