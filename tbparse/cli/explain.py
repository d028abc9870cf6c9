"""``tbparse explain``: why did it die, and would running it again help?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tbparse.cli import startup
from tbparse.cli.exits import ExitCode, worst
from tbparse.cli.terminal import colour_wanted, complain, guarded, message, width, write
from tbparse.errors import InputError, UsageError
from tbparse.render import FORMATS, renderer

if TYPE_CHECKING:
    from tbparse.attribute.origin import PathSettings
    from tbparse.engine import Explainer
    from tbparse.logs.folder import JobFolder
    from tbparse.render.report import Report
    from tbparse.ruleset.match import RuleSet

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
    one_job: bool = False


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
        if log_dir is not None and len(targets) > 1 and not job:
            raise UsageError("--log-dir belongs to one job: give one PATH with it, the console's log, or --job for several")
        if job and log_dir is None and len(targets) < 2 and not any(map(os.path.isdir, targets)):
            raise UsageError("--job makes several logs one job: give two or more PATHs, or a folder")
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
        settings = Settings(in_force, project.rules(in_force, packs or ()), roots, returncode, log_dir, job)
        verdicts, failed = _explain_all(_asked(targets, job=job), settings, format, Shown(why, every, timeline))
    if failed:
        raise typer.Exit(ExitCode.NO_INPUT)
    if exit_code:
        raise typer.Exit(worst(verdicts))


def _asked(targets: Sequence[str], *, job: bool) -> list[tuple[str, ...]]:
    """What to answer one by one: each a job's PATHs, none of them where only a folder of ranks was given."""
    if job or not targets:
        return [tuple(targets)]
    return [(t,) for t in targets]


def _explain_all(asked: Sequence[tuple[str, ...]], settings: Settings, fmt: str, shown: Shown) -> tuple[list[str], bool]:
    """Answer each job as soon as it is read. The verdicts, and whether a log could not be read."""
    render = renderer(fmt)
    colour, columns = colour_wanted(), width()
    verdicts: list[str] = []
    failed = False
    for targets in asked:
        try:
            for report in _reports(targets, settings, titled=len(asked) > 1, shown=shown):
                if fmt == "text" and verdicts:
                    write("\n")
                write(render(report, width=columns, colour=colour), data=fmt == "json")
                verdicts.append(report.answer.verdict)
        except InputError as e:
            # The others are answered all the same.
            complain(e)
            failed = True
    return verdicts, failed


def _reports(targets: tuple[str, ...], settings: Settings, *, titled: bool, shown: Shown) -> Iterator[Report]:
    """The answers about what was asked: one, or one for each job that a folder holds."""
    from tbparse.engine import Explainer
    from tbparse.render.report import Report

    jobs = _folders(targets, settings)
    for job in jobs:
        explainer = Explainer(rules=settings.rules, profile=settings.profile, paths=settings.paths)
        startup.end()
        name = targets[0] if len(targets) == 1 else None
        if job is None or (len(targets) == 1 and not os.path.isdir(targets[0])) or "-" in targets:
            _read(explainer, "-" if "-" in targets else targets[0])
        if job is not None:
            _read_folder(explainer, job, settings)
            name = str(job.root) if len(jobs) > 1 or name is None else name
        answer = explainer.finish(settings.returncode)
        name = "standard input" if name == "-" else name
        yield Report(answer, explainer.job, name=name, titled=titled or len(jobs) > 1, **shown._asdict())


def _folders(targets: tuple[str, ...], settings: Settings) -> Sequence[JobFolder | None]:
    """The jobs of files that are asked about; None for a single log."""
    files = [t for t in targets if t != "-"]
    if settings.log_dir is None and len(targets) == 1 and not any(map(os.path.isdir, files)):
        return [None]
    from pathlib import Path

    from tbparse.logs.folder import find_jobs, one_job

    if settings.log_dir is not None:
        beside = files if len(targets) > 1 or any(map(os.path.isdir, files)) else []
        job = one_job([*beside, settings.log_dir], root=Path(settings.log_dir))
        _note_runs(job)
        return [job]
    if settings.one_job:
        return [one_job(files)]
    root = Path(targets[0])
    jobs = find_jobs(root)
    if len(jobs) > 1:
        names = ", ".join(j.root.name for j in jobs[:4]) + (", …" if len(jobs) > 4 else "")
        message(f"tbparse: {root}: holds {len(jobs)} jobs ({names}), one answer each; --job reads them as one")
    _note_runs(jobs[0])
    return jobs


def _note_runs(job: JobFolder) -> None:
    """Say so when a folder holds more than one run: nodes of one job, or earlier runs, which the layout does not tell."""
    units = sorted({x.place.unit for x in job.logs if x.place.layout == "torchrun" and x.place.unit is not None})
    if len(units) > 1 and all(x.place.host is None for x in job.logs):
        names = ", ".join(units[:4]) + (", …" if len(units) > 4 else "")
        message(f"tbparse: {job.root}: holds {len(units)} runs ({names}), read as one job; give one of them to ask about it alone")


def _read_folder(explainer: Explainer, job: JobFolder, settings: Settings) -> None:
    from tbparse.cli.progress import reading
    from tbparse.logs.reader import read_job

    with reading(len(job.logs), job.size) as tick:
        read_job(explainer, job, paths=settings.paths, tick=tick)


def _read(explainer: Explainer, target: str) -> None:
    from tbparse.logs.source import LogSource

    source = LogSource(target)
    for chunk in source.portions():
        explainer.feed(chunk)
    explainer.job.notes.extend(source.notes)
    if source.size == 0:
        message(f"tbparse: {source.name}: is empty: nothing was printed, or it went elsewhere")
