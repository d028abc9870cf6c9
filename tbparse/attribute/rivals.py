"""Ranks that failed on their own, side by side: a job is worth another try only if each of them is."""

from __future__ import annotations

from collections.abc import Sequence

from tbparse.attribute.cascade import Candidate, Tier
from tbparse.attribute.unwrap import passes
from tbparse.ruleset.match import RuleSet


def real_beside(cause: Candidate, candidates: Sequence[Candidate], rules: RuleSet) -> Candidate:
    """The cause, or another rank's own error where running again cures the cause and not that one.

    Effects of the cause on other ranks (a lost peer, a watchdog) are no errors of their own, whatever they say.
    """
    rank = cause.failure.rank
    if cause.tier is not Tier.LOCAL or rank is None or not passes(cause.root, rules):
        return cause
    for c in candidates:
        own = c.tier is Tier.LOCAL and c.failure.kind == "traceback" and c.failure.fate == "fatal"
        if own and c.failure.rank not in (None, rank) and c.root.match is not None and c.failure.attempt == cause.failure.attempt:
            rule = c.root.match.rule
            turned = rules.qualify(c.root.match, c.root.link, c.root.context)
            if ((turned and turned.get("verdict")) or rule.verdict) == "real":
                c.why = "another rank's failure may pass, this one does not"
                return c
    return cause
