"""A rule's own words where they mean nothing: in a sentence, a quotation, source code, locals, a config, a help text, a metric.

Made from the rules' examples, so that a new rule is tried without anybody thinking of it. Each form is a whole log, and says
which rule has to win it (None: nothing failed).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from tbparse import classify
from tbparse.ruleset.match import RuleSet
from tbparse.ruleset.schema import Rule


class NearMiss(NamedTuple):
    """A log that has a rule's words and not its failure."""

    form: str
    text: str
    wins: str | None


STEPS = "step 10 loss 2.31\nstep 20 loss 2.12\n"
DONE = "step 30 loss 2.05\ntraining finished\n"
NAME_ERROR = "NameError: name 'lss' is not defined\n"
HEAD = 'Traceback (most recent call last):\n  File "/work/train.py", line 48, in <module>\n    main()\n'


def words_of(rule_id: str, rule: Rule, rules: RuleSet) -> str | None:
    """The line of the rule's first example that says it."""
    example = rule.examples[0]
    answer = classify(example.text, rules=rules, returncode=example.returncode)
    if answer.rule != rule_id or not answer.evidence:
        return None
    line = answer.evidence[-1].text.strip()
    return line if len(line) > 12 else None


def near_misses(words: str) -> Iterator[NearMiss]:
    """The words in every form."""
    python = words.replace("\\", "\\\\").replace('"', "'")
    yield NearMiss("sentence", f'{STEPS}INFO: runs before the fix ended with "{words}" and this one should not\n{DONE}', None)
    yield NearMiss("plain", f"{STEPS}INFO: if a run ends with {words} then see the runbook\n{DONE}", None)
    yield NearMiss("metric", f"{STEPS}{json.dumps({'step': 25, 'loss': 2.07, 'note': f'last run: {words}'})}\n{DONE}", None)
    yield NearMiss("config", f"config:\n  lr: 0.1\n  resubmit_on:\n    - '{words}'\n  seed: 7\n{STEPS}{DONE}", None)
    usage = "usage: train.py [-h] [--skip-on TEXT]\n\noptions:\n  -h, --help      show this help message and exit\n"
    yield NearMiss("help", f'{usage}  --skip-on TEXT  go on when a worker prints this (default: "{words}")\n', None)
    call = f'  File "/work/train.py", line 31, in main\n    watch("{python}", lss)\n'
    yield NearMiss("source", HEAD + call + NAME_ERROR, "python/name-error")
    yield NearMiss(
        "comment",
        HEAD + f'  File "/work/train.py", line 31, in main\n    return lss  # else: {words}\n' + NAME_ERROR,
        "python/name-error",
    )
    yield NearMiss("locals", _boxed(python), "python/name-error")
    mark = "'" if "'" not in words else '"'
    if mark in words:
        return  # quoting it in a sentence would end inside it
    own = '  File "/work/train.py", line 31, in main\n    raise LookupFailed(text)\n'
    own += f"plan.LookupFailed: no step of the plan answers to {mark}{words}{mark}\n"
    yield NearMiss("message", HEAD + own, None)


def _boxed(words: str) -> str:
    """The words as a local variable in rich's traceback."""
    room = 96

    def row(text: str) -> str:
        return f"│ {text[: room - 2]:<{room - 2}} │"

    rows = [
        "╭" + " Traceback (most recent call last) ".center(room, "─") + "╮",
        row("/work/train.py:31 in main"),
        row(""),
        row("  30     for batch in loader:"),
        row("❱ 31         step(batch, lss)"),
        row("  32     save()"),
        row(""),
        row("╭───────────── locals ─────────────╮"),
        row(f"│ known = '{words}'"),
        row("│ lr = 0.1                         │"),
        row("╰──────────────────────────────────╯"),
        "╰" + "─" * room + "╯",
        NAME_ERROR.rstrip(),
    ]
    return "\n".join(rows) + "\n"
