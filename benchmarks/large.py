"""Large logs: throughput and memory beside cat, grep -F and rg -F; floods; the number of rules. ``--write`` renews the page."""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from inputs import FAILURE, FLOODS, ROOT, flood, healthy, write_log
from peers import peers

PAGE = ROOT / "docs" / "performance.md"
PLOT = ROOT / "docs" / "performance.svg"
READ = """
import re, sys
from tbparse.engine import Explainer
import tbparse.answer
from tbparse.text.prefilter import load_hyperscan
load_hyperscan()
# Not ru_maxrss: that of a child begins with its parent's.
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
start = peak()
explainer = Explainer()
with open(sys.argv[1], "rb", buffering=0) as log:
    explainer.read(log)
answer = explainer.finish()
assert answer.exception == "NameError", answer
print((peak() - start) / 1024)
"""
TWO = """
import sys
from concurrent.futures import ThreadPoolExecutor
from tbparse.engine import Explainer
import tbparse.answer
def one(path):
    explainer = Explainer()
    with open(path, "rb", buffering=0) as log:
        explainer.read(log)
    return explainer.finish().exception
with ThreadPoolExecutor(2) as pool:
    assert list(pool.map(one, sys.argv[1:])) == ["NameError"] * 2
"""


def timed(*command: str) -> tuple[float, str]:
    """Seconds of wall time of a whole process, and what it printed."""
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return time.perf_counter() - start, done.stdout.strip()


def words() -> list[str]:
    """As many literals as tbparse searches for."""
    from tbparse.engine import line_words
    from tbparse.ruleset.match import builtin_rules
    from tbparse.text.prefilter import literals

    exact, caseless = literals(line_words(builtin_rules()))
    return [x.decode() for x in (*exact, *caseless)]


def side_by_side(contenders: dict[str, list[str]], rounds: int) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Times of each in turn (A B C A B C …), so that a drift of the machine meets all."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    said: dict[str, str] = {}
    for _ in range(rounds):
        for name, command in contenders.items():
            seconds, said[name] = timed(*command)
            times[name].append(seconds)
    return times, said


def table(title: str, times: dict[str, list[float]], megabytes: float) -> list[str]:
    """Rows of markdown: throughput, spread, and how many times as fast as the last contender ``tbparse`` is."""
    ours = statistics.median(next(iter(times.values())))
    rows = ["", f"| {title} | MB/s | spread of the times | tbparse is |", "|---|---|---|---|"]
    for name, values in times.items():
        middle = statistics.median(values)
        spread = f"{min(values) / middle:.2f}–{max(values) / middle:.2f}"
        rows.append(f"| {name} | {megabytes / middle:.0f} | {spread} | {middle / ours:.2f} × as fast |")
    return rows


def sizes(
    folder: Path, list_file: Path, megabytes: list[float], rounds: int
) -> tuple[list[str], list[tuple[float, dict[str, float], float]]]:
    lines, points = [], []
    for size in megabytes:
        log = folder / "train.log"
        write_log(log, size)
        contenders = {"tbparse": [sys.executable, "-c", READ, str(log)], "cat": ["cat", str(log)]}
        for name in ("rg", "grep"):
            if shutil.which(name):
                contenders[f"`{name} -F`, as many words"] = [name, "-c", "-F", "-f", str(list_file), str(log)]
        few = rounds if size <= 1000 else 1
        times, said = side_by_side(contenders, few)
        log.unlink()
        memory = float(said["tbparse"] or "nan")
        lines += table(f"{size:g} MB, the failure at the end", times, size)
        lines.append(f"\nPeak memory above the interpreter with its imports: {memory:.0f} MB.")
        points.append((size, {k: size / statistics.median(v) for k, v in times.items()}, memory))
        print("\n".join(lines[-8:]), flush=True)
    return lines, points


def by_peers(megabytes: float, rounds: int) -> list[str]:
    """Peers read a log that is in memory as text, and so does tbparse here, for once."""
    from tbparse.engine import classify

    text = (healthy() * int(megabytes + 1))[: int(megabytes * 1e6)].decode() + "\n" + FAILURE.decode()
    contenders: dict[str, Callable[[str], object]] = {"tbparse": classify}
    for name, read in peers().items():
        with suppress(ValueError):  # some want a traceback and nothing else
            read(FAILURE.decode() + text[-5000:])
            read(text[:5000] + FAILURE.decode())
            contenders[name] = read
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, read in contenders.items():
            start = time.perf_counter()
            read(text)
            times[name].append(time.perf_counter() - start)
    rows = table(f"{megabytes:g} MB of text in memory, the failure at the end", times, megabytes)
    print("\n".join(rows), flush=True)
    return rows


def places(folder: Path, list_file: Path, megabytes: float, rounds: int) -> list[str]:
    rows = ["", f"| {megabytes:g} MB, one failure | tbparse, MB/s | × `rg -F` |", "|---|---|---|"]
    logs = [folder / f"{name}.log" for name in ("start", "middle", "end")]
    for log, where in zip(logs, (0.0, 0.5, 1.0), strict=True):
        write_log(log, megabytes, where)
        times, _ = side_by_side(
            {"ours": [sys.executable, "-c", READ, str(log)], "rg": ["rg", "-c", "-F", "-f", str(list_file), str(log)]}, rounds
        )
        ours, rg = (statistics.median(times[k]) for k in ("ours", "rg"))
        rows.append(f"| near the {log.stem} | {megabytes / ours:.0f} | {rg / ours:.2f} |")
    times, _ = side_by_side(
        {
            "two": [sys.executable, "-c", TWO, str(logs[1]), str(logs[2])],
            "rg": ["rg", "-j1", "-c", "-F", "-f", str(list_file), str(logs[1]), str(logs[2])],
        },
        rounds,
    )
    two, rg = (statistics.median(times[k]) for k in ("two", "rg"))
    rows.append(f"| two files, two threads | {2 * megabytes / two:.0f} | {rg / two:.2f} (`rg -j1` on both) |")
    for log in logs:
        log.unlink()
    print("\n".join(rows), flush=True)
    return rows


def floods(megabytes: float, rounds: int) -> list[str]:
    from tbparse.engine import Explainer

    rows = [
        "",
        f"| every line looks like a failure, {megabytes:g} MB | MB/s | seconds for each further 100 MB |",
        "|---|---|---|",
    ]
    for name in FLOODS:
        spent: dict[float, float] = {}
        for size in (megabytes / 4, megabytes):
            taken = []
            for _ in range(rounds):
                portions = list(flood(name, size))
                start = time.perf_counter()
                explainer = Explainer()
                for data in portions:
                    explainer.feed(data)
                explainer.finish(1)
                taken.append(time.perf_counter() - start)
            spent[size] = statistics.median(taken)
        more = (spent[megabytes] - spent[megabytes / 4]) / (0.75 * megabytes) * 100
        rows.append(f"| {name} | {megabytes / spent[megabytes]:.0f} | {more:.1f} |")
        print(rows[-1], flush=True)
    return rows


def by_rules(folder: Path, megabytes: float, rounds: int) -> tuple[list[str], list[tuple[int, float]]]:
    from tbparse.engine import Explainer
    from tbparse.ruleset.match import PackedRule, RuleSet, builtin_rules

    built_in = builtin_rules().rules
    sets = {}
    for count in (50, 100, 200, len(built_in), 700, 1000):
        more = [
            PackedRule({
                "id": f"site/unit-{k}", "title": "A unit was lost", "category": "gpu-hardware", "verdict": "unknown",
                "match": [{"line": rf"unit {k:04x} was lost \d+", "line_literals": [f"unit {k:04x} was lost "], "specificity": 20}],
            })
            for k in range(count - len(built_in))
        ]  # fmt: skip
        sets[count] = RuleSet([*built_in[:count], *more])
    log = folder / "rules.log"
    write_log(log, megabytes)
    times: dict[int, list[float]] = {count: [] for count in sets}
    for _ in range(rounds):
        for count, rules in sets.items():
            start = time.perf_counter()
            explainer = Explainer(rules=rules)
            with log.open("rb", buffering=0) as file:
                explainer.read(file)
            explainer.finish(1)
            times[count].append(time.perf_counter() - start)
    log.unlink()
    base = statistics.median(times[50])
    points = [(count, statistics.median(values) / base) for count, values in times.items()]
    rows = ["", "| rules | time per byte, × that of 50 |", "|---|---|", *(f"| {n} | {ratio:.2f} |" for n, ratio in points)]
    print("\n".join(rows), flush=True)
    return rows, points


def plot(points: list[tuple[float, dict[str, float], float]], rules: list[tuple[int, float]]) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "tbparse"
    from matplotlib import pyplot as plt

    figure, (speed, memory, count) = plt.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
    for name in points[0][1]:
        speed.plot([p[0] for p in points], [p[1].get(name) for p in points], marker="o", label=name.replace("`", ""))
    speed.set(xscale="log", yscale="log", xlabel="log, MB", ylabel="MB/s, whole process", title="Throughput")
    speed.legend(fontsize=8)
    memory.plot([p[0] for p in points], [p[2] for p in points], marker="o")
    memory.axhline(64, linestyle="--", color="grey")
    memory.set(xscale="log", ylim=(0, 70), xlabel="log, MB", ylabel="MB above the interpreter", title="Peak memory")
    count.plot([n for n, _ in rules], [r for _, r in rules], marker="o")
    count.axhline(1.3, linestyle="--", color="grey")
    count.set(ylim=(0, 1.5), xlabel="rules", ylabel="time per byte, × 50 rules", title="Number of rules")
    figure.savefig(PLOT, metadata={"Date": None})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=float, default=[1.0, 10.0, 100.0, 1000.0], metavar="MB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--flood", type=float, default=100.0, metavar="MB", help="size of the floods")
    parser.add_argument("--write", action="store_true", help="write docs/performance.md's table and plot")
    args = parser.parse_args()
    from tbparse.text.prefilter import load_hyperscan

    back_end = "hyperscan" if load_hyperscan() else "plain Python"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        list_file = folder / "words"
        list_file.write_text("\n".join(words()) + "\n")
        lines, points = sizes(folder, list_file, args.sizes, args.rounds)
        if shutil.which("rg"):
            lines += places(folder, list_file, max(x for x in args.sizes if x <= 1000), args.rounds)
        rule_lines, rules = by_rules(folder, min(500, max(args.sizes)), args.rounds)
        lines += rule_lines
        lines += by_peers(10, args.rounds)
        lines += floods(args.flood, max(1, args.rounds // 2))
    if args.write:
        head, mark, _ = PAGE.read_text(encoding="utf-8").partition("<!-- measured -->\n")
        PAGE.write_text(f"{head}{mark}\nPrefilter by {back_end}.\n" + "\n".join(lines) + "\n", encoding="utf-8")
        plot(points, rules)
    return 0


if __name__ == "__main__":
    sys.exit(main())
