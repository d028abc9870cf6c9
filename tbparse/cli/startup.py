"""Starting quickly: a small log is answered in the time that imports take."""

from __future__ import annotations

import gc
import os

_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"


def begin() -> None:
    """Start-up makes many objects and no garbage; looking for some costs a tenth of its time."""
    gc.disable()


def load_model() -> None:
    """Import the answer's model without pydantic's search for plugins.

    That search reads the metadata of every installed distribution, hundreds where training runs, for plugins that have no
    business with the answer. The environment is put back, so children and later models are not affected.
    """
    before = os.environ.get(_PLUGINS)
    os.environ[_PLUGINS] = "__all__"
    try:
        import tbparse.model  # noqa: F401
    finally:
        if before is None:
            del os.environ[_PLUGINS]
        else:
            os.environ[_PLUGINS] = before


def end() -> None:
    """What lives now lives to the end: it is never looked at again, and what comes is collected as usual."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
