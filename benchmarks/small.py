"""The budgets for small logs, as ratios side by side. ``--check`` exits 1 when one is exceeded."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from peers import peers

ROOT = Path(__file__).resolve().parent.parent
LOG = ROOT / "docs" / "examples" / "accelerate.log"


def traceback_text(frames: int = 64) -> str:
    """A traceback of about 10 KB, as CPython 3.11 prints it."""
    rows = ["Traceback (most recent call last):"]
    for i in range(frames):
        rows.append(f'  File "/home/user/project/module_{i % 7}.py", line {i + 3}, in step_{i}')
        rows.append(f"    return self.layer_{i}(hidden, mask=mask, cache=cache)")
        rows.append("           " + "^" * 42)
    rows.append("ValueError: bad config: {'lr': -1}")
    return "\n".join(rows) + "\n"


def console_text(kilobytes: int = 100) -> str:
    """A console of two ranks that print steps and die of the same error."""
    rows: list[str] = []
    size, step = 0, 0
    while size < kilobytes * 1000:
        steps = [f"[rank{r}]: step {step}/9000 loss=2.{step % 1000:04d} lr=2.0e-04 tok/s {18000 + step % 500}" for r in (0, 1)]
        rows += steps
        size, step = size + sum(map(len, steps)) + 2, step + 1
    for r in (0, 1):
        rows += [f"[rank{r}]: {line}" for line in traceback_text(12).splitlines()]
    return "\n".join(rows) + "\n"


def whole_process(*command: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - start


def paired(first: Callable[[], float], second: Callable[[], float], rounds: int) -> tuple[list[float], list[float]]:
    """Times of two things in turn (A B A B …), so that a drift of the machine meets both."""
    first(), second()
    pairs = [(first(), second()) for _ in range(rounds)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def in_process(function: Callable[[], object]) -> Callable[[], float]:
    def timed() -> float:
        start = time.perf_counter()
        function()
        return time.perf_counter() - start

    return timed


def row(name: str, values: list[float], unit: float, suffix: str) -> str:
    ordered = sorted(values)
    return (
        f"{name:<44} median {statistics.median(ordered) * unit:8.3f}{suffix}"
        f"   min {ordered[0] * unit:8.3f}   p99 {ordered[int(len(ordered) * 0.99)] * unit:8.3f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    py = sys.executable
    over: list[str] = []

    ours, bare = paired(lambda: whole_process(py, "-c", "import tbparse"), lambda: whole_process(py, "-c", "pass"), args.rounds)
    extra = statistics.median(ours) - statistics.median(bare)
    print(f"{'import tbparse over a bare interpreter':<44} median {extra * 1e3:8.3f} ms")
    if extra > 0.030:
        over.append("import")

    cold, base = paired(
        lambda: whole_process(py, "-m", "tbparse.cli.main", "explain", str(LOG)),
        lambda: whole_process(py, "-c", "import regex; from pydantic import BaseModel"),
        args.rounds,
    )
    ratios = [a / b for a, b in zip(cold, base, strict=True)]
    print(row("cold `tbparse explain` / importing regex+pydantic", ratios, 1, "×"))
    if statistics.median(ratios) > 2:
        over.append("cold explain")
    cold, base = paired(
        lambda: whole_process(py, "-m", "tbparse.cli.main", "explain", "--format", "json", str(LOG)),
        lambda: whole_process(py, "-c", "import regex; from pydantic import BaseModel"),
        args.rounds,
    )
    print(row("  with --format json", [a / b for a, b in zip(cold, base, strict=True)], 1, "×"))

    from tbparse.engine import classify

    text = traceback_text()
    warm = [in_process(lambda: classify(text))() for _ in range(220)][20:]
    print(row(f"warm classify of a {len(text) / 1024:.1f} KB traceback", warm, 1e3, " ms"))
    if statistics.median(warm) > 0.001:
        over.append("warm classify")
    for name, parse in peers().items():
        a, b = paired(in_process(lambda: classify(text)), in_process(lambda parse=parse: parse(text)), 100)  # type: ignore[misc]
        print(row(f"  the same / {name}", [x / y for x, y in zip(a, b, strict=True)], 1, "×"))
    text = console_text()
    warm = [in_process(lambda: classify(text))() for _ in range(60)][10:]
    print(row(f"warm classify of a {len(text) / 1000:.0f} KB two-rank console", warm, 1e3, " ms"))
    if statistics.median(warm) > 0.005:
        over.append("console")
    if over:
        print("over budget: " + ", ".join(over))
    return 1 if over and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
