"""When things happened, as the log tells, and how far the clocks of hosts are apart.

A time in a log is local to its host and often without year, or without a date. So times are only ever compared, and only
as far as all of them tell: with their date where each has one, else within the day.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

DAY = 86_400.0
NOTABLE_SKEW = 1.5
"""Seconds: below that, clocks count as equal."""
MIN_COMMON = 3
"""So many steps have to be known of two hosts before their clocks are compared."""

# Compiled when a time is first read: many logs have none.
_ISO = r"(\d{4})[-/](\d\d)[-/](\d\d)[T _](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:?\d\d)?"
_GLOG = r"\b(\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)(?:[.,](\d+))?"
_MONTH_DAY = r"\b(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:[.,](\d+))?"
_SYSLOG = r"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:[.,](\d+))?"
_CLOCK = r"\b(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?"
_EPOCH = r"^\d{9,10}(?:\.\d+)?$"
_C10 = r"^\[?[EWIF] ?(\d{3,4} \d\d:\d\d:\d\d(?:\.\d+)?)"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_BEFORE = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)
"""Days before each month. February always has 29: most times have no year, and all have to be on one scale."""


class Moment(NamedTuple):
    """A time of day in seconds, and the day of the year where the log tells it (None where not)."""

    day: int | None
    second: float


def read_time(text: str | None) -> Moment | None:
    """The time that a prefix or a launcher's table shows; None for what is none."""
    if not text:
        return None
    text = text.strip()
    if re.match(_EPOCH, text):
        from datetime import datetime, timezone

        seconds = float(text)
        date = datetime.fromtimestamp(seconds // DAY * DAY, timezone.utc)
        return Moment(_day(date.month, date.day), seconds % DAY)
    if m := re.search(_ISO, text):
        second = _second(m[4], m[5], m[6], m[7])
        zone = m[8]
        if zone and zone != "Z":
            second -= (1 if zone[0] == "+" else -1) * (int(zone[1:3]) * 3600 + int(zone[-2:]) * 60)
        return _shifted(_day(int(m[2]), int(m[3])), second)
    for pattern in (_GLOG, _MONTH_DAY):
        if (m := re.search(pattern, text)) and 1 <= int(m[1]) <= 12:
            return Moment(_day(int(m[1]), int(m[2])), _second(m[3], m[4], m[5], m[6]))
    if m := re.search(_SYSLOG, text):
        return Moment(_day(_MONTHS.index(m[1]) + 1, int(m[2])), _second(m[3], m[4], m[5], m[6]))
    if m := re.search(_CLOCK, text):
        return Moment(None, _second(m[1], m[2], m[3], m[4]))
    return None


def time_in(text: str) -> str | None:
    """The time that a c10d log line carries in its own text (``[E1130 18:04:40.2 ProcessGroupNCCL.cpp:616] …``)."""
    if not text or text[0] not in "[EWIF":
        return None
    m = re.match(_C10, text)
    return m[1] if m else None


def _second(h: str, m: str, s: str, fraction: str | None) -> float:
    return int(h) * 3600 + int(m) * 60 + int(s) + (float(f"0.{fraction}") if fraction else 0.0)


def _day(month: int, day: int) -> int | None:
    return _BEFORE[month - 1] + day if 1 <= month <= 12 and 1 <= day <= 31 else None


def _shifted(day: int | None, second: float) -> Moment:
    if day is not None:
        day += int(second // DAY)
    return Moment(day, second % DAY)


@dataclass(frozen=True)
class Clocks:
    """How many seconds each host's clock runs ahead of the first one's, as far as the log tells."""

    skew: Mapping[str, float]
    reference: str | None = None

    def at(self, time: str | None, host: str | None) -> Moment | None:
        """The moment that a host's time stands for, by the reference's clock."""
        moment = read_time(time)
        if moment is None or host is None or host not in self.skew:
            return moment
        return _shifted(moment.day, moment.second - self.skew[host])

    @property
    def notable(self) -> dict[str, float]:
        """Hosts whose clock is visibly off."""
        return {h: s for h, s in self.skew.items() if abs(s) >= NOTABLE_SKEW}

    def said(self) -> str | None:
        """A sentence about it, or None where all clocks agree or nothing is known."""
        off = sorted(self.notable.items())
        if not off:
            return None
        told = ", ".join(f"{h} {abs(s):.0f} s {'ahead' if s > 0 else 'behind'}" for h, s in off[:4])
        more = f" and {len(off) - 4} more" if len(off) > 4 else ""
        return f"clocks differ: against {self.reference}, {told}{more} (by the steps that all of them log); times are corrected"


def compare(marks: Mapping[str, Mapping[int, str]]) -> Clocks:
    """The clocks of hosts, from the times at which they log the same steps (``marks``: host → step → time).

    A job that runs in lockstep does a step at the same moment everywhere, so the median difference is the clocks'.
    """
    hosts = sorted(h for h in marks if len(marks[h]) >= MIN_COMMON)
    if len(hosts) < 2:
        return Clocks({})
    reference = hosts[0]
    skew = {reference: 0.0}
    for host in hosts[1:]:
        gaps = [
            apart
            for step in marks[host].keys() & marks[reference].keys()
            if (apart := gap(read_time(marks[host][step]), read_time(marks[reference][step]))) is not None
        ]
        if len(gaps) >= MIN_COMMON:
            skew[host] = sorted(gaps)[len(gaps) // 2]
    return Clocks(skew, reference)


def gap(a: Moment | None, b: Moment | None) -> float | None:
    """Seconds from ``b`` to ``a``, or None where one is not known; without dates within half a day, across midnight."""
    if a is None or b is None:
        return None
    if a.day is not None and b.day is not None:
        return (a.day - b.day) * DAY + a.second - b.second
    return (a.second - b.second + DAY / 2) % DAY - DAY / 2


def scale(moments: Sequence[Moment | None]) -> list[float | None]:
    """Seconds on one scale for all that have a time: with days where each has one, else within the day."""
    dated = all(m.day is not None for m in moments if m is not None)
    return [None if m is None else m.second + (m.day or 0) * DAY * dated for m in moments]


def earliest(times: Iterable[float | None]) -> float | None:
    """The first of the times that are known."""
    return min((t for t in times if t is not None), default=None)
