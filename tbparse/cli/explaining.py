"""What ``tbparse explain`` does, once its options are read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tbparse.cli import startup
from tbparse.cli.exits import ExitCode, worst
from tbparse.cli.terminal import colour_wanted, complain, guarded, message, width, write
from tbparse.errors import InputError, UsageError
from tbparse.render import FORMATS, PLAIN, renderer

if TYPE_CHECKING:
    from tbparse.attribute.origin import PathSettings
    from tbparse.engine import Explainer
    from tbparse.logs.folder import JobFolder
    from tbparse.model import RootCause
    from tbparse.render.report import Report
    from tbparse.ruleset.match import RuleSet


class Asked(NamedTuple):
    """The options of one call; :mod:`tbparse.cli.explain` says what each means."""

    paths: tuple[str, ...]
    format: str = "text"
    log_dir: str | None = None
    job: bool = False
    why: bool = False
    every: bool = False
    timeline: bool = False
    profile: str | None = None
    exit_code: bool = False
    returncode: int | None = None
    user_path: tuple[str, ...] = ()
    library_path: tuple[str, ...] = ()
    packs: tuple[str, ...] = ()
    tail: str | None = None


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
    tail: int | None = None


def answer(asked: Asked) -> ExitCode:
    """Answer what was asked, and say what to exit with. Raises SystemExit for what cannot be asked."""
    with guarded():
        from tbparse.attribute.origin import PathSettings
        from tbparse.settings import load_project

        targets = asked.paths
        if asked.format not in FORMATS:
            raise UsageError(f"no format `{asked.format}`: choose one of {', '.join(FORMATS)}")
        if asked.log_dir is not None and len(targets) > 1 and not asked.job:
            raise UsageError("--log-dir belongs to one job: give one PATH with it, the console's log, or --job for several")
        if asked.job and asked.log_dir is None and len(targets) < 2 and not any(map(os.path.isdir, targets)):
            raise UsageError("--job makes several logs one job: give two or more PATHs, or a folder")
        if not targets and asked.log_dir is None:
            raise UsageError("nothing to explain: give the PATH of a log, or - for standard input (see --help)")
        if targets.count("-") > 1:
            raise UsageError("standard input can be read once only: give - once")
        tail = _size(asked.tail) if asked.tail is not None else None
        if tail is not None and (asked.job or asked.log_dir is not None or any(map(os.path.isdir, targets))):
            raise UsageError("--tail reads the end of single logs: give files, without --job and --log-dir")
        shown = Shown(asked.why, asked.every, asked.timeline)
        if asked.format != "text" and any(shown):
            message("tbparse: --why, --all and --timeline show only in the text format")
        project = load_project()
        user, library = project.paths
        roots = PathSettings((*asked.user_path, *user), (*asked.library_path, *library))
        in_force = project.profile(asked.profile)
        settings = Settings(in_force, project.rules(in_force, asked.packs), roots, asked.returncode, asked.log_dir, asked.job, tail)
        verdicts, failed = _explain_all(_jobs(targets, one=asked.job), settings, asked.format, shown)
    if failed:
        return ExitCode.NO_INPUT
    return worst(verdicts) if asked.exit_code else ExitCode.OK


_SIZE = re.compile(r"([0-9]{1,15})(?:([KMGT])(?:i?B)?|B)?", re.ASCII | re.IGNORECASE)


def _size(text: str) -> int:
    """Bytes of a size as it is written: ``16M``, ``500k``, ``1 GiB``; a K is 1024. Raises UsageError for what is none."""
    m = _SIZE.fullmatch(text.replace(" ", ""))
    if m is None or not int(m[1]):
        raise UsageError(f"--tail {text}: is no size: say how much of the end to read, such as 16M")
    return int(m[1]) << (10 * ("KMGT".index(m[2].upper()) + 1) if m[2] else 0)


def _jobs(targets: tuple[str, ...], *, one: bool) -> list[tuple[str, ...]]:
    """What to answer one by one: each a job's PATHs, none of them where only a folder of ranks was given."""
    if one or not targets:
        return [targets]
    return [(t,) for t in targets]


def _explain_all(asked: Sequence[tuple[str, ...]], settings: Settings, fmt: str, shown: Shown) -> tuple[list[str], bool]:
    """Answer each job as soon as it is read. The verdicts, and whether a log could not be read."""
    render = renderer(fmt)
    colour, columns = colour_wanted(), width()
    verdicts: list[str] = []
    failed = False
    for targets in asked:
        try:
            for report in _reports(targets, settings, fmt, titled=len(asked) > 1, shown=shown):
                if fmt == "text" and verdicts:
                    write("\n")
                write(render(report, width=columns, colour=colour), data=fmt == "json")
                verdicts.append(report.answer.verdict)
        except InputError as e:
            # The others are answered all the same.
            complain(e)
            failed = True
    return verdicts, failed


def _reports(targets: tuple[str, ...], settings: Settings, fmt: str, *, titled: bool, shown: Shown) -> Iterator[Report]:
    """The answers about what was asked: one, or one for each job that a folder holds."""
    from tbparse.engine import Explainer
    from tbparse.render.report import Report

    jobs = _folders(targets, settings)
    for job in jobs:
        explainer = Explainer(rules=settings.rules, profile=settings.profile, paths=settings.paths)
        startup.end()
        name = targets[0] if len(targets) == 1 else None
        if job is None or (len(targets) == 1 and not os.path.isdir(targets[0])) or "-" in targets:
            _read(explainer, "-" if "-" in targets else targets[0], settings.tail)
        if job is not None:
            _read_folder(explainer, job, settings)
            name = str(job.root) if len(jobs) > 1 or name is None else name
        found = _finish(explainer, settings.returncode, fmt)
        name = "standard input" if name == "-" else name
        yield Report(found, explainer.job, name=name, titled=titled or len(jobs) > 1, **shown._asdict())


def _finish(explainer: Explainer, returncode: int | None, fmt: str) -> RootCause:
    """The answer as the format needs it."""
    if fmt in PLAIN:
        from tbparse.render.plain import plain

        return plain(explainer.values(returncode))
    startup.load_model()
    return explainer.finish(returncode)


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


def _read(explainer: Explainer, target: str, tail: int | None) -> None:
    from tbparse.logs.source import LogSource

    source = LogSource(target, tail)
    for chunk in source.portions():
        if source.skipped and source.size == len(chunk):
            explainer.skip(source.skipped)
        explainer.feed(chunk)
    explainer.job.notes.extend(source.notes)
    if source.size == 0:
        message(f"tbparse: {source.name}: is empty: nothing was printed, or it went elsewhere")
