"""What comes from below the program: memory, cards, other ranks, disks, the network. Of these no rule means no verdict."""

from __future__ import annotations

import re
from typing import NamedTuple

from tbparse.terms import Category, Verdict

_ERRNO = r"(?:\[Errno |\(os error |\berrno[ =]+)(-?\d+)"
_BY_ERRNO: dict[int, Category] = {
    **dict.fromkeys((5, 16, 19, 27, 28, 30, 107, 108, 116, 121, 122), "storage"),
    **dict.fromkeys((-5, -3, -2, 32, 100, 101, 102, 103, 104, 110, 111, 112, 113), "network"),
    12: "host-memory",
    11: "unknown",
}
_LASTING_ERRNO = frozenset({27, 28, 30, 122})
"""File too large, no space, read-only, over quota: so until someone makes room."""


class Below(NamedTuple):
    """A category, whether it is so in the user's own code too, and the verdict where it is so until someone acts."""

    category: Category
    certain: bool
    verdict: Verdict


class _Kind(NamedTuple):
    category: Category
    certain: bool
    pattern: str
    verdict: Verdict = "unknown"


_OTHERS = r"\bProcess \d+ has\b|in use by process"
"""Another process holds it: that passes."""
_KINDS = (
    _Kind("interrupted", True, r"^(?:\w+\.)*KeyboardInterrupt\b"),
    _Kind("unknown", True, (
        r"^(?:\w+\.)*(?:SystemExit|GeneratorExit|CancelledError|ActorDiedError|RayActorError|WorkerCrashedError"
        r"|BrokenProcessPool"
        r"|TerminatedWorkerError|WorkerLostError|KilledWorker|ActorUnavailableError|\w*Retryable\w*|NodeDiedError|ObjectLostError)\b"
    )),
    _Kind(
        "gpu-memory",
        True,
        (
            r"(?i)^(?!ray\.)[\w.]*OutOfMemoryError\b|\b(?:CUDA|HIP|GPU|MPS|NPU|XPU|TPU|HBM|VRAM|device"
            r"|graphics)\b.{0,60}out of memory"
            r"|out of memory.{0,60}\b(?:cuda|GPU|hbm|device)\b|\bRESOURCE_EXHAUSTED: .{0,60}memory|cudaMalloc failed"
            r"|CUDA_ERROR_OUT_OF_MEMORY"
        ),
        "real",
    ),
    _Kind("host-memory", True, (
        r"^(?:\w+\.)*_?(?:Array)?MemoryError\b|DefaultCPUAllocator|[Cc]annot allocate memory"
        r"|std::bad_alloc"
    )),
    _Kind("communication", False, (
        r"\b(?:NCCL|nccl\w+|RCCL|HCCL|Hccl\w+|gloo|Gloo|c10d|DistBackendError|DistStoreError|DistNetworkError|TCPStore"
        r"|MPI_ERR\w*)\b"
        r"|\w*[Rr]endezvous\w*|\bHorovodInternalError\b|\bcollective (?:timeout|operation timed out)"
    )),
    _Kind("gpu-hardware", True, (
        r"(?i)\buncorrectable ECC|\bECC error|\bnvlink\b.{0,40}error|\bhardware error\b"
        r"|fallen off the bus"
    )),
    _Kind(
        "gpu-software",
        True,
        r"(?!.*device-side assert)\b(?:CUDA|HIP|cuDNN|MIOpen|ROCm|cuBLAS) (?:error|driver|kernel|failure)|\b(?:CUDNN|CUBLAS"
        r"|CUFFT|CUSOLVER)_STATUS_\w+|AcceleratorError",
    ),
    _Kind("storage", True, r"No space left on device|[Qq]uota ?[Ee]xceeded|Read-only file system", "real"),
    _Kind("storage", True, (
        r"\bPytorch(?:File|Stream)Reader\b|Safetensor\w*Error\b|pickle data was truncated|invalid load key|central directory"
        r"|^EOFError: Ran out of input"
    ), "real"),
    _Kind("storage", True, r"\bPytorchStreamWriter\b|database is locked|\bfile lock\b"),
    _Kind("network", False, (
        r"^(?:\w+\.)*(?:timeout|\w*TimeoutError|\w*ReadTimeout|\w*Connect(?:ion)?(?:Reset|Refused|Aborted)?Error|gaierror"
        r"|RateLimitError)\b"
    )),
    _Kind("network", True, (
        r"\b(?:429|5\d\d) (?:Server Error|Client Error|Too Many|Internal|Bad Gateway|Service|Gateway)|\bSlowDown\b"
        r"|\bSSL\w*EOF"
        r"|StatusCode\.(?:UNAVAILABLE|DEADLINE_EXCEEDED)|\bUNAVAILABLE: |name resolution|Connect call failed"
    )),
)  # fmt: skip


def from_below(exception: str, message: str) -> Below | None:
    """What came from below the program; None for what did not."""
    said = f"{exception}: {message[:4000]}"
    number = re.search(_ERRNO, message)
    if number is not None and int(number[1]) in _BY_ERRNO:
        errno = int(number[1])
        return Below(_BY_ERRNO[errno], True, "real" if errno in _LASTING_ERRNO else "unknown")
    for kind in _KINDS:
        if re.search(kind.pattern, said):
            return Below(kind.category, kind.certain, kind.verdict if not re.search(_OTHERS, said) else "unknown")
    return None
