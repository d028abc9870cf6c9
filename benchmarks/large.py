"""A log of many megabytes with one failure near its end: throughput and memory beside cat, grep -F and rg -F."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FAILURE = (ROOT / "docs" / "examples" / "distributed-launch.log").read_bytes()
READ = """
import resource, sys
from tbparse.engine import Explainer
start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
explainer = Explainer()
with open(sys.argv[1], "rb") as log:
    while data := log.read(1 << 20):
        explainer.feed(data)
answer = explainer.finish()
assert answer.exception == "NameError", answer
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) // 1024)
"""


def make(path: Path, megabytes: int) -> None:
    """Progress lines as a training job prints them, then the failure, then a few lines more."""
    line = "[2026-11-30 12:{:02d}:{:02d}] step {} | loss 2.{:04d} | lr 2.0e-04 | tok/s {} | mem 71.2GiB\n"
    block = "".join(line.format(i // 60 % 60, i % 60, i, i * 7 % 10000, 18000 + i % 500) for i in range(12000)).encode()
    with path.open("wb") as out:
        while out.tell() < megabytes * 1_000_000:
            out.write(block)
        out.write(FAILURE)
        out.write(block[:4000])


def timed(*command: str) -> tuple[float, str]:
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return time.perf_counter() - start, done.stdout.strip()


def main() -> int:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    from tbparse.text.prefilter import TRIGGERS, load_hyperscan

    with tempfile.TemporaryDirectory() as folder:
        log, words = Path(folder) / "train.log", Path(folder) / "words"
        make(log, megabytes)
        words.write_text("\n".join(TRIGGERS) + "\n")
        contenders = {"tbparse": [sys.executable, "-c", READ, str(log)], "cat": ["cat", str(log)]}
        for name in ("grep", "rg"):
            if shutil.which(name):
                contenders[f"{name} -F, as many words"] = [name, "-c", "-F", "-f", str(words), str(log)]
        times: dict[str, list[float]] = {name: [] for name in contenders}
        memory = ""
        for _ in range(5):
            for name, command in contenders.items():
                seconds, said = timed(*command)
                times[name].append(seconds)
                memory = said if name == "tbparse" else memory
        size = os.path.getsize(log) / 1e6
        back_end = "hyperscan" if load_hyperscan() else "bytes.find"
        print(f"{size:.0f} MB, prefilter by {back_end}; memory over the interpreter with its imports: {memory} MB")
        base = statistics.median(times["tbparse"])
        for name, values in times.items():
            middle = statistics.median(values)
            print(f"  {name:<28} {size / middle:8.0f} MB/s   tbparse is {middle / base:6.2f} × as fast")
    return 0


if __name__ == "__main__":
    sys.exit(main())
