"""tbparse says why a training job died: root exception, user frame, rank, and whether running again would help.

Names are loaded when they are first used, so ``import tbparse`` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tbparse._version import __version__

if TYPE_CHECKING:
    from tbparse.attribute.origin import PathSettings as PathSettings
    from tbparse.engine import Explainer as Explainer
    from tbparse.engine import classify as classify
    from tbparse.errors import InputError as InputError
    from tbparse.errors import RuleError as RuleError
    from tbparse.errors import TbparseError as TbparseError
    from tbparse.errors import UsageError as UsageError
    from tbparse.model import RootCause as RootCause
    from tbparse.ruleset.packs import load_rules as load_rules

_HOMES = {
    "Explainer": "tbparse.engine",
    "InputError": "tbparse.errors",
    "PathSettings": "tbparse.attribute.origin",
    "RootCause": "tbparse.model",
    "RuleError": "tbparse.errors",
    "TbparseError": "tbparse.errors",
    "UsageError": "tbparse.errors",
    "classify": "tbparse.engine",
    "load_rules": "tbparse.ruleset.packs",
}
__all__ = [
    "Explainer",
    "InputError",
    "PathSettings",
    "RootCause",
    "RuleError",
    "TbparseError",
    "UsageError",
    "__version__",
    "classify",
    "load_rules",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tbparse' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
