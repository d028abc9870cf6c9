"""Other readers of tracebacks and logs that install from PyPI, where they are installed: each takes text, as they want it.

``pip install --no-deps boltons tblib errd gpualert``. What they do on a traceback: *boltons* and *tblib* match one pattern a frame
line; *errd* looks for frames, chains and the user's code; *gpualert* searches 15 patterns and hands back a sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress


def peers() -> dict[str, Callable[[str], object]]:
    """Functions of the peers that are installed, by name."""
    found: dict[str, Callable[[str], object]] = {}
    with suppress(ImportError):
        from boltons.tbutils import ParsedException

        found["boltons"] = ParsedException.from_string
    with suppress(ImportError):
        from tblib import Traceback

        found["tblib"] = lambda text: Traceback.from_string(text, strict=False)
    with suppress(ImportError):
        from errd.parsers.traceback_parser import parse_traceback

        found["errd"] = parse_traceback
    with suppress(ImportError):
        from gpualert.parse_errors import parse_errors

        found["gpualert"] = lambda text: parse_errors("", text, 1)
    return found
