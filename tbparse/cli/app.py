"""The commands, put together. Each command's module imports what it needs when it runs, so that starting is quick."""

from __future__ import annotations

from typing import Annotated

import typer

from tbparse.cli import doctor, explain, rules, run, schema
from tbparse.cli.terminal import write

_HELP = (
    "Says why a training job died: the root exception, where in your code, on which rank, and whether running it again would help."
)
app = typer.Typer(
    name="tbparse",
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from tbparse._version import __version__

        write(f"tbparse {__version__}\n")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)] = False,
) -> None:
    """Options of the command as a whole; its text for people is the app's ``help``."""


app.command("explain")(explain.explain)
app.command("run", context_settings=run.CONTEXT)(run.run)
app.command("schema")(schema.schema)
app.command("doctor")(doctor.doctor)
app.add_typer(rules.app, name="rules")
