"""The rules of a project: the built-in ones under a profile, its packs over them, and the verdicts that it sets itself."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tbparse.errors import RuleProblem, SettingsError, TbparseError
from tbparse.model import Retry
from tbparse.ruleset.match import PackedRule, RuleSet, builtin_rules, default_retry
from tbparse.ruleset.packs import load_rules
from tbparse.settings import OWN_FILE
from tbparse.settings_model import place

if TYPE_CHECKING:
    from tbparse.settings import Project


def project_rules(project: Project, profile: str, packs: Sequence[str]) -> RuleSet:
    """See :meth:`tbparse.settings.Project.rules`."""
    base = _base(project, profile, packs)
    wanted = _verdicts(project, base)
    if not wanted:
        return base
    return RuleSet([_with(rule, wanted[rule.id]) if rule.id in wanted else rule for rule in base.rules])


def missing_rules(project: Project) -> list[RuleProblem]:
    """The names of no rule in a project's settings; none where its packs cannot be read, which is another matter."""
    try:
        _verdicts(project, _base(project, "job", ()))
    except SettingsError as e:
        return list(e.problems)
    except TbparseError:
        return []
    return []


def _base(project: Project, profile: str, packs: Sequence[str]) -> RuleSet:
    own: list[str | Path] = []
    for name in project.get("rules") or ():
        # Folders are relative to the file that names them; a name of no folder may be an installed pack's.
        folder = (project.path or Path()).parent / Path(name).expanduser()
        own.append(folder if folder.exists() else name)
    if not own and not packs:
        return builtin_rules(profile)
    return load_rules([*own, *packs], profile=profile)


def _verdicts(project: Project, rules: RuleSet) -> dict[str, str]:
    """The project's verdict by rule: a rule's own name says more than its area's, and of two areas' `real` is the safe one.

    Raises SettingsError for names of no rule.
    """
    areas: dict[str, str] = {}
    single: dict[str, str] = {}
    problems = []
    for verdict in ("transient", "real"):
        for name in project.get(verdict) or ():
            found = [i for i in rules.by_id if name.endswith("/*") and i.startswith(name[:-1])]
            areas |= dict.fromkeys(found, verdict)
            if name in rules.by_id:
                single[name] = verdict
            elif not found:
                problems.append(_no_rule(project, verdict, name, list(rules.by_id)))
    if problems:
        raise SettingsError(problems)
    return areas | single


def _no_rule(project: Project, key: str, name: str, known: list[str]) -> RuleProblem:
    assert project.path is not None
    tails = {i.rpartition("/")[2]: i for i in known}
    near = difflib.get_close_matches(name, known, n=2, cutoff=0.6)
    near += [tails[t] for t in difflib.get_close_matches(name.rpartition("/")[2], list(tails), n=2, cutoff=0.6)]
    hint = f"did you mean `{near[0]}`?" if near else "`tbparse rules list` shows them all"
    table = None if project.path.name == OWN_FILE else "tool.tbparse"
    line, column = place(project.path.read_text(encoding="utf-8-sig"), table, key, name)
    return RuleProblem(str(project.path), line, column, f"{key}: there is no rule `{name}`", hint)


def _with(rule: PackedRule, verdict: str) -> PackedRule:
    """The rule with a verdict of the project's own, whatever its qualifiers say."""
    data: dict[str, Any] = {**rule.data, "verdict": verdict, "qualifiers": []}
    kept = Retry(**rule.retry) if rule.retry else None
    if kept is None or (kept.action == "stop") is (verdict == "transient"):
        data["retry"] = default_retry(verdict).model_dump(mode="json")
    return PackedRule(data)
