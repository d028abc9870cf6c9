"""The child's own report of the exception that ended it: an environment that asks for it, and what comes back.

The hook that writes it is ``tbparse/launching/hook``; every Python that the child starts reads it through ``PYTHONPATH``. Python
3.8 or later; ``python -E``, ``-I`` and ``-S`` do without, and so does a child that sets ``PYTHONPATH`` anew. tbparse need not be
installed where the child runs. A report holds what the interpreter knew, so there is nothing to guess: types with their modules,
whole messages, frames, causes, groups, the process and its rank.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from tbparse.attribute.origin import NO_SETTINGS, PathSettings, mark_frames
from tbparse.attribute.unwrap import exit_facts
from tbparse.dialects.frames import HEADER_TEXT
from tbparse.dialects.reader import ChainReader, relate
from tbparse.dialects.wrappers import LAUNCHER_WRAPPERS, short
from tbparse.launching.place import place_of
from tbparse.launching.report_env import HOOK, ChildReports, child_report, reporting_env
from tbparse.records import Failure, Frame, Line, Link, Tags
from tbparse.terms import Relation

if TYPE_CHECKING:
    from tbparse.engine import Explainer

_RELATIONS = frozenset(get_args(Relation))


@dataclass(frozen=True)
class ChildReport:
    """One process's uncaught exception: ``time`` in seconds since the epoch, ``links`` outermost first, ``text`` as printed."""

    time: float
    pid: int
    ppid: int | None
    host: str | None
    place: Tags
    attempt: int | None
    multiprocessing: bool
    text: str
    links: tuple[Link, ...]


def read_report(raw: bytes) -> ChildReport:
    """A report file's content. Raises ValueError, KeyError or TypeError for anything else."""
    data: dict[str, Any] = json.loads(raw)
    env: dict[str, str] = data["env"]
    attempt = env.get("TORCHELASTIC_RESTART_COUNT", "")
    links = _links(data["links"])
    if not links:
        raise ValueError("it holds no exception")
    return ChildReport(
        time=float(data["time"]),
        pid=int(data["pid"]),
        ppid=data.get("ppid"),
        host=data.get("host"),
        place=place_of(env)._replace(host=data.get("host")),
        attempt=int(attempt) if attempt.isdigit() else None,
        multiprocessing=bool(data.get("multiprocessing")),
        text=str(data["text"]),
        links=tuple(links),
    )


def _links(raw: Sequence[dict[str, Any]]) -> list[Link]:
    """Links as a dialect would read them: outermost first, groups followed by their first leaf."""
    out: list[Link] = []
    for one in raw:
        relation = one.get("relation", "root")
        link = Link(_name(one), str(one["message"]), [_frame(x) for x in one["frames"]], relation=relation)
        if relation not in _RELATIONS:
            raise ValueError(f"unknown relation {relation!r}")
        notes = one.get("notes")
        if notes:
            link.message = "\n".join([link.message or "", *notes]).strip("\n")
        syntax = one.get("syntax")
        if syntax and syntax.get("filename"):
            link.message = str(syntax.get("msg") or link.message)
            source = syntax.get("text")
            link.frames.append(Frame(str(syntax["filename"]), syntax.get("lineno"), None, source.strip() if source else None))
        out.append(link)
        leaves = [x for x in (_links(leaf) for leaf in one.get("leaves", ())) if x]
        if leaves and relation != "cause":  # what a group holds says more than what was being handled around it
            link.relation, link.leaves = "group", leaves[1:]
            return out + leaves[0]
        nested = _quoted(link)
        if nested and relation == "root":
            return out + nested
    return out


def _quoted(link: Link) -> list[Link]:
    """What the message of a remote exception quotes (workers of DataLoader, pools, spawn), read as it would be printed."""
    if HEADER_TEXT not in (link.message or "") or short(link.exception) in LAUNCHER_WRAPPERS:
        return []
    text = f'{HEADER_TEXT}:\n  File "{HOOK}", line 1, in quoted\n{link.exception}: {link.message}'
    nested, _ = ChainReader([Line(n, n, n, t) for n, t in enumerate(text.split("\n"), 1)]).chain(0)
    relate(nested)
    if len(nested) < 2 or nested[0].exception != link.exception:
        return []
    link.relation, link.message = nested[0].relation, nested[0].message
    return nested[1:]


def _name(one: Mapping[str, Any]) -> str:
    """The type as the interpreter prints it: without the module where it is ``builtins`` or ``__main__``."""
    module, name = one.get("module"), str(one["type"])
    return name if module in (None, "builtins", "__main__") else f"{module}.{name}"


def _frame(raw: Mapping[str, Any]) -> Frame:
    line = raw.get("line")
    return Frame(str(raw["path"]), int(line) if line is not None else None, raw.get("function"), raw.get("source"))


def apply_reports(explainer: Explainer, reports: Sequence[ChildReport], *, paths: PathSettings | None = None) -> int:
    """Add reports to what the explainer found; how many there were.

    Where the log shows the traceback too, the report takes its place and keeps its lines as evidence: one failure, not two.
    """
    if not reports:
        return 0
    explainer.drain()
    for order, report in enumerate(reports):
        failure = _failure(report, order)
        if _known_wrapper(explainer.job.failures, failure):
            continue
        mark_frames(failure.links, paths if paths is not None else NO_SETTINGS)
        exit_facts(failure)
        _take_printed(explainer.job.failures, failure)
        explainer.job.failures.append(failure)
    return len(reports)


def _known_wrapper(failures: Sequence[Failure], reported: Failure) -> bool:
    """A launcher's own exception that the log shows already: it says nothing of its child that the text does not."""
    name = reported.root.exception
    return short(name) in LAUNCHER_WRAPPERS and any(link.exception == name for x in failures for link in x.links)


def _failure(report: ChildReport, order: int) -> Failure:
    """The report as a failure of a log of its own: one line a report."""
    root = report.links[-1]
    text = f"{root.exception}: {root.message}" if root.message else str(root.exception)
    line = Line(order + 1, order, order, text.split("\n", 1)[0], tags=report.place)
    links = list(report.links)
    for link in links:
        link.line, link.first_line = line, line
    failure = Failure("traceback", "report", links, line, line, tags=report.place)
    failure.pid, failure.attempt, failure.reported = report.pid, report.attempt, True
    failure.source = f"the report of process {report.pid}"
    return failure


def _take_printed(failures: list[Failure], reported: Failure) -> None:
    """Take the printed copy of a report out of the failures, and its lines over."""
    root = reported.root
    same = [
        x
        for x in failures
        if not x.reported
        and x.kind == "traceback"
        and (x.rank is None or reported.rank is None or x.rank == reported.rank)
        and any(y.exception == root.exception and _alike(y.message, root.message) for y in x.links)
    ]
    same.sort(key=lambda x: (_last_line(x.root) != _last_line(root), x.damaged is not None, x.source is not None))
    summaries = [x for x in same if x.in_summary]  # a launcher's table quotes what the process wrote down for it
    failures[:] = [x for x in failures if not any(x is y for y in summaries)]
    same = [x for x in same if not x.in_summary] or summaries
    for copy in same[:1]:
        if _last_line(copy.root) != _last_line(root) and copy.damaged is None and not copy.in_summary:
            return
        failures[:] = [x for x in failures if x is not copy]
        reported.first, reported.last, reported.source, reported.stream = copy.first, copy.last, copy.source, copy.stream
        for link in reported.links:
            twin = next((y for y in copy.links if y.exception == link.exception and y.line is not None), copy.root)
            link.line, link.first_line, link.rank = twin.line, twin.first_line, twin.rank
        # What wrapped it on its way to the log (mp.spawn's ProcessRaisedException) is not in the process's own report.
        top = reported.links[0]
        at = next((k for k, y in enumerate(copy.links) if y.exception == top.exception and _alike(y.message, top.message)), 0)
        reported.links = copy.links[:at] + reported.links
        reported.rank_hint = copy.rank_hint


def _alike(a: str | None, b: str | None) -> bool:
    """Equal messages; a printed one may have been cut short."""
    a, b = (a or "").strip(), (b or "").strip()
    return a == b or (len(a) > 40 and b.startswith(a)) or (len(b) > 40 and a.startswith(b))


def _last_line(link: Link) -> int | None:
    return link.frames[-1].line if link.frames else None


__all__ = ["ChildReport", "ChildReports", "apply_reports", "child_report", "read_report", "reporting_env"]
