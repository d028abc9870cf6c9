"""An answer that was given under one set of rules, read under another one."""

from __future__ import annotations

from tbparse.model import Retry, RootCause
from tbparse.ruleset.match import RuleSet, builtin_rules, default_retry


def rejudged(answer: RootCause, rules: RuleSet) -> RootCause:
    """The answer as these rules would have it, where they override what the built-in ones say of its rule.

    The verdict of an override holds whatever the rule's qualifiers said, as it does when a log is read under these rules.
    """
    rule = rules.by_id.get(answer.rule) if answer.rule else None
    usual = builtin_rules("job").by_id.get(answer.rule) if answer.rule else None
    if rule is None or usual is None or (rule.verdict, rule.retry) == (usual.verdict, usual.retry) or answer.verdict == "clean":
        return answer
    retry = Retry(**rule.retry) if rule.retry else default_retry(rule.verdict)
    return answer.model_copy(update={"verdict": rule.verdict, "category": rule.category, "retry": retry})
