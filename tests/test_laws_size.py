"""Law 8: time grows linearly with the log, memory does not grow with it."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
from dress import filler
from limits import at_most

from tbparse.engine import Explainer
from tbparse.model import RootCause
from tbparse.ruleset.match import RuleSet

pytestmark = pytest.mark.slow

MEGABYTE = 1024 * 1024
BOUND = 64 * MEGABYTE
"""What DESIGN allows over the interpreter with its imports, on a log of any size."""

FAILURE = b'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    f()\nKeyError: 1\n'


def portions(of: Callable[[int], bytes], size: float) -> Iterator[bytes]:
    """At least ``size`` bytes, made in portions so that the test itself holds no more than one."""
    made, n = 0, 0
    while made < size:
        data = of(n)
        made += len(data)
        n += 1
        yield data


def healthy(n: int) -> bytes:
    return filler(MEGABYTE // 4)


def noisy(n: int) -> bytes:
    """Lines that have triggers but no failure, among healthy ones."""
    return (b"WARNING reader: retry after Connection reset, 0 Errors so far\n" + filler(2000)) * 100


def failing(n: int) -> bytes:
    """Tracebacks that differ, one after the other."""
    return b"".join(
        b'Traceback (most recent call last):\n  File "train.py", line %d, in step\n    f()\nValueError: batch %d\n'
        % (k % 900, n * 1000 + k)
        for k in range(1000)
    )


def one_line(n: int) -> bytes:
    return b"x" * MEGABYTE


def bars(n: int) -> bytes:
    return b"".join(b"\r %d%%|####    | %d/1000000 [00:01<00:09, 1.2it/s]" % (k % 100, k) for k in range(5000))


def read(rules: RuleSet, of: Callable[[int], bytes], size: float) -> RootCause:
    explainer = Explainer(rules=rules)
    for data in portions(of, size):
        explainer.feed(data)
    explainer.feed(b"\n" + FAILURE)
    return explainer.finish()


def peak(rules: RuleSet, of: Callable[[int], bytes], size: float) -> int:
    gc.collect()
    tracemalloc.start()
    read(rules, of, size)
    top = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return top


@pytest.mark.parametrize(
    ("of", "small", "large"),
    [(healthy, 4, 16), (noisy, 1, 3), (one_line, 4, 16), (bars, 4, 16)],
    ids=lambda x: getattr(x, "__name__", str(x)),
)
def test_memory_does_not_grow_with_the_log(of: Callable[[int], bytes], small: float, large: float, rules: RuleSet) -> None:
    read(rules, of, 1)  # compiles what is compiled once
    low, high = peak(rules, of, small * MEGABYTE), peak(rules, of, large * MEGABYTE)
    assert high < BOUND
    assert high < 1.5 * low + 4 * MEGABYTE, f"{low:,} bytes for {small} MB, {high:,} for {large} MB"


def test_what_is_kept_of_a_flood_of_failures_is_bounded(rules: RuleSet) -> None:
    """Fifteen thousand different failures: the first and the last are kept, the others counted."""
    explainer = Explainer(rules=rules)
    for data in portions(failing, 2 * MEGABYTE):
        explainer.feed(data)
    answer = explainer.finish(1)
    assert (answer.exception, answer.message) == ("ValueError", "batch 0")
    assert len(explainer.job.failures) <= 4000
    assert len(explainer.job.evidence) <= 20_000
    assert any("counted, not kept" in note for note in answer.notes)
    assert peak(rules, failing, MEGABYTE // 2) < BOUND


def _lines(line: str) -> Callable[[int], bytes]:
    return lambda n: (line + "\n").encode() * n


FAMILIES: dict[str, Callable[[int], bytes]] = {
    "headers": _lines("Traceback (most recent call last):"),
    "frames": lambda n: b"Traceback (most recent call last):\n" + b'  File "a.py", line 1, in f\n    f()\n' * n + b"RecursionError: x\n",
    "tracebacks": lambda n: FAILURE * n,
    "exception lines": _lines("ValueError: bad"),
    "separators": lambda n: b"KeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n" * n,
    "chains": lambda n: (FAILURE + b"\nDuring handling of the above exception, another exception occurred:\n\n") * n + FAILURE,
    "indented lines after an exception": lambda n: FAILURE + b"  detail\n" * n,
    "blank lines": lambda n: FAILURE + b"\n" * n + FAILURE,
    "group headers": _lines("  + Exception Group Traceback (most recent call last):"),
    "gutters": lambda n: b"  + Exception Group Traceback (most recent call last):\n" + b"  | x\n" * n,
    "remote quotes": lambda n: b'multiprocessing.pool.RemoteTraceback: \n"""\n' * n,
    "worker sentences": lambda n: FAILURE + b"Original Traceback (most recent call last):\n" * n,
    "box tops": _lines("╭──── Traceback (most recent call last) ────╮"),
    "box sides": lambda n: "╭──── Traceback (most recent call last) ────╮\n".encode() + "│ /a/b.py:3 in f │\n".encode() * n,
    "arrows": _lines("---> 12 x = f()"),
    "IPython heads": _lines("KeyError                 Traceback (most recent call last)"),
    "pytest titles": lambda n: b"=== FAILURES ===\n" + b"____ test_x ____\n" * n,
    "pytest errors": lambda n: b"=== FAILURES ===\n____ test_x ____\n" + b"E   assert 1 == 2\n" * n,
    "usage errors": lambda n: b"usage: x\n" + b"x: error: no such option\n" * n,
    "hydra hints": _lines("Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace."),
    "fatal errors": lambda n: b"Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n  File \"a.py\", line 1 in f\n" * n,
    "elastic titles": lambda n: b"=====================\ntrain.py FAILED\n---------------------\n" * n,
    "elastic entries": lambda n: b"=====================\ntrain.py FAILED\n---------------------\nFailures:\n" + b"[1]:\n  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: 5)\n" * n,
    "terminates": _lines("terminate called after throwing an instance of 'c10::Error'"),
    "watchdogs": _lines("[rank1]:[E1130 01:02:03.4 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout"),
    "slurm lines": _lines("slurmstepd: error: Detected 1 oom_kill event in StepId=1.0."),
    "kernel lines": _lines("[ 1.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."),
    "shell lines": _lines("run.sh: line 3: 12345 Killed                  python train.py"),
    "JSON lines": _lines('{"level": "error", "msg": "bad", "exception": "KeyError: 1"}'),
    "two writers": lambda n: b'[rank0]: Traceback (most recent call last):\n[rank1]: KeyError: 1\n[rank0]:   File "a.py", line 1, in f\n' * n,
    "many writers": lambda n: b"".join(b"[rank%d]: KeyError: 1\n" % k for k in range(n)),
    "labels": _lines("node-02: KeyError: 1"),
    "learned prefixes": lambda n: b"".join(b'x%d> Traceback (most recent call last):\nx%d>   File "a.py", line 1, in f\nx%d> KeyError: 1\n' % (k, k, k) for k in range(n)),
    "flat tracebacks": _lines('Traceback (most recent call last): File "a.py", line 1, in f f() KeyError: 1'),
    "one flat traceback": lambda n: b"Traceback (most recent call last): " + b'File "a.py", line 1, in f f() ' * n + b"KeyError: 1\n",
    "carriage returns": lambda n: b"Error 10%\r" * n,
    "escape sequences": lambda n: b"Error \x1b[31m\x1b[0m\x1b]0;x" * n + b"\n",
    "dots": lambda n: b"Error: " + b"a." * n + b"\n",
    "words with colons": lambda n: b"Error " + b"a: " * n + b"\n",
    "brackets": lambda n: b"Error " + b"[" * n + b"\n",
    "blanks": lambda n: b"Error" + b" " * n + b"x\n",
    "dashes": lambda n: b"Error " + b"-" * n + b"\n",
    "digits": lambda n: b"Error " + b"1" * n + b"\n",
    "commas in exit notices": lambda n: b"srun: error: n: tasks " + b"1," * n + b": Killed\n",
    "kinds of failures": lambda n: b"".join(b'Traceback (most recent call last):\n  File "a%d.py", line %d, in f\nE%dError: m%d\n' % (k, k, k, k) for k in range(n)),
}  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_time_grows_linearly(name: str, rules: RuleSet) -> None:
    """Four times the log takes about four times as long, not sixteen; what is over in no time is not looked at."""
    unit = max(1, 60_000 // len(FAMILIES[name](1)) if len(FAMILIES[name](2)) > len(FAMILIES[name](1)) else 1)

    def seconds(n: int) -> float:
        data = FAMILIES[name](n)
        start = time.process_time()
        explainer = Explainer(rules=rules)
        with at_most(20):
            explainer.feed(data)
            explainer.finish(1)
        return time.process_time() - start

    seconds(unit)
    short, long = seconds(unit * 2), seconds(unit * 8)
    if long > 0.8 and long > 7 * short:  # a busy machine is measured again
        short, long = max(short, seconds(unit * 2)), min(long, seconds(unit * 8))
    assert long < 0.8 or long < 9 * short, f"{short:.2f} s, then {long:.2f} s for four times as much"
    assert long < 8, f"{long:.1f} s for {len(FAMILIES[name](unit * 8)):,} bytes"
