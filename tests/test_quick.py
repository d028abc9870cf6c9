"""A quick start: `tbparse explain` without the parser of options and without the model (cli/quick.py, render/plain.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from corpora import some_cases
from hypothesis import example, given
from hypothesis import strategies as st

from tbparse.answer import NOTHING
from tbparse.cli import explain as command
from tbparse.cli import quick
from tbparse.cli.app import build
from tbparse.cli.exits import ExitCode
from tbparse.cli.explaining import Asked
from tbparse.engine import Explainer
from tbparse.model import RootCause
from tbparse.render.plain import plain
from tbparse.render.report import Report
from tbparse.render.text import render
from tbparse.ruleset.match import RuleSet

PLAIN_CALLS = [
    ["explain"],
    ["explain", "a.log"],
    ["explain", "-"],
    ["explain", "a.log", "dir/b.log", "--job"],
    ["explain", "--why", "--all", "--timeline", "a.log", "--exit-code"],
    ["explain", "a.log", "--format", "json", "-f", "text"],
    ["explain", "--log-dir", "logs", "--profile", "tests", "a.log"],
    ["explain", "a.log", "--returncode", "-9"],
    ["explain", "--returncode", "0137", "a.log", "--returncode", "1"],
    [
        "explain",
        "--user-path",
        "/a",
        "--user-path",
        "/b",
        "--library-path",
        "c",
        "--rules",
        "site.yaml",
        "--rules",
        "installed",
        "x",
    ],
    ["explain", "a b", "=", "é"],
]
OTHERS = [
    [],
    ["--version"],
    ["run", "explain"],
    ["explain", "--help"],
    ["explain", "-h"],
    ["explain", "a", "--format=json"],
    ["explain", "a", "-fjson"],
    ["explain", "a", "--format", "xml"],
    ["explain", "a", "--format"],
    ["explain", "a", "--returncode", "x"],
    ["explain", "a", "--returncode", "१"],
    ["explain", "a", "--log-dir", "--why"],
    ["explain", "--", "-a"],
    ["explain", "--wh", "a"],
    ["explain", "-x"],
    ["explain", ""],
]


def parsed(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What typer's parser makes of the arguments."""
    seen: list[Asked] = []

    def answer(asked: Asked) -> ExitCode:
        seen.append(asked)
        return ExitCode.OK

    monkeypatch.setattr(command, "answer", answer)
    build(arguments)(arguments, standalone_mode=False)
    return seen[0]


@pytest.mark.parametrize("arguments", PLAIN_CALLS, ids=" ".join)
def test_arguments_that_are_read_quickly_mean_what_the_parser_says(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = quick.asked(arguments)
    assert asked is not None
    assert asked == parsed(arguments, monkeypatch)


@pytest.mark.parametrize("arguments", OTHERS, ids=" ".join)
def test_whatever_is_in_doubt_is_left_to_the_parser(arguments: list[str]) -> None:
    assert quick.asked(arguments) is None


def test_completion_is_left_to_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TBPARSE_COMPLETE", "complete_bash")
    assert quick.asked(["explain", "a.log"]) is None


def test_every_option_of_explain_is_known_to_both() -> None:
    commands: Any = typer.main.get_command(build(["explain"]))
    options = {o for p in commands.commands["explain"].params for o in p.opts if o.startswith("-")}
    assert options == {*quick.FLAGS, *quick.VALUES, *quick.LISTS}


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_answer_loads_neither_pydantic_nor_the_parser(form: str, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text('Traceback (most recent call last):\n  File "/work/a.py", line 1, in <module>\nValueError: no\n')
    code = (
        f"import sys; sys.argv = ['tbparse', 'explain', '-f', {form!r}, {str(log)!r}]\n"
        "from tbparse.cli.main import run\ntry: run()\nexcept SystemExit as e: print(e.code, *sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "ValueError" in out
    loaded = set(out.splitlines()[-1].split()[1:])
    assert not loaded & {"pydantic", "typer", "rich", "tomllib", "email", "importlib.metadata"}


@given(
    st.dictionaries(st.text(), st.one_of(st.booleans(), st.integers(), st.floats(), st.text(), st.tuples(st.floats()))),
    st.text(),
)
@example({"delay": 1e16, "size": 5e-5}, 'a\u2028\x7f\x1b"/\\')
def test_json_is_written_as_the_model_writes_it(captures: dict[str, Any], message: str) -> None:
    values = {**NOTHING, "verdict": "clean", "category": None, "confidence": "low", "captures": captures, "message": message}
    assert plain(values).to_json() == RootCause.model_validate(values).to_json()


def _same(shown: Any, model: Any) -> bool:
    """Whether a value of the plain answer is the model's."""
    if isinstance(shown, SimpleNamespace):
        return vars(shown).keys() == type(model).model_fields.keys() and all(
            _same(v, getattr(model, k)) for k, v in vars(shown).items()
        )
    if isinstance(shown, tuple):
        return isinstance(model, tuple) and len(shown) == len(model) and all(map(_same, shown, model))
    return type(shown) is type(model) and shown == model


def test_the_answer_without_its_model_is_the_answer(rules: RuleSet) -> None:
    different = []
    for case in some_cases(8):
        explainer = Explainer(rules=rules)
        explainer.feed(case.read())
        values = explainer.values(case.returncode)
        model, shown = RootCause.model_validate(values), plain(values)
        fields = {k: v for k, v in vars(shown).items() if k not in ("transient", "_values")}
        if not (
            fields.keys() == RootCause.model_fields.keys()
            and all(_same(v, getattr(model, k)) for k, v in fields.items())
            and shown.transient == model.transient
            and shown.to_json() == model.to_json()
            and shown.to_json(indent=1) == model.to_json(indent=1)
            and render(Report(shown, explainer.job)) == render(Report(model, explainer.job))
        ):
            different.append(case.id)
    assert different == []
