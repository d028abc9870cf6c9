"""When two failures are the same one again: a fingerprint without what changes from run to run."""

from __future__ import annotations

import re

from tbparse.dialects.wrappers import short
from tbparse.records import Frame, Link

_VOLATILE = (
    (re.compile(r"0x[0-9a-fA-F]+"), "0x"),
    (re.compile(r"(?:/[\w.+@-]+)+/([\w.+-]+)"), r"\1"),
    (re.compile(r"\b[0-9a-f]{8,}\b"), "#"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "#"),
    (re.compile(r"\b(?:rank|process|worker|node|host)[ =:_-]*#?"), "rank"),
    (re.compile(r"\s+"), " "),
)


def raised_at(link: Link) -> tuple[str | None, str, int | None]:
    """What makes two errors of one program the same one again: the type, and where it was raised."""
    frames = link.frames
    return link.exception, frames[-1].path if frames else "", frames[-1].line if frames else None


def _fnv(data: bytes) -> int:
    """FNV-1a, 64 bits: the text is not secret and short, and hashlib would load OpenSSL at every start."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def fingerprint(rule: str | None, link: Link, site: Frame | None) -> str:
    """A short hash of what stays the same when the failure comes again: no numbers, addresses, paths of folders or ranks."""
    message = (link.message or "").split("\n", 1)[0]
    for pattern, by in _VOLATILE:
        message = pattern.sub(by, message)
    where = ""
    if site is not None:
        path = site.path.replace("\\", "/").rpartition("/")[2]
        where = f"{re.sub(r'[0-9]+', '#', path)}:{site.function}"
    text = "\0".join((rule or "", short(link.exception), message.strip(), where))
    return f"{_fnv(text.encode('utf-8', 'replace')):016x}"
