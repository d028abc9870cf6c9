"""``tbparse explain``: why did it die, and would running it again help?"""

from __future__ import annotations

from typing import Annotated

import typer

from tbparse.cli.explaining import Asked, answer
from tbparse.render import FORMATS

Paths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH", help="Logs, one answer each; a folder with the logs of a job; - for standard input.", show_default=False
    ),
]
Format = Annotated[str, typer.Option("--format", "-f", metavar="|".join(FORMATS), help="How to answer.")]
LogDir = Annotated[
    str | None,
    typer.Option(
        "--log-dir", metavar="DIR", help="The folder of the ranks' own logs, beside the console's PATH (torchrun's --log-dir)."
    ),
]
OneJob = Annotated[bool, typer.Option("--job", help="All PATHs are logs of one job: one answer.")]
Why = Annotated[bool, typer.Option("--why", help="Show what competed for being the cause, and why it lost.")]
Every = Annotated[bool, typer.Option("--all", help="Show each failure that was found.")]
Timeline = Annotated[bool, typer.Option("--timeline", help="Show when what happened on which rank, from the first sign on.")]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="job|tests",
        help="tests: many short processes share a GPU, so running out of its memory passes. Default: the project's, else job.",
        show_default=False,
    ),
]
ByVerdict = Annotated[
    bool, typer.Option("--exit-code", help="Exit with 0 for clean, 1 real, 75 transient, 3 unknown; of several logs the worst.")
]
Returncode = Annotated[
    int | None,
    typer.Option("--returncode", metavar="N", help="What the job exited with; -9 or 137 for SIGKILL.", show_default=False),
]
UserPath = Annotated[
    list[str] | None,
    typer.Option("--user-path", metavar="PATH", help="Code under this path is your own. May be repeated.", show_default=False),
]
LibraryPath = Annotated[
    list[str] | None,
    typer.Option(
        "--library-path", metavar="PATH", help="Code under this path is a library's. May be repeated.", show_default=False
    ),
]
Packs = Annotated[
    list[str] | None,
    typer.Option(
        "--rules",
        metavar="PACK",
        help="More rules: a folder, a site file, or an installed pack (`installed`: all). May be repeated.",
        show_default=False,
    ),
]

Tail = Annotated[
    str | None,
    typer.Option(
        "--tail",
        metavar="SIZE",
        help="Read only the end of a large log, such as 16M. The answer says so, and never `transient`.",
        show_default=False,
    ),
]


def explain(
    paths: Paths = None,
    format: Format = "text",  # noqa: A002 - the option's name
    log_dir: LogDir = None,
    job: OneJob = False,
    why: Why = False,
    every: Every = False,
    timeline: Timeline = False,
    profile: Profile = None,
    exit_code: ByVerdict = False,
    returncode: Returncode = None,
    user_path: UserPath = None,
    library_path: LibraryPath = None,
    packs: Packs = None,
    tail: Tail = None,
) -> None:
    """Say why a job died, and whether running it again would help.

    Exits with 0 when it answered, 2 for a wrong option, 66 for a log that cannot be read.
    """
    asked = Asked(
        tuple(paths or ()),
        format=format,
        log_dir=log_dir,
        job=job,
        why=why,
        every=every,
        timeline=timeline,
        profile=profile,
        exit_code=exit_code,
        returncode=returncode,
        user_path=tuple(user_path or ()),
        library_path=tuple(library_path or ()),
        packs=tuple(packs or ()),
        tail=tail,
    )
    raise typer.Exit(answer(asked))
