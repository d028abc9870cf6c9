"""Which lines hold a trigger: every way of finding them agrees (tbparse/text/prefilter.py)."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

from collections.abc import Iterable

import pytest
from corpora import all_cases
from dress import filler
from hypothesis import given, settings
from hypothesis import strategies as st

from tbparse import Explainer
from tbparse.dialects.registry import REGISTRY
from tbparse.engine import line_words
from tbparse.text import prefilter, shapes
from tbparse.text.blocks import Segmenter
from tbparse.text.prefilter import TRIGGERS, Scanner, Words, load_hyperscan, make_scanner

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
            b"17",
            b"r1ror",
            b"exit code 1",
            b"exit code 2\n",
            b"40",
            b"4",
            b"SPOT Interruption",
            b"block: [",
        ]
    ),
    max_size=60,
).map(b"".join)


WORDS = Words(("block: [", "exit code 1", "404"), ("spot interruption",))
BACK_ENDS_HERE = [
    "python",
    pytest.param("hyperscan", marks=pytest.mark.skipif(load_hyperscan() is None, reason="no hyperscan or no AVX2")),
]


def hit_lines(scanner: Scanner, body: bytes, start: int = 0, end: int | None = None) -> list[int]:
    """Numbers of the lines that are hit."""
    hits = scanner.hits(body, start, len(body) if end is None else end)
    assert list(hits) == sorted(hits)
    return sorted({body.count(b"\n", 0, n) for n in hits})


def lines_with(words: Iterable[str], body: bytes, caseless: Iterable[str] = ()) -> list[int]:
    """Numbers of the lines that hold one of the words."""
    return [
        n
        for n, line in enumerate(body.split(b"\n"))
        if any(w.encode() in line for w in words) or any(w.encode() in line.lower() for w in caseless)
    ]


@pytest.mark.parametrize("backend", BACK_ENDS_HERE)
@given(body=BODIES)
@settings(max_examples=100)
def test_every_back_end_hits_the_lines_with_triggers_and_no_other(backend: str, body: bytes) -> None:
    expected = lines_with((*TRIGGERS, *WORDS.exact), body, WORDS.caseless)
    assert hit_lines(make_scanner(WORDS, backend=backend), body) == expected


@pytest.mark.parametrize("backend", BACK_ENDS_HERE)
@given(
    extra=st.lists(st.text(alphabet="ab(.*[\\1", min_size=3, max_size=6), min_size=1, max_size=4),
    body=st.text(alphabet="ab(.*[\\1\n", max_size=60),
)
@settings(max_examples=60)
def test_words_are_found_as_they_are_written(backend: str, extra: list[str], body: str) -> None:
    assert hit_lines(make_scanner(Words(tuple(extra)), backend=backend), body.encode()) == lines_with(extra, body.encode())


@pytest.mark.parametrize("backend", BACK_ENDS_HERE)
def test_only_the_part_that_is_asked_about_is_searched(backend: str) -> None:
    body = bytearray(b"Error 1\nquiet\nError 2\nquiet\nError 3\n")
    scanner = make_scanner(backend=backend)
    assert hit_lines(scanner, bytes(body), 8, len(body) - 8) == [2]
    assert [n for n in scanner.hits(body, 8, len(body) - 8) if not 8 <= n < len(body) - 8] == []
    assert list(scanner.hits(body, 8, 8)) == []


def test_shapes_that_were_forgotten_are_learned_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "MAX_SHAPES", 3)
    scanner = make_scanner(backend="python")
    bodies = [b"".join(b"line %c of %d\n" % (65 + (n + k) % 9, k) for k in range(5)) + b"Error %d\n" % n for n in range(20)]
    assert [hit_lines(scanner, body) for body in bodies] == [[5]] * 20


def test_a_back_end_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefilter, "load_hyperscan", lambda: None)
    with pytest.raises(RuntimeError, match="hyperscan"):
        make_scanner(backend="hyperscan")
    assert type(make_scanner()) is type(make_scanner(backend="python"))


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
    assert hit_lines(make_scanner(backend="python"), line.encode()) == [0]


def test_every_line_that_begins_or_decides_a_failure_of_the_corpus_is_let_through(rules) -> None:
    scanner = make_scanner(backend="python")
    lost = []
    for case in all_cases():
        raw = case.read()
        explainer = Explainer(rules=rules)
        explainer.feed(raw)
        explainer.finish()
        for failure in explainer.job.failures:
            part = raw[failure.first.start : failure.last.end]
            if part and not scanner.hits(part, 0, len(part)):
                lost.append((case.id, failure.first.text))
    assert lost == []


@pytest.mark.skipif(load_hyperscan() is None, reason="hyperscan is an extra, and this machine lacks it or AVX2")
def test_the_corpus_is_cut_into_the_same_blocks_by_every_back_end(rules) -> None:
    """The same blocks are the same answers."""
    words = line_words(rules)
    quiet = filler(200_000)
    for case in all_cases():
        data = quiet + case.read() + b"\n" + quiet
        cut = []
        for backend in ("python", "hyperscan"):
            segmenter = Segmenter(words, backend=backend)
            cut.append(segmenter.feed(data) + segmenter.finish())
        assert cut[0] == cut[1], case.id


def test_a_registered_dialect_can_be_loaded_and_says_its_own_name() -> None:
    assert [(e.name, e.load().name) for e in REGISTRY] == [(e.name, e.name) for e in REGISTRY]
