"""``tbparse explain``: why did it die, and would running it again help?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tbparse.cli import startup
from tbparse.cli.exits import ExitCode, worst
from tbparse.cli.terminal import colour_wanted, complain, guarded, message, width, write
from tbparse.errors import InputError, UsageError
from tbparse.render import FORMATS, renderer

if TYPE_CHECKING:
    from pathlib import Path

    from tbparse.attribute.origin import PathSettings
    from tbparse.engine import Explainer
    from tbparse.render.report import Report
    from tbparse.ruleset.match import RuleSet

Paths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH", help="Logs, one answer each; a folder of torchrun's logs; - for standard input.", show_default=False
    ),
]
Format = Annotated[str, typer.Option("--format", "-f", metavar="|".join(FORMATS), help="How to answer.")]
LogDir = Annotated[
    str | None,
    typer.Option(
        "--log-dir", metavar="DIR", help="The --log-dir that torchrun was given: the ranks' own logs, beside the console's PATH."
    ),
]
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


class Shown(NamedTuple):
    """What is to be shown below the answer."""

    why: bool
    every: bool
    timeline: bool


class Settings(NamedTuple):
    """What holds for every log of one call."""

    profile: str
    rules: RuleSet | None
    paths: PathSettings
    returncode: int | None
    log_dir: str | None


def explain(
    paths: Paths = None,
    format: Format = "text",  # noqa: A002 - the option's name
    log_dir: LogDir = None,
    why: Why = False,
    every: Every = False,
    timeline: Timeline = False,
    profile: Profile = None,
    exit_code: ByVerdict = False,
    returncode: Returncode = None,
    user_path: UserPath = None,
    library_path: LibraryPath = None,
    packs: Packs = None,
) -> None:
    """Say why a job died, and whether running it again would help.

    Exits with 0 when it answered, 2 for a wrong option, 66 for a log that cannot be read.
    """
    with guarded():
        startup.load_model()
        from tbparse.attribute.origin import PathSettings
        from tbparse.settings import load_project

        targets = list(paths or ())
        if format not in FORMATS:
            raise UsageError(f"no format `{format}`: choose one of {', '.join(FORMATS)}")
        if log_dir is not None and len(targets) > 1:
            raise UsageError("--log-dir belongs to one job: give one PATH with it, the console's log")
        if not targets and log_dir is None:
            raise UsageError("nothing to explain: give the PATH of a log, or - for standard input (see --help)")
        if targets.count("-") > 1:
            raise UsageError("standard input can be read once only: give - once")
        if format != "text" and (why or every or timeline):
            message("tbparse: --why, --all and --timeline show only in the text format")
        project = load_project()
        user, library = project.paths
        roots = PathSettings((*(user_path or ()), *user), (*(library_path or ()), *library))
        in_force = project.profile(profile)
        settings = Settings(in_force, project.rules(in_force, packs or ()), roots, returncode, log_dir)
        verdicts, failed = _explain_all(targets or [None], settings, format, Shown(why, every, timeline))
    if failed:
        raise typer.Exit(ExitCode.NO_INPUT)
    if exit_code:
        raise typer.Exit(worst(verdicts))


def _explain_all(targets: Sequence[str | None], settings: Settings, fmt: str, shown: Shown) -> tuple[list[str], bool]:
    """Answer each log as soon as it is read. The verdicts, and whether a log could not be read."""
    render = renderer(fmt)
    colour, columns = colour_wanted(), width()
    verdicts: list[str] = []
    failed = False
    for target in targets:
        try:
            report = _report(target, settings, titled=len(targets) > 1, shown=shown)
        except InputError as e:
            # The others are answered all the same.
            complain(e)
            failed = True
            continue
        if fmt == "text" and verdicts:
            write("\n")
        write(render(report, width=columns, colour=colour), data=fmt == "json")
        verdicts.append(report.answer.verdict)
    return verdicts, failed


def _report(target: str | None, settings: Settings, *, titled: bool, shown: Shown) -> Report:
    from pathlib import Path

    from tbparse.engine import Explainer
    from tbparse.render.report import Report

    explainer = Explainer(rules=settings.rules, profile=settings.profile, paths=settings.paths)
    startup.end()
    if target is not None:
        _read(explainer, target, settings)
    if settings.log_dir is not None:
        from tbparse.logs.directory import join_log_dir

        _note_runs(Path(settings.log_dir))
        join_log_dir(explainer, Path(settings.log_dir), paths=settings.paths)
    answer = explainer.finish(settings.returncode)
    name = "standard input" if target == "-" else target
    return Report(answer, explainer.job, name=name, titled=titled, **shown._asdict())


@lru_cache(maxsize=1)
def _note_runs(root: Path) -> None:
    """Say so when a folder holds more than one run: nodes of one job, or earlier runs, which the layout does not tell."""
    from tbparse.logs.directory import runs

    found = runs(root)
    if len(found) > 1:
        names = ", ".join(p.name for p in found[:4]) + (", …" if len(found) > 4 else "")
        message(f"tbparse: {root}: holds {len(found)} runs ({names}), read as one job; give one of them to ask about it alone")


def _read(explainer: Explainer, target: str, settings: Settings) -> None:
    from tbparse.logs.source import LogSource

    if target != "-" and os.path.isdir(target):
        from pathlib import Path

        from tbparse.logs.directory import join_log_dir

        _note_runs(Path(target))
        join_log_dir(explainer, Path(target), paths=settings.paths)
        return
    source = LogSource(target)
    for chunk in source.portions():
        explainer.feed(chunk)
    explainer.job.notes.extend(source.notes)
    if source.size == 0:
        message(f"tbparse: {source.name}: is empty: nothing was printed, or it went elsewhere")
