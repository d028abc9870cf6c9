"""The wheel and the editable install: rules are found in both, the command works from anywhere, the namesake is noticed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LOG = ROOT / "docs" / "examples" / "accelerate.log"

pytestmark = pytest.mark.slow


def _run(*command: str | Path, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=env, capture_output=True, text=True)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as a release would build it."""
    out = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", out, ROOT, cwd=out)
    return next(out.glob("*.whl"))


def _environment(where: Path) -> Path:
    _run(sys.executable, "-m", "venv", where, cwd=where.parent)
    return where / ("Scripts" if os.name == "nt" else "bin")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts folder of a fresh environment with the wheel in it."""
    scripts = _environment(tmp_path_factory.mktemp("fresh") / "venv")
    _run(scripts / "python", "-m", "pip", "install", "-q", wheel, cwd=scripts)
    return scripts


def test_the_wheel_carries_every_rule_the_packed_form_and_the_schema(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    rules = {f"tbparse/rules/{p.relative_to(ROOT / 'rules').as_posix()}" for p in (ROOT / "rules").rglob("*.yaml")}
    assert rules
    assert rules <= names
    assert {
        "tbparse/py.typed",
        "tbparse/ruleset/packed.json",
        "tbparse/ruleset/profiles/tests.yaml",
        "tbparse/rootcause.schema.json",
    } <= names


def test_the_wheel_has_no_file_that_the_namesake_owns(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert not [n for n in names if n.startswith(("tbparse/summary_reader.py", "tbparse/version.py", "tbparse/tensorflow_stub"))]


def test_a_fresh_environment_explains_a_log_from_another_folder(installed: Path, tmp_path: Path) -> None:
    done = _run(installed / "tbparse", "explain", "--format", "json", LOG, cwd=tmp_path)
    answer = json.loads(done.stdout)
    assert (answer["exception"], answer["message"], answer["site"]["line"]) == ("ValueError", "the real cause", 1)
    assert answer["rule"] is not None


def test_the_core_needs_neither_torch_nor_accelerate(installed: Path, tmp_path: Path) -> None:
    code = "import tbparse, sys; tbparse.classify('x'); print(sorted({'torch', 'accelerate'} & set(sys.modules)))"
    assert _run(installed / "python", "-c", code, cwd=tmp_path).stdout.strip() == "[]"


def test_a_fresh_environment_is_sound_by_its_own_doctor(installed: Path, tmp_path: Path) -> None:
    done = _run(installed / "tbparse", "doctor", cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout


def test_an_editable_install_finds_the_rules_beside_the_package(tmp_path: Path) -> None:
    scripts = _environment(tmp_path / "venv")
    _run(scripts / "python", "-m", "pip", "install", "-q", "-e", ROOT, cwd=tmp_path)
    done = _run(scripts / "tbparse", "rules", "list", "--format", "json", cwd=tmp_path)
    listed = json.loads(done.stdout)
    assert len(listed) == sum(1 for _ in (ROOT / "rules").rglob("*.yaml"))


@pytest.mark.parametrize("order", ["ours last", "theirs last"])
def test_beside_the_namesake_the_command_still_works_and_doctor_says_what_to_do(wheel: Path, tmp_path: Path, order: str) -> None:
    """PyPI's other `tbparse` shares the package folder: whichever comes last writes ``__init__.py``."""
    scripts = _environment(tmp_path / "venv")
    theirs = ["tbparse==0.0.9"]
    for what in (theirs, [wheel]) if order == "ours last" else ([wheel], theirs):
        _run(scripts / "python", "-m", "pip", "install", "-q", *what, cwd=tmp_path)
    answer = json.loads(_run(scripts / "tbparse", "explain", "--format", "json", LOG, cwd=tmp_path).stdout)
    assert answer["exception"] == "ValueError"
    doctor = _run(scripts / "tbparse", "doctor", cwd=tmp_path, check=False)
    assert doctor.returncode == 1
    assert "pip uninstall tbparse" in doctor.stdout
