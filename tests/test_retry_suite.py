"""A suite in the shape of TRL's CLI tests, with its own filter unchanged: what ``@surface`` and ``@retry`` make of it.

The children print what a child prints that died: pytest-rerunfailures decides by the exception that reaches the test.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FILTER = "(OSError|Timeout|HTTPError.*502|HTTPError.*504|OutOfMemoryError)"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
BUG = "NameError: name 'model' is not defined"

TRAIN = """
import pathlib, sys

counter = sys.argv[1]
last_line = BUG if counter.endswith("bug") else OOM
with open(counter, "a") as file:
    file.write("x")
if len(pathlib.Path(counter).read_text()) <= 2:
    sys.stderr.write('Traceback (most recent call last):\\n  File "train.py", line 9, in <module>\\n    main()\\n')
    sys.stderr.write(last_line + "\\n")
    sys.exit(1)
"""

LAUNCHER = """
import pathlib, subprocess, sys

def main():
    assert sys.argv[1:3] == ["sft", "--output_dir"], sys.argv
    pathlib.Path(sys.argv[3]).joinpath("marker").touch()
    command = [sys.executable, str(pathlib.Path(__file__).with_name("train.py")), *sys.argv[4:]]
    process = subprocess.Popen(command)
    process.wait()
    if process.returncode != 0:
        raise subprocess.CalledProcessError(returncode=process.returncode, cmd=command)
"""

SUITE = """
from unittest.mock import patch

import pytest
import tbparse


class TestCLI:
    @pytest.fixture(autouse=True)
    def set_up(self, tmp_path):
        self.tmp_dir = str(tmp_path)

    def launch(self, method, name):
        from launcher import main

        with patch("sys.argv", ["trl", method, "--output_dir", self.tmp_dir, name]):
            main()

    @pytest.mark.parametrize("method", ["sft"])
    def test_nothing(self, method):
        self.launch(method, "nothing")

    @tbparse.surface
    @pytest.mark.parametrize("method", ["sft"])
    def test_surface(self, method):
        self.launch(method, "surface")

    @pytest.mark.parametrize("method", ["sft"])
    @tbparse.surface
    def test_surface_bug(self, method, tmp_path):
        self.launch(method, "surface-bug")

    @tbparse.retry(attempts=6, wait=0)
    @pytest.mark.parametrize("method", ["sft"])
    def test_retry(self, method):
        self.launch(method, "retry")

    @tbparse.retry(attempts=6, wait=0)
    @pytest.mark.parametrize("method", ["sft"])
    def test_retry_bug(self, method):
        self.launch(method, "retry-bug")
"""


def check_suite(folder: Path, python: str = sys.executable) -> None:
    """Run the suite, and hold what pytest says and how often each child ran against what must hold with any release."""
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(f"OOM, BUG = {OOM!r}, {BUG!r}\n{TRAIN}")
    (folder / "launcher.py").write_text(LAUNCHER)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_cli.py").write_text(SUITE)
    environ = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")} | {"PYTHONPATH": str(folder), "COLUMNS": "200"}
    command = [python, "-m", "pytest", "-n", "2", "-s", "--reruns", "5", "--only-rerun", FILTER, "-p", "no:cacheprovider", "-v"]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=240)
    out = done.stdout + done.stderr
    runs = {name: len((folder / name).read_text()) for name in ("nothing", "surface", "surface-bug", "retry", "retry-bug")}
    assert runs == {"nothing": 1, "surface": 3, "surface-bug": 1, "retry": 3, "retry-bug": 1}, out
    failed = set(re.findall(r"^FAILED test_cli.py::TestCLI::(\w+)\[sft\] - subprocess.CalledProcessError", out, re.MULTILINE))
    assert failed == {"test_nothing", "test_surface_bug", "test_retry_bug"}, out
    assert re.search(r"3 failed, 2 passed, 2 rerun in", out), out


def test_the_filter_fires_for_what_surface_shows_and_a_bug_runs_once(tmp_path: Path) -> None:
    pytest.importorskip("pytest_rerunfailures", reason="pytest-rerunfailures is not installed")
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    check_suite(tmp_path)


def _interpreter(version: str) -> str | None:
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return str(found[-1]) if found else shutil.which(f"python{version}")


@pytest.mark.slow
@pytest.mark.parametrize("rerunfailures", ["15.1", "16.7"])
@pytest.mark.parametrize("version", ["3.10", "3.11"])
def test_the_same_holds_for_other_releases(tmp_path: Path, version: str, rerunfailures: str) -> None:
    python = _interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    root = Path(__file__).resolve().parent.parent
    subprocess.run([python, "-m", "venv", str(tmp_path / "venv")], check=True)
    inner = str(tmp_path / "venv" / "bin" / "python")
    install = [inner, "-m", "pip", "install", "-q", f"{root}[retry]", "pytest-xdist", f"pytest-rerunfailures=={rerunfailures}"]
    done = subprocess.run(install, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"the packages cannot be installed here: {done.stderr[-300:]}")
    check_suite(tmp_path / "suite", inner)
