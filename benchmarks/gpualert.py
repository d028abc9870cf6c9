"""The public gpualert-eval logs (github.com/Parv-01/gpualert-eval, MIT): macro-F1 over its 15 classes.

``python benchmarks/gpualert.py [FOLDER]``: FOLDER has ``labels.jsonl`` and the logs. ``gpualert.json`` beside this file says
which of our answers is which of its modes: by rule, else by area, else by category; first match, in that order.
Published there: macro-F1 0.997 for its own 15 patterns on its injected logs, 0.830 for a grep baseline.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from tbparse import RootCause, classify

HERE = Path(__file__).resolve().parent
DEFAULT = HERE.parent.parent / "shared" / "bench" / "gpualert-eval"
NONE = "none"


class Score(NamedTuple):
    """Macro-F1, F1 by mode, and the logs whose mode was missed: id, its mode, ours, our rule."""

    macro_f1: float
    f1: dict[str, float]
    missed: list[tuple[str, str, str, str | None]]
    count: int


def mode_of(answer: RootCause, mapping: dict[str, dict[str, str]]) -> str:
    """The benchmark's mode that an answer stands for."""
    if answer.rule is not None:
        for key, table in ((answer.rule, "rules"), (answer.rule.partition("/")[0], "areas")):
            if key in mapping[table]:
                return mapping[table][key]
    if answer.rule is None and answer.exception is not None:
        return mapping["exceptions"].get(answer.exception.rpartition(".")[2], NONE)
    return mapping["categories"].get(answer.category or "", NONE)


def evaluate(folder: Path) -> Score:
    """Answer every labelled log of the folder and score the answers."""
    mapping = json.loads((HERE / "gpualert.json").read_text(encoding="utf-8"))
    hits: Counter[str] = Counter()
    said: Counter[str] = Counter()
    truth: Counter[str] = Counter()
    missed = []
    for line in (folder / "labels.jsonl").read_text(encoding="utf-8").splitlines():
        row: dict[str, Any] = json.loads(line)
        path = next(p for p in (folder / row["log_path"], folder / row["log_path"].removeprefix("corpus/")) if p.is_file())
        answer = classify(path.read_bytes())
        mode = mode_of(answer, mapping)
        truth[row["mode"]] += 1
        said[mode] += 1
        if mode == row["mode"]:
            hits[mode] += 1
        else:
            missed.append((row["id"], row["mode"], mode, answer.rule))
    f1 = {m: 2 * hits[m] / (truth[m] + said[m]) for m in sorted(truth)}
    return Score(sum(f1.values()) / len(f1), f1, missed, sum(truth.values()))


def main() -> int:
    """Print the scores; exits with 1 below 0.99."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT)
    folder = parser.parse_args().folder
    if not (folder / "labels.jsonl").is_file():
        parser.error(f"{folder}: no labels.jsonl there; give the folder of the benchmark's logs")
    score = evaluate(folder)
    for mode, value in score.f1.items():
        print(f"{mode:<16} {value:.3f}")
    for log, mode, ours, rule in score.missed:
        print(f"  missed {log}: {mode}, answered {ours} ({rule})")
    print(f"macro-F1 {score.macro_f1:.4f} over {score.count} logs")
    return 0 if score.macro_f1 >= 0.99 else 1


if __name__ == "__main__":
    sys.exit(main())
