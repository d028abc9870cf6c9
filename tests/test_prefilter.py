"""Where a trigger stands next: both ways of finding it agree (tbparse/text/prefilter.py)."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

import pytest
from corpora import all_cases
from hypothesis import given, settings
from hypothesis import strategies as st

from tbparse import Explainer
from tbparse.dialects.registry import REGISTRY
from tbparse.text.prefilter import TRIGGERS, FindScanner, load_hyperscan, make_scanner

BODIES = st.lists(
    st.sampled_from(
        [
            b"rror",
            b"x",
            b"\n",
            b"Traceback (most recent call last):",
            b"oo",
            b"m",
            "❱".encode(),
            b"\xff",
            b"---",
            b"> ",
            b"a quiet line\n",
        ]
    ),
    max_size=60,
).map(b"".join)


def all_hits(scanner, body: bytes) -> list[int]:
    scanner.load(body)
    out, at = [], 0
    while (hit := scanner.next_hit(at)) < len(body):
        out.append(hit)
        at = hit + 1
    return out


@given(BODIES)
def test_the_plain_scanner_finds_every_trigger_in_order(body: bytes) -> None:
    wanted = {t.encode() for t in TRIGGERS}
    expected = sorted({n for n in range(len(body)) if any(body.startswith(w, n) for w in wanted)})
    assert all_hits(make_scanner(backend="find"), body) == expected


@pytest.mark.skipif(load_hyperscan() is None, reason="hyperscan is an extra, and this machine lacks it or AVX2")
@given(BODIES)
@settings(max_examples=60)
def test_hyperscan_hits_the_same_lines(body: bytes) -> None:
    """Its offsets are those of the triggers' last bytes; what counts is the line."""
    plain, fast = all_hits(make_scanner(backend="find"), body), all_hits(make_scanner(backend="hyperscan"), body)
    assert {body.count(b"\n", 0, n) for n in fast} == {body.count(b"\n", 0, n) for n in plain}


@given(
    st.lists(st.text(alphabet="ab(.*[\\", min_size=3, max_size=6), min_size=1, max_size=4),
    st.text(alphabet="ab(.*[\\\n", max_size=60),
)
def test_extra_literals_are_found_as_they_are_written(extra: list[str], text: str) -> None:
    hits = all_hits(make_scanner(extra, backend="find"), text.encode())
    assert [n for n in range(len(text)) if any(text.startswith(e, n) for e in extra)] == hits


def test_a_scanner_can_be_loaded_again() -> None:
    scanner = FindScanner([b"abc"])
    assert all_hits(scanner, b"xxabc") == [2]
    assert all_hits(scanner, b"abc abc") == [0, 4]
    assert all_hits(scanner, b"") == []


LINES = [
    "Warning  Evicted    2m   kubelet  The node had condition: [DiskPressure].",
    "The node was low on resource: memory. Threshold quantity: 100Mi, available: 60Mi.",
    "Pod was active on the node longer than the specified deadline",
    "Normal   TaintManagerEviction  1m  taint-eviction-controller  Marking for deletion of Pod ml/trainer-0",
    "Warning  NodeNotReady  5m  node-controller  Node is not ready",
    "Warning  FailedScheduling  1m  default-scheduler  0/8 nodes are available: 8 Insufficient nvidia.com/gpu.",
    'Usage of EmptyDir volume "dshm" exceeds the limit "8Gi".',
    "Warning  Failed  1m  kubelet  Error: ErrImagePull",
    "Normal  BackOff  1m  kubelet  Back-off pulling image",
    "slurmstepd: error: *** STEP 81.0 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***",
    "slurmstepd: error: Detected 1 oom_kill event in StepId=81.0.",
    "srun: error: n3: task 5: Killed",
    "srun: error: n3: task 5: Exited with exit code 1",
    "[12345.6] EXT4-fs error (device nvme0n1p1): ext4_find_entry:1455: inode #2: reading directory lblock 0",
    "[12345.6] XFS (nvme0n1p1): metadata I/O error in xlog_bread",
    "nfs: server filer1 not responding, timed out",
    "LustreError: 11-0: scratch-OST0012: operation ost_read failed: rc = -107",
    "[12345.6] NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, GPU has fallen off the bus.",
    "[12345.6] Out of memory: Killed process 4242 (python) total-vm:1kB, anon-rss:2kB",
    "[12345.6] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)",
    "[12345.6] oom_reaper: reaped process 4242 (python)",
    "[12345.6] python[4242]: segfault at 0 ip 00007f sp 00007f error 4 in libc.so.6",
    "[12345.6] traps: python[4242] general protection fault ip:7f sp:7f error:0 in libcuda.so",
    "[12345.6] mce: [Hardware Error]: Machine check events logged",
    "[12345.6] EDAC MC0: 1 UE memory read error on CPU_SrcID#0",
    "[12345.6] pcieport 0000:3a:00.0: AER: Uncorrected (Fatal) error received: 0000:3a:00.0",
    "[12345.6] blk_update_request: I/O error, dev nvme0n1, sector 1",
    "run.sh: line 3: 12345 Killed                  python train.py",
    "Illegal instruction (core dumped)",
    "Bus error (core dumped)",
    "Floating point exception (core dumped)",
    "Hangup",
    "Terminated",
    "free(): invalid pointer",
    "malloc(): corrupted top size",
    "munmap_chunk(): invalid pointer",
    "corrupted double-linked list",
    "double free or corruption (out)",
    "*** stack smashing detected ***: terminated",
    "terminate called after throwing an instance of 'std::bad_alloc'",
    "thread '<unnamed>' panicked at src/lib.rs:41:10:",
    "[rank3]:[E1130 18:04:40.217000 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4)",
    "HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the necessary resources.",
    "Memory access fault by GPU node-1 (Agent handle: 0x1) on address 0x2. Reason: Unknown.",
    "Fatal Python error: Segmentation fault",
    "Windows fatal exception: access violation",
    "Timeout (0:00:30)!",
    "usage: train.py [-h] --lr LR",
    "train.py: error: the following arguments are required: --lr",
    "python: can't open file '/work/nope.py': [Errno 2] No such file or directory",
    "/usr/bin/python3: No module named trainer",
    "/usr/bin/python3: Error while finding module specification for 'a.b' (ModuleNotFoundError: No module named 'a')",
    "bash: torchrun: command not found",
    "bash: ./run.sh: /bin/bsh: bad interpreter: No such file or directory",
    "env: 'python': No such file or directory",
    'exec: "python": executable file not found in $PATH',
    "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.",
    "mpirun noticed that process rank 3 with PID 4242 on node n2 exited on signal 9 (Killed).",
    "[2026-01-02 03:04:05,678] [ERROR] [launch.py:321:sigkill_handler] ['python', 'train.py'] exits with return code = 1",
    "╭──── Traceback (most recent call last) ────╮",
    "---> 12 x = f()",
    "FAILED tests/test_a.py::test_b - KeyError: 'x'",
    "=================================== FAILURES ===================================",
    "##[error]Process completed with exit code 137.",
    "Detected KeyboardInterrupt, attempting graceful shutdown ...",
]


@pytest.mark.parametrize("line", LINES)
def test_a_line_that_says_why_a_job_died_is_let_through(line: str) -> None:
    scanner = make_scanner(backend="find")
    scanner.load(line.encode())
    assert scanner.next_hit(0) < len(line.encode())


def test_every_line_that_begins_or_decides_a_failure_of_the_corpus_is_let_through(rules) -> None:
    scanner = make_scanner(backend="find")
    lost = []
    for case in all_cases():
        raw = case.read()
        explainer = Explainer(rules=rules)
        explainer.feed(raw)
        explainer.finish()
        for failure in explainer.job.failures:
            scanner.load(raw[failure.first.start : failure.last.end])
            if scanner.next_hit(0) >= failure.last.end - failure.first.start > 0:
                lost.append((case.id, failure.first.text))
    assert lost == []


def test_a_registered_dialect_can_be_loaded_and_says_its_own_name() -> None:
    assert [(e.name, e.load().name) for e in REGISTRY] == [(e.name, e.name) for e in REGISTRY]
