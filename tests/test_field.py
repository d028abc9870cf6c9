"""Logs rebuilt from public reports, and others like them: the answer agrees with the label in every field that is scored."""

from __future__ import annotations

import pytest
from corpora import Case, reported_cases
from scoring import GROUPS, wrong_fields

from tbparse.engine import Explainer
from tbparse.logs.directory import join_log_dir
from tbparse.model import RootCause
from tbparse.ruleset.match import RuleSet

WRONG_IN: dict[str, str] = {
    "gpu-charinterleave-oom-lines": "letters of two ranks alternate: the deepest whole File line is not the deepest frame",
    "py2-click-exc": "a click program's own `Error: …` without a usage text: no rule can know what it is about",
    "py2-click-aborted": "a prompt's `Aborted!` stands behind its question",
    "py2-ok-real-threads": "stderr's traceback before stdout's words; nothing but the words says that the program went on",
    "py2-print-type-only": "only a type's name was printed",
    "f5d-pretty-errors": "pretty_errors sets path, line and source on lines of their own",
    "f5d-py4j-spark-java": "a log record quotes the worker's traceback first; the driver's is taken for another failure",
    "py2-uv-flash-attn": "a backend's `<string>` frame is taken for a program given with -c",
    "f5l-r3-espnet-last-lines": "the end of a log quoted in the message of an exception is not read",
    "f5g-r2-paddle18-launch-abort": "Paddle's launcher fails while it ends the ranks; that is read as an error of the program",
}
"""case id → why fields of it are wrong today; what becomes right must leave."""


def _answer(case: Case, rules: RuleSet) -> RootCause:
    explainer = Explainer(rules=rules)
    explainer.feed(case.read())
    if case.log_dir is not None:
        join_log_dir(explainer, case.log_dir)
    return explainer.finish(case.returncode)


@pytest.mark.parametrize("case", reported_cases(), ids=lambda c: c.id)
def test_the_answer_agrees_with_the_label(case: Case, rules: RuleSet) -> None:
    answer = _answer(case, rules)
    assert not (case.label["verdict"] == "real" and answer.transient), f"a real failure would be run again by {answer.rule}"
    wrong = [text for group in GROUPS for text in wrong_fields(case.label, answer, group)]
    if case.label["id"] in WRONG_IN:
        assert wrong, "right by now: take it off WRONG_IN"
        return
    assert not wrong, "\n".join([f"{case.folder / case.label['log']} (rule {answer.rule}):", *wrong])


def test_what_is_listed_as_wrong_exists() -> None:
    assert {c.label["id"] for c in reported_cases()} >= WRONG_IN.keys()
