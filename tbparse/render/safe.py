"""Text of a log made fit for a terminal: nothing in it moves the cursor, changes colours or turns the writing round."""

from __future__ import annotations

import re

# C0 and C1 controls, DEL; direction marks, embeddings, overrides and isolates; line and paragraph separators; the
# byte order mark; tag characters; halves of surrogate pairs, which no encoding can write.
_UNSAFE = (
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)


def printable(text: str) -> str:
    """``text`` on one line; characters that are not for showing are written as escapes (``\\x1b``, ``\\u202e``)."""
    if text.isascii() and text.isprintable():
        return text
    # `re` keeps the pattern compiled; most logs never need it.
    return re.sub(_UNSAFE, _escape, text.replace("\t", "    "))


def _escape(m: re.Match[str]) -> str:
    code = ord(m[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
