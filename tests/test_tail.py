"""``explain --tail``: only the end of a log, and an answer that says so (logs/source.py, engine.py, cli/explaining.py)."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path

import pytest

from tbparse.cli.explaining import Asked, answer
from tbparse.engine import Explainer
from tbparse.logs.source import LogSource
from tbparse.model import RootCause

STEPS = b"".join(b"step %d loss 2.%d\n" % (n, n) for n in range(20_000))
REAL = b'Traceback (most recent call last):\n  File "/w/train.py", line 3, in <module>\n    f()\nValueError: bad lr\n'
NODE = (
    b"slurmstepd: error: *** JOB 775120 ON c2-14 CANCELLED AT 2026-02-10T03:12:55 "
    b"DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n"
)


def read(path: Path, tail: int | None, returncode: int | None = None) -> tuple[RootCause, LogSource]:
    source, explainer = LogSource(str(path), tail), Explainer()
    for data in source.portions():
        if source.skipped and source.size == len(data):
            explainer.skip(source.skipped)
        explainer.feed(data)
    return explainer.finish(returncode), source


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "train.log"


@pytest.mark.parametrize("tail", [len(REAL) + 1, 1000, 300_000])
def test_spans_are_those_of_the_whole_log_and_lines_count_from_where_reading_began(log: Path, tail: int) -> None:
    data = STEPS + REAL
    log.write_bytes(data)
    found, source = read(log, tail)
    assert data[: source.skipped].endswith(b"\n")
    assert len(data) - tail <= source.skipped < len(data) - tail + 30
    assert (found.verdict, found.exception, found.message) == ("real", "ValueError", "bad lr")
    for x in found.evidence:
        assert data[x.start : x.end].decode() == x.text
        assert data[source.skipped : x.start].count(b"\n") == x.line - 1
    assert "only the last" in " ".join(found.notes)


def test_what_was_not_read_could_refute_what_encourages(log: Path) -> None:
    log.write_bytes(STEPS + NODE)
    assert read(log, None)[0].verdict == "transient"
    found, _ = read(log, 1000)
    assert (found.verdict, found.retry.action, found.rule) == ("unknown", "stop", "scheduler/slurm-node-failure")
    log.write_bytes(REAL + STEPS)
    assert read(log, 1000)[0].verdict == "unknown"
    assert read(log, 1000, 0)[0].verdict == "clean"


def test_a_log_that_is_no_longer_is_read_whole(log: Path) -> None:
    log.write_bytes(REAL)
    assert read(log, len(REAL))[0] == read(log, None)[0]
    log.write_bytes(b"")
    assert read(log, 10)[1].size == 0


def test_the_end_may_begin_within_a_line_that_has_none(log: Path) -> None:
    log.write_bytes(b"x" * 3_000_000)
    source = read(log, 2_000_000)[1]
    assert (source.skipped, source.size) == (1_000_000, 2_000_000)


@pytest.mark.parametrize("pack", [gzip.compress, lambda data: data.decode().encode("utf-16")], ids=["gzip", "utf-16"])
def test_what_cannot_be_read_from_its_end_is_read_whole(log: Path, pack) -> None:
    log.write_bytes(pack(REAL + STEPS))
    found, source = read(log, 1000)
    assert source.skipped == 0
    assert found.exception == "ValueError"
    assert "all of the log was read" in " ".join(source.notes)


def test_standard_input_is_read_whole(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(REAL)))
    assert answer(Asked(("-",), tail="10", format="json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["exception"], found["notes"]) == (
        "ValueError",
        ["all of the log was read: it is standard input, which cannot be read from its end"],
    )


@pytest.mark.parametrize("size", ["300", "1k", "1 KiB", "2M", "1gb"])
def test_sizes_are_written_as_elsewhere(log: Path, size: str, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_bytes(STEPS + REAL)
    assert answer(Asked((str(log),), tail=size)) == 0
    assert ("only the last" in capsys.readouterr().out) is (size[-1] in "0kB")


@pytest.mark.parametrize(
    "asked",
    [
        Asked(("a.log",), tail="lots"),
        Asked(("a.log",), tail="0"),
        Asked((".",), tail="1M"),
        Asked(("a.log", "b.log"), tail="1M", job=True),
        Asked(("a.log",), tail="1M", log_dir="logs"),
    ],
    ids=lambda a: " ".join(map(str, a[:1])),
)
def test_what_cannot_be_asked_is_said(asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as e:
        answer(asked)
    assert e.value.code == 2
    assert "--tail" in capsys.readouterr().err
