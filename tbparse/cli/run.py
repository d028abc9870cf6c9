"""``tbparse run``: run a command, pass all it prints through, and say why it failed."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, cast

import typer

from tbparse.cli import startup
from tbparse.cli.exits import BY_VERDICT, ExitCode
from tbparse.cli.terminal import message
from tbparse.errors import TbparseError, UsageError
from tbparse.render import FORMATS, renderer

if TYPE_CHECKING:
    from tbparse.attribute.origin import PathSettings
    from tbparse.engine import Explainer
    from tbparse.launching.attempt import Ended
    from tbparse.launching.recording import Recording
    from tbparse.launching.sinks import LogFile
    from tbparse.model import RootCause

Command = Annotated[
    list[str] | None,
    typer.Argument(metavar="[--] COMMAND…", help="What to run; everything from its name on is its own.", show_default=False),
]
Log = Annotated[
    str | None,
    typer.Option("--log", metavar="FILE", help="Write what the command prints to FILE as well.", show_default=False),
]
OwnReport = Annotated[
    bool, typer.Option("--report", help="Have Python processes report their uncaught exception, for an answer without guessing.")
]
PtyMode = Annotated[
    str,
    typer.Option("--pty", metavar="auto|yes|no", help="Give the command a terminal: auto, where this one has one."),
]
StdoutMode = Annotated[
    str,
    typer.Option("--stdout", metavar="tee|inherit", help="inherit: leave its standard output alone; only standard error is read."),
]
Grace = Annotated[
    float,
    typer.Option(
        "--grace", metavar="SECONDS", min=0.0, help="How long a process that the command leaves behind may hold the output."
    ),
]
ByVerdict = Annotated[bool, typer.Option("--exit-code", help="Exit with 0 for clean, 1 real, 75 transient, 3 unknown.")]
Format = Annotated[str, typer.Option("--format", "-f", metavar="|".join(FORMATS), help="How to explain, on standard error.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Explain nothing.")]
Profile = Annotated[str, typer.Option("--profile", metavar="job|tests", help="As in `tbparse explain`.")]
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

CONTEXT = {"allow_interspersed_args": False}
"""The first word that is no option begins the command: nothing behind it is looked at."""


class Settings(NamedTuple):
    """How one command is run and explained."""

    log: str | None
    report: bool
    pty: Literal["auto", "yes", "no"]
    stdout: Literal["tee", "inherit"]
    grace_s: float
    profile: str
    paths: PathSettings


def run(
    command: Command = None,
    log: Log = None,
    report: OwnReport = False,
    pty: PtyMode = "auto",
    stdout: StdoutMode = "tee",
    grace: Grace = 5.0,
    exit_code: ByVerdict = False,
    format: Format = "text",  # noqa: A002 - the option's name
    quiet: Quiet = False,
    profile: Profile = "job",
    user_path: UserPath = None,
    library_path: LibraryPath = None,
) -> None:
    """Run a command, pass all it prints through, and say why it failed.

    Exits with the command's own code (128+N for signal N); 125 where tbparse itself fails, 126 where the command cannot be
    executed, 127 where it is not found.
    """
    try:
        settings = _settings(log, report, pty, stdout, grace, profile, user_path, library_path)
        if format not in FORMATS:
            raise UsageError(f"no format `{format}`: choose one of {', '.join(FORMATS)}")
        if not command:
            raise UsageError("nothing to run: give the command behind --, as in `tbparse run -- python train.py`")
    except UsageError as e:
        message(f"tbparse: {e}")
        raise typer.Exit(ExitCode.USAGE) from None
    try:
        code = _run(command, settings, "" if quiet else format, by_verdict=exit_code)
    except _StartError as e:
        message(f"tbparse: {e}")
        raise typer.Exit(e.code) from None
    except TbparseError as e:
        message(f"tbparse: {e}")
        raise typer.Exit(ExitCode.RUN_FAILED) from None
    raise typer.Exit(code)


def _settings(
    log: str | None,
    report: bool,
    pty: str,
    stdout: str,
    grace: float,
    profile: str,
    user_path: list[str] | None,
    library_path: list[str] | None,
) -> Settings:
    if pty not in ("auto", "yes", "no"):
        raise UsageError(f"--pty {pty}: choose one of auto, yes, no")
    if stdout not in ("tee", "inherit"):
        raise UsageError(f"--stdout {stdout}: choose one of tee, inherit")
    startup.load_model()
    from tbparse.attribute.origin import PathSettings

    if profile != "job":
        from tbparse.ruleset.match import builtin_rules

        builtin_rules(profile)  # refuses a profile that does not exist
    roots = PathSettings(tuple(user_path or ()), tuple(library_path or ()))
    return Settings(
        log, report, cast("Literal['auto', 'yes', 'no']", pty), cast("Literal['tee', 'inherit']", stdout), grace, profile, roots
    )


class _StartError(TbparseError):
    """The command could not be started; ``code`` is what a shell would exit with."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


def _run(command: list[str], settings: Settings, fmt: str, *, by_verdict: bool) -> int:
    """Run it, explain it in the format ``fmt`` (``""``: not at all), and return what to exit with."""
    from tbparse.launching.sinks import LogFile

    file = LogFile(settings.log) if settings.log is not None else None
    try:
        ended, recording = _attempt(command, settings, file)
    finally:
        if file is not None:
            file.close()
    answer = recording.finish(ended.returncode)
    code = ended.returncode if ended.returncode >= 0 else 128 - ended.returncode
    if fmt:
        for note in ended.notes:
            message(f"tbparse: {note}")
        if ended.returncode or answer.verdict != "clean":
            _explain(answer, recording.explainer, fmt, settings.log)
    return BY_VERDICT[answer.verdict] if by_verdict else code


def _attempt(command: list[str], settings: Settings, file: LogFile | None) -> tuple[Ended, Recording]:
    """One run of the command, and what it printed."""
    from tbparse.launching.attempt import run_once
    from tbparse.launching.place import place_of
    from tbparse.launching.recording import Recording

    def make_explainer() -> Explainer:
        from tbparse.engine import Explainer

        made = Explainer(profile=settings.profile, paths=settings.paths)
        startup.end()
        return made

    recording = Recording(make_explainer, place=place_of(os.environ))
    recording.warm()
    with ExitStack() as stack:
        stack.callback(recording.drain)
        reports = None
        if settings.report:
            from tbparse.launching.report import child_report

            reports = stack.enter_context(child_report())
        try:
            ended = run_once(
                command,
                recording,
                env=None if reports is None else reports.env,
                stdout=settings.stdout,
                pty=settings.pty,
                log=file,
                grace_s=settings.grace_s,
            )
        except OSError as e:
            raise _cannot_start(command[0], e) from None
        if reports is not None:
            recording.amend(partial(reports.apply, paths=settings.paths))
    return ended, recording


def _cannot_start(program: str, error: OSError) -> _StartError:
    if error.filename is None and error.errno not in (errno.ENOEXEC, errno.E2BIG):
        return _StartError(f"cannot run {program}: {error.strerror or error}", ExitCode.RUN_FAILED)
    if isinstance(error, FileNotFoundError) or error.errno == errno.ENOTDIR:
        if os.path.exists(program):
            return _StartError(
                f"{program}: cannot be executed: the interpreter that its first line names is missing", ExitCode.NOT_EXECUTABLE
            )
        return _StartError(f"{program}: not found: give a program on PATH, or its path", ExitCode.NOT_FOUND)
    if error.errno == errno.ENOEXEC:
        return _StartError(
            f"{program}: cannot be executed: it has no #! line; run it with its interpreter", ExitCode.NOT_EXECUTABLE
        )
    return _StartError(f"{program}: cannot be executed: {error.strerror or error}", ExitCode.NOT_EXECUTABLE)


def _explain(answer: RootCause, explainer: Explainer, fmt: str, log: str | None) -> None:
    """The explanation, on standard error, below what the command printed there."""
    import shutil

    from tbparse.cli.terminal import put
    from tbparse.render.report import Report

    if sys.stderr is None:
        return
    colour = bool(os.environ.get("FORCE_COLOR")) or (sys.stderr.isatty() and os.environ.get("TERM") != "dumb")
    colour = colour and not os.environ.get("NO_COLOR")
    text = renderer(fmt)(Report(answer, explainer.job, name=log), width=shutil.get_terminal_size((80, 24)).columns, colour=colour)
    put(sys.stderr, f"\n{text}" if fmt == "text" else text)
    sys.stderr.flush()
