"""Every labelled log, field group by field group, and what must never happen on any of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpora import Case, all_cases, healthy_logs
from known_wrong import HEALTHY_BUT_BLAMED, KNOWN_WRONG
from scoring import GROUPS, wrong_fields

from tbparse.engine import Explainer
from tbparse.logs.directory import join_log_dir
from tbparse.model import RootCause
from tbparse.ruleset.match import RuleSet

_ANSWERS: dict[str, RootCause] = {}


def answer_for(case: Case, rules: RuleSet) -> RootCause:
    """The answer for a case, worked out once a process."""
    if case.id not in _ANSWERS:
        explainer = Explainer(rules=rules)
        explainer.feed(case.read())
        if case.log_dir is not None:
            join_log_dir(explainer, case.log_dir)
        _ANSWERS[case.id] = explainer.finish(case.returncode)
    return _ANSWERS[case.id]


def _parameters() -> list[object]:
    out = []
    for case in all_cases():
        for group in GROUPS:
            why = KNOWN_WRONG.get((case.id, group))
            marks = [pytest.mark.xfail(reason=why, strict=True)] if why else []
            out.append(pytest.param(case, group, id=f"{case.id}-{group}", marks=marks))
    return out


@pytest.mark.parametrize(("case", "group"), _parameters())
def test_the_answer_agrees_with_the_label(case: Case, group: str, rules: RuleSet) -> None:
    answer = answer_for(case, rules)
    wrong = wrong_fields(case.label, answer, group)
    assert not wrong, "\n".join([f"{case.folder / case.label['log']} (rule {answer.rule}):", *wrong])


def test_no_real_failure_is_called_transient(rules: RuleSet) -> None:
    """A wasted retry of a bug hides a regression: no label that says real may be answered transient."""
    retried = [c.id for c in all_cases() if c.label["verdict"] == "real" and answer_for(c, rules).transient]
    assert retried == []


def test_what_the_labels_leave_open_is_not_retried_more_often_than_labelled(rules: RuleSet) -> None:
    """``unknown`` is never retried: an unknown label is answered transient only where it accepts that."""
    retried = [
        c.id
        for c in all_cases()
        if c.label["verdict"] in ("unknown", "clean")
        and "transient" not in c.label.get("accept", {}).get("verdict", ())
        and answer_for(c, rules).transient
    ]
    assert retried == []


@pytest.mark.parametrize("path", healthy_logs(), ids=lambda p: p.stem)
@pytest.mark.parametrize("returncode", [0, None], ids=["exit-0", "exit-not-known"])
def test_a_healthy_log_is_clean(path: Path, returncode: int | None, explain, request: pytest.FixtureRequest) -> None:
    if (path.stem, returncode) in HEALTHY_BUT_BLAMED:
        request.applymarker(pytest.mark.xfail(strict=True, reason=HEALTHY_BUT_BLAMED[path.stem, returncode]))
    answer = explain(path.read_bytes(), returncode=returncode)
    assert answer.verdict == "clean", f"{answer.rule}: {answer.exception}: {answer.message}"
    assert answer.category is None


def test_every_known_wrong_field_belongs_to_a_case() -> None:
    ids = {c.id for c in all_cases()}
    assert [key for key in KNOWN_WRONG if key[0] not in ids or key[1] not in GROUPS] == []
