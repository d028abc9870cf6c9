"""The generator: one job a seed, its ranks, its cascade, how its output was caught, and the answer that is right."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from . import texts as t

MOST_RANKS = 1024


@dataclass
class Writer:
    """One rank: what it prints, at which times on its own host's clock, and how it ends."""

    rank: int
    local: int
    host: str
    pid: int
    lines: list[tuple[float, str, bool]] = field(default_factory=list)
    """Seconds, text, and whether torch's excepthook put ``[rankN]: `` before it."""
    code: int = 0


@dataclass
class Job:
    """A job that failed. ``ranks_right`` are the ranks that an answer may name."""

    seed: int
    cause: t.Cause
    culprit: Writer
    writers: list[Writer]
    kind: str
    clothes: str
    by_line: bool
    epilogue: str
    named: int
    ranks_right: tuple[int | None, ...]
    console: str = ""
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def told(self) -> str:
        """The job in one line, for messages of a failing test."""
        how = "lines" if self.by_line else "blocks"
        return (
            f"seed {self.seed}: {len(self.writers)} ranks, {self.cause.name} on rank {self.culprit.rank}, {self.kind} cascade, "
            f"{self.clothes} in {how}, {self.epilogue} naming {self.named}"
        )

    def write(self, folder: Path) -> Path:
        """Write the job's files below a folder."""
        for name, data in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return folder


Prefix = Callable[[Writer, float], str]


def _clock(seconds: float) -> str:
    whole = int(seconds)
    return f"2026-11-30T{20 + whole // 3600 % 4:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}.{int(seconds % 1 * 1e6):06d}Z"


CONSOLES: dict[str, Prefix] = {
    "excepthook": lambda w, s: "",
    "tee": lambda w, s: f"[default{w.rank}]:",
    "template": lambda w, s: f"[{w.host}|rank{w.rank}] ",
    "srun": lambda w, s: f"{w.rank}: ",
    "srun wide": lambda w, s: f"{w.rank:4d}: ",
    "mpirun": lambda w, s: f"[1,{w.rank}]<stderr>:",
    "ray": lambda w, s: f"(RayTrainWorker rank={w.rank} pid={w.pid}, ip=10.0.0.{w.rank // 8 % 250 + 1}) ",
    "compose": lambda w, s: f"worker-{w.rank}  | ",
    "time and rank": lambda w, s: f"{_clock(s)} [rank{w.rank}]: ",
    "kubectl": lambda w, s: f"{_clock(s)} ",
}
"""What stands before each line of a console; behind it torch's own ``[rankN]: `` before an uncaught traceback."""
NAMELESS = frozenset({"excepthook", "kubectl"})
"""Consoles in which only torch's own prefix tells the rank."""
FOLDERS = ("torchrun", "torchrun nodes", "deepspeed", "slurm %t", "slurm %N-%t", "rank files", "rank files packed", "pods")


def make(seed: int, *, most: int = MOST_RANKS) -> Job:
    """The job of a seed, of 2 to ``most`` ranks."""
    rng = Random(seed)
    n = round(2 * math.exp(rng.random() * math.log(most / 2)))
    per_host = rng.choice((1, 2, 4, 8))
    in_files = rng.random() < 0.5
    clothes = rng.choice(FOLDERS) if in_files else rng.choice(tuple(CONSOLES))
    if clothes in ("torchrun", "tee"):
        per_host = n  # one node: local ranks are ranks
    if clothes == "pods":
        per_host = 1
    kind = rng.choice(tuple(t.EFFECTS))
    epilogue = rng.choice(("torchrun", "srun", "none"))
    silent = rng.random() < 0.08 and epilogue == "torchrun" and kind != "sigterm"
    cause = rng.choice(t.SILENT if silent else t.CAUSES)
    skew = {f"node{h:02d}": rng.gauss(0, 20) for h in range(math.ceil(n / per_host))}
    writers = []
    for rank in range(n):
        host = f"node{rank // per_host:02d}"
        writers.append(Writer(rank, rank % per_host, host, 20_000 + rank * 7 + rng.randrange(7)))
    culprit = rng.choice(writers)
    _run(rng, writers, culprit, cause, kind, skew)
    job = Job(seed, cause, culprit, writers, kind, clothes, False, epilogue, -1, (culprit.rank,))
    tail = _epilogue(rng, job)
    if in_files:
        _into_files(rng, job, tail)
    else:
        _into_console(rng, job, tail)
    return job


def _run(rng: Random, writers: list[Writer], culprit: Writer, cause: t.Cause, kind: str, skew: dict[str, float]) -> None:
    """Let the ranks print: work, chatter and handled errors, the culprit's failure, then what it brings about."""
    when = 600 + rng.random() * 3000
    wait = {"nccl": 600.0, "store": 300.0, "gloo late": 1800.0}.get(kind, 0.05)
    seq = rng.randrange(100, 90_000)
    steps = rng.randrange(2, 7)
    handled = {w.rank for w in writers if rng.random() < min(0.2, 6 / len(writers))}
    for w in writers:
        off = skew[w.host]

        def say(at: float, text: str, hooked: bool = False, *, w: Writer = w, off: float = off) -> None:
            w.lines += [(at + off + i * 1e-5, line, hooked) for i, line in enumerate(text.rstrip("\n").split("\n"))]

        numbers = {"rank": w.rank, "host": w.host, "pid": w.pid, "h": w.rank % 89 + 10, "port": 30_000 + w.rank}
        numbers |= {"seq": seq, "next": seq + 3, "done": seq - 1, "us": f"{w.rank * 977 % 1_000_000_000:09d}"}
        if rng.random() < 0.3:
            say(rng.random() * 30, rng.choice(t.CHATTER).format(**numbers))
        start = when - steps * 10
        for k in range(steps):
            say(
                start + k * 10 + rng.random(),
                f"step {k * 10 + 100}/100000 loss {3 - k * 0.01:.4f} lr 2.0e-04 tok/s {18_000 + w.rank}",
            )
            if k == 1 and w.rank in handled:
                say(start + k * 10 + 2, f"WARNING read failed, trying again\n{rng.choice((t.HANDLED, t.HANDLED_JSON))}")
                for again in range(3):
                    at = start + k * 10 + 3 + again
                    say(at, f"step {k * 10 + 101 + again}/100000 loss {3 - k * 0.01:.4f} lr 2.0e-04 tok/s {18_000 + w.rank}")
        if w is culprit:
            w.code = cause.exit_code
            if cause.text:
                say(when, cause.text, cause.excepthook)
            continue
        text, w.code, hooked = rng.choice(t.EFFECTS[kind])
        if text:
            filled = text.replace("{rank}", str(w.rank))
            for name, value in numbers.items():
                filled = filled.replace("{" + name + "}", str(value))
            # Clocks of hosts differ by more than the cascade takes: a victim may seem to have failed first.
            say(when + wait + rng.random(), filled, hooked)


def _epilogue(rng: Random, job: Job) -> str:
    """The launcher's last words about one node; torchrun's table may name a victim as the first failure."""
    ended = [w for w in job.writers if w.code]
    if job.epilogue == "none":
        job.named = job.culprit.rank
        return ""
    here = [w for w in ended if w.host == job.culprit.host]
    if job.epilogue == "srun":
        shown = [job.culprit, *[w for w in ended if w is not job.culprit][:20]]
        rng.shuffle(shown)
        job.named = shown[0].rank
        text = "".join(t.SRUN_EXIT.format(host=w.host, rank=w.rank, how=t.SRUN_HOW[w.code]) for w in shown)
        return text + t.SRUN_CANCELLED.format(host=job.culprit.host)
    others = [w for w in here if w.code in (1, -6)]
    named = job.culprit if job.cause.exit_code < 0 or not others or rng.random() < 0.5 else rng.choice(others)
    job.named = named.rank
    listed = [named, *[w for w in here if w is not named][:64]]
    if job.culprit not in listed:
        listed.append(job.culprit)
    entries = []
    for i, w in enumerate(listed):
        signal = f"  ({t.SIGNALS[w.code]})" if w.code < 0 else " "
        what = f"Signal {-w.code} ({t.SIGNALS[w.code]}) received by PID {w.pid}" if w.code < 0 else t.HINT
        entries.append(
            t.ENTRY.format(i=i, host=w.host, rank=w.rank, local=w.local, code=w.code, pid=w.pid, signal=signal, what=what)
        )
    rest = "Failures:\n" + ("".join(entries[1:]) if entries[1:] else "  <NO_OTHER_FAILURES>\n")
    agent = t.AGENT.format(victim=listed[-1].pid, code=named.code, local=named.local, pid=named.pid)
    table = f"{t.RULE}train.py FAILED\n{t.LINE}{rest}{t.LINE}Root Cause (first observed failure):\n{entries[0]}{t.RULE}"
    return agent + t.CHILD_FAILED + table


def _shown(w: Writer, at: float, text: str, hooked: bool, prefix: str) -> str:
    own = f"[rank{w.rank}]: " if hooked and "[rank" not in prefix else ""
    return f"{prefix}{own}{text}\n"


def _into_console(rng: Random, job: Job, tail: str) -> None:
    """All ranks in one stream: as the lines come by the clock, or each rank's block for itself, in any order."""
    prefix = CONSOLES[job.clothes]
    named = job.clothes not in NAMELESS
    job.by_line = named and rng.random() < 0.5
    rows: list[tuple[float, str]] = []
    blocks: list[str] = []
    for w in job.writers:
        mine = [(at, _shown(w, at, text, hooked, prefix(w, at))) for at, text, hooked in w.lines]
        rows += mine
        blocks.append("".join(text for _, text in mine))
    if job.by_line:
        rows.sort(key=lambda r: r[0])
        body = "".join(text for _, text in rows)
    else:
        rng.shuffle(blocks)
        at = {"early": 0, "late": len(blocks), "middle": len(blocks) // 2}[rng.choice(("early", "middle", "late"))]
        mine_text = next(
            b for b in blocks if b == "".join(_shown(job.culprit, a, x, h, prefix(job.culprit, a)) for a, x, h in job.culprit.lines)
        )
        blocks.remove(mine_text)
        blocks.insert(at, mine_text)
        body = "".join(blocks)
    job.console = body + tail


def _into_files(rng: Random, job: Job, tail: str) -> None:
    """A file a rank, in a launcher's layout, and the launcher's own words in a console beside them where it has some."""
    nodes = sorted({w.host for w in job.writers})
    for w in job.writers:
        text = "".join(_shown(w, at, text, hooked, "") for at, text, hooked in w.lines).encode()
        name = {
            "torchrun": f"none_k3v9x1aa/attempt_0/{w.local}/stderr.log",
            "torchrun nodes": f"{w.host}/none_k3v9x1aa/attempt_0/{w.local}/stderr.log",
            "deepspeed": f"20261130201008_rank{w.rank}.log",
            "slurm %t": f"{w.rank}.out",
            "slurm %N-%t": f"{w.host}-{w.rank}.out",
            "rank files": f"logs/rank_{w.rank}.log",
            "rank files packed": f"rank{w.rank}.log.gz",
            "pods": f"train_llm-worker-{w.rank}_0f3a9c52-11ee-4a9b/pytorch/0.log",
        }[job.clothes]
        if job.clothes == "pods":
            text = b"".join(f"{_clock(at)} stderr F {_shown(w, at, x, h, '')}".encode() for at, x, h in w.lines)
        job.files[name] = gzip.compress(text, 1, mtime=0) if name.endswith(".gz") else text
    if tail:
        job.files["console.log"] = tail.encode()
    job.files["checkpoint/model.safetensors"] = rng.randbytes(300)
    job.files["config.yaml"] = b"lr: 0.1\n"
    hooked = any(h for _, _, h in job.culprit.lines)
    if not hooked and (job.clothes == "pods" or (job.clothes == "torchrun nodes" and len(nodes) > 1)):
        job.ranks_right = (job.culprit.rank, None)
