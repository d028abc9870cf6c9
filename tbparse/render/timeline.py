"""``--timeline``: when what happened on which rank, counted from the first sign of trouble."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tbparse.attribute.cascade import Candidate, Tier
from tbparse.attribute.clocks import read_time, scale, time_in
from tbparse.attribute.facts import show_ranks
from tbparse.attribute.job import Decision, Job
from tbparse.attribute.judge import failure_times, in_order
from tbparse.records import Failure, RankExit
from tbparse.render.layout import Sheet, cut
from tbparse.render.safe import printable
from tbparse.render.words import call, count
from tbparse.terms import signal_name

ROWS = 40
"""Rows before the rest is counted."""
_COLUMN = 29


class Event(NamedTuple):
    """One thing that happened: ``at`` in seconds on the job's scale, ``sign`` says how exactly that is known."""

    at: float | None
    sign: str
    rank: int | None
    what: str
    why: str
    no: int
    source: str | None
    cause: bool


def put_timeline(sheet: Sheet, job: Job | None) -> None:
    """The failures and ends of workers in the order in which they happened."""
    decision = job.decision if job is not None else None
    if job is None or decision is None:
        return
    events = _events(decision, job)
    sheet.blank()
    sheet.row(("Timeline, from the first sign", "bold"))
    said = decision.clocks.said()
    if said is not None:
        sheet.text(f"{said[0].upper()}{said[1:]}.", "yellow", indent=2)
    if not events:
        sheet.row(("  nothing that looks like a failure", ""))
        return
    first = min((e.at for e in events if e.at is not None), default=None)
    if decision.absence is not None:
        said = decision.absence.said
        sheet.text(f"{said[0].upper()}{said[1:]}.", "bold", indent=2)
    if first is None:
        sheet.text("No line has a time: this is the order of the log.", "dim", indent=2)
    rows = _merged(events)
    for group in rows[:ROWS]:
        _row(sheet, group, first, "the message" if decision.absence is not None else "the cause")
    if len(rows) > ROWS:
        sheet.row((f"  … {count(len(rows) - ROWS, 'more row')}", "dim"))


def _events(decision: Decision, job: Job) -> list[Event]:
    owners: dict[int, Candidate] = {}
    for c in decision.candidates:
        if c.tier is not Tier.NOTHING:
            owners.update((id(x), c) for x in (c.failure, *c.twins) if not x.in_summary or x is c.failure)
    tabled = {e.pid for e in job.exits if e.pid is not None and e.time is not None}
    found = [x for c in decision.candidates for x in (c.failure, *c.twins) if id(x) in owners]
    failures = [x for x in found if x.kind != "launcher" or x.pid not in tabled]
    times = failure_times(failures, job.exits, decision.clocks)
    out = [_failure_event(x, owners[id(x)], times.get(id(x)), decision) for x in in_order(failures, times)]
    ends = [e for e in _unique(job.exits) if e.time is not None and e.exit_code]
    moments = scale([decision.clocks.at(e.time, e.host) for e in ends])
    if any(read_time(e.time) for e in ends):
        out += [_end_event(e, t) for e, t in zip(ends, moments, strict=True)]
    if len({x.source for x in failures}) <= 1:
        return _woven(out)
    # A rank's failure came before the launcher saw its end.
    limits = {e.rank: e.at for e in out if e.why == _END and e.at is not None}
    out = [e if e.at is not None or e.rank not in limits else e._replace(at=limits[e.rank], sign="≤ ") for e in _once(out)]
    timed = sorted((e for e in out if e.at is not None), key=lambda e: (e.at or 0.0, not e.cause, e.why == _END))
    return timed + [e for e in out if e.at is None]


def _once(events: Sequence[Event]) -> list[Event]:
    """Without copies: what a rank printed stands in its own log and in the console."""
    seen: dict[tuple[int | None, str], str | None] = {}
    out = []
    for e in events:
        key = (e.rank, e.what)
        if e.rank is None or e.why == _END or seen.setdefault(key, e.source) == e.source:
            out.append(e)
    return out


def _woven(events: Sequence[Event]) -> list[Event]:
    """Events of one log stay in its order, whatever their times say; ends of workers go where their time puts them."""
    lines = [e for e in events if e.why != _END]
    for end in (e for e in events if e.why == _END):
        later = next((i for i, e in enumerate(lines) if e.at is not None and e.at > (end.at or 0.0) + 1), len(lines))
        lines.insert(later, end)
    return lines


_END = "as the launcher saw it"


def _failure_event(x: Failure, c: Candidate, at: float | None, decision: Decision) -> Event:
    link = x.links[min(c.root.index, len(x.links) - 1)]
    name = call(x, link)
    head = (link.message or "").strip().split("\n", 1)[0]
    exact = x.tags.time is not None or time_in(x.first.text) is not None
    cause = decision.cause is not None and (c is decision.cause or c.failure is decision.cause.failure)
    line = link.line or x.first
    return Event(at, "+" if exact else "≥ ", x.rank, f"{name}: {head}" if head else name, c.why, line.no, x.source, cause)


def _end_event(e: RankExit, at: float | None) -> Event:
    code = e.exit_code or 0
    how = f"ended by {signal_name(-code) or f'signal {-code}'}" if code < 0 else f"ended with code {code}"
    return Event(at, "+", e.rank if e.rank is not None else e.local_rank, how, _END, e.line.no, e.source, False)


def _unique(exits: Iterable[RankExit]) -> list[RankExit]:
    seen: dict[tuple[object, ...], RankExit] = {}
    for e in exits:
        seen.setdefault((e.host, e.rank, e.pid, e.exit_code), e)
    return list(seen.values())


def _merged(events: Sequence[Event]) -> list[list[Event]]:
    """Neighbours that say the same of different ranks go into one row."""
    out: list[list[Event]] = []
    for event in events:
        if out and _same(out[-1][0], event):
            out[-1].append(event)
        else:
            out.append([event])
    return out


def _same(a: Event, b: Event) -> bool:
    both_known = (a.at is None) == (b.at is None)
    return both_known and _masked(a.what) == _masked(b.what) and a.cause == b.cause and a.rank is not None and b.rank is not None


def _masked(text: str) -> str:
    return text.translate(_NO_DIGITS)


_NO_DIGITS = dict.fromkeys(map(ord, "0123456789"), None)


def _row(sheet: Sheet, group: Sequence[Event], first: float | None, mark: str) -> None:
    event = group[0]
    when = ""
    if first is not None:
        known = [e.at - first for e in group if e.at is not None]
        span = f"{known[0]:.1f}" if known and known[-1] - known[0] < 0.1 else f"{known[0]:.1f} to {known[-1]:.1f}" if known else ""
        when = f"{event.sign}{span} s" if known else "time ?"
    numbers = sorted({e.rank for e in group if e.rank is not None})
    who = show_ranks(numbers)
    lead = f"  {when:<14} {cut(who, 16):<11} "
    mark = f"← {mark}" if event.cause else ""
    room = sheet.width - len(lead) - (len(mark) + 1 if mark else 0)
    style = "bold green" if event.cause else ""
    sheet.row((lead, "dim"), (cut(printable(event.what), room), style), (f" {mark}" if mark else "", "green"))
    where = f"line {event.no}" + (f" of {event.source}" if event.source else "")
    more = f"{count(len(group), 'line')} like {where}" if len(group) > 1 else where
    sheet.text(f"{more}: {event.why}", "dim", indent=_COLUMN)
