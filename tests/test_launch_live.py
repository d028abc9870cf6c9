"""``launch()`` and ``tbparse run`` around the real launchers, as commands: torchrun, accelerate, trl, mp.spawn."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from launching import RANKS, TBPARSE, clean_env

import tbparse
from tbparse.model import RootCause

pytestmark = pytest.mark.live
pytest.importorskip("torch", reason="the extra `torch` is not installed")
pytest.importorskip("accelerate", reason="the extra `torch` is not installed")

SPAWN = """
import time
import torch.multiprocessing as mp
def work(index):
    if index == 1:
        raise ValueError("in a spawned process")
    time.sleep(60)
if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
"""
NESTED = """
import subprocess, sys
def outer():
    subprocess.run([sys.executable, {inner!r}], check=True)
outer()
"""
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
OLD_TORCHRUN = [
    sys.executable,
    "-W",
    "ignore",
    "-m",
    "torch.distributed.launch",
    "--nproc-per-node",
    "2",
    "--standalone",
    "--use-env",
]
ACCELERATE = [sys.executable, "-m", "accelerate.commands.accelerate_cli", "launch", "--multi_gpu", "--num_processes", "2"]
ACCELERATE += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ.keys() - clean_env().keys():
        monkeypatch.delenv(name)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def ranks(tmp_path: Path) -> str:
    (tmp_path / "ranks.py").write_text(RANKS)
    return str(tmp_path / "ranks.py")


def _launched(command: list[str], report: bool = False) -> tuple[str, RootCause]:
    """What ``launch()`` tells of a command that fails: its text and the root cause."""
    with pytest.raises(tbparse.LaunchError) as e:
        tbparse.launch(command, stdout="tee", report=report)
    assert e.value.returncode == 1
    assert e.value.root_cause is not None
    return e.value.stderr, e.value.root_cause


def _run(command: list[str], *options: str) -> tuple[str, RootCause]:
    """The same of ``tbparse run``: standard error without the answer, and the answer."""
    done = subprocess.run([*TBPARSE, "run", "-f", "json", *options, "--", *command], capture_output=True, text=True)
    before, brace, answer = done.stderr.rpartition("\n{")
    assert brace, done.stderr
    assert done.returncode == 1
    cause = RootCause.model_validate_json("{" + answer)
    return done.stdout + before, cause


def _is_rank_one(cause: RootCause, script: str) -> None:
    """It is rank 1's own exception, in line 5 of ``step``, under the launcher's."""
    assert (cause.exception, cause.message, cause.rank) == ("KeyError", "'label'", 1)
    assert cause.site is not None
    assert (cause.site.path, cause.site.line, cause.site.function) == (script, 5, "step")
    assert (cause.verdict, cause.category) == ("real", "user-code")


@pytest.mark.parametrize("report", [False, True])
@pytest.mark.parametrize(
    "launcher", [TORCHRUN, OLD_TORCHRUN, ACCELERATE], ids=["torchrun", "torch.distributed.launch", "accelerate"]
)
def test_two_ranks(launcher: list[str], report: bool, ranks: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    text, cause = _launched([*launcher, ranks], report)
    _is_rank_one(cause, ranks)
    assert cause.confidence == ("high" if report else "medium")
    out, err = capfdbinary.readouterr()
    # Without @record only the report lets elastic show what the rank raised, in its own table.
    assert err.count(b"KeyError: 'label'") == (2 if report else 1)
    assert sorted(text) == sorted((out + err).decode())
    assert text.count("error_file: <N/A>") == (1 if report else 2)


def test_a_rank_whose_words_went_to_a_file_is_known_by_its_report(ranks: str, tmp_path: Path) -> None:
    logs = ["--redirects", "3", "--log-dir", str(tmp_path / "logs")]
    _, cause = _run([*TORCHRUN, *logs, ranks], "--report")
    _is_rank_one(cause, ranks)
    assert cause.confidence == "high"
    _, cause = _run([*TORCHRUN, *logs, ranks])
    assert cause.rank == 1
    assert cause.verdict != "transient"


@pytest.mark.parametrize("report", [False, True])
def test_processes_of_mp_spawn(report: bool, tmp_path: Path) -> None:
    script = tmp_path / "spawn.py"
    script.write_text(SPAWN)
    _, cause = _run([sys.executable, str(script)], *(["--report"] if report else []))
    assert (cause.exception, cause.message, cause.rank) == ("ValueError", "in a spawned process", 1)
    assert cause.site is not None
    assert (cause.site.path, cause.site.line, cause.site.function) == (str(script), 6, "work")


@pytest.mark.parametrize("report", [False, True])
def test_a_process_that_the_program_starts(report: bool, tmp_path: Path) -> None:
    inner, outer = tmp_path / "inner.py", tmp_path / "outer.py"
    inner.write_text("def f():\n    {}['label']\nf()\n")
    outer.write_text(NESTED.format(inner=str(inner)))
    text, cause = _launched([sys.executable, str(outer)], report)
    assert (cause.exception, cause.rank) == ("KeyError", None)
    assert cause.site is not None
    assert (cause.site.path, cause.site.line) == (str(inner), 2)
    assert [x.exception for x in cause.chain] == ["subprocess.CalledProcessError", "KeyError"]
    assert text.count("KeyError: 'label'") == 1
    assert cause.confidence == ("high" if report else "medium")


@pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason="trl is not installed")
def test_trl_with_a_dataset_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    command = [sys.executable, "-c", "from trl.cli.main import main; main()", "sft", "--model_name_or_path", "nobody/no-model"]
    command += [
        "--dataset_name",
        str(tmp_path / "no-such-dataset"),
        "--output_dir",
        str(tmp_path),
        "--use_cpu",
        "--report_to",
        "none",
    ]
    text, cause = _run([*command, "--bf16", "False"], "--report")
    assert cause.chain[0].exception == "subprocess.CalledProcessError"
    assert cause.exception is not None
    assert f"{cause.exception}: {(cause.message or '').splitlines()[0]}" in text
    assert (cause.verdict, cause.confidence, cause.rule is None) == ("real", "high", False)
    assert cause.site is None  # none of it is the user's own code
    assert "/datasets/" in cause.frames[-1].path
