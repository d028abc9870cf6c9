"""What a built-in rule owes beyond a valid file: the minimums that a test holds every rule to, and ``rules check --strict``."""

from __future__ import annotations

from collections.abc import Iterator

from tbparse.ruleset.pack import pack_matcher
from tbparse.ruleset.schema import Rule

MIN_EXAMPLES = 2
MIN_COUNTER_EXAMPLES = 1


def shortcomings(rule: Rule) -> Iterator[str]:
    """What the rule lacks, a sentence each; nothing for a rule that is complete."""
    if len(rule.examples) < MIN_EXAMPLES:
        yield f"{len(rule.examples)} example: a rule has {MIN_EXAMPLES} that differ, each with its source"
    if len({e.text for e in rule.examples}) < len(rule.examples):
        yield "two examples have the same text"
    if len(rule.counter_examples) < MIN_COUNTER_EXAMPLES:
        yield "no counter-example: give a log that looks alike, and name what wins there (null for nothing)"
    for i, e in enumerate(rule.examples, 1):
        if len(e.source.strip()) < 6:
            yield f"example {i} does not say where it is from: version, real or synthetic"
    for i, c in enumerate(rule.counter_examples, 1):
        if len(c.why.split()) < 3:
            yield f"counter-example {i} does not say why it is none"
    if all(len(a.split()) < 4 for a in rule.advice):
        yield "the advice says nothing that one could do"
    for i, m in enumerate(rule.match):
        for key in ("message", "line"):
            if getattr(m, key) is not None and m.type is None and m.frame is None and pack_matcher(m)[f"{key}_literals"] is None:
                yield f"match.{i}.{key} has no fixed text of three characters that the fast scan could look for"
