"""How far a job got, by what it printed: step and epoch counters, progress bars, checkpoints.

Formats: Hugging Face's Trainer (``{'loss': 1.2, 'epoch': 0.5}``, ``checkpoint-500``), tqdm (``| 120/1000 [``), Lightning
(``Epoch 3:``), Megatron (``iteration  100/ 5000``), and plain ``step 12``, ``global_step=12``, ``Epoch 2/10``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# Ten digits are a time (`last update: 1701398400`), which gets on by itself.
_NUMBER = r"(?P<n>\d{1,9}(?:\.\d{1,6})?)(?![\w%])"
_COUNTERS = re.compile(
    rf"\b(?P<name>global[_ ]?step|step|iteration|iter|epoch|update|batch)s?\b['\"]?\s*(?:[:=#]|\bnumber\b)?\s*\[?\s*{_NUMBER}", re.I
)
_BAR = re.compile(r"\|\s*(?P<n>\d{1,12})/(?P<total>\d{1,12})\s*\[")
_CHECKPOINT = re.compile(r"\b(?:checkpoint|ckpt)[-_ /=]*(?:step|epoch|iter)?[-_=]?(?P<n>\d{1,12})\b", re.I)
_SAVED = re.compile(r"\b(?:sav(?:ed|ing)|wrote|writing)\b[^\n]{0,160}?\b(?:checkpoint|ckpt)", re.I)


def progress_of(text: str) -> dict[str, float]:
    """The highest value of every counter in the text, by name; ``saved`` counts the lines that speak of a saved checkpoint."""
    found: dict[str, float] = {}

    def take(name: str, value: float) -> None:
        if value > found.get(name, -1.0):
            found[name] = value

    for m in _COUNTERS.finditer(text):
        take(re.sub(r"[_ ]", "", m["name"].lower()), float(m["n"]))
    for m in _BAR.finditer(text):
        take(f"bar of {m['total']}", float(m["n"]))
    for m in _CHECKPOINT.finditer(text):
        take("checkpoint", float(m["n"]))
    saved = sum(1 for _ in _SAVED.finditer(text))
    if saved:
        take("saved", float(saved))
    return found


def went_further(before: Mapping[str, float], after: Mapping[str, float]) -> bool:
    """Whether a later attempt got further than the one before: in any counter, or it has one where there was none."""
    return any(value > before.get(name, 0.0) for name, value in after.items())
