"""Whose matter a failure is that no rule knows: config, data, dependency, or nothing that its structure tells.

The principle, in the order in which it is asked:

* **dependency**: what is installed does not fit. The message speaks of versions, builds, symbols or installing.
* **data**: the content of an input. It was raised while a sample was read or collated, by a package that reads files,
  or the message speaks of rows, columns, labels, samples.
* **config**: what the user chose from outside, and could change without touching the program. It was raised where
  arguments or configs are checked, or at set-up the message names a setting, lists what may be chosen, or compares
  sizes that settings give (batch, world size, heads, classes; a checkpoint against a model).

A bug's type (TypeError, AttributeError …) says nothing of settings, whoever raised it: only a dependency or a sample
can be behind it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tbparse.records import Frame
from tbparse.ruleset import kind_words as words
from tbparse.terms import Category

MAX_CHARS = 4000
"""Of longer messages the beginning is read."""


class _Raised(NamedTuple):
    """An exception, and where it was raised."""

    exception: str
    name: str
    """Its type without the package."""
    message: str
    frames: Sequence[Frame]
    paths: Sequence[str]
    function: str
    """Where it was raised; empty where no frame says so."""
    source: str
    """The raising line, where it is the user's."""
    by_library: bool


def category_of(exception: str, message: str, frames: Sequence[Frame]) -> Category | None:
    """Config, data or dependency; None where the structure tells neither. ``frames`` outermost first, without plumbing."""
    last = frames[-1] if frames else None
    raised = _Raised(
        exception,
        exception.rpartition(".")[2],
        message[:MAX_CHARS],
        frames,
        [x.path.replace("\\", "/") for x in frames],
        (last.function or "") if last is not None else "",
        (last.source or "") if last is not None and last.origin == "user" else "",
        last is not None and last.origin == "library",
    )
    if _has(words.CIRCULAR, message):
        return None
    if _packages_disagree(raised):
        return "dependency"
    if _reads_a_sample(raised):
        return "data"
    if raised.name in words.BUGS:
        return "config" if raised.name == "AttributeError" and _has(words.NO_SETTING, message) else None
    return None if raised.function.startswith("test_") else _setting_or_input(raised)


def _has(pattern: str, text: str) -> bool:
    return re.search(pattern, text) is not None


def _packages_disagree(raised: _Raised) -> bool:
    if _has(words.DEPENDENCY_TYPE, raised.exception) or _has(words.DEPENDENCY, raised.message):
        return True
    if _has(words.MODULE_ATTRIBUTE, raised.message):
        return True
    unfit = raised.name == "TypeError" and raised.by_library and _has(words.CALL, raised.message)
    return unfit and not _has(words.HANDS_ON, raised.paths[-1])


def _reads_a_sample(raised: _Raised) -> bool:
    """Whether it was raised while a sample was read, or by a package that reads files."""
    exception, name, frames, paths = raised.exception, raised.name, raised.frames, raised.paths
    top = exception.partition(".")[0]
    if name in words.NO_SAMPLES_FAULT or _has(words.CAPACITY, name):
        return False
    if top in words.READERS and top != exception and name not in words.BUGS:
        return True
    if frames and _package(paths[-1]) in words.READERS and name in words.READING:
        return True
    return any(
        _has(words.SAMPLE, f"{p}:{x.function}") or (_has(words.SAMPLE_FUNCTION, x.function or "") and not _has(words.MAPPINGS, p))
        for x, p in zip(frames[-6:], paths[-6:], strict=True)
    )


def _setting_or_input(raised: _Raised) -> Category | None:
    """Of an exception that is no bug's: whether a setting or an input is behind it."""
    _, name, message, frames, paths, function, source, by_library = raised
    path = paths[-1] if paths else ""
    if name == "KeyError" and _has(words.CONFIG_LOOKUP, source):
        return "config"
    if _has(words.CONFIG_TYPE, raised.exception):
        return "config"
    if name in words.OF_FILES:
        told = _has(words.CONFIG_FILE, message) or any(_has(words.CONFIG_FUNCTION, x.function or "") for x in frames[-4:])
        if told or any(_has(words.CONFIG_PATH, p) for p in paths[-3:]):
            return "config"
        return words.OF_FILES[name]
    if _has(words.CONFIG_SOURCE, source):
        return "config"
    if _has(words.COMPUTING, path) and function != "load_state_dict":
        return "data" if _has(words.DATA, message) else None
    if name == "KeyError" and " " not in message.strip("'\""):
        return "config" if by_library and _has(words.CONFIG_PATH, path) else None
    if by_library and function == "__init__" and _has(words.BUILDS, path):
        return "config"
    checked = any(
        _has(words.CONFIG_FUNCTION, x.function or "") or _has(words.CONFIG_PATH, p)
        for x, p in zip(frames[-2:], paths[-2:], strict=True)
    )
    if checked or _has(words.CONFIG, f"{raised.exception}: {message}"):
        return "config"
    if _has(words.DATA, message):
        return "data"
    if not _has(words.RUNNING, function) and any(_has(x, message) for x in (words.CHOICE, words.SIZES, words.CHECKPOINT)):
        return "config"
    set_up = not function or _has(words.SETUP, function)
    return "config" if set_up and _has(words.NAMED, message) and _has(words.DEMAND, message) else None


def _package(path: str) -> str:
    """The package of an installed file, or the module's name."""
    for root in ("site-packages/", "dist-packages/"):
        if root in path:
            path = path.rpartition(root)[2]
            break
    else:
        path = path.rpartition("/")[2] if "lib/python" in path or "/" not in path else ""
    return path.partition("/")[0].partition(".")[0]
