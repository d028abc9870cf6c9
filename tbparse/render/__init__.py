"""Formats of the answer: one small module a format, each with ``render(report, *, width, colour) -> str``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from tbparse.render.report import Report

FORMATS = {"text": "tbparse.render.text", "json": "tbparse.render.json"}
"""Name of a format, and the module that writes it."""
PLAIN = frozenset({"text", "json"})
"""Formats that read the answer's values and call nothing of its model but ``to_json``: see :mod:`tbparse.render.plain`."""


class Render(Protocol):
    """Writes a report as text that ends in a newline. ``width`` is in terminal cells; not every format has one."""

    def __call__(self, report: Report, *, width: int = 80, colour: bool = False) -> str: ...


def renderer(name: str) -> Render:
    """The function that writes the format ``name``, a key of :data:`FORMATS`."""
    return cast("Render", import_module(FORMATS[name]).render)
