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
from tbparse.cli.terminal import complain, message
from tbparse.errors import RuleError, TbparseError, UsageError
from tbparse.render import FORMATS, renderer

if TYPE_CHECKING:
    from tbparse.attribute.origin import PathSettings
    from tbparse.engine import Explainer
    from tbparse.launching.attempt import Ended
    from tbparse.launching.attempts import Attempts
    from tbparse.launching.recording import Recording
    from tbparse.launching.sinks import LogFile
    from tbparse.model import RootCause
    from tbparse.ruleset.match import RuleSet
    from tbparse.settings import Project

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
Profile = Annotated[str | None, typer.Option("--profile", metavar="job|tests", help="As in `tbparse explain`.", show_default=False)]
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

Retries = Annotated[
    int | None,
    typer.Option(
        "--retries", metavar="N", min=0, help="Run it again up to N times while its failure is transient.", show_default=False
    ),
]
RetryWait = Annotated[
    float | None,
    typer.Option(
        "--retry-wait", metavar="SECONDS", min=0.0, help="Wait so long before, not as the rule advises.", show_default=False
    ),
]
HistoryFile = Annotated[
    str | None,
    typer.Option("--history", metavar="FILE", help="Append a JSON line for each attempt to FILE.", show_default=False),
]
HistoryKey = Annotated[
    str | None,
    typer.Option(
        "--history-key",
        metavar="TEXT",
        help="Which job it is in the history: attempts with the same TEXT are one job's. Otherwise the scheduler's job id and the "
        "command, or the command, the working folder and the user.",
        show_default=False,
    ),
]
ProgressFile = Annotated[
    str | None,
    typer.Option(
        "--progress-file", metavar="FILE", help="When FILE is written, the job gets on (a checkpoint).", show_default=False
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
    rules: RuleSet | None


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
    profile: Profile = None,
    user_path: UserPath = None,
    library_path: LibraryPath = None,
    retries: Retries = None,
    retry_wait: RetryWait = None,
    history: HistoryFile = None,
    history_key: HistoryKey = None,
    progress_file: ProgressFile = None,
) -> None:
    """Run a command, pass all it prints through, and say why it failed.

    Exits with the command's own code (128+N for signal N); 125 where tbparse itself fails, 126 where the command cannot be
    executed, 127 where it is not found.
    """
    try:
        startup.load_model()
        from tbparse.settings import load_project

        project = load_project()
        settings = _settings(log, report, pty, stdout, grace, profile, user_path, library_path, project)
        if format not in FORMATS:
            raise UsageError(f"no format `{format}`: choose one of {', '.join(FORMATS)}")
        if not command:
            raise UsageError("nothing to run: give the command behind --, as in `tbparse run -- python train.py`")
        attempts = _attempts(command, retries, retry_wait, history, history_key, progress_file, project)
    except (UsageError, RuleError) as e:
        complain(e)
        raise typer.Exit(ExitCode.USAGE) from None
    try:
        code = _run(command, settings, "" if quiet else format, attempts, by_verdict=exit_code)
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
    profile: str | None,
    user_path: list[str] | None,
    library_path: list[str] | None,
    project: Project,
) -> Settings:
    if pty not in ("auto", "yes", "no"):
        raise UsageError(f"--pty {pty}: choose one of auto, yes, no")
    if stdout not in ("tee", "inherit"):
        raise UsageError(f"--stdout {stdout}: choose one of tee, inherit")
    from tbparse.attribute.origin import PathSettings

    in_force = project.profile(profile)
    rules = project.rules(in_force)
    if rules is None and in_force != "job":
        from tbparse.ruleset.match import builtin_rules

        builtin_rules(in_force)  # refuses a profile that does not exist
    user, library = project.paths
    roots = PathSettings((*(user_path or ()), *user), (*(library_path or ()), *library))
    return Settings(
        log,
        report,
        cast("Literal['auto', 'yes', 'no']", pty),
        cast("Literal['tee', 'inherit']", stdout),
        grace,
        in_force,
        roots,
        rules,
    )


def _attempts(
    command: list[str],
    retries: int | None,
    wait: float | None,
    history: str | None,
    key: str | None,
    progress_file: str | None,
    project: Project,
) -> Attempts | None:
    """Who decides about further attempts, by the options and else by the project; None where neither asks for any."""
    if retries is None and project.get("attempts") is not None:
        retries = project.attempts - 1
    if key is not None and not key.strip():
        raise UsageError("--history-key: give a text that names the job")
    if key is not None and history is None:
        raise UsageError("--history-key says which job's attempts in a history these are: give --history FILE as well")
    if not retries and history is None:
        return None
    from pathlib import Path

    from tbparse.launching.attempts import Attempts
    from tbparse.launching.history import History

    return Attempts(
        command,
        retries or 0,
        wait if wait is not None else project.get("wait"),
        project.get("timeout"),
        History(history) if history is not None else None,
        Path(progress_file) if progress_file is not None else None,
        key=key,
    )


class _StartError(TbparseError):
    """The command could not be started; ``code`` is what a shell would exit with."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


def _run(command: list[str], settings: Settings, fmt: str, attempts: Attempts | None, *, by_verdict: bool) -> int:
    """Run it, explain it in the format ``fmt`` (``""``: not at all), and return what to exit with."""
    from tbparse.launching.sinks import LogFile

    file = LogFile(settings.log) if settings.log is not None else None
    stopped: int | None = None
    try:
        if attempts is None:
            ended, recording = _attempt(command, settings, file)
            answer = recording.finish(ended.returncode)
        else:
            ended, recording, answer, stopped = _attempt_again(command, settings, file, attempts)
    finally:
        if file is not None:
            file.close()
    code = ended.returncode if ended.returncode >= 0 else 128 - ended.returncode
    if stopped is not None:
        code = 128 + stopped
    if fmt:
        for note in ended.notes:
            message(f"tbparse: {note}")
        if ended.returncode or answer.verdict != "clean":
            _explain(answer, recording.explainer, fmt, settings.log)
    return BY_VERDICT[answer.verdict] if by_verdict else code


def _attempt_again(
    command: list[str], settings: Settings, file: LogFile | None, attempts: Attempts
) -> tuple[Ended, Recording, RootCause, int | None]:
    """Run it until there is no further attempt: the last one, its answer, and the signal that ended the pause after it."""
    from tbparse.launching.waiting import Waiting
    from tbparse.render.line import one_line

    def tell(name: str) -> None:
        message(f"tbparse: {name} came while no command runs, so it reaches none")

    while True:
        attempts.begin()
        ended, recording = _attempt(command, settings, file)
        with Waiting(tell) as waiting:
            answer = recording.finish(ended.returncode)
            told = bool(ended.received or waiting.received)
            following = attempts.end(answer, ended.returncode, recording.text(), told_to_stop=told)
            if following.wait_s is None:
                break
            message(
                f"tbparse: attempt {attempts.number} failed: {one_line(answer)}; "
                f"again in {following.wait_s:.0f} s ({following.why})"
            )
            waiting.sleep(following.wait_s)
        if waiting.received:
            message(f"tbparse: not run again: {attempts.stopped(waiting.received[0])}")
            return ended, recording, following.answer, waiting.received[0]
    if ended.returncode and attempts.retries:
        message(f"tbparse: not run again: {following.why}")
    return ended, recording, following.answer, None


def _attempt(command: list[str], settings: Settings, file: LogFile | None) -> tuple[Ended, Recording]:
    """One run of the command, and what it printed."""
    from tbparse.launching.attempt import run_once
    from tbparse.launching.place import place_of
    from tbparse.launching.recording import Recording

    def make_explainer() -> Explainer:
        from tbparse.engine import Explainer

        made = Explainer(rules=settings.rules, profile=settings.profile, paths=settings.paths)
        startup.end()
        return made

    recording = Recording(make_explainer, place=place_of(os.environ))
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
