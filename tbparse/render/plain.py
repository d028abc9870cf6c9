"""An answer without its model: for formats that only read what it says."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from tbparse.model import RootCause

MAX_PLAIN = 1e15
"""From here on Python and pydantic write a float differently."""


def plain(values: Mapping[str, Any]) -> RootCause:
    """The values of :meth:`tbparse.engine.Explainer.values` with the model's attributes, and of its methods ``to_json`` alone.

    To load pydantic and make the model's checks takes longer than to read a small log and lay out its answer.
    """
    return cast("RootCause", _Plain(values))


class _Plain(SimpleNamespace):
    def __init__(self, values: Mapping[str, Any]) -> None:
        shown = {name: value if name == "captures" else _plain(value) for name, value in values.items()}
        super().__init__(schema_=1, transient=values["verdict"] == "transient", **shown)
        self._values = values

    def to_json(self, *, indent: int | None = None) -> str:
        """As the model's method of that name."""
        if indent is None and all(map(_written_alike, self._values["captures"].values())):
            return json.dumps({"schema": 1, **self._values}, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        from tbparse.model import RootCause

        return RootCause.model_validate(self._values).to_json(indent=indent)


def _written_alike(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_written_alike, value))
    return not isinstance(value, float) or (math.isfinite(value) and (value == 0 or 1e-4 <= abs(value) < MAX_PLAIN))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**value)
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value
