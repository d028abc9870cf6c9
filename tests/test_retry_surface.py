"""``surface``: a child's transient failure is shown by name, everything else leaves as it was."""

from __future__ import annotations

import asyncio
import pickle
import re
import subprocess
import sys
import unittest
from pathlib import Path

import pytest

import tbparse
from tbparse import TransientFailure, UsageError, surface

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
FILTER_WORDS = (
    "Error",
    "Exception",
    "Timeout",
    "OSError",
    "HTTP",
    "Memory",
    "Connection",
    "CUDA",
    "Refused",
    "Reset",
    "Killed",
    "Assert",
)


def failing(tmp_path: Path, last_line: str) -> list[str]:
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\n"
        "sys.stderr.write('Traceback (most recent call last):\\n  File \"train.py\", line 3, in <module>\\n    main()\\n')\n"
        f"sys.exit({last_line!r})\n"
    )
    return [sys.executable, str(script)]


def test_the_name_holds_none_of_the_words_that_filters_look_for() -> None:
    assert not [w for w in FILTER_WORDS if re.search(w, TransientFailure.__name__, re.IGNORECASE)]


def test_a_childs_transient_failure_is_raised_by_its_own_name_from_the_original(tmp_path: Path) -> None:
    @surface
    def launch() -> None:
        subprocess.run(failing(tmp_path, OOM), check=True)

    with pytest.raises(TransientFailure) as info:
        launch()
    assert str(info.value) == OOM
    assert isinstance(info.value.__cause__, subprocess.CalledProcessError)
    assert info.value.root_cause.rule == "gpu-memory/cuda-oom"
    assert tbparse.retryable(info.value)
    assert pickle.loads(pickle.dumps(info.value)).root_cause == info.value.root_cause


def test_the_context_and_async_functions_do_the_same_and_so_does_a_launcher_that_exits(tmp_path: Path) -> None:
    with pytest.raises(TransientFailure, match="OutOfMemoryError"), surface():
        subprocess.run(failing(tmp_path, OOM), check=True)

    @surface
    async def launch() -> None:
        subprocess.run(failing(tmp_path, OOM), check=True)

    with pytest.raises(TransientFailure, match="OutOfMemoryError"):
        asyncio.run(launch())

    @surface()
    def quiet() -> None:
        sys.exit(subprocess.run(failing(tmp_path, OOM)).returncode)

    with pytest.raises(TransientFailure, match="OutOfMemoryError") as info:
        quiet()
    assert isinstance(info.value.__cause__, SystemExit)


def test_a_childs_real_failure_leaves_unchanged(tmp_path: Path) -> None:
    error = None

    @surface
    def launch() -> None:
        nonlocal error
        try:
            subprocess.run(failing(tmp_path, "NameError: name 'x' is not defined"), check=True)
        except subprocess.CalledProcessError as e:
            error = e
            raise

    with pytest.raises(subprocess.CalledProcessError) as info:
        launch()
    assert info.value is error
    assert info.value.__cause__ is None


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError(104, "Connection reset by peer"),
        NameError("x"),
        KeyboardInterrupt(),
        SystemExit(0),
        SystemExit(2),
        unittest.SkipTest("OutOfMemoryError"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_what_a_filter_can_see_for_itself_leaves_unchanged(error: BaseException) -> None:
    with pytest.raises(type(error)) as info, surface():
        raise error
    assert info.value is error


def test_a_cause_that_stands_on_the_chain_leaves_unchanged() -> None:
    with pytest.raises(RuntimeError) as info, surface():
        raise RuntimeError("stage 2") from ConnectionResetError(104, "Connection reset by peer")
    assert not isinstance(info.value, TransientFailure)


def test_inside_one_another_the_failure_is_shown_once(tmp_path: Path) -> None:
    @surface
    def outer() -> None:
        with surface():
            subprocess.run(failing(tmp_path, OOM), check=True)

    with pytest.raises(TransientFailure) as info:
        outer()
    assert isinstance(info.value.__cause__, subprocess.CalledProcessError)


def test_a_generator_is_refused() -> None:
    def fixture():
        yield

    with pytest.raises(UsageError, match="generator"):
        surface(fixture)
