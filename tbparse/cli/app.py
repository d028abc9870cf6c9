"""The commands, put together. A command's module is imported when the command is asked for, so that starting is quick."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from tbparse.cli.terminal import write

COMMANDS = {
    "explain": "tbparse.cli.explain:explain",
    "run": "tbparse.cli.run:run",
    "rules": "tbparse.cli.rules:app",
    "schema": "tbparse.cli.schema:schema",
    "doctor": "tbparse.cli.doctor:doctor",
}
"""Each command by name: the module that holds it, and the function or group of commands there."""

_HELP = (
    "Says why a training job died: the root exception, where in your code, on which rank, and whether running it again would help."
)


def build(arguments: Sequence[str]) -> typer.Typer:
    """The application for these arguments: with the one command that they begin with, or with all (for help and errors)."""
    app = typer.Typer(
        name="tbparse",
        help=_HELP,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(main)
    asked = arguments[0] if arguments and arguments[0] in COMMANDS else None
    for name in COMMANDS if asked is None else (asked,):
        module, _, attribute = COMMANDS[name].partition(":")
        home = import_module(module)
        command = getattr(home, attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name, context_settings=getattr(home, "CONTEXT", None))(command)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        from tbparse._version import __version__

        write(f"tbparse {__version__}\n")
        raise typer.Exit


def main(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)] = False,
) -> None:
    """Options of the command as a whole; its text for people is the app's ``help``."""
