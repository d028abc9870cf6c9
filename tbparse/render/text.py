"""The answer for a person: one screen, the verdict first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tbparse.attribute.facts import show_ranks
from tbparse.render.layout import Sheet, Span, cells, cut, short_path, wrap
from tbparse.render.report import Report
from tbparse.render.safe import printable
from tbparse.render.words import call, count, ends, last_part, rank_numbers

if TYPE_CHECKING:
    from tbparse.model import Attempt, RootCause, Secondary, Site

BANNERS = {
    "real": ("REAL", "bold white on red", "will fail again until something is changed"),
    "transient": ("TRANSIENT", "bold black on yellow", "running it again may well work"),
    "unknown": ("UNKNOWN", "bold white on magenta", "the log does not tell whether running it again would help"),
    "clean": ("CLEAN", "bold black on green", "nothing failed"),
}
_RETRY = {
    "retry": "run it again",
    "retry_elsewhere": "run it again on another node",
    "retry_later": "run it again later",
}
MESSAGE_ROWS = 4
ADVICE_ITEMS = 5


def render(report: Report, *, width: int = 80, colour: bool = False) -> str:
    """The report on one screen of ``width`` cells."""
    sheet = Sheet(width)
    answer = report.answer
    if report.titled and report.name is not None:
        name = short_path(report.name, sheet.width - 6)
        sheet.row((f"── {name} ", "dim"), ("─" * max(0, sheet.width - 4 - cells(name)), "dim"))
    _put_banner(sheet, answer)
    if answer.verdict == "clean":
        _put_clean(sheet, report)
    else:
        _put_failure(sheet, report)
    if report.timeline:
        from tbparse.render.timeline import put_timeline

        put_timeline(sheet, report.job)
    if report.why:
        from tbparse.render.contest import put_contest

        put_contest(sheet, report.job)
    if report.every:
        from tbparse.render.contest import put_failures

        put_failures(sheet, report.job)
    return sheet.written(colour)


def _put_banner(sheet: Sheet, answer: RootCause) -> None:
    word, style, meaning = BANNERS[answer.verdict]
    first, *rest = wrap(meaning, sheet.width - cells(word) - 3)
    sheet.row((word, style), (f" — {first}", "bold"))
    for line in rest:
        sheet.row((line, "bold"))
    parts: list[str] = []
    if answer.category is not None and answer.category != "unknown":
        parts.append(answer.category)
    if answer.title is not None or answer.verdict != "clean":
        parts.append(answer.title or "no rule knows this failure")
    if parts:
        sheet.text(": ".join(parts))
    sheet.blank()


def _put_clean(sheet: Sheet, report: Report) -> None:
    from tbparse.render.reasons import reasons

    sheet.item("why", [(s, "") for s in reasons(report.answer, report.job)])
    sheet.item("note", [(n, "") for n in report.answer.notes])
    if sheet.rows and not sheet.rows[-1]:
        sheet.rows.pop()


def _attempt(attempt: Attempt) -> str:
    """``0: NameError: name 'x' is not defined (rank 1)``."""
    name = last_part(attempt.exception) if attempt.exception else None
    said = ": ".join(x for x in (name, attempt.message) if x) or "no failure of its own is in the log"
    return f"{attempt.number}: {said[:160]}" + (f" (rank {attempt.rank})" if attempt.rank is not None else "")


def _put_failure(sheet: Sheet, report: Report) -> None:
    from tbparse.render.reasons import effects, reasons

    answer = report.answer
    sheet.item("what", _what(answer, sheet.room))
    sheet.item("where", _where(answer, sheet.room))
    sheet.item("who", [(x, "") for x in [_who(report)] if x])
    sheet.blank()
    sheet.item("why", [(s, "") for s in reasons(answer, report.job)])
    sheet.item("others", [(s, "") for s in effects(report.job)])
    sheet.item("tries", [(_attempt(a), "") for a in answer.attempts])
    sheet.item("note", [(n, "yellow") for n in answer.notes])
    sheet.blank()
    sheet.item("do", _advice(answer, sheet.room))
    sheet.item("retry", [(_retry(answer), "")])
    sheet.blank()
    sheet.item("hidden", [(x, "dim") for x in [_hidden(report)] if x])
    sheet.item("rule", [(f"{answer.rule or 'none'}, {answer.confidence} confidence", "dim")])
    sheet.item("log", [[(x, "dim")] for x in [_source(report, sheet.room)] if x])
    if answer.rule is None and answer.evidence:
        from tbparse.render.unruled import put_command

        put_command(sheet, report)


def _what(answer: RootCause, room: int) -> Iterator[Span | list[Span]]:
    """``Type: message``, its first rows, and how much more there is."""
    lines = (answer.message or "").strip("\n").split("\n")
    head = printable(answer.exception or "")
    first = printable(lines[0])
    if not head and not first:
        first = ends(answer) or "it failed, and the log does not say how"
    opening = f"{head}: {first}" if head and first else head or first
    rows = wrap(opening, room)
    shown = rows[:MESSAGE_ROWS]
    for i, row in enumerate(shown):
        # The type stands out; where it is broken over rows the message's own colour does.
        if i == 0 and head and row.startswith(head):
            yield [(head, "bold red"), (row[len(head) :], "")]
        else:
            yield [(row, "" if head else "bold")]
    left = [x for x in lines[1:] if x.strip()]
    for line in left[:2] if len(shown) + 1 < MESSAGE_ROWS and len(rows) == len(shown) else []:
        yield [(cut(printable(line.rstrip()), room), "")]
        left = left[1:]
    more = [count(len(left), "more line")] if left else []
    if len(rows) > len(shown):
        more.insert(0, count(sum(len(r) + 1 for r in rows[len(shown) :]) - 1, "more character"))
    if more:
        yield (f"… {' and '.join(more)} (--format json has all)", "dim")


def _where(answer: RootCause, room: int) -> Iterator[Span | list[Span]]:
    site, entry = answer.site, answer.entry
    if site is None:
        if answer.frames:
            deepest = answer.frames[-1]
            yield from _place(deepest, room, "")
            yield (f"({deepest.origin} code: the log shows no frame of your own)", "dim")
        return
    yield from _place(site, room, "bold cyan")
    if entry is not None and (entry.path, entry.line) != (site.path, site.line):
        yield [("from ", "dim"), *_spot(entry, room - 5, "")]


def _place(site: Site, room: int, style: str) -> Iterator[list[Span]]:
    yield _spot(site, room, style)
    if site.source and site.source.strip():
        yield [("    ", ""), (cut(printable(site.source.strip()), room - 4), "")]


def _spot(site: Site, room: int, style: str) -> list[Span]:
    """``path:line in function``, the path shortened in its middle where the row is too short."""
    number = f":{site.line}" if site.line is not None else ""
    function = f" in {cut(printable(site.function), max(12, room // 2))}" if site.function else ""
    return [(short_path(site.path, room - cells(number + function)) + number, style), (function, "")]


def _who(report: Report) -> str | None:
    answer = report.answer
    parts: list[str] = []
    cause = report.job.decision.cause if report.job is not None and report.job.decision is not None else None
    elsewhere = answer.rank is not None and cause is not None and answer.rank not in (cause.failure.rank, *rank_numbers([cause]))
    absent = elsewhere and "missing_ranks" in answer.captures
    if answer.rank is not None:
        other = f" (local rank {answer.local_rank})" if answer.local_rank not in (None, answer.rank) else ""
        parts.append(f"rank {answer.rank}{other}{' did not arrive' if absent else ''}")
    elif answer.local_rank is not None:
        parts.append(f"local rank {answer.local_rank}")
    if answer.host is not None:
        parts.append(f"host {answer.host}")
    if answer.process is not None:
        parts.append(answer.process)
    if answer.attempt is not None:
        parts.append(f"attempt {answer.attempt}")
    end = ends(answer)
    if end is not None and (answer.exception or answer.message) and not elsewhere:
        parts.append(end)
    if cause is not None:
        same = [r for r in rank_numbers([cause]) if r != answer.rank]
        if same:
            parts.append(f"{'the message is of' if elsewhere else 'the same on'} {show_ranks(same)}")
    return ", ".join(parts) or None


def _advice(answer: RootCause, room: int) -> Iterator[list[Span]]:
    for advice in answer.advice[:ADVICE_ITEMS]:
        for i, row in enumerate(wrap(printable(advice), room - 2)):
            yield [("- " if i == 0 else "  ", "dim"), (row, "")]
    if len(answer.advice) > ADVICE_ITEMS:
        yield [(f"… {len(answer.advice) - ADVICE_ITEMS} more: --format json", "dim")]


def _retry(answer: RootCause) -> str:
    retry = answer.retry
    if retry.action == "stop":
        return "no, change something first" if answer.verdict == "real" else "no, not by itself: look first"
    parts = [_RETRY[retry.action]]
    if retry.delay_s:
        parts.append(f"after {_seconds(retry.delay_s)}")
    if retry.max:
        parts.append(f"at most {count(retry.max, 'time')}")
    return ", ".join(parts)


def _seconds(s: float) -> str:
    return f"{s / 60:g} min" if s >= 120 and s % 60 == 0 else f"{s:g} s"


def _hidden(report: Report) -> str | None:
    """What the screen leaves out, counted."""
    answer = report.answer
    parts: list[str] = []
    decision = report.job.decision if report.job is not None else None
    if decision is not None and decision.cause is not None:
        links = [x for c in (decision.cause, *decision.wrappers) for x in c.failure.links]
        launcher = sum(1 for link in links for x in link.frames if x.plumbing and x.origin == "launcher")
        parts += [count(launcher, "launcher frame")] if launcher else []
    library = sum(1 for x in answer.frames if x.origin in ("library", "stdlib"))
    parts += [count(library, "library frame")] if library else []
    others = _others(report)
    if others:
        total = sum(s.count for _, s in others)
        parts.append(f"{count(total, 'other failure')} ({_kinds(others)}; see --all)")
    return ", ".join(parts) or None


def _others(report: Report) -> list[tuple[str, Secondary]]:
    """The failures beside this one, and what they are called."""
    decision = report.job.decision if report.job is not None else None
    names: dict[int, str] = {}
    own: set[int] = set()
    if decision is not None and decision.cause is not None:
        lines = (decision.cause.root.link.line, decision.cause.proof)
        own = {x.no for x in lines if x is not None and decision.cause.failure.source is None}
        for c in decision.candidates:
            names[(c.root.link.line or c.failure.first).no] = call(c.failure, c.root.link)
    out = []
    for s in report.answer.secondary:
        if s.line not in own:
            out.append((last_part(s.exception) if s.exception else names.get(s.line or 0, "no exception"), s))
    return out


def _kinds(others: list[tuple[str, Secondary]]) -> str:
    """The other failures by exception, with their ranks."""
    groups: dict[str, list[Secondary]] = {}
    for name, s in others:
        groups.setdefault(name, []).append(s)
    sizes = {name: sum(s.count for s in found) for name, found in groups.items()}
    shown = sorted(groups.items(), key=lambda kv: -sizes[kv[0]])
    out = []
    for name, found in shown[:3]:
        who = show_ranks(r for s in found for r in (s.rank, *s.ranks) if r is not None)
        out.append((f"{sizes[name]:,} × " if sizes[name] > 1 else "") + name + (f" on {who}" if who else ""))
    return "; ".join(out) + (f"; {count(len(shown) - 3, 'other kind')}" if len(shown) > 3 else "")


def _source(report: Report, room: int) -> str | None:
    """``train.log:120``: where in the log to look, and at which other lines."""
    evidence = report.answer.evidence
    if not evidence:
        return None
    lines = sorted({e.line for e in evidence})
    decision = report.job.decision if report.job is not None else None
    main = lines[-1]
    if decision is not None and decision.cause is not None:
        link = decision.cause.root.link
        main = link.line.no if link.line is not None and link.line.no in lines else main
        # That a traceback begins above its last line goes without saying.
        lines = [n for n in lines if n not in (main, decision.cause.failure.first.no)]
    else:
        lines = lines[:-1]
    tail = f" (also line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))})" if lines else ""
    where = evidence[0].source or report.name
    if where is None:
        return f"line {main}{tail}"
    return f"{short_path(where, room - cells(f':{main}{tail}'))}:{main}{tail}"
