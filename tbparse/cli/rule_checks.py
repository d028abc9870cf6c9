"""Checking rule files and trying rules' examples."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tbparse.engine import classify
from tbparse.errors import RuleProblem
from tbparse.model import RootCause
from tbparse.ruleset.match import PackedRule, RuleSet
from tbparse.ruleset.pack import pack_rule, read_yaml, validate
from tbparse.ruleset.schema import Example, Rule, SiteFile
from tbparse.ruleset.store import rule_files, rules_dir


def check_paths(paths: Sequence[str]) -> tuple[int, list[RuleProblem]]:
    """How many rule files there are, and everything that is wrong with them."""
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
        site = isinstance(data, dict) and "match" not in data and bool(data.keys() & {"disable", "override"})
        found = validate(path, SiteFile if site else Rule)[1]
        if "/" not in rule_id and not site:
            found.append(RuleProblem(str(path), 1, 1, "a rule lies in the folder of its area: <area>/<rule>.yaml"))
        if isinstance(data, dict):
            found += _references(path, data, known)
        problems += sorted(found, key=lambda p: (p.line, p.column))
    return len(files), problems


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


def try_rules(rules: Mapping[str, Rule]) -> tuple[int, list[str]]:
    """Run the examples of ``rules`` under all built-in rules: how many there were, and what went wrong, a text each."""
    everything = RuleSet([PackedRule(d) for d in _all_rules(rules)])
    tried = 0
    failures: list[str] = []
    for rule_id, rule in rules.items():
        for i, example in enumerate(rule.examples, 1):
            tried += 1
            answer = classify(example.text, returncode=example.returncode, rules=everything)
            name = f"{rule_id}: example {i} ({_head(example.source)})"
            failures += [f"{name}: {what}" for what in _wrong(rule_id, example, answer)]
        for i, counter in enumerate(rule.counter_examples, 1):
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


def _wrong(rule_id: str, example: Example, answer: RootCause) -> Iterator[str]:
    if answer.rule != rule_id:
        yield f"{answer.rule or 'no rule'} wins, on {answer.exception or answer.message or 'nothing'}"
        return
    if example.verdict is not None and answer.verdict != example.verdict:
        yield f"the verdict is {answer.verdict}, not {example.verdict}"
    if example.category is not None and answer.category != example.category:
        yield f"the category is {answer.category}, not {example.category}"
    for name, wanted in example.captures.items():
        got = answer.captures.get(name)
        if got != (tuple(wanted) if isinstance(wanted, list) else wanted):
            yield f"captures {name} as {got!r}, not {wanted!r}"


def _head(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:59]}…"
