"""``tbparse rules diff``: which verdicts move on logs between two rule sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tbparse.cli.exits import ExitCode
from tbparse.cli.terminal import colour_wanted, complain, guarded, message, width, write
from tbparse.errors import InputError, UsageError

if TYPE_CHECKING:
    from tbparse.model import RootCause
    from tbparse.ruleset.match import RuleSet

Logs = Annotated[
    list[str] | None,
    typer.Argument(metavar="LOG", help="Logs, or folders of them; left out: the examples of all rules.", show_default=False),
]
New = Annotated[
    list[str] | None, typer.Option("--rules", metavar="PACK", help="The new side: a folder, site file or installed pack.")
]
Base = Annotated[list[str] | None, typer.Option("--base", metavar="PACK", help="The old side; left out: the built-in rules.")]
Alone = Annotated[
    bool, typer.Option("--alone", help="The folders hold whole rule sets: the built-in rules are not put under them.")
]
Format = Annotated[str, typer.Option("--format", "-f", metavar="text|json", help="How to list.")]
Coded = Annotated[bool, typer.Option("--exit-code", help="Exit with 1 when something moved.")]
LOG_SUFFIXES = (".log", ".txt", ".out", ".err")


class Move(NamedTuple):
    """A log that the two sides answer differently."""

    name: str
    old: RootCause
    new: RootCause

    @property
    def dangerous(self) -> bool:
        """The new side would run again what the old one would not."""
        return self.new.verdict == "transient" != self.old.verdict

    def row(self) -> dict[str, Any]:
        """For JSON."""
        keys = ("verdict", "category", "rule")
        return {"log": self.name, "old": {k: getattr(self.old, k) for k in keys}, "new": {k: getattr(self.new, k) for k in keys}}


def diff(
    logs: Logs = None,
    new: New = None,
    base: Base = None,
    alone: Alone = False,
    format: Format = "text",  # noqa: A002 - the option's name
    exit_code: Coded = False,
) -> None:
    """Show which answers move between two rule sets: verdict, category and rule, the newly transient ones first."""
    with guarded():
        from tbparse.ruleset.packs import load_rules

        if not new:
            raise UsageError("nothing to compare: give the new side with --rules")
        if format not in ("text", "json"):
            raise UsageError(f"no format `{format}`: choose text or json")
        if alone and not base:
            raise UsageError("--alone compares two whole rule sets: give the old one with --base")
        old_side, new_side = load_rules(base or (), alone=alone), load_rules(new, alone=alone)
        count, moves = compare(old_side, new_side, _texts(logs, new, alone))
        if format == "json":
            import json

            write(json.dumps([m.row() for m in moves], ensure_ascii=False, indent=2) + "\n", data=True)
        else:
            write(_listed(moves, count))
    if exit_code and moves:
        raise typer.Exit(ExitCode.REAL)


def compare(old: RuleSet, new: RuleSet, logs: Iterator[tuple[str, bytes]]) -> tuple[int, list[Move]]:
    """How many logs there were, and those that the two sides answer differently; newly transient ones first."""
    from tbparse.engine import classify

    count = 0
    moves = []
    for name, data in logs:
        count += 1
        a, b = classify(data, rules=old), classify(data, rules=new)
        if (a.verdict, a.category, a.rule) != (b.verdict, b.category, b.rule):
            moves.append(Move(name, a, b))
    return count, sorted(moves, key=lambda m: (not m.dangerous, m.old.verdict == m.new.verdict, m.name))


def _texts(logs: Sequence[str] | None, new: Sequence[str], alone: bool) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each log; without any, of the rules' own examples."""
    if not logs:
        from tbparse.cli.rule_checks import read_rules
        from tbparse.ruleset.packs import rule_paths

        for rule_id, rule in read_rules(rule_paths(new, alone=alone)).items():
            texts = [e.text for e in rule.examples] + [c.text for c in rule.counter_examples]
            for i, text in enumerate(texts, 1):
                yield f"{rule_id}#{i}", text.encode()
        return
    from tbparse.logs.source import LogSource

    for given in logs:
        path = Path(given)
        found = sorted(p for p in path.rglob("*") if p.is_file() and p.suffix in LOG_SUFFIXES) if path.is_dir() else [path]
        if not found:
            message(f"tbparse: {given}: no logs ({', '.join(LOG_SUFFIXES)}) below this folder")
        for p in found:
            try:
                yield str(p), b"".join(LogSource(str(p)).chunks())
            except InputError as e:
                complain(e)


def _listed(moves: Sequence[Move], count: int) -> str:
    from tbparse.render.layout import Sheet
    from tbparse.render.rules import STYLES

    sheet = Sheet(width())
    for m in moves:
        mark = [("  now retried", "bold yellow")] if m.dangerous else []
        sheet.row((m.name, "bold"), *mark)
        for sign, side in (("-", m.old), ("+", m.new)):
            style = STYLES.get(side.verdict, "")
            sheet.row(
                (f"  {sign} ", "dim"), (f"{side.verdict:<10}", style), (f"{side.category or '–':<14}{side.rule or 'no rule'}", "")
            )
    risky = sum(m.dangerous for m in moves)
    told = f", {risky} newly retried" if risky else ""
    sheet.row((f"{len(moves)} of {count} answers moved{told}", "dim"))
    return sheet.written(colour_wanted())
