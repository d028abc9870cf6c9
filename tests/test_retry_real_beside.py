"""A real failure that stands beside, below or around a passing one is never retried; what only looks like that still is."""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import traceback
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

import tbparse
from tbparse import classify, retryable

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

HEAD = 'Traceback (most recent call last):\n  File "/w/train.py", line 3, in <module>\n    main()\n'
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which "
    "1.00 GiB is free."
)
RESET = "ConnectionResetError: [Errno 104] Connection reset by peer"
REAL = [
    "NameError: name 'x' is not defined",
    "KeyError: 'labels'",
    "ValueError: num_heads must divide hidden_size",
    "AssertionError: 3 is not 4",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)",
]
STEPS = "".join(f"step {n} loss 1.{n}\n" for n in range(40))


def log(last_line: str) -> str:
    return f"{HEAD}{last_line}\n"


def reset() -> ConnectionResetError:
    return ConnectionResetError(104, "Connection reset by peer")


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as e:
        return e


@pytest.mark.parametrize("between", ["", STEPS], ids=["at once", "later"])
@pytest.mark.parametrize("real", REAL, ids=lambda r: r.partition(":")[0])
@pytest.mark.parametrize("passing", [RESET, OOM], ids=["reset", "oom"])
def test_two_tracebacks_in_one_output_pass_only_if_both_do(passing: str, real: str, between: str) -> None:
    """Two processes without prefixes, or one that outlived the first: nobody can tell, and one of them does not pass."""
    for text in (log(passing) + between + log(real), log(real) + between + log(passing)):
        answer = classify(text, returncode=1, profile="tests")
        assert (answer.verdict, answer.exception) == ("real", real.partition(":")[0])
        assert not retryable(subprocess.CalledProcessError(1, ["trl"], stderr=text), profile="tests")


def test_two_that_pass_pass() -> None:
    assert classify(log(RESET) + STEPS + log(OOM), returncode=1, profile="tests").transient


def chained(outer: BaseException, inner: BaseException, *, explicit: bool) -> BaseException:
    try:
        try:
            raise inner
        except BaseException as e:
            if explicit:
                raise outer from e
            raise outer  # noqa: B904 - a context and no cause
    except BaseException as e:
        return e


@pytest.mark.parametrize("explicit", [True, False], ids=["from", "while handling"])
@pytest.mark.parametrize("inner", [NameError("name 'x' is not defined"), TypeError("'NoneType' object"), AssertionError("1 == 2")])
def test_what_is_raised_while_a_bug_is_handled_does_not_hide_it(inner: Exception, explicit: bool) -> None:
    error = chained(reset(), inner, explicit=explicit)
    for what in (error, "".join(traceback.format_exception(type(error), error, error.__traceback__))):
        answer = retryable(what).root_cause
        assert (answer.verdict, answer.exception) == ("real", type(inner).__name__)


def test_a_cause_that_is_stated_counts_and_one_that_was_merely_handled_does_not() -> None:
    """``raise … from`` says why; a cache that misses before the download fails says nothing."""
    assert not retryable(chained(reset(), KeyError("labels"), explicit=True))
    assert retryable(chained(reset(), KeyError("labels"), explicit=False))
    assert retryable(chained(ValueError("cannot read the config"), reset(), explicit=True))


def leaf(cause: BaseException) -> BaseException:
    return chained(reset(), cause, explicit=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ExceptionGroup("g", [raised(reset()), raised(NameError("x"))]),
        lambda: ExceptionGroup("g", [raised(reset()), ExceptionGroup("h", [ExceptionGroup("i", [raised(TypeError("x"))])])]),
        lambda: ExceptionGroup("g", [raised(reset()), leaf(KeyError("labels"))]),
        lambda: ExceptionGroup("g", [raised(reset()), subprocess.CalledProcessError(1, ["x"], stderr=log(REAL[0]))]),
        lambda: ExceptionGroup("g", [raised(reset()), subprocess.CalledProcessError(1, ["x"])]),
        lambda: chained(ExceptionGroup("g", [raised(reset()), raised(reset())]), TypeError("x"), explicit=True),
        lambda: chained(reset(), ExceptionGroup("g", [raised(reset()), raised(TypeError("x"))]), explicit=True),
    ],
    ids=["leaf", "deep leaf", "cause of a leaf", "a leaf's child", "a leaf's silent child", "cause of the group", "group as cause"],
)
def test_a_group_with_something_real_anywhere_in_it_is_not_retried(make: Callable[[], BaseException]) -> None:
    error = raised(make())
    assert not retryable(error, profile="tests")
    assert not retryable(error, profile="job")


@pytest.mark.parametrize("kind", [ValueError, KeyError, AssertionError, TypeError])
@pytest.mark.parametrize("name", ["stderr", "output"])
def test_output_of_another_process_on_a_real_exception_does_not_excuse_it(kind: type[Exception], name: str) -> None:
    error = kind("bad")
    setattr(error, name, log(OOM))
    assert not retryable(raised(error), profile="tests")


def test_ranks_of_a_failed_launch_are_each_asked_groups_within_them_too() -> None:
    group = (
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "/w/train.py", line 3, in <module>\n  |     main()\n  | ExceptionGroup: two (2 sub-exceptions)\n'
        "  +-+---------------- 1 ----------------\n    | Traceback (most recent call last):\n"
        '    |   File "/w/train.py", line 5, in a\n'
        f"    |     reset()\n    | {RESET}\n    +---------------- 2 ----------------\n"
        '    | Traceback (most recent call last):\n    |   File "/w/train.py", line 9, in b\n    |     bug()\n'
        "    | NameError: name 'x' is not defined\n    +------------------------------------\n"
    )
    for ranks in ({0: log(RESET), 1: log(REAL[0])}, {0: group}, {1: log(RESET), 3: group}):
        error: Any = type("ChildFailedError", (Exception,), {"__module__": "torch.distributed.elastic.multiprocessing.errors"})("x")
        error.failures = {
            rank: SimpleNamespace(message={"message": "E", "extraInfo": {"py_callstack": text}}, error_file="")
            for rank, text in ranks.items()
        }
        assert not retryable(raised(error), profile="tests")


@pytest.mark.parametrize(
    "error",
    [
        AssertionError(f"the child said:\n{log(OOM)}"),
        AssertionError(f"unexpected: {OOM}"),
        ValueError(f"cannot parse the log:\n{log(OOM)}"),
        KeyError("Connection reset by peer"),
        RuntimeError("unexpected output: Connection reset by peer"),
    ],
    ids=["assertion, log", "assertion, line", "value error", "key", "runtime error"],
)
def test_words_that_a_message_quotes_are_no_failure(error: Exception) -> None:
    assert not retryable(raised(error), profile="tests")
    noted = ValueError("bad")
    noted.__notes__ = [str(error)]  # type: ignore[attr-defined, unused-ignore]
    assert not retryable(raised(noted), profile="tests")


def test_what_a_mock_raises_it_will_raise_again() -> None:
    """A test that does not survive its own ``side_effect`` found a bug."""

    def plain() -> None:
        mock.Mock(side_effect=reset())()

    def coroutine() -> None:
        asyncio.run(mock.AsyncMock(side_effect=reset())())

    def around() -> None:
        try:
            mock.Mock(side_effect=reset())()
        except ConnectionResetError as e:
            raise OSError("cannot download: Connection reset by peer") from e

    def through() -> None:
        def real(*_: object) -> None:
            raise reset()

        mock.Mock(wraps=real)()

    for fail in (plain, coroutine, around, through):
        with pytest.raises(OSError) as caught:  # noqa: PT011 - whatever of the kind
            fail()
        assert bool(retryable(caught.value)) is (fail is through)
    calls: list[int] = []

    @tbparse.retry(attempts=3, wait=0, capture=False)
    def work() -> None:
        calls.append(1)
        plain()

    with pytest.raises(ConnectionResetError):
        work()
    assert calls == [1]


@pytest.mark.parametrize("profile", ["job", "tests"])
def test_more_memory_than_the_card_has_is_there_at_no_other_moment(profile: str) -> None:
    told = (
        "CUDA out of memory. Tried to allocate {}. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free. Including "
        "non-PyTorch memory, this process has 40.01 GiB memory in use. Process 77120 has 38.40 GiB memory in use."
    )
    answer = classify(log(f"torch.OutOfMemoryError: {told.format('7450.58 GiB')}"), profile=profile)
    assert answer.verdict == "real"
    assert "7450.58 GiB of 79.15 GiB" in answer.advice[0]
    assert classify(log(f"torch.OutOfMemoryError: {told.format('2.00 GiB')}"), profile=profile).transient


def test_an_exit_that_says_what_is_wrong_is_not_the_earlier_childs() -> None:
    """The child was meant to fail, or the program got over it."""
    calls: list[int] = []

    def by_text() -> None:
        sys.exit("the key `lr` is missing in the configuration")

    def by_parser() -> None:
        argparse.ArgumentParser(prog="trl").parse_args(["--bad"])

    def by_code() -> None:
        sys.exit(1)

    for leave, attempts in ((by_text, 1), (by_parser, 1), (by_code, 3)):
        calls.clear()

        def work(leave: Callable[[], None] = leave) -> None:
            calls.append(1)
            subprocess.run([sys.executable, "-S", "-c", f"import sys; sys.exit({log(OOM)!r})"], check=False)
            leave()

        with pytest.raises(SystemExit):
            tbparse.retry(attempts=3, wait=0, profile="tests")(work)()
        assert len(calls) == attempts
        with pytest.raises(SystemExit if attempts == 1 else tbparse.TransientFailure):
            tbparse.surface(profile="tests")(work)()
