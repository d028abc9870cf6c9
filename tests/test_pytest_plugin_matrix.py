"""The plugin in fresh environments: the oldest and a new pytest-rerunfailures, on several Pythons; and over every labelled log."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.corpora import all_cases

pytest_plugins = ("pytester",)
pytestmark = pytest.mark.slow
pytest.importorskip("pytest_rerunfailures")
ROOT = Path(__file__).resolve().parent.parent
MATRIX = (("15.1", "pytest==8.4.*"), ("16.7", "pytest>=9"))


def _python(version: str) -> str:
    """An interpreter of this version, from pyenv or the path."""
    found = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{version}.*/bin/python"))
    candidates = [str(found[-1])] if found else [w for w in [shutil.which(f"python{version}")] if w]
    for candidate in candidates:
        if subprocess.run([candidate, "-c", "import venv, ssl"], capture_output=True, check=False).returncode == 0:
            return candidate
    pytest.skip(f"no Python {version} here")


PAIRS = [
    pytest.param(version, *releases, id=f"{version}-{releases[0]}", marks=[] if n == m else [pytest.mark.long])
    for n, version in enumerate(["3.10", "3.11"])
    for m, releases in enumerate(MATRIX)
]


@pytest.mark.parametrize(("version", "rerunfailures", "needs"), PAIRS)
def test_the_plugin_works_with_every_supported_pair(tmp_path: Path, version: str, rerunfailures: str, needs: str) -> None:
    """What the plugin's own tests say, in an environment that has nothing else of ours."""
    subprocess.run([_python(version), "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    packages = [str(ROOT), f"pytest-rerunfailures=={rerunfailures}", needs, "pytest-xdist", "click"]
    subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "test_pytest_plugin.py", tmp_path / "tests")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "PYTHONPATH"))}
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", "tests"],
        cwd=tmp_path, capture_output=True, text=True, check=False, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]


def test_no_test_whose_child_failed_for_a_real_reason_is_run_again(pytester: pytest.Pytester) -> None:
    """Every labelled log three ways: on the exception, in a result that is asserted, and captured by pytest."""
    cases = [c for c in all_cases() if c.label["verdict"] == "real" and "verdict" not in c.label.get("unscored", ())]
    logs = [str(c.folder / c.label["log"]) for c in cases]
    pytester.makepyfile(
        f"""
import subprocess, sys
from types import SimpleNamespace
import pytest

LOGS = {list(zip(logs, [c.returncode or 1 for c in cases], strict=True))!r}
RUNS = open("runs", "a")


def log(path):
    RUNS.write(path + "\\n")
    RUNS.flush()
    with open(path, "rb") as file:
        return file.read().decode("utf-8", "replace")


@pytest.mark.parametrize(("path", "code"), LOGS)
def test_raised(path, code):
    raise subprocess.CalledProcessError(code, ["trl", "sft"], stderr=log(path))


@pytest.mark.parametrize(("path", "code"), LOGS)
def test_asserted(path, code):
    done = SimpleNamespace(returncode=code, stdout="", stderr=log(path))
    assert done.returncode == 0


@pytest.mark.parametrize(("path", "code"), LOGS)
def test_captured(path, code):
    sys.stderr.write(log(path))
    raise subprocess.CalledProcessError(code, ["trl", "sft"])
"""
    )
    options = ("--tbparse-rerun", "2", "--tbparse-rerun-delay", "0", "--tbparse-profile", "job", "--tb=no", "-q", "--capture=sys")
    done = pytester.run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *options)
    outcomes = done.parseoutcomes()
    assert outcomes.get("failed") == 3 * len(cases) > 900
    runs = (pytester.path / "runs").read_text().splitlines()
    again = sorted({r for r in runs if runs.count(r) > 3})
    assert not again
    assert len(runs) == 3 * len(cases)
