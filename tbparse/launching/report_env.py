"""An environment under which children report the exception that ends them, and the folder into which they do.

Light to import: what reads the reports (:mod:`tbparse.launching.report`) is loaded when there is something to read.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tbparse.attribute.origin import PathSettings
    from tbparse.engine import Explainer
    from tbparse.launching.report import ChildReport

FOLDER = "TBPARSE_REPORT_DIR"
HOOK = str(Path(__file__).with_name("hook"))
MAX_REPORTS = 512
MAX_BYTES = 64 * 1024 * 1024
"""A report is a few kilobytes; one that is larger than this is not read."""
_log = logging.getLogger("tbparse")


class ChildReports:
    """Where the reports of some children come in. ``env`` is the environment for the children."""

    def __init__(self, env: Mapping[str, str], folder: Path) -> None:
        self.folder = folder
        self.env = reporting_env(env, folder)

    def read(self) -> list[ChildReport]:
        """The reports so far, the earliest first. What cannot be read is logged and left out."""
        from tbparse.launching.report import read_report

        found = []
        for path in sorted(self.folder.glob("*.json"))[:MAX_REPORTS]:
            try:
                if path.stat().st_size <= MAX_BYTES:
                    found.append(read_report(path.read_bytes()))
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
                _log.warning("%s: a child's report cannot be read: %s", path, e)
        return sorted(found, key=lambda r: r.time)

    def apply(self, explainer: Explainer, *, paths: PathSettings | None = None) -> int:
        """Give the reports to the explainer, after the log was fed and before it finishes; how many there were."""
        from tbparse.launching.report import apply_reports

        return apply_reports(explainer, self.read(), paths=paths)


@contextmanager
def child_report(env: Mapping[str, str] | None = None) -> Iterator[ChildReports]:
    """Have the children that are started with ``.env`` report; ``env`` is what they get otherwise (None: this process's own).

    The folder is deleted in the end. Where ``env`` asks for reports already, for somebody further out, those get them too.
    """
    base = os.environ if env is None else env
    outer = base.get(FOLDER)
    folder = Path(tempfile.mkdtemp(prefix="tbparse-report-"))
    try:
        yield ChildReports(base, folder)
    finally:
        if outer and os.path.isdir(outer):
            _hand_on(folder, Path(outer))
        shutil.rmtree(folder, ignore_errors=True)


def reporting_env(env: Mapping[str, str], folder: Path) -> dict[str, str]:
    """``env`` with what makes a Python child report into ``folder``."""
    new = dict(env)
    before = [p for p in new.get("PYTHONPATH", "").split(os.pathsep) if p and p != HOOK]
    new["PYTHONPATH"] = os.pathsep.join([HOOK, *before])
    new[FOLDER] = str(folder)
    return new


def _hand_on(folder: Path, outer: Path) -> None:
    for path in folder.glob("*.json"):
        try:
            part = outer / f"{path.name}.part"
            shutil.copyfile(path, part)
            part.rename(outer / path.name)
        except OSError as e:
            _log.warning("%s: a child's report cannot be handed on: %s", path, e)
