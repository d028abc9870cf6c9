"""What is kept of a child's output, and the thread in which the engine reads a large one."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from launching import DEADLINE_S, TBPARSE, clean_env

from tbparse.engine import Explainer
from tbparse.launching.recording import BATCH_BYTES, WAITING_BATCHES, HeadAndTail, Recording

PIECES = st.lists(st.one_of(st.binary(max_size=40), st.integers(0, 40_000).map(lambda n: b"%d\n" % n * (n // 8))), max_size=40)


class Slow(Explainer):
    """An engine that reads only when it is let, and remembers what it got, and in which thread."""

    def __init__(self) -> None:
        super().__init__()
        self.may = threading.Semaphore(0)
        self.got: list[bytes] = []
        self.threads: set[threading.Thread] = set()

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        assert self.may.acquire(timeout=DEADLINE_S)
        self.threads.add(threading.current_thread())
        self.got.append(bytes(data))


@given(PIECES, st.integers(0, 300), st.integers(1, 20_000))
def test_head_and_tail_are_the_streams_own(pieces: list[bytes], head: int, tail: int) -> None:
    kept = HeadAndTail(head, tail)
    for piece in pieces:
        kept.add(piece)
    sent = b"".join(pieces)
    assert kept.total == len(sent)
    text = kept.text()
    cut = re.search(r"^\[tbparse: ([\d,]+) bytes are left out here\]\n", text, re.MULTILINE)
    if cut is None:
        assert text == sent.decode("utf-8", "replace")
        return
    before, after = text[: cut.start()], text[cut.end() :]
    missing = int(cut[1].replace(",", ""))
    assert len(sent) > head + tail
    # Where the head is cut at a line's end nothing is put between it and the note.
    first = next(
        x for x in (sent[:head], sent[: sent[:head].rfind(b"\n") + 1]) if x.decode("utf-8", "replace") in (before, before[:-1])
    )
    last = sent[len(first) + missing :]
    assert last.decode("utf-8", "replace") == after
    assert len(last) <= tail


def test_the_engine_gets_everything_in_order_while_the_feeder_waits_for_it() -> None:
    """Memory is bounded by the feeder's waiting: it gets ahead of the engine by a few portions, and no more."""
    engine = Slow()
    recording = Recording(engine)
    portion = [bytes([65 + i]) * BATCH_BYTES for i in range(12)]
    fed: list[int] = []
    ahead = WAITING_BATCHES + 1  # one is being read

    def feed() -> None:
        for i, data in enumerate(portion):
            recording.feed(data)
            fed.append(i)

    feeder = threading.Thread(target=feed)
    feeder.start()
    for i in range(len(portion)):
        engine.may.release()
        feeder.join(0.01)
        assert len(fed) <= i + 1 + ahead + 1
    feeder.join(DEADLINE_S)
    recording.feed(b"the end")
    engine.may.release()
    recording.drain()
    assert engine.got == [*portion, b"the end"]
    assert len(engine.threads) == 2  # its own, and at the end whoever drains
    assert not any(t.is_alive() for t in engine.threads - {threading.current_thread()})


def test_a_small_output_needs_no_thread() -> None:
    engine = Slow()
    engine.may.release()
    recording = Recording(engine)
    for _ in range(100):
        recording.feed(b"a line\n")
    recording.drain()
    assert engine.threads == {threading.current_thread()}
    assert engine.got == [b"a line\n" * 100]


def test_a_system_without_threads_to_spare_reads_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    engine = Slow()
    engine.may.release(3)
    recording = Recording(engine)
    for data in (b"a" * BATCH_BYTES, b"b" * BATCH_BYTES, b"c"):
        recording.feed(data)
    recording.drain()
    assert [x[:1] for x in engine.got] == [b"a", b"b", b"c"]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_output_and_no_byte_is_lost() -> None:
    """300 MB on both streams, then a failure: what comes out is what went in, and the memory is that of 3 MB."""
    child = """
import os, sys
block = b"step 1234 loss 0.3456 lr 1e-4 tokens/s 12345\\n" * 20000
for i in range(int(sys.argv[1])):
    for part in (b"%d\\n" % i, block):
        left = memoryview(part)
        while left: left = left[os.write(1 + i % 2, left):]
raise ValueError("the real cause")
"""

    def run(blocks: int) -> tuple[int, str, bytes]:
        """Resident memory of the largest process in KB, what was written by its digest, and the last of it."""
        command = [*TBPARSE, "run", "--", sys.executable, "-c", child, str(blocks)]
        digest, sent, last = hashlib.md5(), hashlib.md5(), b""
        block = b"step 1234 loss 0.3456 lr 1e-4 tokens/s 12345\n" * 20000
        for i in range(blocks):
            sent.update(b"%d\n" % i + block)
        left = blocks * len(block) + sum(len(b"%d\n" % i) for i in range(blocks))
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=clean_env()) as p:
            assert p.stdout is not None
            while data := p.stdout.read(1 << 20):
                digest.update(data[:left])
                last = last + data[left:] if left < len(data) else b""
                left = max(0, left - len(data))
            _, _, usage = os.wait4(p.pid, 0)
            p.returncode = 1
        return usage.ru_maxrss, "same" if digest.digest() == sent.digest() else "different", last

    small, same, _ = run(3)
    assert same == "same"
    large, same, last = run(330)
    assert same == "same"
    assert b"ValueError: the real cause" in last
    assert large < small + 32 * 1024
