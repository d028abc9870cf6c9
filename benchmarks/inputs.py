"""Logs that the benchmarks make: healthy ones of any size with one failure, and floods in which every line looks like one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FAILURE = (ROOT / "docs" / "examples" / "distributed-launch.log").read_bytes()
_PROGRESS = "[2026-11-30 12:{:02d}:{:02d}] step {} | loss 2.{:04d} | lr 2.0e-04 | tok/s {} | mem 71.2GiB\n"
_RAISED = (
    'Traceback (most recent call last):\n  File "/work/data.py", line 31, in fetch\n    x = get(i)\n'
    '  File "/work/data.py", line {0}, in get\n    raise ValueError(i)\nValueError: bad sample {0}\n'
)


def healthy() -> bytes:
    """About a megabyte of progress lines as a training job prints them."""
    return "".join(_PROGRESS.format(i // 60 % 60, i % 60, i, i * 7 % 10000, 18000 + i % 500) for i in range(12000)).encode()


def write_log(path: Path, megabytes: float, where: float = 1.0) -> None:
    """A log of that size with one failure at ``where`` (0 is the start, 1 the end)."""
    block = healthy()
    total, done, put = int(megabytes * 1e6), 0, False
    with path.open("wb") as out:
        while done < total:
            if not put and done >= total * where:
                out.write(FAILURE)
                put = True
            done += out.write(block[: min(len(block), total - done)])
        if not put:
            out.write(b"\n" + FAILURE)
            out.write(block[:4000])


def _warnings(n: int) -> str:
    return "".join(
        f"2026-11-30 12:00:{k % 60:02d} WARNING loader: Error: sample {n + k} is damaged, skipped\n" for k in range(1000)
    )


def _handled(n: int) -> str:
    return "".join(
        f"INFO step {k}\n{_RAISED.format(k)}step {k}/900000 loss=0.1\nstep {k + 1}/900000 loss=0.2\n" for k in range(n, n + 300)
    )


def _one_line(n: int) -> str:
    return "Error: x " * 10_000


def _frames(n: int) -> str:
    return "Traceback (most recent call last):\n" * (n == 0) + '  File "/work/a.py", line 3, in f\n    f()\n' * 2000


def _ranks(n: int) -> str:
    lines = _RAISED.format(n).splitlines()
    return "".join(f"[rank{k}]: {line}\n" for line in lines for k in range(10_000))


def _unlike(n: int) -> str:
    rng = random.Random(n)
    words = ("".join(rng.choices("abcdefghijklmnop", k=8)) for _ in range(4000))
    return "".join("WARNING Error: " + " ".join(next(words) for _ in range(8)) + "\n" for _ in range(500))


FLOODS: dict[str, Callable[[int], str]] = {
    "warnings with `Error:`": _warnings,
    "handled tracebacks": _handled,
    "one line without an end": _one_line,
    "one traceback of frames without an end": _frames,
    "10,000 ranks line by line": _ranks,
    "warnings of which no two are alike": _unlike,
}


def flood(name: str, megabytes: float) -> Iterator[bytes]:
    """A flood of that size in portions, and a failure of another kind at its end."""
    made, n = 0, 0
    while made < megabytes * 1e6:
        data = FLOODS[name](n).encode()
        made, n = made + len(data), n + 1000
        yield data
    yield b"\n" + FAILURE
