"""``capture()`` around the real launchers: accelerate, torchrun, notebook and debug launcher, mp.spawn, trl."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from launching import RANKS

import tbparse

pytestmark = pytest.mark.live
pytest.importorskip("torch", reason="the extra `torch` is not installed")
pytest.importorskip("accelerate", reason="the extra `torch` is not installed")

BOOM = 'raise ValueError("the real cause")\n'


@pytest.fixture
def boom(tmp_path: Path) -> str:
    (tmp_path / "boom.py").write_text(BOOM)
    return str(tmp_path / "boom.py")


@pytest.fixture
def ranks(tmp_path: Path) -> str:
    (tmp_path / "ranks.py").write_text(RANKS)
    return str(tmp_path / "ranks.py")


@pytest.fixture(autouse=True)
def nothing_of_earlier_launches() -> Iterator[None]:
    """Launchers leave a handler of SIGTERM that raises, and stores with threads, which a forked child must not collect."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)
    gc.collect()


def _free_port() -> str:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def _accelerate(*argv: str) -> None:
    from accelerate.commands.launch import launch_command, launch_command_parser

    launch_command(launch_command_parser().parse_args(list(argv)))


def _torchrun(*argv: str) -> None:
    from torch.distributed import run

    run.run(run.parse_args(["--nproc-per-node", "2", "--standalone", *argv]))


def _raised(launch: Callable[[], object], report: bool = False) -> tuple[BaseException, tbparse.RootCause]:
    """The exception that leaves the block, and its root cause."""
    with pytest.raises(BaseException) as e, tbparse.capture(report=report) as c:  # noqa: PT011
        launch()
    assert c.root_cause is not None
    assert e.value.root_cause is c.root_cause  # type: ignore[attr-defined]
    return e.value, c.root_cause


def test_accelerates_one_process(boom, capfd):
    error, cause = _raised(lambda: _accelerate("--cpu", "--num_processes", "1", boom))
    assert isinstance(error, subprocess.CalledProcessError)
    assert error.stderr.startswith("Traceback (most recent call last):\n")
    assert "ValueError: the real cause" in error.stderr
    assert cause.site is not None
    assert (cause.site.path, cause.site.line) == (boom, 1)
    assert capfd.readouterr().err.count("ValueError: the real cause") == 1


def test_accelerates_one_process_that_is_to_be_quiet(boom, capfd):
    error, cause = _raised(lambda: _accelerate("--cpu", "--num_processes", "1", "--quiet", boom))
    assert isinstance(error, SystemExit)
    assert cause.exception == "ValueError"
    assert capfd.readouterr().err.count("ValueError: the real cause") == 1


@pytest.mark.parametrize("report", [False, True])
def test_two_ranks_under_accelerate(report, ranks, capfd):
    plain = ("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0")
    error, cause = _raised(lambda: _accelerate("--multi_gpu", "--num_processes", "2", *plain, ranks), report)
    assert type(error).__name__ == "ChildFailedError"
    assert error.stderr.count("KeyError: 'label'") == 1  # type: ignore[attr-defined]
    assert (cause.exception, cause.rank, cause.site and cause.site.line) == ("KeyError", 1, 5)
    assert cause.chain[0].relation == "launcher"
    assert cause.confidence == ("high" if report else "medium")
    assert capfd.readouterr().err.count("KeyError: 'label'") == 1
    # Without @record only the report lets elastic show what the rank raised.
    assert ("in step" in str(error)) is report


@pytest.mark.parametrize("report", [False, True])
def test_ranks_whose_output_goes_to_files(report, ranks, tmp_path, capfd):
    logs = tmp_path / "logs"
    error, cause = _raised(lambda: _torchrun("--redirects", "3", "--log-dir", str(logs), ranks), report)
    assert (cause.exception, cause.rank, cause.site and cause.site.line) == ("KeyError", 1, 5)
    assert "KeyError: 'label'" in error.stderr  # type: ignore[attr-defined]
    assert "KeyError" not in capfd.readouterr().err


def _rank(index: int, *args: object) -> None:
    sys.__stderr__.write(f"rank {index} begins\n")  # type: ignore[union-attr]
    sys.__stderr__.flush()  # type: ignore[union-attr]
    if index == 1:
        raise ValueError("in a spawned process")
    time.sleep(60)


def _of_notebook() -> None:
    if os.environ["RANK"] == "1":
        raise ValueError("in a notebook's process")
    time.sleep(60)


def _of_debug() -> None:
    raise ValueError("in a debugged process")


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_of_torch_multiprocessing(method, capfd):
    import torch.multiprocessing as mp

    error, cause = _raised(lambda: mp.start_processes(_rank, nprocs=2, start_method=method), report=True)
    assert type(error).__name__ == "ProcessRaisedException"
    assert (cause.exception, cause.message, cause.rank) == ("ValueError", "in a spawned process", 1)
    if sys.version_info < (3, 13):
        assert cause.confidence == "high"
    assert error.stderr.startswith("rank 1 begins\nTraceback")  # type: ignore[attr-defined]
    assert "rank 1 begins\n" in capfd.readouterr().err


def test_the_notebook_launcher(capfd):
    from accelerate import notebook_launcher

    error, cause = _raised(lambda: notebook_launcher(_of_notebook, num_processes=2, use_port=_free_port()))
    assert type(error).__name__ == "ChildFailedError"
    assert (cause.exception, cause.message, cause.rank) == ("ValueError", "in a notebook's process", 1)
    assert "ValueError: in a notebook's process" in error.stderr  # type: ignore[attr-defined]


def test_the_debug_launcher(capfd):
    from accelerate import debug_launcher

    error, cause = _raised(lambda: debug_launcher(_of_debug, num_processes=2))
    assert type(error).__name__ == "ProcessRaisedException"
    assert (cause.exception, cause.message) == ("ValueError", "in a debugged process")
    assert "ValueError: in a debugged process" in error.stderr  # type: ignore[attr-defined]


@pytest.mark.slow
def test_trl_with_a_dataset_that_is_not_there(tmp_path, monkeypatch, capfd):
    main = pytest.importorskip("trl.cli.main").main
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    argv = ["sft", "--output_dir", str(tmp_path), "--model_name_or_path", "nobody/no-model", "--report_to", "none"]
    argv += ["--dataset_name", str(tmp_path / "no-such-dataset"), "--bf16", "False", "--use_cpu", "True"]
    error, cause = _raised(lambda: main(argv))
    assert isinstance(error, subprocess.CalledProcessError)
    assert cause.exception is not None
    assert cause.exception in error.stderr
    assert (cause.verdict, cause.rule is None) == ("real", False)
    assert capfd.readouterr().err.rstrip("\n").endswith(error.stderr.rstrip("\n").splitlines()[-1])
