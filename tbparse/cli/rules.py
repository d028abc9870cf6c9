"""``tbparse rules``: look at the rules, check one's own, and try their examples."""

from __future__ import annotations

from typing import Annotated

import typer

from tbparse.cli.exits import ExitCode
from tbparse.cli.rule_diff import diff
from tbparse.cli.rule_new import new
from tbparse.cli.terminal import colour_wanted, guarded, width, write
from tbparse.errors import UsageError

app = typer.Typer(
    help="Look at the rules, write your own, check them and try their examples.", no_args_is_help=True, rich_markup_mode=None
)

Area = Annotated[str | None, typer.Option("--area", metavar="AREA", help="Only this area, such as gpu-memory.", show_default=False)]
Verdict = Annotated[
    str | None, typer.Option("--verdict", metavar="VERDICT", help="Only these: transient, real or unknown.", show_default=False)
]
Format = Annotated[str, typer.Option("--format", "-f", metavar="text|json", help="How to list.")]
Category = Annotated[
    str | None, typer.Option("--category", metavar="CATEGORY", help="Only this category, such as storage.", show_default=False)
]
Packs = Annotated[
    list[str] | None,
    typer.Option(
        "--rules", metavar="PACK", help="Over the built-in rules: a folder, a site file, or an installed pack.", show_default=False
    ),
]
VERDICTS = ("transient", "real", "unknown")


@app.command("list")
def list_(
    area: Area = None,
    verdict: Verdict = None,
    category: Category = None,
    format: Format = "text",  # noqa: A002 - the option's name
    packs: Packs = None,
) -> None:
    """List the rules."""
    with guarded():
        from typing import get_args

        from tbparse.ruleset.packs import load_rules
        from tbparse.terms import Category as Categories

        rules = load_rules(packs or ()).rules
        if format not in ("text", "json"):
            raise UsageError(f"no format `{format}`: choose text or json")
        if verdict is not None and verdict not in VERDICTS:
            raise UsageError(f"no verdict `{verdict}`: choose one of {', '.join(VERDICTS)}")
        if category is not None and category not in get_args(Categories):
            raise UsageError(f"no category `{category}`: choose one of {', '.join(get_args(Categories))}")
        areas = sorted({r.id.partition("/")[0] for r in rules})
        if area is not None and area not in areas:
            raise UsageError(f"no area `{area}`: {_close(area, areas) or 'choose one of ' + ', '.join(areas)}")
        chosen = [
            r.data
            for r in rules
            if area in (None, r.id.partition("/")[0]) and verdict in (None, r.verdict) and category in (None, r.category)
        ]
        if format == "json":
            import json

            rows = [{k: r[k] for k in ("id", "title", "category", "verdict")} for r in chosen]
            write(json.dumps(rows, ensure_ascii=False, indent=2) + "\n", data=True)
            return
        from tbparse.render.rules import listing

        write(listing(chosen, width=width(), colour=colour_wanted()))


@app.command()
def show(
    rule_id: Annotated[str, typer.Argument(metavar="ID", help="area/name, as `rules list` prints it.")], packs: Packs = None
) -> None:
    """Show a rule: what it means, what it matches, what to do."""
    with guarded():
        from tbparse.errors import RuleError
        from tbparse.render.rules import page
        from tbparse.ruleset.pack import validate
        from tbparse.ruleset.packs import rule_paths
        from tbparse.ruleset.schema import Rule

        files = rule_paths(packs or ())
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
    strict: Annotated[bool, typer.Option("--strict", help="Ask for all that a built-in rule has: see docs/rules.md.")] = False,
) -> None:
    """Check rule files: every problem at once, as path:line:column."""
    with guarded():
        from tbparse.cli.rule_checks import check_paths
        from tbparse.errors import RuleError

        count, problems = check_paths(paths, strict=strict)
        if problems:
            raise RuleError(problems)
        write(f"{count} rule file{'s are' if count != 1 else ' is'} fine\n")


@app.command("test")
def try_(
    rule_ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Rules, or area/*; all rules when left out.", show_default=False)
    ] = None,
    packs: Packs = None,
) -> None:
    """Run the examples and counter-examples of rules under all rules."""
    with guarded():
        from tbparse.cli.rule_checks import read_rules, try_rules
        from tbparse.ruleset.packs import load_rules, rule_paths

        everything = load_rules(packs or ())
        files = {r: p for r, p in rule_paths(packs or ()).items() if r in everything.by_id}
        wanted: list[str] = []
        for pattern in rule_ids or ["*"]:
            found = [r for r in files if pattern in ("*", r) or (pattern.endswith("/*") and r.startswith(pattern[:-1]))]
            if not found:
                raise UsageError(f"no rule `{pattern}`: {_close(pattern, list(files)) or 'see `tbparse rules list`'}")
            wanted += found
        tried, failures = try_rules(read_rules({r: files[r] for r in dict.fromkeys(wanted)}), everything)
        for failure in failures:
            write(f"{failure}\n")
        write(f"{tried} examples of {len(set(wanted))} rules: {len(failures)} failed\n")
    if failures:
        raise typer.Exit(ExitCode.REAL)


@app.command()
def schema(
    site: Annotated[bool, typer.Option("--site", help="The shape of a site file instead.")] = False,
) -> None:
    """Print the JSON Schema of a rule file, for editors that complete and check YAML."""
    with guarded():
        import json

        from tbparse.cli.schema import rule_schema, site_schema

        write(json.dumps(site_schema() if site else rule_schema(), indent=2, ensure_ascii=False) + "\n", data=True)


app.command()(new)
app.command()(diff)


def _close(word: str, words: list[str]) -> str | None:
    """``did you mean …?`` for words that are near, or whose last part is."""
    import difflib

    near = difflib.get_close_matches(word, words, n=3, cutoff=0.6)
    tails: dict[str, str] = {w.rpartition("/")[2]: w for w in words}
    near += [tails[t] for t in difflib.get_close_matches(word.rpartition("/")[2], list(tails), n=3, cutoff=0.6)]
    return f"did you mean {' or '.join(list(dict.fromkeys(near))[:3])}?" if near else None
