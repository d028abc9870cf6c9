"""Reading rule files for authors: every problem of a pack at once, each with path, line and column.

``python -m tbparse.ruleset.pack`` writes the packed form of the built-in rules.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from tbparse.errors import RuleError, RuleProblem
from tbparse.ruleset.patterns import is_caseless, literal_weight, required_literals
from tbparse.ruleset.schema import CounterExample, Example, Filter, Matcher, Override, Qualifier, Rule, SiteFile
from tbparse.ruleset.store import PACKED, digest, rule_files, rules_dir

_MODELS: dict[str, type[BaseModel]] = {
    "match": Matcher, "unless": Matcher, "when": Matcher, "qualifiers": Qualifier, "examples": Example,
    "counter_examples": CounterExample, "override": Override, "filters": Filter,
}  # fmt: skip
SITE_STEMS = frozenset({"site"})
"""A file of this name at the top of a pack changes rules and is none."""
_BUILTIN_TYPES = frozenset({
    "RuntimeError", "ValueError", "TypeError", "OSError",
    "Exception", "KeyError", "AttributeError", "ImportError", "AssertionError",
    "IOError", "EnvironmentError", "SystemError",
})  # fmt: skip


def read_yaml(path: Path) -> tuple[Any, list[RuleProblem]]:
    """The file's data, with line and column kept inside it, or what is wrong with it as YAML."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    yaml = YAML(typ="rt")
    try:
        return yaml.load(path.read_text(encoding="utf-8")), []
    except MarkedYAMLError as e:
        mark = e.problem_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        return None, [RuleProblem(str(path), line, column, f"not valid YAML: {e.problem or e.context}")]
    except (YAMLError, UnicodeDecodeError, OSError) as e:
        return None, [RuleProblem(str(path), 0, 0, f"cannot be read: {e}")]


def _plain(value: Any) -> Any:
    """YAML's own containers and scalars as plain Python ones."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    return value


def _position(data: Any, loc: Sequence[int | str]) -> tuple[int, int]:
    """Line and column (1-based) of the innermost part of ``data`` on the way ``loc``."""
    line, column = 1, 1
    node = data
    for key in loc:
        try:
            if isinstance(node, dict) and key in node:
                line, column = node.lc.key(key)[0] + 1, node.lc.key(key)[1] + 1  # type: ignore[attr-defined]
                node = node[key]
            elif isinstance(node, list) and isinstance(key, int) and key < len(node):
                line, column = node.lc.item(key)[0] + 1, node.lc.item(key)[1] + 1  # type: ignore[attr-defined]
                node = node[key]
        except (AttributeError, KeyError, TypeError):
            break
    return line, column


def _model_at(root: type[BaseModel], loc: Sequence[int | str]) -> type[BaseModel]:
    model = root
    for key in loc[:-1]:
        if isinstance(key, str) and key in _MODELS:
            model = _MODELS[key]
    return model


def validate(path: Path, model: type[BaseModel]) -> tuple[BaseModel | None, list[RuleProblem]]:
    """The file as a ``model`` (Rule or SiteFile), or every problem that it has."""
    data, problems = read_yaml(path)
    if problems:
        return None, problems
    if not isinstance(data, dict):
        return None, [RuleProblem(str(path), 1, 1, "a mapping of keys was expected, such as `title: …`")]
    try:
        return model.model_validate(_plain(data)), []
    except ValidationError as e:
        errors = e.errors()
        deeper = {x["loc"][: len(x["loc"]) - k] for x in errors for k in range(1, len(x["loc"]))}
        for error in errors:
            if error["type"] == "too_short" and error["loc"] in deeper:
                continue  # only a consequence of what is wrong inside
            line, column = _position(data, error["loc"])
            where = ".".join(str(x) for x in error["loc"]) or "the rule"
            hint = None
            message = error["msg"].removeprefix("Value error, ")
            if error["type"] == "extra_forbidden":
                names = list(_model_at(model, error["loc"]).model_fields)
                close = difflib.get_close_matches(str(error["loc"][-1]), names, n=1, cutoff=0.5)
                hint = f"did you mean `{close[0]}`?" if close else f"known keys: {', '.join(names)}"
                message = "unknown key"
            problems.append(RuleProblem(str(path), line, column, f"{where}: {message}", hint))
        return None, problems


def read_dir(root: Path, known: Iterable[str] = ()) -> dict[str, Rule]:
    """Every rule below ``root`` by id; they may name the rules in ``known``. Raises RuleError with all problems of all files."""
    rules: dict[str, Rule] = {}
    problems: list[RuleProblem] = []
    if not root.is_dir():
        raise RuleError([RuleProblem(str(root), 0, 0, "no such folder of rules")])
    for rule_id, path in rule_files(root):
        if rule_id in SITE_STEMS:
            continue
        rule, found = validate(path, Rule)
        problems += found
        if isinstance(rule, Rule):
            rules[rule_id] = rule
        if "/" not in rule_id:
            problems.append(RuleProblem(str(path), 1, 1, "a rule lies in the folder of its area: <area>/<rule>.yaml"))
    everything = {*rules, *known}
    for rule_id, rule in rules.items():
        for other in (*(rule.over or ()), *rule.related):
            area, _, star = other.partition("/")
            whole = star == "*" and any(r.startswith(f"{area}/") for r in everything)
            if other not in everything and not whole:
                close = difflib.get_close_matches(other, everything, n=1)
                hint = f"did you mean `{close[0]}`?" if close else None
                problems.append(
                    RuleProblem(str(root / f"{rule_id}.yaml"), 0, 0, f"names the rule `{other}`, which does not exist", hint)
                )
    if problems:
        raise RuleError(problems)
    return rules


def read_site(path: Path) -> SiteFile:
    """A site file of overrides. Raises RuleError with all its problems."""
    site, problems = validate(path, SiteFile)
    if problems or not isinstance(site, SiteFile):
        raise RuleError(problems)
    return site


def pack_rule(rule_id: str, rule: Rule) -> dict[str, Any]:
    """What the engine needs of a rule: no examples, with literals and specificity computed."""
    data = rule.model_dump(
        mode="json",
        exclude={"examples", "counter_examples", "summary", "references", "related", "signatures", "stability"},
        exclude_defaults=True,
    )
    data["id"] = rule_id
    for section in ("match", "unless"):
        data[section] = [pack_matcher(m) for m in getattr(rule, section)]
    data["qualifiers"] = [
        {**q, "when": [pack_matcher(m) for m in model.when]}
        for q, model in zip(data.get("qualifiers", []), rule.qualifiers, strict=True)
    ]
    return data


def pack_matcher(m: Matcher) -> dict[str, Any]:
    """A matcher with the literals that its patterns need, and its specificity."""
    data: dict[str, Any] = m.model_dump(mode="json", exclude_none=True)
    for key in ("message", "line"):
        pattern = getattr(m, key)
        if pattern is not None:
            data[f"{key}_literals"] = required_literals(pattern)
            data[f"{key}_caseless"] = is_caseless(pattern)
    data["specificity"] = specificity(m)
    return data


def specificity(m: Matcher) -> int:
    """How much a matcher asks for. Fixed text counts by its length, so that of two patterns the narrower one wins."""
    score = 0
    if m.type is not None:
        score += 10 if all(t in _BUILTIN_TYPES for t in m.type) else 25
    if m.message is not None:
        score += 30 + min(40, literal_weight(m.message))
    if m.frame is not None:
        score += 15 + min(10, literal_weight(m.frame) // 3)
    if m.chain is not None:
        score += 10
    if m.line is not None:
        score += 5 + min(20, literal_weight(m.line) // 2)
    score += sum(5 for v in (m.kind, m.launcher) if v is not None)
    score += sum(8 for v in (m.exit_code, m.signal) if v is not None)
    return score


def pack_dir(root: Path) -> list[dict[str, Any]]:
    """The rules below ``root`` in the packed form."""
    return [pack_rule(rule_id, rule) for rule_id, rule in read_dir(root).items()]


def packed_text(root: Path) -> str:
    """The text of ``packed.json`` for the rules below ``root``."""
    body = {"digest": digest(rule_files(root)), "rules": pack_dir(root)}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n"


def main() -> None:
    """Write ``packed.json`` from the built-in rules."""
    PACKED.write_text(packed_text(rules_dir()), encoding="utf-8")


if __name__ == "__main__":
    main()
