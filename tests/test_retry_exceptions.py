"""Live exceptions: the same verdict as for their printed text, and what only the object knows."""
# ruff: noqa: N818 - names that do not end in Error are part of what is tested

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tbparse import classify, retryable

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup, ExceptionGroup

RESET = (104, "Connection reset by peer")
OOM = "CUDA out of memory. Tried to allocate 2.00 GiB."
OOM_BY_A_NEIGHBOUR = (
    "CUDA out of memory. Tried to allocate 1.44 GiB. GPU 1 has a total capacity of 79.15 GiB of which 748.75 MiB is free. "
    "Including non-PyTorch memory, this process has 40.01 GiB memory in use. Process 77120 has 38.40 GiB memory in use."
)


def log(last_line: str) -> str:
    return f'Traceback (most recent call last):\n  File "/w/train.py", line 3, in <module>\n    main()\n{last_line}\n'


BUG_LOG = log("NameError: name 'x' is not defined")
OOM_LOG = log(f"torch.OutOfMemoryError: {OOM}")


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        if cause is not None:
            raise error from cause
        raise error
    except BaseException as e:
        return e


def text_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


# The law

LEAVES = st.sampled_from(
    [
        lambda: ConnectionResetError(*RESET),
        lambda: TimeoutError("timed out"),
        lambda: ConnectionRefusedError(111, "Connection refused"),
        lambda: OSError(28, "No space left on device"),
        lambda: FileNotFoundError(2, "No such file or directory", "config.json"),
        lambda: BrokenPipeError(32, "Broken pipe"),
        lambda: BlockingIOError("later"),
        lambda: ValueError("bad value\nin two lines"),
        lambda: NameError("name 'x' is not defined"),
        lambda: KeyError("label"),
        lambda: MemoryError(),
        lambda: ModuleNotFoundError("No module named 'flash_attn'"),
        lambda: RuntimeError(OOM),
        lambda: RuntimeError(OOM_BY_A_NEIGHBOUR),
        lambda: RuntimeError("CUDA error: out of memory"),
        lambda: RuntimeError("CUDA error: an illegal memory access was encountered"),
        lambda: RuntimeError("who knows"),
        lambda: RuntimeError(""),
        lambda: AssertionError(),
        lambda: KeyboardInterrupt(),
        lambda: SystemExit(1),
        lambda: subprocess.CalledProcessError(1, ["trl", "sft"]),
        lambda: subprocess.CalledProcessError(-9, ["trl", "sft"]),
    ]
)


@st.composite
def errors(draw: st.DrawFn, depth: int = 3) -> BaseException:
    """A raised exception with causes, contexts, notes and leaves."""
    grouped = depth > 0 and draw(st.booleans())
    if grouped:
        inside = draw(st.lists(errors(depth - 1), min_size=1, max_size=3))
        error: BaseException = BaseExceptionGroup("several", inside)
    else:
        error = draw(LEAVES)()
    way = draw(st.sampled_from(["plain", "plain", "cause", "context", "from none"])) if depth > 0 else "plain"
    if way == "plain":
        error = raised(error)
    elif way == "cause":
        error = raised(error, draw(errors(depth - 1)))
    else:
        inner = draw(errors(depth - 1))
        try:
            try:
                raise inner
            except BaseException:
                if way == "context":
                    raise error  # noqa: B904 - a context and no cause
                raise error from None
        except BaseException as e:
            error = e
    if sys.version_info >= (3, 11) and draw(st.booleans()):
        error.add_note("while reading shard 3")
    return error


@settings(max_examples=250, deadline=None)
@given(errors(), st.sampled_from(["job", "tests"]))
def test_a_live_exception_is_judged_as_its_printed_text_is(error: BaseException, profile: str) -> None:
    live, text = classify(error, profile=profile), classify(text_of(error), profile=profile)
    assert (live.verdict, live.category, live.rule, live.exception) == (text.verdict, text.category, text.rule, text.exception)


def leaves(error: BaseException) -> list[BaseException]:
    found = getattr(error, "exceptions", None)
    return [x for e in found for x in leaves(e)] if found else [error]


@settings(max_examples=150, deadline=None)
@given(st.recursive(LEAVES.map(lambda make: raised(make())), lambda x: st.lists(x, min_size=1, max_size=4).map(
    lambda e: BaseExceptionGroup("several", e)), max_leaves=8), st.booleans())  # fmt: skip
def test_a_group_is_retried_only_if_every_leaf_is(error: BaseException, throw: bool) -> None:
    error = raised(error) if throw else error
    wanted = all(retryable(x) for x in leaves(error))
    assert bool(retryable(error)) == wanted
    assert bool(retryable(text_of(error))) == wanted


# Groups


def test_a_leaf_that_is_too_far_down_to_be_printed_counts() -> None:
    good, bad = raised(ConnectionResetError(*RESET)), raised(ValueError("bad"))
    wide = ExceptionGroup("g", [good] * 40 + [bad])
    assert retryable(wide).root_cause.exception == "ValueError"
    assert not retryable(text_of(wide)), "the printed text leaves the last leaves out, and says so"
    assert retryable(ExceptionGroup("g", [good] * 40))
    deep: BaseException = bad
    for _ in range(14):
        deep = ExceptionGroup("g", [good, deep])
    assert not retryable(deep)
    assert not retryable(text_of(deep))


def test_each_leaf_is_judged_by_the_output_of_its_own_child() -> None:
    def failed(stderr: str) -> BaseException:
        return raised(subprocess.CalledProcessError(1, ["trl"], stderr=stderr))

    assert retryable(ExceptionGroup("g", [failed(OOM_LOG), failed(OOM_LOG)]))
    for group in ([failed(OOM_LOG), failed(BUG_LOG)], [failed(BUG_LOG), failed(OOM_LOG)], [failed(OOM_LOG), raised(KeyError("k"))]):
        assert not retryable(ExceptionGroup("g", group))
        assert not retryable(raised(RuntimeError("outer"), ExceptionGroup("g", group)))
        assert not retryable(ExceptionGroup("outer", [ExceptionGroup("g", group)]))


def test_a_task_cancelled_for_a_siblings_sake_is_no_leaf_of_its_own() -> None:
    import asyncio

    group = [asyncio.CancelledError(), raised(ConnectionResetError(*RESET))]
    assert retryable(BaseExceptionGroup("g", group))
    assert not retryable(BaseExceptionGroup("g", [*group, raised(ValueError("bad"))]))


# Types


class LibraryReset(ConnectionResetError):
    """A library's own name for something that everybody knows."""


class Renamed(subprocess.CalledProcessError):
    pass


class Lookup(KeyError):
    pass


def test_a_rule_about_a_type_holds_for_a_subclass_of_another_name() -> None:
    for error in (LibraryReset(*RESET), raised(LibraryReset(*RESET)), raised(RuntimeError("x"), raised(LibraryReset(*RESET)))):
        answer = classify(error)
        assert (answer.verdict, answer.rule) == ("transient", classify(ConnectionResetError(*RESET)).rule)
        assert answer.exception is not None
        assert answer.exception.endswith("LibraryReset")
    answer = classify(raised(Renamed(1, ["trl"], stderr=OOM_LOG)), profile="tests")
    assert (answer.exception, answer.verdict) == ("torch.OutOfMemoryError", "transient")


def test_what_the_message_of_a_bugs_subclass_quotes_never_makes_it_transient() -> None:
    assert classify(raised(Lookup("HTTP 503 Service Unavailable: Connection reset by peer"))).verdict != "transient"


def test_a_type_with_a_name_that_no_text_would_give_away() -> None:
    class Gone(ConnectionResetError):
        pass

    answer = classify(Gone(*RESET))
    assert (answer.verdict, answer.exception) == ("transient", f"{__name__}.{Gone.__qualname__}")
    assert classify(type("Odd", (Exception,), {})("hm")).verdict == "unknown"


# Chains


def test_chains_that_go_round_end() -> None:
    first, second = ValueError("first"), ConnectionResetError(*RESET)
    first.__cause__, second.__cause__ = second, first
    assert classify(first).exception is not None
    second.__cause__, second.__context__ = None, second
    assert retryable(second)


def test_a_suppressed_context_is_no_cause() -> None:
    try:
        try:
            raise ConnectionResetError(*RESET)
        except ConnectionResetError:
            raise ValueError("not a number") from None
    except ValueError as e:
        error = e
    assert (classify(error).exception, bool(retryable(error))) == ("ValueError", False)


def test_exceptions_whose_parts_fail_are_answered_all_the_same() -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise RuntimeError

        @property
        def stderr(self) -> str:
            raise KeyError

        @property
        def exceptions(self) -> tuple[BaseException, ...]:
            raise ValueError

        @property
        def root_cause(self) -> str:
            raise OSError

    for error in (Hostile(), raised(Hostile()), raised(ValueError("x"), Hostile())):
        assert not retryable(error)
    deep: BaseException = ValueError("0")
    for n in range(3000):
        outer = ValueError(str(n))
        outer.__cause__, deep = deep, outer
    assert not retryable(deep)


# What an exception carries


@pytest.mark.parametrize("name", ["stderr", "output", "stdout"])
@pytest.mark.parametrize("as_bytes", [True, False])
def test_a_childs_output_is_read_whatever_it_is_called_and_made_of(name: str, as_bytes: bool) -> None:
    class Failed(Exception):
        pass

    for text, verdict in ((OOM_LOG, True), (BUG_LOG, False)):
        error = Failed("the command failed")
        setattr(error, name, text.encode() if as_bytes else text)
        assert bool(retryable(raised(RuntimeError("stage 2"), raised(error)))) == verdict


def test_output_and_errors_are_both_read() -> None:
    error = raised(subprocess.CalledProcessError(1, ["trl"], output=BUG_LOG, stderr="a warning\n"))
    assert classify(error).exception == "NameError"


def test_what_a_capture_found_is_believed_through_causes_but_not_through_contexts() -> None:
    known = classify(OOM_LOG, returncode=1)
    child = raised(subprocess.CalledProcessError(1, ["trl"]))
    child.root_cause = known  # type: ignore[attr-defined]
    assert retryable(raised(RuntimeError("stage 2 failed"), child))

    def handle() -> None:
        try:
            raise child
        except subprocess.CalledProcessError:
            raise NameError("name 'cleanup' is not defined")  # noqa: B904 - a bug in a handler

    with pytest.raises(NameError) as info:
        handle()
    assert not retryable(info.value)


def _failure(tmp_path: Path, rank: int, text: str | None, code: int = 1) -> SimpleNamespace:
    stack = {"message": {"message": "E", "extraInfo": {"py_callstack": text, "timestamp": str(1_700_000_000 + rank)}}}
    message = stack["message"] if text else "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
    (tmp_path / f"{rank}.json").write_text(json.dumps(stack))
    return SimpleNamespace(local_rank=rank, pid=1, exitcode=code, error_file=str(tmp_path / f"{rank}.json"), message=message)


def test_the_failures_of_ranks_are_read_and_one_real_one_decides(tmp_path: Path) -> None:
    def failed(*texts: str | None) -> BaseException:
        error = type("ChildFailedError", (Exception,), {})("train.py FAILED")
        error.failures = {rank: _failure(tmp_path, rank, text) for rank, text in enumerate(texts)}
        return raised(error)

    assert retryable(failed(OOM_LOG))
    assert retryable(failed(OOM_LOG, OOM_LOG))
    assert not retryable(failed(OOM_LOG, BUG_LOG))
    assert not retryable(failed(BUG_LOG, OOM_LOG))
    assert not retryable(failed(None))
    assert classify(failed(None, BUG_LOG)).rank == 1


def _reset() -> None:
    raise ConnectionResetError(*RESET)


def _bug() -> None:
    raise NameError("name 'x' is not defined")


def _die() -> None:
    import os

    os._exit(3)


def test_pools_of_processes() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        reset, bug = pool.submit(_reset).exception(), pool.submit(_bug).exception()
        died = pool.submit(_die).exception()
    assert reset is not None
    assert bug is not None
    assert retryable(reset)
    assert retryable(bug).root_cause.exception == "NameError"
    assert isinstance(died, BrokenProcessPool)
    assert not retryable(died)
    for error in (reset, bug, died):
        assert classify(raised(error)).rule == classify(text_of(error)).rule
