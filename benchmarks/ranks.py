"""A job of many ranks, a log each: throughput beside ``rg -F`` with as many literals over the same files, and memory.

python benchmarks/ranks.py [RANKS] [MEGABYTES a rank] [--check]
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

READ = """
import resource, sys
from pathlib import Path
from tbparse.engine import Explainer
from tbparse.logs.folder import find_jobs
from tbparse.logs.reader import read_job
explainer = Explainer()
job, = find_jobs(Path(sys.argv[1]))
read_job(explainer, job)
answer = explainer.finish()
assert (answer.exception, answer.rank, answer.verdict) == ("KeyError", int(sys.argv[2]), "real"), answer
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
LEAST_OF_RG = 0.5
MOST_MEMORY = 200
PROGRESS = "[2026-11-30 12:{:02d}:{:02d}] step {} | loss 2.{:04d} | lr 2.0e-04 | tok/s {} | mem 71.2GiB\n"
CULPRIT = """Traceback (most recent call last):
  File "/srv/train/fit.py", line 88, in <module>
    main()
  File "/srv/train/fit.py", line 71, in main
    for batch in loader:
  File "/srv/train/data/reader.py", line 19, in __next__
    return self.rows[key]
           ~~~~~~~~~^^^^^
KeyError: 'labels'
"""
VICTIM = """[rank{r}]:[E1130 12:21:44.9{r:05d} ProcessGroupNCCL.cpp:616] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=28808, OpType=ALLREDUCE, NumelIn=9801523, NumelOut=9801523, Timeout(ms)=600000) ran for 60{r:04d} milliseconds before timing out.
[rank{r}]:[E1130 12:21:45.1{r:05d} ProcessGroupNCCL.cpp:1834] [PG ID 0 PG GUID 0(default_pg) Rank {r}] Timeout at NCCL work: 28808, last enqueued NCCL work: 28811, last completed NCCL work: 28807.
[rank{r}]:[E1130 12:21:45.1{r:05d} ProcessGroupNCCL.cpp:636] [Rank {r}] To avoid data inconsistency, we are taking the entire process down.
[rank{r}]:[E1130 12:21:45.2{r:05d} ProcessGroupNCCL.cpp:1595] [PG ID 0 PG GUID 0(default_pg) Rank {r}] Process group watchdog thread terminated with exception: [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=28808, OpType=ALLREDUCE, NumelIn=9801523, NumelOut=9801523, Timeout(ms)=600000) ran for 60{r:04d} milliseconds before timing out.
"""  # noqa: E501 - lines of logs stand as they are printed


def make(folder: Path, ranks: int, size: int, culprit: int) -> None:
    """Progress lines as training prints them, then a local error in one rank and the watchdog's words in the others."""
    block = "".join(PROGRESS.format(i // 60 % 60, i % 60, i, i * 7 % 10000, 18000 + i % 500) for i in range(12000)).encode()
    body = (block * (size // len(block) + 1))[:size]
    body = body[: body.rfind(b"\n") + 1]
    for rank in range(ranks):
        text = CULPRIT if rank == culprit else VICTIM.format(r=rank)
        (folder / f"rank_{rank}.log").write_bytes(body + text.encode())


def timed(*command: str) -> tuple[float, str]:
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or done.stderr:
        sys.exit(f"{command[0]}: {done.stderr}")
    return time.perf_counter() - start, done.stdout.strip()


def main() -> int:
    numbers = [int(a) for a in sys.argv[1:] if a.isdecimal()]
    ranks, megabytes = (*numbers, 256, 2)[:2] if len(numbers) < 2 else numbers
    from tbparse.ruleset.match import builtin_rules
    from tbparse.text.prefilter import TRIGGERS, load_hyperscan

    with tempfile.TemporaryDirectory() as folder:
        logs, words = Path(folder) / "logs", Path(folder) / "words"
        logs.mkdir()
        make(logs, ranks, megabytes * 1_000_000, ranks * 2 // 3)
        words.write_text("\n".join({*TRIGGERS, *builtin_rules().line_literals}) + "\n", encoding="utf-8")
        contenders = {"tbparse": [sys.executable, "-c", READ, str(logs), str(ranks * 2 // 3)]}
        for name in ("rg", "grep"):
            if shutil.which(name):
                contenders[f"{name} -F"] = [
                    name,
                    "-c",
                    "-F",
                    "-f",
                    str(words),
                    "-r" if name == "grep" else "--no-ignore",
                    str(logs),
                ]
        times: dict[str, list[float]] = {name: [] for name in contenders}
        memory = 0
        for _ in range(3):
            for name, command in contenders.items():
                seconds, said = timed(*command)
                times[name].append(seconds)
                memory = int(said) if name == "tbparse" else memory
        size = sum(p.stat().st_size for p in logs.iterdir()) / 1e6
    back_end = "hyperscan" if load_hyperscan() else "bytes.find"
    print(f"{ranks} logs, {size:.0f} MB, prefilter by {back_end}; memory of the whole process: {memory} MB")
    middle = {name: statistics.median(values) for name, values in times.items()}
    for name, value in middle.items():
        print(f"  {name:<10} {size / value:8.0f} MB/s   tbparse is {value / middle['tbparse']:6.2f} x as fast")
    if "--check" in sys.argv:
        slow = "rg -F" in middle and middle["rg -F"] / middle["tbparse"] < LEAST_OF_RG
        return int(slow or memory > MOST_MEMORY)
    return 0


if __name__ == "__main__":
    sys.exit(main())
