"""Where a child runs, as its environment tells: the rank that a launcher or a scheduler gave it, and the machine."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tbparse.model import RootCause
from tbparse.records import Tags

if TYPE_CHECKING:
    from tbparse.attribute.job import Job

RANKS = (
    ("RANK", "LOCAL_RANK"),  # torchrun, accelerate, deepspeed, lightning: closest to the program, so first
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),  # Open MPI
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK"),  # MVAPICH
    ("PMI_RANK", "MPI_LOCALRANKID"),  # MPICH, Intel MPI (Hydra)
    ("PMIX_RANK", ""),
    ("SLURM_PROCID", "SLURM_LOCALID"),  # srun
    ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_RANK"),  # jsrun
)
"""Names of the global and the local rank, a pair for each launcher."""


def place_of(environ: Mapping[str, str]) -> Tags:
    """Rank, local rank and host of a process with this environment. A rank is None where no launcher gave one.

    A Slurm batch script has ``SLURM_PROCID=0`` too, without being a task: it has no ``SLURM_STEP_ID``, which ``srun`` sets.
    """
    rank = local = None
    for name, local_name in RANKS:
        if name.startswith("SLURM") and "SLURM_JOB_ID" in environ and not {"SLURM_STEP_ID", "SLURM_STEPID"} & environ.keys():
            continue
        rank = _number(environ.get(name))
        if rank is not None:
            local = _number(environ.get(local_name))
            break
    return Tags(rank, local, environ.get("SLURMD_NODENAME") or socket.gethostname() or None)


def fill_place(answer: RootCause, job: Job, place: Tags) -> RootCause:
    """The answer with the place filled in where the log says nothing about places of its kind.

    A log that names any rank is that of a launcher of several: then the rank in the environment is the launcher's own, and no
    worker's. The same goes for hosts.
    """
    if answer.verdict == "clean":
        return answer
    found: dict[str, object] = {}
    ranks = {x.rank for x in job.exits} | {x.rank for x in job.failures} | {answer.rank}
    local_ranks = {x.local_rank for x in job.exits} | {x.tags.local_rank for x in job.failures} | {answer.local_rank}
    if place.rank is not None and ranks <= {place.rank, None} and local_ranks <= {place.local_rank, None}:
        found.update(rank=place.rank, local_rank=place.local_rank)
    hosts = {x.host for x in job.exits} | {x.tags.host for x in job.failures} | {answer.host}
    if place.host is not None and hosts <= {place.host, None}:
        found["host"] = place.host
    return answer.model_copy(update=found) if found else answer


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
