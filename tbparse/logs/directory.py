"""A folder of logs read into an explainer in one call, for callers that need no progress."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tbparse.attribute.origin import NO_SETTINGS, PathSettings
from tbparse.logs.folder import JobFolder, find_jobs
from tbparse.logs.reader import read_job

if TYPE_CHECKING:
    from tbparse.engine import Explainer


def join_log_dir(explainer: Explainer, root: Path, *, paths: PathSettings = NO_SETTINGS) -> int:
    """Read the logs below ``root``, in whatever layout, as one job; how many files there were.

    What the explainer was fed before is the job's console. Raises InputError where there is no log, or none can be read.
    """
    jobs = find_jobs(root)
    whole = JobFolder(root, [x for j in jobs for x in j.logs], jobs[0].dumps, jobs[0].skipped)
    return read_job(explainer, whole, paths=paths)


def runs(root: Path) -> list[Path]:
    """Folders of single torchrun runs below ``root``, each holding attempts; one for each agent of each run."""
    logs = [x for j in find_jobs(root) for x in j.logs if x.place.layout == "torchrun" and x.place.attempt is not None]
    return sorted({x.path.parent.parent.parent for x in logs})
