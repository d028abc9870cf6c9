"""The dialects, those first that claim lines which others would misread. To add one: a new file, and a line here.

A dialect's module is imported when a page holds one of its triggers, texts of which a page without any holds
none of the dialect: most logs need three of the ten.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from tbparse.text.needles import Needles

if TYPE_CHECKING:
    from tbparse.dialects.base import Dialect


class Entry(NamedTuple):
    """A dialect's name, its module and class below ``tbparse.dialects``, and its triggers."""

    name: str
    module: str
    cls: str
    triggers: Needles

    def load(self) -> Dialect:
        """The dialect itself."""
        return _load(self.module, self.cls)


@lru_cache(maxsize=32)
def _load(module: str, cls: str) -> Dialect:
    dialect: Dialect = getattr(import_module(f"tbparse.dialects.{module}"), cls)()
    return dialect


REGISTRY = (
    Entry("elastic", "elastic", "ElasticDialect", Needles(
        " FAILED", "exit", "status failed cmd", "noticed that process rank", "srun: error:", "non-zero", "EXIT ", "KILLED BY",
    )),
    Entry("pytest", "pytests", "PytestDialect", Needles(
        "= FAILURES =", "= ERRORS =", "test session starts", "while loading conftest", "short test summary info", "- Captured ",
    )),
    Entry("rich", "boxes", "BoxDialect", Needles(
        "Traceback (most recent call last) ─", "Traceback (most recent call last) -",
    )),
    Entry("faulthandler", "fault", "FaultDialect", Needles(
        "+ Timeout +", "Fatal Python error", "Windows fatal exception", "(most recent call first):", "Timeout (",
    )),
    Entry("ipython", "notebook", "NotebookDialect", Needles(
        " Traceback (most recent call last)", "---> ", "In [", "In[", "<ipython-input-", "SyntaxError: ",
        "IndentationError: ", "TabError: ",
    )),
    Entry("python", "traceback", "TracebackDialect", Needles(
        "Traceback (most recent call last)", 'File "', "The above exception was", "During handling of the above",
    )),
    Entry("systems", "systems", "SystemDialect", Needles(
        "slurm", "srun", "sbatch", "salloc", "CANCELLED", "oom", "OOM", "vict", "reempt", "DeadlineExceeded", "NodeLost",
        "Failed", "BackOff", "NodeNotReady", "low on resource", "had condition", "longer than", "ErrImage", "NVRM", ": SXid ",
        "Kill", "Memory failure",
        "Hardware Error", "mce:", "EDAC", "AER", "segfault", "traps:", "I/O error", "EXT4", "XFS", "Lustre", "nfs",
        "AdmissionError", "Backoff", "EmptyDir", "deletion of Pod", "terminated because", "ContainerCannotRun", "Job was",
        "Job has",
    )),
    Entry("native", "native", "NativeDialect", Needles(
        "terminat", "what():", "ProcessGroup", ".cpp:", "malloc", "free()", "corrupt", "smashing", "Assertion", "*** ",
        "signal", "panicked", "failure", "Check failed", "HSA_STATUS", "HW Exception", "CUDA error", "GPUassert", "in file",
        "Memory access fault", "egmentation fault", "Aborted", "abort", "us error", "llegal", "illed", "Terminated", "Hangup",
        "NCCLUtils", "Fatal error in", "RESOURCE_EXHAUSTED",
    )),
    Entry("exit", "exits", "ExitDialect", Needles(
        "KeyboardInterrupt", "Could not consume", "Cannot find key", "received no value", "Flags parsing", "directory not found", "unrecognized arguments", "error:",
        "Error:", "Error ─", "Error -", "can't ", "No module named", "not found", "No such file", "Permission denied",
        "HYDRA_FULL_ERROR", "finding module specification", "cannot execute", "bad interpreter",
    )),
    Entry("bare", "bare", "BareDialect", Needles(
        "Error", "Exception", "Interrupt", "Timeout", "Failure", "Refused", "Aborted",
    )),
)  # fmt: skip
