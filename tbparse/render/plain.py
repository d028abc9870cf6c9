"""An answer without its model: for formats that only read what it says."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from tbparse.model import RootCause


def plain(values: Mapping[str, Any]) -> RootCause:
    """The values of :meth:`tbparse.engine.Explainer.values` with the model's attributes and without its methods.

    To load pydantic and make the model's checks takes longer than to read a small log and lay out its answer.
    """
    shown = {name: value if name == "captures" else _plain(value) for name, value in values.items()}
    return cast("RootCause", SimpleNamespace(schema_=1, transient=values["verdict"] == "transient", **shown))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**value)
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value
