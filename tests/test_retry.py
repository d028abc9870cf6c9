"""The decorator: what is run again, what is not, and what is left of a failure."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import logging
import subprocess
import sys
import timeit
import unittest
import weakref
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest
import tenacity

import tbparse
from tbparse import Decision, UsageError, retry

RESET = ConnectionResetError(104, "Connection reset by peer")
OOM_TEXT = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def failing(times: int, make: Callable[[], BaseException] = lambda: ConnectionResetError(104, "Connection reset by peer")):
    """A function that fails so often, and the list of its calls."""
    calls: list[int] = []

    def work(*args, **kwargs):
        calls.append(len(calls) + 1)
        if len(calls) <= times:
            raise make()
        return args, kwargs

    return work, calls


def child(tmp_path: Path, times: int, text: str) -> tuple[list[str], Path]:
    """A command that writes a traceback and fails so often, and the file that counts its runs."""
    counter = tmp_path / "runs"
    script = tmp_path / "train.py"
    script.write_text(
        "import pathlib, sys\n"
        f"counter = pathlib.Path({str(counter)!r})\n"
        "runs = len(counter.read_text()) if counter.exists() else 0\n"
        "counter.write_text('x' * (runs + 1))\n"
        f"if runs < {times}:\n"
        "    sys.stderr.write('Traceback (most recent call last):\\n  File \"train.py\", line 3, in <module>\\n    main()\\n' "
        f"+ {text!r} + '\\n')\n"
        "    sys.exit(1)\n"
    )
    return [sys.executable, str(script)], counter


# What is run again


def test_a_transient_failure_is_run_again_with_the_same_arguments_and_its_result_returned() -> None:
    work, calls = failing(2)
    assert retry(attempts=3, wait=0, capture=False)(work)(1, key="v") == ((1,), {"key": "v"})
    assert calls == [1, 2, 3]


def test_the_bare_decorator_takes_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", pauses.append)
    work, calls = failing(9)
    with pytest.raises(ConnectionResetError):
        retry(work)()
    assert calls == [1, 2, 3]
    advised = tbparse.retryable(RESET).delay_s
    assert advised > 0
    assert all(advised <= p <= advised * 1.25 for p in pauses)
    assert len(pauses) == 2


@pytest.mark.parametrize("error", [NameError("x"), ValueError("bad"), RuntimeError("who knows"), AssertionError()])
def test_what_is_real_or_unknown_runs_once_and_leaves_as_it_was(error: Exception) -> None:
    work, calls = failing(1, lambda: error)
    with pytest.raises(type(error)) as info:
        retry(attempts=5, wait=0, capture=False)(work)()
    assert info.value is error
    assert calls == [1]
    assert not getattr(error, "__notes__", [])


def skipped() -> BaseException:
    try:
        pytest.skip("not here")
    except BaseException as e:
        return e


OUTCOMES: list[Callable[[], BaseException]] = [
    KeyboardInterrupt,
    lambda: SystemExit(0),
    SystemExit,
    lambda: SystemExit(3),
    lambda: unittest.SkipTest("Connection reset by peer"),
    skipped,
    asyncio.CancelledError,
    GeneratorExit,
]


@pytest.mark.parametrize("make", OUTCOMES)
def test_interrupts_exits_and_skips_are_neither_retried_nor_swallowed(make: Callable[[], BaseException]) -> None:
    error = make()
    error.__cause__ = RESET
    work, calls = failing(1, lambda: error)
    with pytest.raises(type(error)) as info:
        retry(attempts=5, wait=0, capture=False)(work)()
    assert info.value is error
    assert calls == [1]


def test_only_and_never_take_types_rules_areas_and_categories() -> None:
    rule = tbparse.retryable(RESET).root_cause.rule
    for options, runs in [
        ({"only": ConnectionError}, 2), ({"only": [OSError, "gpu-memory"]}, 2), ({"only": rule}, 2), ({"only": "network/*"}, 2),
        ({"only": "network"}, 2), ({"only": TimeoutError}, 1), ({"only": "gpu-memory"}, 1), ({"never": ConnectionError}, 1),
        ({"never": "network"}, 1), ({"never": rule}, 1), ({"never": "gpu-memory"}, 2), ({"only": OSError, "never": "network"}, 1),
    ]:  # fmt: skip
        work, calls = failing(1)
        with contextlib.suppress(ConnectionResetError):
            retry(attempts=3, wait=0, capture=False, **options)(work)()
        assert len(calls) == runs, options


def test_only_never_makes_a_real_failure_worth_a_retry() -> None:
    work, calls = failing(1, lambda: NameError("x"))
    with pytest.raises(NameError):
        retry(wait=0, only=NameError, capture=False)(work)()
    assert calls == [1]


def test_another_attempt_never_begins_after_the_time_limit() -> None:
    work, calls = failing(9)
    with pytest.raises(ConnectionResetError) as info:
        retry(attempts=9, wait=50, timeout=timedelta(seconds=20), capture=False)(work)()
    assert calls == [1]
    assert not getattr(info.value, "__notes__", [])


def test_the_wait_may_be_a_function_of_the_decision_and_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", pauses.append)
    work, _ = failing(2)
    retry(wait=lambda decision, attempt: decision.delay_s * 10**attempt, capture=False)(work)()
    advised = tbparse.retryable(RESET).delay_s
    assert pauses == [advised * 10, advised * 100]


# What is left of a failure


def test_the_last_failure_is_the_original_exception_with_its_own_traceback_and_a_note_of_all_attempts() -> None:
    raised: list[BaseException] = []

    def work() -> None:
        raised.append(ConnectionResetError(104, "Connection reset by peer"))
        raise raised[-1]

    with pytest.raises(ConnectionResetError) as info:
        retry(attempts=3, wait=0, capture=False)(work)()
    assert info.value is raised[-1]
    assert info.value.__context__ is None
    assert info.value.__cause__ is None
    frames = [x.name for x in info.traceback]
    assert frames[-1] == "work"
    assert not any("tenacity" in str(x.path) for x in info.traceback)
    notes = "\n".join(info.value.__notes__)
    assert "3 attempts failed" in notes
    assert all(f"attempt {n}: transient" in notes for n in (1, 2, 3))


def test_the_notes_do_not_change_what_the_failure_is_taken_for() -> None:
    work, _ = failing(9)
    with pytest.raises(ConnectionResetError) as info:
        retry(attempts=2, wait=0, capture=False)(work)()
    assert tbparse.classify(info.value).rule == tbparse.classify(RESET).rule
    assert tbparse.classify(info.value).message == "[Errno 104] Connection reset by peer"


def test_a_real_failure_after_a_transient_one_is_the_one_that_leaves() -> None:
    errors: list[Exception] = [ConnectionResetError(104, "Connection reset by peer"), NameError("x")]
    work, calls = failing(9, lambda: errors[len(calls) - 1])
    with pytest.raises(NameError) as info:
        retry(attempts=9, wait=0, capture=False)(work)()
    assert calls == [1, 2]
    assert "attempt 2: real" in "\n".join(info.value.__notes__)


def test_each_retry_is_logged_as_a_warning_with_its_root_cause(caplog: pytest.LogCaptureFixture) -> None:
    work, _ = failing(2)
    with caplog.at_level(logging.INFO, "tbparse"):
        retry(wait=0, capture=False)(work)()
    assert [r.levelno for r in caplog.records] == [logging.WARNING, logging.WARNING]
    first = caplog.records[0]
    assert "attempt 1 of 3" in first.getMessage()
    assert "Connection reset by peer" in first.getMessage()
    assert first.root_cause.exception == "ConnectionResetError"


def test_a_log_with_our_own_warnings_is_still_read_right(caplog: pytest.LogCaptureFixture) -> None:
    work, _ = failing(9)
    with caplog.at_level(logging.WARNING, "tbparse"), pytest.raises(ConnectionResetError) as info:
        retry(wait=0, capture=False)(work)()
    import traceback

    text = "".join(f"WARNING:tbparse:{r.getMessage()}\n" for r in caplog.records)
    text += "".join(traceback.format_exception(info.value))
    assert tbparse.classify(text).exception == "ConnectionResetError"
    assert tbparse.classify(text).verdict == "transient"


def test_before_retry_is_told_the_decision_and_the_attempt_and_may_stop_it_all() -> None:
    seen: list[tuple[str | None, int]] = []

    def tell(decision: Decision, attempt: int) -> None:
        seen.append((decision.root_cause.exception, attempt))
        if attempt == 2:
            raise KeyError("enough")

    work, calls = failing(9)
    with pytest.raises(KeyError, match="enough"):
        retry(attempts=5, wait=0, before_retry=tell, capture=False)(work)()
    assert seen == [("ConnectionResetError", 1), ("ConnectionResetError", 2)]
    assert calls == [1, 2]


@pytest.mark.parametrize("capture", [True, False])
def test_between_attempts_nothing_keeps_alive_what_the_failed_call_had_made(capture: bool) -> None:
    class Tensor:
        pass

    alive: list[weakref.ref[Tensor]] = []
    seen: list[bool] = []

    def work() -> str:
        tensor = Tensor()
        tensor.itself = tensor  # a cycle: only the collector frees it
        alive.append(weakref.ref(tensor))
        if len(alive) == 1:
            try:
                raise ValueError("inner")
            except ValueError:
                error = ConnectionResetError(104, "Connection reset by peer")
                error.holds = tensor  # type: ignore[attr-defined]
                raise error from None
        return "done"

    gc.disable()
    try:
        done = retry(wait=0, before_retry=lambda *_: seen.append(alive[0]() is None), capture=capture)(work)()
    finally:
        gc.enable()
    assert (done, seen) == ("done", [True])


def test_torch_is_not_loaded_and_its_caches_are_emptied_only_when_cuda_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cuda:
        emptied = 0
        ready = False

        def is_initialized(self) -> bool:
            return self.ready

        def empty_cache(self) -> None:
            type(self).emptied += 1

    class Torch:
        cuda = Cuda()

    monkeypatch.setitem(sys.modules, "torch", Torch)  # type: ignore[arg-type]
    for ready in (False, True):
        Torch.cuda.ready = ready
        work, _ = failing(2)
        retry(wait=0, capture=False)(work)()
    assert Cuda.emptied == 2


# What it can be put on


def test_the_function_stays_what_it_was_for_pytest_and_type_checkers() -> None:
    def work(self, tmp_path: Path, *, size: int = 3) -> str:
        """What it does."""
        return f"{tmp_path}{size}"

    work.pytestmark = [pytest.mark.slow]  # type: ignore[attr-defined]
    made = retry(work)
    assert (made.__name__, made.__doc__, made.__wrapped__) == ("work", "What it does.", work)  # type: ignore[attr-defined]
    assert inspect.signature(made) == inspect.signature(work)
    assert made.pytestmark == work.pytestmark  # type: ignore[attr-defined]


def test_methods_static_methods_and_class_methods() -> None:
    class Job:
        runs = 0

        @retry(wait=0, capture=False)
        def fit(self, x: int) -> int:
            self.runs += 1
            if self.runs < 2:
                raise ConnectionResetError(104, "Connection reset by peer")
            return x + self.runs

        @retry(wait=0, capture=False)
        @classmethod
        def build(cls, x: int) -> tuple[type, int]:
            return cls, x

        @retry(wait=0, capture=False)
        @staticmethod
        def add(x: int, y: int) -> int:
            return x + y

    assert Job().fit(40) == 42
    assert Job.build(1) == (Job, 1)
    assert Job().add(1, 2) == 3


def test_patch_is_in_force_in_every_attempt_above_and_below_the_decorator() -> None:
    seen: list[list[str]] = []

    @patch("sys.argv", ["outer"])
    @retry(wait=0, capture=False)
    def above() -> None:
        seen.append(list(sys.argv))
        if len(seen) < 2:
            raise ConnectionResetError(104, "Connection reset by peer")

    @retry(wait=0, capture=False)
    @patch("sys.argv", ["inner"])
    def below() -> None:
        seen.append(list(sys.argv))
        if len(seen) < 4:
            raise ConnectionResetError(104, "Connection reset by peer")

    above()
    below()
    assert seen == [["outer"]] * 2 + [["inner"]] * 2


def test_async_functions_are_awaited_again_and_so_is_an_async_callback() -> None:
    calls: list[int] = []
    told: list[int] = []

    async def tell(decision: Decision, attempt: int) -> None:
        await asyncio.sleep(0)
        told.append(attempt)

    @retry(wait=0, before_retry=tell, capture=False)
    async def work(x: int) -> int:
        calls.append(x)
        await asyncio.sleep(0)
        if len(calls) < 3:
            raise ConnectionResetError(104, "Connection reset by peer")
        return x * 2

    assert inspect.iscoroutinefunction(work)
    assert asyncio.run(work(21)) == 42
    assert (calls, told) == ([21, 21, 21], [1, 2])


def test_a_cancelled_task_is_not_kept_alive_by_its_retries() -> None:
    calls: list[int] = []

    @retry(attempts=9, wait=3600, capture=False)
    async def work() -> None:
        calls.append(1)
        waiting.set()
        raise ConnectionResetError(104, "Connection reset by peer")

    async def main() -> None:
        global waiting
        waiting = asyncio.Event()
        task = asyncio.create_task(work())
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert calls == [1]


def test_attempts_as_contexts_in_plain_and_async_code() -> None:
    numbers = []
    for attempt in retry(attempts=3, wait=0, capture=False):
        with attempt:
            numbers.append(attempt.number)
            if attempt.number < 3:
                raise ConnectionResetError(104, "Connection reset by peer")
    assert numbers == [1, 2, 3]

    async def main() -> int:
        async for attempt in retry(attempts=3, wait=0, capture=False):
            with attempt:
                if attempt.number < 2:
                    raise ConnectionResetError(104, "Connection reset by peer")
                return attempt.number
        raise AssertionError

    assert asyncio.run(main()) == 2

    numbers.clear()

    def fails() -> None:
        for attempt in retry(attempts=3, wait=0, capture=False):
            with attempt:
                numbers.append(attempt.number)
                raise NameError("at once")

    with pytest.raises(NameError, match="at once"):
        fails()
    assert numbers == [1]


def test_what_cannot_be_run_again_from_its_start_is_refused_with_a_reason() -> None:
    def fixture():
        yield 1

    async def stream():
        yield 1

    for wrong in (fixture, stream, dict, 3):
        with pytest.raises(UsageError, match="decorate"):
            retry(wrong)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attempts": 0}, "attempts=0"),
        ({"wait": -1}, "wait=-1"),
        ({"timeout": 0}, "timeout=0"),
        ({"only": "netwrok"}, "did you mean `network`"),
        ({"never": "network/conection-reset"}, "did you mean `network/connection-reset`"),
        ({"only": 3}, "only=3"),
        ({"profile": "job", "only": "nowhere/*"}, "no such rule"),
    ],
)
def test_wrong_arguments_are_refused_when_the_function_is_decorated(options: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        retry(**options)  # type: ignore[call-overload]


def test_without_tenacity_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tenacity", None)
    with pytest.raises(UsageError, match=r"pip install 'tbparse-triage\[retry\]'"):
        retry(lambda: None)


# Children


def test_a_childs_failure_is_judged_by_what_the_child_printed(tmp_path: Path) -> None:
    command, counter = child(tmp_path, 2, OOM_TEXT)
    retry(attempts=3, wait=0)(lambda: subprocess.run(command, check=True))()
    assert counter.read_text() == "xxx"


def test_a_child_with_a_bug_runs_once_and_its_name_is_on_the_exception(tmp_path: Path) -> None:
    command, counter = child(tmp_path, 9, "NameError: name 'x' is not defined")
    with pytest.raises(subprocess.CalledProcessError) as info:
        retry(attempts=3, wait=0)(lambda: subprocess.run(command, check=True))()
    assert counter.read_text() == "x"
    assert info.value.root_cause.exception == "NameError"  # type: ignore[attr-defined]


def test_a_launcher_that_leaves_by_sys_exit_is_run_again_if_its_childs_failure_is_transient(tmp_path: Path) -> None:
    command, counter = child(tmp_path, 1, OOM_TEXT)

    @retry(attempts=3, wait=0)
    def main() -> None:
        if subprocess.run(command).returncode:
            sys.exit(1)

    main()
    assert counter.read_text() == "xx"


def test_only_and_never_see_the_type_that_the_child_raised(tmp_path: Path) -> None:
    class OutOfMemoryError(RuntimeError):
        pass

    OutOfMemoryError.__module__, OutOfMemoryError.__qualname__ = "torch", "OutOfMemoryError"
    command, counter = child(tmp_path, 1, OOM_TEXT)
    with pytest.raises(subprocess.CalledProcessError):
        retry(wait=0, never=OutOfMemoryError)(lambda: subprocess.run(command, check=True))()
    retry(wait=0, only=OutOfMemoryError)(lambda: subprocess.run(command, check=True))()
    assert counter.read_text() == "xx"


# What it costs


def test_a_call_that_succeeds_asks_nothing_and_costs_about_what_tenacitys_own_decorator_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a call that succeeds needs no settings and no decision")

    monkeypatch.setattr("tbparse.retrying.attempts.load_project", never)
    monkeypatch.setattr("tbparse.retrying.attempts.retryable", never)

    def work() -> int:
        return 1

    ours, theirs = retry(capture=False)(work), tenacity.retry(work)
    assert ours() == theirs() == 1
    best = [min(timeit.repeat(call, number=300, repeat=7)) for call in (ours, theirs)]
    assert best[0] < 5 * best[1]
