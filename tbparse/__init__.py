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
    from tbparse.launching.api import Completed as Completed
    from tbparse.launching.api import launch as launch
    from tbparse.launching.capture import capture as capture
    from tbparse.launching.errors import LaunchError as LaunchError
    from tbparse.model import RootCause as RootCause
    from tbparse.retrying.adapters import wait_advised as wait_advised
    from tbparse.retrying.decision import Decision as Decision
    from tbparse.retrying.decision import Transient as Transient
    from tbparse.retrying.decision import retryable as retryable
    from tbparse.retrying.decorator import retry as retry
    from tbparse.retrying.surface import TransientFailure as TransientFailure
    from tbparse.retrying.surface import surface as surface
    from tbparse.ruleset.packs import load_rules as load_rules

_HOMES = {
    "Completed": "tbparse.launching.api",
    "Decision": "tbparse.retrying.decision",
    "Explainer": "tbparse.engine",
    "InputError": "tbparse.errors",
    "LaunchError": "tbparse.launching.errors",
    "PathSettings": "tbparse.attribute.origin",
    "RootCause": "tbparse.model",
    "RuleError": "tbparse.errors",
    "TbparseError": "tbparse.errors",
    "Transient": "tbparse.retrying.decision",
    "TransientFailure": "tbparse.retrying.surface",
    "UsageError": "tbparse.errors",
    "capture": "tbparse.launching.capture",
    "classify": "tbparse.engine",
    "launch": "tbparse.launching.api",
    "load_rules": "tbparse.ruleset.packs",
    "retry": "tbparse.retrying.decorator",
    "retryable": "tbparse.retrying.decision",
    "surface": "tbparse.retrying.surface",
    "wait_advised": "tbparse.retrying.adapters",
}
__all__ = [
    "Completed",
    "Decision",
    "Explainer",
    "InputError",
    "LaunchError",
    "PathSettings",
    "RootCause",
    "RuleError",
    "TbparseError",
    "Transient",
    "TransientFailure",
    "UsageError",
    "__version__",
    "capture",
    "classify",
    "launch",
    "load_rules",
    "retry",
    "retryable",
    "surface",
    "wait_advised",
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
