"""What the decorators cost a call that succeeds, and what a decision costs: ``python benchmarks/retry.py``.

Budgets: 50 µs a call without ``capture``, 5 ms with.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable

import tbparse


def work() -> int:
    return 1


def microseconds(call: Callable[[], object], number: int) -> float:
    """The best of five rounds, a call."""
    call()
    return min(timeit.repeat(call, number=number, repeat=5)) / number * 1e6


def main() -> None:
    error = ConnectionResetError(104, "Connection reset by peer")
    rows: list[tuple[str, Callable[[], object], int]] = [
        ("the function alone", work, 200_000),
        ("retry(capture=False)", tbparse.retry(capture=False)(work), 5_000),
        ("retry()", tbparse.retry(work), 300),
        ("surface(capture=False)", tbparse.surface(capture=False)(work), 5_000),
        ("surface()", tbparse.surface(work), 300),
        ("retryable(exception)", lambda: tbparse.retryable(error), 300),
    ]
    for name, call, number in rows:
        print(f"{name:24} {microseconds(call, number):10.2f} µs")


if __name__ == "__main__":
    main()
