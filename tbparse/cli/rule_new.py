"""``tbparse rules new``: from a log to the draft of a rule."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tbparse.cli.terminal import guarded, message, write
from tbparse.errors import UsageError

if TYPE_CHECKING:
    from tbparse.attribute.cascade import Candidate
    from tbparse.model import RootCause
    from tbparse.ruleset.draft import Draft
    from tbparse.ruleset.match import RuleSet

Log = Annotated[
    str | None, typer.Argument(metavar="LOG", help="A log that shows the failure; - for standard input.", show_default=False)
]
LineNo = Annotated[
    int | None, typer.Option("--line", metavar="N", help="The line that tells; left out: the root cause's.", show_default=False)
]
Id = Annotated[str | None, typer.Option("--id", metavar="AREA/NAME", help="The rule's id, which is its path.", show_default=False)]
Into = Annotated[Path, typer.Option("--into", metavar="DIR", help="The pack's folder; it is made when it is not there.")]
Title = Annotated[str | None, typer.Option("--title", help="One line that names the failure.", show_default=False)]
Category = Annotated[str | None, typer.Option("--category", help="Whose matter it is, such as config.", show_default=False)]
Verdict = Annotated[
    str | None, typer.Option("--verdict", metavar="VERDICT", help="transient, real or unknown.", show_default=False)
]
Advice = Annotated[list[str] | None, typer.Option("--advice", help="What to do. May be repeated.", show_default=False)]
Printed = Annotated[bool, typer.Option("--print", help="Print the draft instead of writing it.")]


def new(
    log: Log = None,
    line: LineNo = None,
    rule_id: Id = None,
    into: Into = Path("rules"),
    title: Title = None,
    category: Category = None,
    verdict: Verdict = None,
    advice: Advice = None,
    printed: Printed = False,
) -> None:
    """Draft a rule from a log: finds the line, loosens what differs from run to run, keeps the log as an example.

    Asks for what is missing when it runs in a terminal; otherwise takes what the log says.
    """
    with guarded():
        from typing import get_args

        from tbparse.ruleset.draft import OPEN
        from tbparse.ruleset.packs import load_rules
        from tbparse.terms import Category as Categories

        asking = log != "-" and sys.stdin is not None and sys.stdin.isatty()
        if log is None:
            if not asking:
                raise UsageError("give the LOG that shows the failure, or - for standard input")
            log = typer.prompt("A log that shows the failure")
        kinds = get_args(Categories)
        _one_of("category", category, kinds)
        _one_of("verdict", verdict, ("transient", "real", "unknown"))
        rules = load_rules([into] if into.is_dir() and not printed else [])
        draft, answer = _drafted(str(log), line, rules)
        if answer.rule is not None and line is None:
            message(f"tbparse: the rule {answer.rule} knows this failure already; give --line N to draft one for another line")
        if asking:
            write(f"{draft.example}\n")
            draft.category = category or _ask("Category", draft.category, kinds)
            draft.verdict = verdict or _ask("Verdict", draft.verdict, ("transient", "real", "unknown"))
            draft.title = title or typer.prompt("Title", default=draft.title)
            if advice is None:
                advice = [typer.prompt("What should an engineer do", default=draft.advice[0])]
        draft.title = title or draft.title
        draft.category, draft.verdict = category or draft.category, verdict or draft.verdict
        draft.advice = advice or draft.advice
        draft.rule_id = rule_id or _suggested(draft)
        if asking and rule_id is None:
            draft.rule_id = typer.prompt("Id", default=draft.rule_id)
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*/[a-z0-9][a-z0-9-]*", draft.rule_id):
            raise UsageError(
                f"`{draft.rule_id}` is no id: AREA/NAME in small letters, digits and hyphens, such as storage/disk-full"
            )
        said = _tried(draft, rules)
        if printed:
            write(draft.yaml(), data=True)
        else:
            _written(draft, into)
        message(f"tbparse: {said}")
        if OPEN in draft.yaml():
            message(f"tbparse: lines marked {OPEN} are yours to write; `tbparse rules check` asks for them")


def _one_of(name: str, given: str | None, known: tuple[str, ...]) -> None:
    if given is not None and given not in known:
        raise UsageError(f"no {name} `{given}`: choose one of {', '.join(known)}")


def _ask(what: str, default: str, known: tuple[str, ...]) -> str:
    while True:
        given = str(typer.prompt(f"{what} ({', '.join(known)})", default=default))
        if given in known:
            return given
        message(f"tbparse: no {what.lower()} `{given}`")


def _suggested(draft: Draft) -> str:
    from tbparse.ruleset.draft import AREAS

    return f"{AREAS[draft.category]}/{draft.name}"


def _drafted(log: str, wanted: int | None, rules: RuleSet) -> tuple[Draft, RootCause]:
    """The draft that the log gives by itself, and what is answered today."""
    from tbparse.engine import Explainer
    from tbparse.logs.source import LogSource
    from tbparse.ruleset.draft import Draft, example_of, name_of, pattern_of, scrubbed, title_of

    data = b"".join(LogSource(log).chunks())
    explainer = Explainer(rules=rules)
    explainer.feed(data)
    answer = explainer.finish()
    lines = data.decode("utf-8", "replace").split("\n")
    cause = explainer.job.decision.cause if explainer.job.decision is not None else None
    if wanted is not None:
        if not 1 <= wanted <= len(lines):
            raise UsageError(f"--line {wanted}: the log has {len(lines)} lines")
        cause = next((c for c in explainer.candidates if c.failure.first.no <= wanted <= c.failure.last.no), None)
    if cause is None:
        if wanted is None:
            raise UsageError("the log shows no failure: say which line tells with --line N")
        text = scrubbed(lines[wanted - 1].strip())
        pattern = pattern_of(text)
        if pattern is None:
            raise UsageError(f"--line {wanted}: too little of `{text}` would stay the same in another run")
        example = example_of(lines[max(0, wanted - 6) : wanted + 3])
        name = name_of(None, text)
        return Draft("", {"line": pattern}, example, title_of(None, text), name, "unknown", "unknown", fatal=True), answer
    return _of_failure(cause, lines, answer), answer


def _of_failure(cause: Candidate, lines: list[str], answer: RootCause) -> Draft:
    from tbparse.ruleset.draft import Draft, example_of, name_of, pattern_of, scrubbed, title_of

    link, failure = cause.root.link, cause.failure
    text = scrubbed((link.message or failure.first.text).strip())
    matcher: dict[str, object] = {}
    if link.exception is not None:
        matcher["type"] = link.exception.rpartition(".")[2]
    pattern = pattern_of(text)
    if pattern is not None:
        matcher["message"] = pattern
    if link.exception is None:
        matcher["kind"] = failure.kind
        for key, value in (("signal", answer.signal), ("exit_code", failure.exit_code)):
            if pattern is None and value is not None:
                matcher[key] = value
    example = example_of(lines[failure.first.no - 1 : max(failure.last.no, failure.first.no)])
    unruled = answer.rule is None
    category = answer.category if unruled and answer.category else "unknown"
    verdict = answer.verdict if unruled and answer.verdict != "clean" else "unknown"
    title, name = title_of(link.exception, text), name_of(link.exception, text)
    return Draft("", matcher, example, title, name, category, verdict)


def _tried(draft: Draft, rules: RuleSet) -> str:
    """Whether the draft wins its own example beside the other rules."""
    from pydantic import ValidationError

    from tbparse.engine import classify
    from tbparse.ruleset.match import PackedRule, RuleSet
    from tbparse.ruleset.pack import pack_rule
    from tbparse.ruleset.schema import Rule

    try:
        rule = Rule.model_validate(draft.data())
    except ValidationError as e:
        first = e.errors()[0]
        raise UsageError(f"the draft is no rule: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    others = [r for r in rules.rules if r.id != draft.rule_id]
    answer = classify(draft.example, rules=RuleSet([*others, PackedRule(pack_rule(draft.rule_id, rule))]))
    if answer.rule == draft.rule_id:
        return f"{draft.rule_id} wins its example"
    if answer.rule is None:
        return f"{draft.rule_id} does not match its example: what the log has and what the engine reads differ there"
    return f"on its example {answer.rule} wins, not {draft.rule_id}: narrow its matcher, or say `over: [{answer.rule}]`"


def _written(draft: Draft, into: Path) -> None:
    import json

    from tbparse.cli.schema import rule_schema

    path = into / f"{draft.rule_id}.yaml"
    if path.exists():
        raise UsageError(f"{path} is there already: choose another --id")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(draft.yaml(), encoding="utf-8")
        schema = into / "rule.schema.json"
        if not schema.exists():
            schema.write_text(json.dumps(rule_schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as e:
        raise UsageError(f"{path}: cannot be written: {e.strerror or e}") from None
    write(f"{os.fspath(path)}\n")
