"""``tbparse explain`` without the parser of options, whose loading takes as long as everything else that a small log needs.

Only what is beyond doubt is read here: PATHs, and options that are spelled out. Help, a mistake, ``--option=value`` and whatever
else there may be is left to the parser, which says what is wrong.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from tbparse.cli.explaining import Asked
from tbparse.render import FORMATS

FLAGS = {"--job": "job", "--why": "why", "--all": "every", "--timeline": "timeline", "--exit-code": "exit_code"}
"""Options without a value, and what they set."""
VALUES = {
    "--format": "format",
    "-f": "format",
    "--log-dir": "log_dir",
    "--profile": "profile",
    "--returncode": "returncode",
    "--tail": "tail",
}
"""Options with one value, of which the last counts."""
LISTS = {"--user-path": "user_path", "--library-path": "library_path", "--rules": "packs"}
"""Options with one value each, which may be repeated."""
_COMPLETION = "_TBPARSE_COMPLETE"


def asked(arguments: Sequence[str]) -> Asked | None:
    """What these arguments of ``tbparse`` ask of ``explain``; None where the parser must look at them."""
    # On Windows the parser expands what the shell does not.
    if not arguments or arguments[0] != "explain" or os.name == "nt" or _COMPLETION in os.environ:
        return None
    paths: list[str] = []
    read: dict[str, Any] = {}
    rest = iter(arguments[1:])
    for word in rest:
        if word in FLAGS:
            read[FLAGS[word]] = True
        elif word in VALUES or word in LISTS:
            value = next(rest, "")
            name = VALUES.get(word) or LISTS[word]
            known = _value(name, value)
            if known is None:
                return None
            read[name] = known if word in VALUES else (*read.get(name, ()), known)
        elif word == "-" or (word and not word.startswith("-")):
            paths.append(word)
        else:
            return None
    return Asked(tuple(paths), **read)


def _value(name: str, text: str) -> str | int | None:
    """The value of an option, None where it is none that is beyond doubt."""
    if name == "returncode":
        digits = text.removeprefix("-")
        return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None
    if not text or text.startswith("-") or (name == "format" and text not in FORMATS):
        return None
    return text
