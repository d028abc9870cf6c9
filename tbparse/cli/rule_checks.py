"""Checking rule files and trying rules' examples."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tbparse.engine import classify
from tbparse.errors import RuleError, RuleProblem, UsageError
from tbparse.model import RootCause
from tbparse.ruleset.contract import shortcomings
from tbparse.ruleset.draft import OPEN
from tbparse.ruleset.match import PackedRule, RuleSet
from tbparse.ruleset.pack import pack_rule, read_yaml, validate
from tbparse.ruleset.packs import rule_paths
from tbparse.ruleset.schema import Example, Rule, SiteFile
from tbparse.ruleset.store import rule_files, rules_dir


def check_paths(paths: Sequence[str], *, strict: bool = False) -> tuple[int, list[RuleProblem]]:
    """How many rule files there are, and everything that is wrong with them; ``strict`` asks for all that a built-in rule has."""
    problems: list[RuleProblem] = []
    files: dict[Path, str] = {}
    for given in paths:
        path = Path(given)
        if path.is_dir():
            below = {p: rule_id for rule_id, p in rule_files(path)}
            if not below:
                problems.append(RuleProblem(given, 0, 0, "no rule files (*.yaml) below this folder"))
            files |= below
        elif path.is_file():
            files[path] = f"{path.resolve().parent.name}/{path.stem}"
        else:
            problems.append(RuleProblem(given, 0, 0, "no such file or folder"))
    known = {rule_id for rule_id, _ in rule_files(rules_dir())} | set(files.values())
    for path, rule_id in files.items():
        data, unreadable = read_yaml(path)
        if unreadable:
            problems += unreadable
            continue
        site = isinstance(data, dict) and "match" not in data and bool(data.keys() & set(SITE_KEYS))
        parsed, found = validate(path, SiteFile if site else Rule)
        if "/" not in rule_id and not site:
            found.append(RuleProblem(str(path), 1, 1, "a rule lies in the folder of its area: <area>/<rule>.yaml"))
        if isinstance(data, dict):
            found += _references(path, data, known | _extended(path, found) if site else known)
        found += _open_ends(path)
        if strict and isinstance(parsed, Rule):
            found += [RuleProblem(str(path), 1, 1, what) for what in shortcomings(parsed)]
        problems += sorted(found, key=lambda p: (p.line, p.column))
    return len(files), problems


SITE_KEYS = ("extends", "disable", "override", "filters")


def _extended(path: Path, problems: list[RuleProblem]) -> set[str]:
    """The rules that a site file builds on besides the built-in ones."""
    try:
        return set(rule_paths([path], alone=True))
    except RuleError:
        return set()  # told already, as problems of the file itself
    except UsageError as e:
        problems.append(RuleProblem(str(path), 1, 1, f"extends: {e}"))
        return set()


def _open_ends(path: Path) -> Iterator[RuleProblem]:
    """What a draft left to be written."""
    for no, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        found = re.search(rf"(?:^\s*- |: )['\"]?({OPEN}): (.*)", line)
        if found is not None:
            yield RuleProblem(str(path), no, found.start(1) + 1, f"still to be written: {found[2].strip(chr(39) + chr(34))}")


def _references(path: Path, data: dict[str, Any], known: set[str]) -> Iterator[RuleProblem]:
    """Rules that are named and do not exist."""
    for key in ("over", "related", "disable", "override"):
        value = data.get(key)
        names = [value] if isinstance(value, str) else list(value) if isinstance(value, (list, dict)) else []
        for i, name in enumerate(names):
            if not isinstance(name, str) or name in known:
                continue
            if name.endswith("/*") and any(k.startswith(name[:-1]) for k in known):
                continue
            close = difflib.get_close_matches(name, known, n=1)
            line, column = _spot(data, key, i, name)
            hint = f"did you mean `{close[0]}`?" if close else None
            yield RuleProblem(str(path), line, column, f"{key}: there is no rule `{name}`", hint)


def _spot(data: dict[str, Any], key: str, index: int, name: str) -> tuple[int, int]:
    """Line and column, which ruamel keeps inside its containers, of a name in the list or mapping under ``key``."""
    value = data[key]
    try:
        holder = data if isinstance(value, str) else value
        marks = getattr(holder, "lc")  # noqa: B009 - known to ruamel's containers only
        line, column = marks.item(index) if isinstance(value, list) else marks.value(key) if holder is data else marks.key(name)
        return line + 1, column + 1
    except (AttributeError, KeyError, IndexError, TypeError):
        return 1, 1


def read_rules(files: Mapping[str, Path]) -> dict[str, Rule]:
    """The rules in these files by id. Raises RuleError with all problems of all files."""
    rules: dict[str, Rule] = {}
    problems: list[RuleProblem] = []
    for rule_id, path in files.items():
        rule, found = validate(path, Rule)
        problems += found
        if isinstance(rule, Rule):
            rules[rule_id] = rule
    if problems:
        raise RuleError(problems)
    return rules


def try_rules(rules: Mapping[str, Rule], everything: RuleSet | None = None) -> tuple[int, list[str]]:
    """Run the examples of ``rules`` under ``everything`` (the built-in rules): how many there were, and what went wrong.

    Of a rule whose verdict or category a site file changes, only who wins is looked at.
    """
    if everything is None:
        everything = RuleSet([PackedRule(d) for d in _all_rules(rules)])
    tried = 0
    failures: list[str] = []
    for rule_id, rule in rules.items():
        used = everything.by_id.get(rule_id)
        as_written = used is None or (used.verdict, used.category) == (rule.verdict, rule.category)
        for i, example in enumerate(rule.examples, 1):
            tried += 1
            answer = classify(example.text, returncode=example.returncode, rules=everything)
            name = f"{rule_id}: example {i} ({_head(example.source)})"
            failures += [f"{name}: {what}" for what in _wrong(rule_id, example, answer, as_written)]
        for i, counter in enumerate(rule.counter_examples, 1):
            if counter.wins is not None and counter.wins not in everything.by_id:
                continue  # a site file disables the rule that should win
            tried += 1
            answer = classify(counter.text, returncode=counter.returncode, rules=everything)
            if answer.rule != counter.wins:
                what = f"{counter.wins or 'no rule'} should win, {answer.rule or 'no rule'} does"
                failures.append(f"{rule_id}: counter-example {i} ({_head(counter.why)}): {what}")
    return tried, failures


def _all_rules(rules: Mapping[str, Rule]) -> Iterator[dict[str, Any]]:
    from tbparse.ruleset.store import load_packed

    for data in load_packed():
        own = rules.get(data["id"])
        yield pack_rule(data["id"], own) if own is not None else data


def _wrong(rule_id: str, example: Example, answer: RootCause, as_written: bool) -> Iterator[str]:
    if answer.rule != rule_id:
        yield f"{answer.rule or 'no rule'} wins, on {answer.exception or answer.message or 'nothing'}"
        return
    if as_written and example.verdict is not None and answer.verdict != example.verdict:
        yield f"the verdict is {answer.verdict}, not {example.verdict}"
    if as_written and example.category is not None and answer.category != example.category:
        yield f"the category is {answer.category}, not {example.category}"
    for name, wanted in example.captures.items():
        got = answer.captures.get(name)
        if got != (tuple(wanted) if isinstance(wanted, list) else wanted):
            yield f"captures {name} as {got!r}, not {wanted!r}"


def _head(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:59]}…"
