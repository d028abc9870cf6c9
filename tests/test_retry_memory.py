"""Between two attempts nothing that tbparse can let go of keeps alive what the failed one had made: tensors above all.

Each way in which a failed call can hold on to what it made is tried with each way of retrying. The garbage collector is
switched off meanwhile: what is gone between two attempts is gone by what happens there.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import logging
import sys
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tbparse import retry

pytest.importorskip("tenacity")


class Tensor:
    """Stands for a tensor: it can be referred to weakly, and takes attributes."""

    item: Any = None


def reset() -> ConnectionResetError:
    return ConnectionResetError(104, "Connection reset by peer")


def by_a_local(x: Any) -> None:
    raise reset()


def by_a_cycle(x: Any) -> None:
    loop: list[Any] = [x]
    loop.append(loop)
    raise reset()


def by_the_frames_below(x: Any) -> None:
    def inner(y: Any, depth: int) -> None:
        copy = [y]
        if depth:
            inner(copy, depth - 1)
        raise reset()

    inner(x, 20)


def by_an_attribute_of_the_exception(x: Any) -> None:
    error = reset()
    error.batch = x  # type: ignore[attr-defined]
    raise error


def by_the_arguments_of_the_exception(x: Any) -> None:
    raise ConnectionResetError("Connection reset by peer", x)


def by_a_cause(x: Any) -> None:
    def inner() -> None:
        mine = [x]
        raise ConnectionResetError(104, f"Connection reset by peer{'' if mine else '!'}")

    try:
        inner()
    except ConnectionResetError as e:
        raise ConnectionError("Connection reset by peer") from e


def by_a_context_that_is_not_shown(x: Any) -> None:
    def inner() -> None:
        mine = [x]
        raise KeyError(len(mine))

    try:
        inner()
    except KeyError:
        raise reset() from None


def by_exceptions_that_refer_to_each_other(x: Any) -> None:
    first, second = reset(), reset()
    first.__cause__, second.__cause__ = second, first
    first.mine = second.mine = x  # type: ignore[attr-defined]
    raise first


def by_the_leaves_of_a_group(x: Any) -> None:
    if sys.version_info >= (3, 11):
        group = ExceptionGroup  # noqa: F821
    else:
        group = pytest.importorskip("exceptiongroup").ExceptionGroup
    leaves = []
    for _ in range(3):
        try:
            by_the_frames_below(x)
        except ConnectionResetError as e:
            leaves.append(e)
    raise group("all", leaves)


RECORDS: list[logging.LogRecord] = []


class Keeper(logging.Handler):
    """Keeps records with their exceptions, as pytest's and Sentry's do."""

    def emit(self, record: logging.LogRecord) -> None:
        RECORDS.append(record)


def by_somebody_who_logged_it(x: Any) -> None:
    log = logging.getLogger("of the program")
    log.propagate, log.handlers = False, [Keeper()]
    try:
        by_the_frames_below(x)
    except ConnectionResetError:
        log.exception("failed")
        raise


KEPT: list[BaseException] = []


def by_somebody_who_keeps_the_exception_around_it(x: Any) -> None:
    """As a retry loop of another package does, whose last attempt's exception is an attribute or argument of its own."""
    try:
        by_the_frames_below(x)
    except ConnectionResetError as e:
        error = ConnectionError("Connection reset by peer", e)
        error.original = e  # type: ignore[attr-defined]
    KEPT.append(error)
    raise error


def by_somebody_who_read_the_local_variables(x: Any) -> None:
    """As pytest, loguru and Sentry do."""
    try:
        by_the_frames_below(x)
    except ConnectionResetError as e:
        KEPT.append(e)
        tb = e.__traceback__
        while tb is not None:
            assert tb.tb_frame.f_locals
            tb = tb.tb_next
        raise


def by_a_thread(x: Any) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(by_the_frames_below, x).result()


def by_a_generator(x: Any) -> None:
    def batches() -> Iterator[Any]:
        held = [x]
        yield held
        raise reset()

    for batch in batches():
        seen = batch  # noqa: F841


def by_a_context_manager(x: Any) -> None:
    @contextlib.contextmanager
    def opened() -> Iterator[list[Any]]:
        held = [x]
        try:
            yield held
        finally:
            held.append(held)

    with opened():
        raise reset()


def by_a_closure(x: Any) -> None:
    hooks = [lambda: x, functools.partial(print, x)]
    hooks[0]()
    raise reset()


WAYS = [v for k, v in sorted(globals().items()) if k.startswith("by_")]


def plain(fail: Callable[[], None], **options: Any) -> None:
    retry(**options)(fail)()


def as_context(fail: Callable[[], None], **options: Any) -> None:
    for attempt in retry(**options):
        with attempt:
            fail()


def asynchronous(fail: Callable[[], None], **options: Any) -> None:
    @retry(**options)
    async def work() -> None:
        await asyncio.sleep(0)
        fail()

    asyncio.run(work())


def as_asynchronous_context(fail: Callable[[], None], **options: Any) -> None:
    async def work() -> None:
        async for attempt in retry(**options):
            with attempt:
                await asyncio.sleep(0)
                fail()

    asyncio.run(work())


MODES = [plain, as_context, asynchronous, as_asynchronous_context]


def held_between_attempts(
    mode: Callable[..., None], way: Callable[[Any], None], make: Callable[[], Any], capture: bool
) -> list[int]:
    """How many of the things that the failed attempts made were alive before each further attempt."""
    made: list[weakref.ref[Any]] = []
    alive: list[int] = []

    def fail() -> None:
        if len(made) == 2:
            return
        x = make()
        made.append(weakref.ref(x))
        way(x)

    def look(*_: object) -> None:
        alive.append(sum(r() is not None for r in made))

    RECORDS.clear()
    KEPT.clear()
    gc.collect()
    gc.disable()
    try:
        mode(fail, attempts=3, wait=0, before_retry=look, capture=capture, profile="job")
    finally:
        gc.enable()
    return alive


@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.__name__)
@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
def test_nothing_is_held_between_attempts(way: Callable[[Any], None], mode: Callable[..., None]) -> None:
    assert held_between_attempts(mode, way, Tensor, capture=way is by_the_frames_below) == [0, 0]


@pytest.mark.live
def test_tensors_and_what_autograd_keeps_for_them_are_not_held_between_attempts() -> None:
    """Real tensors, each with a graph behind it that holds others."""
    torch = pytest.importorskip("torch")
    deep: list[weakref.ref[Any]] = []

    def make() -> Any:
        weight = torch.ones(64, 64, requires_grad=True)
        deep.append(weakref.ref(weight))
        return (weight @ weight).relu()

    for mode in MODES:
        for way in WAYS:
            assert held_between_attempts(mode, way, make, capture=False) == [0, 0], (mode.__name__, way.__name__)
    assert not [r for r in deep if r() is not None]
