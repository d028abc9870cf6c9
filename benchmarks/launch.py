"""``tbparse run`` against ``child 2>&1 | cat``, side by side: ``python benchmarks/launch.py [MB] [ROUNDS]``.

The child writes so many megabytes to standard output and standard error and then raises: line by line, as programs do, and in
blocks of a megabyte made beforehand, as fast as a pipe takes them. Printed are the best of the rounds in seconds, the ratio of the
two (1 is as fast; the budget is 0.7 for lines), the same without what ``tbparse run`` needs for an empty child, and the
memory of the largest process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

LINE = "step 1234 loss 0.3456 lr 1e-4 tokens/s 12345 mem 12.3GB something\n"
CHILDREN = {
    "lines": f"""
import sys
line = {LINE!r}
for i in range(int(sys.argv[1]) * 1_000_000 // len(line) // 2):
    sys.stdout.write(line)
    sys.stderr.write(line)
raise ValueError("the real cause")
""",
    "blocks": f"""
import os, sys
block = {LINE!r}.encode() * (1_000_000 // {len(LINE)})
for i in range(int(sys.argv[1]) // 2):
    for fd in (1, 2):
        left = memoryview(block)
        while left: left = left[os.write(fd, left):]
raise ValueError("the real cause")
""",
}


def measure(command: list[str]) -> tuple[float, int]:
    """Seconds until a command and the ``cat`` behind it are done, and the resident memory of its largest process in MB."""
    begin = time.perf_counter()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as cat:
        assert cat.stdin is not None
        child = subprocess.Popen(command, stdout=cat.stdin, stderr=cat.stdin)
        cat.stdin.close()
        _, _, usage = os.wait4(child.pid, 0)
        child.returncode = 0
    return time.perf_counter() - begin, usage.ru_maxrss // 1024


def main() -> None:
    """Alternate the two and compare their best rounds."""
    megabytes = sys.argv[1] if len(sys.argv) > 1 else "200"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    ours = [sys.executable, "-m", "tbparse", "run", "--"]
    for name, code in CHILDREN.items():
        child = [sys.executable, "-c", code]
        plain, run, empty = [], [], []
        for _ in range(rounds):
            plain.append(measure([*child, megabytes]))
            run.append(measure([*ours, *child, megabytes]))
            empty.append(measure([*ours, *child, "0"]))
        cat, whole, fixed = min(plain)[0], min(run)[0], min(empty)[0]
        net = max(whole - fixed, 1e-9)
        print(f"{name}: cat {cat:.2f} s, tbparse run {whole:.2f} s, ratio {cat / whole:.2f}")
        print(f"  without the {fixed:.2f} s for an empty child: ratio {cat / net:.2f}, {int(megabytes) / net:.0f} MB/s")
        print(f"  {max(x[1] for x in run)} MB resident")


if __name__ == "__main__":
    main()
