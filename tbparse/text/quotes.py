"""Whether words stand in a quotation: a log that quotes an error is not the log of that error.

A structured logger's fields quote what they carry (``msg="NVRM: Xid …"``), and so does the repr of an exception's arguments
(``ConnectionError('… timed out')``): neither is a quotation in this sense.
"""

from __future__ import annotations

import re

_MARKS = re.compile(r"""['"`“”]""")
_FIELD = re.compile(
    r"""(?i)\w*(?:msg|messages?|log|reason|errors?|err|exception|exc_info|event|text|line|stdout|stderr|output|details?|"""
    r"""description|desc|status|state|cause|title|summary|info|warning|fatal|body)["']?\s*(?:[=:]\s*)?$"""
)
_PROSE = re.compile(r"\w\s$")
LONGEST = 4000
"""Quotations are looked for in this much text before the words."""


def quoted(text: str, at: int, *, prose: bool = False) -> bool:
    """Whether the character at ``at`` stands inside a quotation of its line.

    ``prose``: only one that a sentence makes (a blank and a word stand before the opening mark) counts, not a repr's.
    """
    begin = max(text.rfind("\n", 0, at) + 1, at - LONGEST)
    opened: tuple[str, int] | None = None
    for m in _MARKS.finditer(text, begin, at):
        mark, i = m[0], m.start()
        if opened is not None:
            if _closes(opened[0], mark) and (mark != "'" or not text[i + 1 : i + 2].isalnum()) and text[i - 1] != "\\":
                opened = None
        elif mark != "”" and not (i > begin and text[i - 1].isalnum()):
            opened = (mark, i)
    if opened is None:
        return False
    end = text.find("\n", at)
    closing = "”" if opened[0] == "“" else opened[0]
    if text.find(closing, at, end if end >= 0 else len(text)) < 0:
        return False  # cut, or a lone mark
    before = text[begin : opened[1]]
    if _FIELD.search(before):
        return False
    return not prose or _PROSE.search(before) is not None


def _closes(opening: str, mark: str) -> bool:
    return mark == ("”" if opening == "“" else opening)


_SUPPOSED = re.compile(
    r"(?i)\b(?:if|unless|whenever|in case|such as|for example|for instance|e\.g\.|(?:to|and) (?:avoid|prevent)|instead of"
    r"|looks? like)\s[^\n]{0,400}$"
)


def mentioned(text: str, at: int) -> bool:
    """Whether a line only speaks of the words at ``at``: it quotes them, or supposes them (``if the job ends with …``)."""
    if at <= 0:
        return False
    if quoted(text, at):
        return True
    return _SUPPOSED.search(text, max(text.rfind("\n", 0, at) + 1, at - 440), at) is not None
