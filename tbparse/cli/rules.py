"""``tbparse rules``: look at the rules, check one's own, and try their examples."""

from __future__ import annotations

from typing import Annotated

import typer

from tbparse.cli.exits import ExitCode
from tbparse.cli.terminal import colour_wanted, guarded, width, write
from tbparse.errors import UsageError

app = typer.Typer(help="Look at the rules, check your own, and try their examples.", no_args_is_help=True, rich_markup_mode=None)

Area = Annotated[str | None, typer.Option("--area", metavar="AREA", help="Only this area, such as gpu-memory.", show_default=False)]
Verdict = Annotated[
    str | None, typer.Option("--verdict", metavar="VERDICT", help="Only these: transient, real or unknown.", show_default=False)
]
Format = Annotated[str, typer.Option("--format", "-f", metavar="text|json", help="How to list.")]
VERDICTS = ("transient", "real", "unknown")


@app.command("list")
def list_(area: Area = None, verdict: Verdict = None, format: Format = "text") -> None:  # noqa: A002 - the option's name
    """List the rules."""
    with guarded():
        from tbparse.ruleset.store import load_packed

        rules = load_packed()
        if format not in ("text", "json"):
            raise UsageError(f"no format `{format}`: choose text or json")
        if verdict is not None and verdict not in VERDICTS:
            raise UsageError(f"no verdict `{verdict}`: choose one of {', '.join(VERDICTS)}")
        areas = sorted({r["id"].partition("/")[0] for r in rules})
        if area is not None and area not in areas:
            raise UsageError(f"no area `{area}`: {_close(area, areas) or 'choose one of ' + ', '.join(areas)}")
        chosen = [r for r in rules if (area is None or r["id"].startswith(f"{area}/")) and verdict in (None, r["verdict"])]
        if format == "json":
            import json

            rows = [{k: r[k] for k in ("id", "title", "category", "verdict")} for r in chosen]
            write(json.dumps(rows, ensure_ascii=False, indent=2) + "\n", data=True)
            return
        from tbparse.render.rules import listing

        write(listing(chosen, width=width(), colour=colour_wanted()))


@app.command()
def show(rule_id: Annotated[str, typer.Argument(metavar="ID", help="area/name, as `rules list` prints it.")]) -> None:
    """Show a rule: what it means, what it matches, what to do."""
    with guarded():
        from tbparse.errors import RuleError
        from tbparse.render.rules import page
        from tbparse.ruleset.pack import validate
        from tbparse.ruleset.schema import Rule
        from tbparse.ruleset.store import rule_files, rules_dir

        files = dict(rule_files(rules_dir()))
        wanted = rule_id.removesuffix(".yaml").removeprefix("rules/")
        if wanted not in files:
            raise UsageError(f"no rule `{rule_id}`: {_close(wanted, list(files)) or 'see `tbparse rules list`'}")
        rule, problems = validate(files[wanted], Rule)
        if not isinstance(rule, Rule):
            raise RuleError(problems)
        write(page(wanted, rule, files[wanted], width=width(), colour=colour_wanted()))


@app.command()
def check(
    paths: Annotated[list[str], typer.Argument(metavar="PATH", help="Rule files, site files, or folders of rules.")],
) -> None:
    """Check rule files: every problem at once, as path:line:column."""
    with guarded():
        from tbparse.cli.rule_checks import check_paths
        from tbparse.errors import RuleError

        count, problems = check_paths(paths)
        if problems:
            raise RuleError(problems)
        write(f"{count} rule file{'s are' if count != 1 else ' is'} fine\n")


@app.command("test")
def try_(
    rule_ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Rules, or area/*; all rules when left out.", show_default=False)
    ] = None,
) -> None:
    """Run the examples and counter-examples of rules under all rules."""
    with guarded():
        from tbparse.cli.rule_checks import try_rules
        from tbparse.ruleset.pack import read_dir
        from tbparse.ruleset.store import rules_dir

        rules = read_dir(rules_dir())
        wanted: list[str] = []
        for pattern in rule_ids or ["*"]:
            found = [r for r in rules if pattern in ("*", r) or (pattern.endswith("/*") and r.startswith(pattern[:-1]))]
            if not found:
                raise UsageError(f"no rule `{pattern}`: {_close(pattern, list(rules)) or 'see `tbparse rules list`'}")
            wanted += found
        tried, failures = try_rules({r: rules[r] for r in dict.fromkeys(wanted)})
        for failure in failures:
            write(f"{failure}\n")
        write(f"{tried} examples of {len(set(wanted))} rules: {len(failures)} failed\n")
    if failures:
        raise typer.Exit(ExitCode.REAL)


def _close(word: str, words: list[str]) -> str | None:
    """``did you mean …?`` for words that are near, or whose last part is."""
    import difflib

    near = difflib.get_close_matches(word, words, n=3, cutoff=0.6)
    tails: dict[str, str] = {w.rpartition("/")[2]: w for w in words}
    near += [tails[t] for t in difflib.get_close_matches(word.rpartition("/")[2], list(tails), n=3, cutoff=0.6)]
    return f"did you mean {' or '.join(list(dict.fromkeys(near))[:3])}?" if near else None
