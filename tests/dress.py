"""What happens to a log on its way: prefixes, colours, line ends, progress bars, noise. None of it may change the answer."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Prefix(NamedTuple):
    """Text put before every line; ``{n}`` is a running number, as in the seconds of a clock."""

    name: str
    text: str
    rank: int | None = None
    certain: bool = True
    """Has a syntax of its own; others must be learned from the log, which takes a few lines."""
    level: bool = False
    """Says of every line that it was logged, which hides what the log itself says of single lines."""

    def before(self, n: int) -> str:
        return self.text.replace("{n}", f"{n % 60:02d}")


PREFIXES = (
    Prefix("torch-rank", "[rank1]: ", 1),
    Prefix("torch-rank-twice", "[rank3]: [rank3]:", 3),
    Prefix("elastic-tee", "[default0]:"),
    Prefix("elastic-tee-rank", "[default1]:[rank1]: ", 1),
    Prefix("elastic-template", "trainer rank=2 local=0> ", 2, certain=False),
    Prefix("srun-label", "11: ", 11, certain=False),
    Prefix("srun-label-padded", " 3: ", 3, certain=False),
    Prefix("pdsh", "node-02: ", certain=False),
    Prefix("mpirun", "[1,0]<stderr>:", 0),
    Prefix("ray", "(RayTrainWorker pid=3, ip=10.0.0.2) "),
    Prefix("ray-repeated", "(RayTrainWorker pid=3, ip=10.0.0.2) [repeated 3x across cluster] "),
    Prefix("vllm", "(VllmWorker rank=1 pid=7) ERROR 01-02 03:04:{n} [worker_base.py:620] ", 1, level=True),
    Prefix("glog", "E1130 18:04:{n}.217000 11618 torch/_dynamo/utils.py:1002] ", level=True),
    Prefix("kubectl", "2026-01-02T03:04:{n}.123456789Z "),
    Prefix("cri", "2026-01-02T03:04:{n}.123456789Z stderr F "),
    Prefix("compose", "worker-1  | "),
    Prefix("github", "2026-01-02T03:04:{n}.1234567Z "),
    Prefix("journald", "Jan 02 03:04:{n} node-07 train[4711]: "),
    Prefix("logging", "2026-01-02 03:04:{n},678 - trainer - ERROR - ", level=True),
    Prefix("logging-basic", "ERROR:trainer:", level=True),
    Prefix("logging-hydra", "[2026-01-02 03:04:{n},678][trainer][ERROR] - ", level=True),
    Prefix("accelerate-stderr", "stderr: "),
    Prefix("line-number-rank", "1784 [rank0]: ", 0),
)

STACKS = tuple(
    (outer, inner)
    for outer in PREFIXES
    if outer.name
    in ("kubectl", "github", "journald", "compose", "pdsh", "srun-label", "mpirun", "ray", "elastic-tee", "accelerate-stderr")
    for inner in PREFIXES
    if inner.name in ("torch-rank", "elastic-tee", "srun-label", "glog", "logging", "kubectl", "vllm", "pdsh", "elastic-tee-rank")
    and inner.name != outer.name
)
"""Pairs that occur: a collector or a launcher outside, what the program or torch printed inside."""


def prefixed(text: str, *stack: Prefix, bare_blanks: bool = False) -> str:
    """The text with the prefixes before every line, the first outermost. ``bare_blanks`` leaves blank lines without."""
    lines, end = _lines(text)
    out = []
    for n, line in enumerate(lines):
        bare = bare_blanks and not line.strip()
        out.append(line if bare else "".join(p.before(n) for p in stack) + line)
    return "\n".join(out) + end


def _lines(text: str) -> tuple[list[str], str]:
    end = "\n" if text.endswith("\n") else ""
    return text.removesuffix("\n").split("\n"), end


def coloured_lines(text: str) -> str:
    """Each line in a colour of its own."""
    lines, end = _lines(text)
    return (
        "\n".join(
            f"\x1b[1;3{n % 8}m{line}".removesuffix("\r") + "\x1b[0m" + "\r" * line.endswith("\r") for n, line in enumerate(lines)
        )
        + end
    )


def coloured_pieces(text: str) -> str:
    """Colours around the words of each line, as CPython 3.13 does with FORCE_COLOR, with the other kinds of escape sequence."""
    lines, end = _lines(text)
    out = []
    for n, line in enumerate(lines):
        words = line.removesuffix("\r").split(" ")
        words = [f"\x1b[35m{w}\x1b[0m" if w and (n + k) % 2 else w for k, w in enumerate(words)]
        out.append("\x1b[2K" + " ".join(words) + ("\x1b]0;title\x07" if n % 3 == 0 else "\x1b(B") + "\r" * line.endswith("\r"))
    return "\n".join(out) + end


def crlf(text: str) -> str:
    """Windows' and a pty's line ends."""
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def trailing_blanks(text: str) -> str:
    """Blanks and tabs at the end of every line."""
    lines, end = _lines(text.replace("\r\n", "\n"))
    return "\n".join(line + ("  " if n % 2 else " \t") for n, line in enumerate(lines)) + end


def bars_before(text: str) -> str:
    """A progress bar's states, each ended by a carriage return, then the text."""
    states = "".join(f"\rEpoch 1: {10 * n:3d}%|{'█' * n}{' ' * (10 - n)}| {n}/10 [00:0{n}<00:09,  1.01s/it]" for n in range(10))
    return f"{states}\r{text}"


def bars_with_line_end(text: str) -> str:
    """A progress bar that ended its line, then the text."""
    return bars_before("\n") + text


CLOTHES: dict[str, Callable[[str], str]] = {
    "coloured-lines": coloured_lines,
    "coloured-pieces": coloured_pieces,
    "crlf": crlf,
    "trailing-blanks": trailing_blanks,
    "bars-before": bars_before,
    "bars-with-line-end": bars_with_line_end,
    "crlf-and-colours": lambda text: crlf(coloured_lines(text)),
    "colours-and-trailing-blanks": lambda text: trailing_blanks(coloured_pieces(text)),
}

QUIET_BEFORE = (
    "step {n}: loss=2.3{n} lr=3e-4 grad_norm=0.7",
    "2026-01-02 03:04:{n},000 INFO trainer: read shard {n} of 128",
    "{'loss': 1.9{n}, 'learning_rate': 5e-05, 'epoch': 0.{n}}",
    "Loading checkpoint shards: 100%|██████████| 3/3 [00:{n}<00:00,  1.32s/it]",
    "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py:617: UserWarning: This DataLoader will create {n} worker processes in total.",
    "  warnings.warn(",
    "wandb: Tracking run with wandb version 0.17.{n}",
    "NCCL version 2.21.5+cuda12.4",
    "",
)
"""What a healthy job prints before it fails."""

QUIET_AFTER = (
    "wandb: Synced 5 W&B file(s), 0 media file(s), 2 artifact file(s) and {n} other file(s)",
    "wandb: Find logs at: ./wandb/run-20260102_0304{n}-abc/logs",
    "/usr/lib/python3.11/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There appear to be {n} leaked semaphore objects to clean up at shutdown",
    "  warnings.warn('resource_tracker: There appear to be %d '",
    "",
)
"""What may still be printed after a failure without meaning that the job went on."""

HEALTHY_FILLER = "2026-01-02 03:04:{n},000 INFO reader: shard {n} of 128 read in 0.{n} s, 3.2 GB/s, queue 14 of 16"


def noise(lines: tuple[str, ...], count: int) -> str:
    """``count`` lines of noise, each ended."""
    return "".join(lines[n % len(lines)].replace("{n}", f"{n % 60:02d}") + "\n" for n in range(count))


def filler(size: int) -> bytes:
    """Healthy lines of at least ``size`` bytes."""
    line = noise((HEALTHY_FILLER,), 60).encode()
    return line * (size // len(line) + 1)
