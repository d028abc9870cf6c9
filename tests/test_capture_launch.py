# ruff: noqa: PT012 - what is tested is a block of several statements
"""``launch()`` inside ``capture()`` and the other way round: one answer, told once, whichever of them was asked for reports."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tbparse
from tbparse import LaunchError, capture, launch
from tbparse.model import RootCause

BOOM = 'raise ValueError("the real cause")\n'


@pytest.fixture
def boom(tmp_path: Path) -> list[str]:
    """A command whose child raises in line 1 of boom.py."""
    script = tmp_path / "boom.py"
    script.write_text(BOOM)
    return [sys.executable, str(script)]


def _is_the_cause(cause: RootCause | None, command: list[str], confidence: str = "medium") -> None:
    assert cause is not None
    assert (cause.exception, cause.message, cause.confidence) == ("ValueError", "the real cause", confidence)
    assert cause.site is not None
    assert (cause.site.path, cause.site.line) == (command[1], 1)


@pytest.mark.parametrize("blocks", [1, 3])
def test_a_launch_in_blocks_is_told_once(blocks: int, boom: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    around = [capture() for _ in range(blocks)]

    def inside(left: list[capture]) -> None:
        if not left:
            launch(boom)
            return
        with left[0]:
            inside(left[1:])

    with pytest.raises(LaunchError) as e:
        inside(around)
    _is_the_cause(e.value.root_cause, boom)
    shown = capfd.readouterr().err
    assert shown.count("ValueError: the real cause") == 1
    assert {c.stderr for c in around} == {e.value.stderr} == {shown}
    assert all(c.root_cause is e.value.root_cause for c in around)
    assert len(e.value.__notes__) == 1


@pytest.mark.parametrize(("inner", "outer"), [(True, False), (False, True), (True, True)])
def test_a_report_for_either_is_a_report_for_both(inner: bool, outer: bool, boom: list[str]) -> None:
    with pytest.raises(LaunchError) as e, capture(report=outer) as c:
        launch(boom, report=inner, env={**os.environ, "MINE": "1"})
    _is_the_cause(e.value.root_cause, boom, "high")
    assert c.root_cause is e.value.root_cause
    assert "TBPARSE_REPORT_DIR" not in os.environ


@pytest.mark.parametrize("report", [False, True])
def test_a_program_that_captures_under_launch(report: bool, boom: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """The program's block and its parent's ``launch()`` see the same child; the parent's report comes through the block."""
    program = f"import subprocess, tbparse\nwith tbparse.capture(report={report}):\n    subprocess.check_call({boom!r})\n"
    with pytest.raises(LaunchError) as e:
        launch([sys.executable, "-c", program], report=report)
    _is_the_cause(e.value.root_cause, boom, "high" if report else "medium")
    assert [x.exception for x in e.value.root_cause.chain] == ["subprocess.CalledProcessError", "ValueError"]
    assert capfd.readouterr().err.count("\nValueError: the real cause\n") == 1


def test_an_exit_with_the_code_of_a_launch_has_its_cause(boom: list[str]) -> None:
    with pytest.raises(SystemExit) as e, capture() as c:
        sys.exit(launch(boom, check=False).exit_code)
    _is_the_cause(c.root_cause, boom)
    assert e.value.root_cause is c.root_cause
    assert "the real cause" in c.stderr


def test_an_error_that_the_program_makes_of_a_launch_has_its_cause(boom: list[str]) -> None:
    with pytest.raises(subprocess.CalledProcessError) as e, capture():
        done = launch(boom, check=False)
        raise subprocess.CalledProcessError(done.returncode, boom)
    _is_the_cause(e.value.root_cause, boom)
    assert e.value.stderr == done.stderr

    with pytest.raises(RuntimeError) as other, capture() as c:
        try:
            launch(boom)
        except LaunchError as error:
            raise RuntimeError("the stage failed") from error
    _is_the_cause(c.root_cause, boom)
    assert other.value.root_cause is c.root_cause


def test_a_launch_that_was_handled_is_not_the_cause_of_what_follows(boom: list[str], tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("{}['label']\n")
    with pytest.raises(subprocess.CalledProcessError) as e, capture() as c:
        launch(boom, check=False)
        subprocess.check_call([sys.executable, str(tmp_path / "other.py")])
    assert e.value.root_cause.exception == "KeyError"
    assert "the real cause" not in e.value.stderr
    assert c.stderr == e.value.stderr


def test_a_launch_that_ends_well_leaves_its_text_and_no_cause() -> None:
    with capture() as c:
        launch(["sh", "-c", "echo a warning >&2"])
        assert c.stderr == "a warning\n"
    assert (c.stderr, c.root_cause) == ("a warning\n", None)


@pytest.mark.parametrize("report", [False, True])
def test_threads_with_blocks_of_their_own_do_not_mix(report: bool, tmp_path: Path) -> None:
    """Each starts its child while the other's block is open."""
    met = threading.Barrier(4)

    def one(i: int) -> tuple[str | None, str]:
        (tmp_path / f"{i}.py").write_text(f"raise ValueError('cause {i}')")
        with pytest.raises(LaunchError) as e, capture(report=report) as c:
            met.wait(60)
            try:
                launch([sys.executable, str(tmp_path / f"{i}.py")])
            finally:
                met.wait(60)
        assert c.root_cause is e.value.root_cause is not None
        assert c.stderr == e.value.stderr
        return c.root_cause.message, c.root_cause.confidence

    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(one, range(4)))
    assert told == [(f"cause {i}", "high" if report else "medium") for i in range(4)]


def test_launches_in_threads_of_one_block_keep_their_own_answers(tmp_path: Path) -> None:
    def one(i: int) -> tbparse.Completed:
        return launch([sys.executable, "-c", f"raise ValueError('cause {i}')"], check=False)

    with capture() as c, ThreadPoolExecutor(4) as pool:
        done = list(pool.map(one, range(4)))
    assert [d.root_cause.message for d in done] == [f"cause {i}" for i in range(4)]
    assert all(d.stderr in c.stderr for d in done)


def test_nothing_is_left_behind(boom: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    import _posixsubprocess

    def held() -> tuple[object, ...]:
        popen = subprocess.Popen
        patched = (popen.__init__, popen.wait, popen.poll, os.fork, _posixsubprocess.fork_exec)
        return (*patched, len(os.listdir("/proc/self/fd")), threading.active_count(), dict(os.environ))

    before = held()
    for report in (False, True):
        with pytest.raises(LaunchError), capture(report=report):
            launch(boom, report=not report)
        with pytest.raises(FileNotFoundError), capture(report=report):
            launch(["no-such-program-anywhere"], report=report)
    assert held() == before
