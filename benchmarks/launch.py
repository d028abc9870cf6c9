"""Throughput of ``tbparse run`` against ``child 2>&1 | cat``, side by side: ``python benchmarks/launch.py [MB] [ROUNDS]``.

Prints the ratio of the best times (1 is as fast; the budget is 0.7) for a child that writes line by line and then raises.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time

CHILD = """
import sys
line = "step 1234 loss 0.3456 lr 1e-4 tokens/s 12345 mem 12.3GB something\\n"
for i in range(int(sys.argv[1]) * 1_000_000 // len(line) // 2):
    sys.stdout.write(line)
    sys.stderr.write(line)
raise ValueError("the real cause")
"""


def seconds(command: str) -> float:
    """Wall time of a shell command."""
    begin = time.perf_counter()
    subprocess.run(command, shell=True, check=False)
    return time.perf_counter() - begin


def main() -> None:
    """Alternate the two and compare their best rounds."""
    megabytes = sys.argv[1] if len(sys.argv) > 1 else "200"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    child = shlex.join([sys.executable, "-c", CHILD, megabytes])
    plain, ours = [], []
    for _ in range(rounds):
        plain.append(seconds(f"{child} 2>&1 | cat >/dev/null"))
        ours.append(seconds(f"{shlex.quote(sys.executable)} -m tbparse run --quiet -- {child} 2>&1 | cat >/dev/null"))
    print(f"cat {min(plain):.2f} s, tbparse run {min(ours):.2f} s, ratio {min(plain) / min(ours):.2f}")


if __name__ == "__main__":
    main()
