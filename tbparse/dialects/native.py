"""What native code prints when it dies: C++ terminate, glibc, c10 watchdogs, crash handlers, Rust, shells.

Formats: libstdc++ and libc++abi, glibc's malloc checks, torch's ProcessGroupNCCL logging (1.x ``[E file:line]``, 2.x
``[rank1]:[E1130 …]``), absl and glog failure writers, UCX, TensorFlow's and glog's fatal lines, bash, dash and zsh.
"""

from __future__ import annotations

import re

from tbparse.dialects.base import Page
from tbparse.records import Failure, Link
from tbparse.text.quotes import quoted

_SIG = {"Segmentation fault": 11, "Aborted": 6, "Abort": 6, "Bus error": 7, "Illegal instruction": 4, "Floating point exception": 8,
        "Killed": 9, "killed": 9, "Terminated": 15, "terminated": 15, "segmentation fault": 11, "abort": 6, "bus error": 7, "Hangup": 1,
        "illegal hardware instruction": 4, "Trace/breakpoint trap": 5, "User defined signal 1": 10, "CPU time limit exceeded": 24}  # fmt: skip

_TERMINATE = re.compile(
    r"^.*?(?:terminate called (?:recursively|after throwing an instance of '(?P<type>[^']+)'|without an active exception)"
    r"|libc\+\+abi(?:\.dylib)?: terminating (?:with|due to) uncaught exception of type (?P<type2>\w+(?:::\w+)*)(?:: (?P<message2>.*))?).*$",
    re.MULTILINE,
)
_WHAT = re.compile(r"^\s*what\(\): ?(?P<message>.*)$")
_C10 = re.compile(
    r"^(?:\[rank\d+\]:)?\[?E ?(?:\d{3,4} [\d:.]+ )?(?P<file>(?:ProcessGroup\w*|NCCLUtils|TCPStore|socket|Functional|CudaHooks|CUDAException|HeartbeatMonitor|TraceUtils)\.(?:cpp|hpp|h):\d+)\] (?P<message>.*)$",
    re.MULTILINE,
)
_C10_RANK = re.compile(r"\[?[Rr]ank (?P<rank>\d+)\]")
_C10_TAGS = re.compile(r"^(?:\[[^\]]*\] )+")
_C10_ENDS = re.compile(r"Exception raised from|frame #|\[|Traceback |terminate called|  what\(\)|\S+ - |\d{4}-|[{\d]|\w+:\d")
_GLIBC = re.compile(
    r"^.*?(?P<message>(?:\*\*\* Error in `[^']*': .*|malloc\(\): .+|free\(\): .+|realloc\(\): .+|munmap_chunk\(\): .+|double free or corruption.*"
    r"|corrupted (?:size vs\. prev_size|double-linked list|unsorted chunks).*|malloc_consolidate\(\): .+|\*\*\* (?:stack smashing|buffer overflow) detected \*\*\*.*"
    r"|(?:\S+\.cc:\d+\] )?Attempt to free invalid pointer 0x[0-9a-f]+.*|<jemalloc>: .*(?:[Ff]ailed assertion|size mismatch|double free).*"
    r"|python[\w.]*: \S+:\d+: .+: Assertion [`'\"].+' failed\.))$",
    re.MULTILINE,
)
_CRASH = re.compile(
    r"^.*?(?P<message>\*\*\* (?P<name>SIG[A-Z]+) (?:\([^)]*\) )?received (?:by PID|at time).*"
    r"|Caught signal (?P<number>\d+) \([^)]*\).*"
    r"|\*\*\* Process received signal \*\*\*"
    r"|(?:\*\*\* )?An error occurred in MPI_\w+"
    r"|Fatal error in (?:internal_|P?MPI_)\w+: .*"
    r"|Unhandled exception: .*what\(\): .*"
    r"|thread '[^']*'(?: \(\d+\))? panicked at .*"
    r"|(?:CUBLAS|CUDA|CUDNN|cuDNN|NCCL|Cuda|HIP) failure(?: \S+)?: ?\S.*"
    r"|(?:HSA_STATUS_ERROR_\w+.*|Memory access fault by GPU node-\d+ .*|HW Exception by GPU node-\d+ .*)"
    r"|CUDA error(?: at \S+:\d+ code=\d+|: ).*|GPUassert: .*|Error .* at line \d+ in file \S+\.cuh?)$",
    re.MULTILINE,
)
_FATAL_LOG = re.compile(
    r"^(?:F ?)?(?:\d{4} (?:\d\d:){2}\d{10}\.\d+ +\d+ )?(?P<at>[\w./-]+\.(?:cc|cpp|cu|h|cuh):\d+)\]?:? (?P<message>(?:Check failed: |Non-OK-status: |Failed to |.*RESOURCE_EXHAUSTED).*)$",
    re.MULTILINE,
)
_FATAL_TEXT = re.compile(r"^(?P<message>(?:Check failed|Non-OK-status): .*)$")
_GGML = re.compile(r"^(?:CUDA|ROCm|MUSA) error", re.MULTILINE)
_GGML_ERROR = re.compile(r"^(?:CUDA|ROCm|MUSA) error(?: \d+ at \S+:\d+)?: \S")
_GGML_PLACE = re.compile(r"^\s*current device: \d+(?:, in function \S+ at \S+:\d+)?\s*$")
_SHELL = re.compile(
    r"^(?:(?P<bash>\S+: line \d+: +\d+ +)|(?P<job>\[\d+\][ +-]+ *(?:\d+ +)*)|(?P<zsh>zsh: )|(?P<make>make(?:\[\d+\])?: \*\*\* .*\] ))?"
    r"(?P<what>Segmentation fault|Aborted|Bus error|Illegal instruction|Floating point exception|Killed|Terminated|Hangup|Trace/breakpoint trap|segmentation fault|killed|abort|bus error|illegal hardware instruction|terminated)"
    r"(?: +\(core dumped\))?(?P<rest>(?: .*|\t.*)?)$",
    re.MULTILINE,
)
# What to look for on the whole page before a line is matched in full: `^.*` over every line would be slow.
_LOOK = {
    "terminate": re.compile(r"terminate called|terminating (?:with|due to) uncaught"),
    "c10": re.compile(
        r"(?:ProcessGroup\w*|NCCLUtils|TCPStore|socket|Functional|CudaHooks|CUDAException|HeartbeatMonitor|TraceUtils)\.(?:cpp|hpp|h):\d+\]"
    ),
    "glibc": re.compile(
        r"\*\*\* Error in|alloc\(\): |free\(\): |munmap_chunk|double free|corrupted |malloc_consol|smashing detected|overflow detected|to free invalid pointer|<jemalloc>: |Assertion [`'\"]"
    ),
    "crash": re.compile(
        r"\*\*\* SIG|Caught signal|Process received signal|error occurred in MPI_|Fatal error in (?:internal_|P?MPI_)|Unhandled exception: |panicked at|(?:CUBLAS|CUDA|CUDNN|cuDNN|NCCL|Cuda|HIP) failure|HSA_STATUS_ERROR|Memory access fault"
    ),
    "fatal": re.compile(r"Check failed: |Non-OK-status: |\.(?:cc|cpp|cu|h|cuh):\d+\]?:? (?:Failed to|\S.*RESOURCE_EXHAUSTED)"),
    "shell": re.compile(
        r"Segmentation fault|Aborted|Bus error|Illegal instruction|Floating point exception|Killed|Terminated|Hangup|Trace/breakpoint|segmentation fault|killed|abort|bus error|illegal hardware|terminated"
    ),
}
_CORE = re.compile(r"\(core dumped\)")


class NativeDialect:
    """Row 33 of the dialects, and the shell's lines of row 15."""

    name = "native"

    def read(self, page: Page) -> list[Failure]:
        out = self._terminates(page)
        for i, text in page.find(_LOOK["c10"]):
            m = _C10.match(text)
            if m is None:
                continue
            body = _C10_TAGS.sub("", m["message"])
            rank = _C10_RANK.search(m["message"])
            end = i + 1
            while (
                end < len(page.texts)
                and end - i < 8
                and page.texts[end].strip()
                and not page.taken[end]
                and not _C10_ENDS.match(page.texts[end])
            ):
                end += 1
            failure = self._make(page, i, None, "\n".join([body or m["message"], *page.texts[i + 1 : end]]))
            failure.dialect = "c10"
            page.take(i, end - 1)
            failure.rank_hint = int(rank["rank"]) if rank else None
            out.append(failure)
        for look, pattern in (("glibc", _GLIBC), ("crash", _CRASH), ("fatal", _FATAL_LOG)):
            for i, text in page.find(_LOOK[look]):
                m = pattern.match(text)
                if m is None and look == "fatal" and page.levels.get(i) in ("F", "FATAL"):
                    m = _FATAL_TEXT.match(text)
                if m is None or text.startswith((" ", "\t")) or quoted(text, m.start("message") + 1):
                    continue
                failure = self._make(page, i, None, m["message"])
                d = m.groupdict()
                if pattern is _CRASH:
                    number = d.get("number")
                    failure.signal = (
                        int(number)
                        if number
                        else {"SIGSEGV": 11, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8, "SIGILL": 4, "SIGTERM": 15}.get(
                            d.get("name") or ""
                        )
                    )
                    if "panicked at" in text and i + 1 < len(page.texts) and text.rstrip().endswith(":"):
                        failure.links[0].message = f"{m['message']}\n{page.texts[i + 1]}"
                elif pattern is _GLIBC:
                    failure.signal = 6
                out.append(failure)
        out += self._ggml(page)
        self._shell(page, out)
        return out

    def _ggml(self, page: Page) -> list[Failure]:
        """llama.cpp names the error on one line and the place on the next, before it aborts."""
        out = []
        for i, text in page.find(_GGML):
            follows = page.texts[i + 1] if i + 1 < len(page.texts) else ""
            if _GGML_ERROR.match(text) and _GGML_PLACE.match(follows):
                failure = self._make(page, i, None, f"{text}\n{follows.strip()}")
                page.take(i + 1, i + 1)
                failure.signal = 6
                out.append(failure)
        return out

    def _make(self, page: Page, i: int, kind: str | None, message: str) -> Failure:
        line = page.lines[i]
        page.take(i, i)
        link = Link(kind, message, [], line=line, first_line=line)
        return Failure("native", self.name, [link], line, line, line.stream, line.tags)

    def _terminates(self, page: Page) -> list[Failure]:
        out = []
        for i, text in page.find(_LOOK["terminate"]):
            m = _TERMINATE.match(text)
            if m is not None and quoted(text, max(text.find("terminate called"), text.find("terminating"))):
                continue
            if m is None:
                continue
            kind = m["type"] or m["type2"]
            message, line = m["message2"] or "", i
            for j in range(i + 1, min(i + 6, len(page.texts))):
                w = _WHAT.match(page.texts[j])
                if w:
                    parts = [w["message"]]
                    k = j + 1
                    while (
                        k < len(page.texts)
                        and k - j < 8
                        and page.texts[k].strip()
                        and not page.texts[k].startswith(("frame #", "[", "Exception raised from"))
                    ):
                        if _TERMINATE.match(page.texts[k]) or _SHELL.match(page.texts[k]) or "Traceback" in page.texts[k]:
                            break
                        parts.append(page.texts[k])
                        k += 1
                    message, line = "\n".join(parts).strip(), j
                    page.take(j, k - 1)
                    break
            failure = self._make(page, i, kind, _C10_TAGS.sub("", message) if message.startswith("[") else message)
            if not message:
                failure.links[0].message = text.strip()
            rank = _C10_RANK.search(message)
            failure.rank_hint = int(rank["rank"]) if rank else None
            failure.links[0].line = page.lines[line]
            failure.last, failure.signal = page.lines[line], 6
            out.append(failure)
        return out

    def _shell(self, page: Page, out: list[Failure]) -> None:
        for i, text in page.find(_LOOK["shell"]):
            m = _SHELL.match(text)
            if m is None or _not_a_shell(m, text):
                continue
            failure = self._make(page, i, None, text.strip())
            failure.kind, failure.signal = "exit", _SIG.get(m["what"])
            if m["job"] and m["what"] == "Terminated":
                failure.fate = "symptom"
            out.append(failure)


def _not_a_shell(m: re.Match[str], text: str) -> bool:
    """Bare words count only when they are the whole line; with a shell's lead anything may follow."""
    if m["bash"] or m["job"] or m["zsh"] or m["make"]:
        return False
    return bool(m["rest"].strip()) and not _CORE.search(text)
