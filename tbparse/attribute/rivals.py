"""Failures side by side, each in its own right: a job is worth another try only if each of them is."""

from __future__ import annotations

from collections.abc import Sequence

from tbparse.attribute.cascade import Candidate, Tier
from tbparse.attribute.unwrap import passes, verdict_of
from tbparse.ruleset.match import RuleSet


def real_beside(cause: Candidate, candidates: Sequence[Candidate], rules: RuleSet) -> Candidate:
    """The cause, or another error of the job's own code where running again cures the cause and not that one.

    It is another rank's, or, where nothing tells whose it is, another process's, or the same one's that outlived the first.
    Effects of the cause on other ranks (a lost peer, a watchdog) are no errors of their own, whatever they say.
    """
    if cause.tier is not Tier.LOCAL or not passes(cause.root, rules):
        return cause
    rank = cause.failure.rank
    for c in candidates:
        own = c.tier is Tier.LOCAL and c.failure.kind in ("traceback", "usage") and c.failure.fate == "fatal"
        if not own or c is cause or c.root.match is None or c.failure.attempt != cause.failure.attempt:
            continue
        if rank is not None and c.failure.rank == rank:
            continue
        if verdict_of(c.root.match, c.root.link, c.root.context, rules) == "real":
            c.why = "another failure beside it may pass, this one does not"
            return c
    return cause
