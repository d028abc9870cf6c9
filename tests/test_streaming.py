"""Logs that come as streams: pipes, files that grow, and compressed files that mean harm."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import threading
from pathlib import Path

import pytest
from dress import filler

from tbparse.engine import Explainer
from tbparse.errors import InputError
from tbparse.logs import compressed, source
from tbparse.logs.source import LogSource
from tbparse.ruleset.match import RuleSet
from tbparse.text.portions import PORTION, portions

FAILURE = b'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    f()\nKeyError: 1\n'
LOG = filler(600_000) + FAILURE
PACKERS = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}


def read(path: Path) -> tuple[bytes, LogSource]:
    log = LogSource(str(path))
    return b"".join(log.chunks()), log


def test_a_pipe_is_explained_as_it_is_written(rules: RuleSet) -> None:
    out, into = os.pipe()

    def write() -> None:
        with os.fdopen(into, "wb", buffering=0) as file:
            for at in range(0, len(LOG), 777):
                file.write(LOG[at : at + 777])

    writer = threading.Thread(target=write)
    writer.start()
    explainer = Explainer(rules=rules)
    with os.fdopen(out, "rb", buffering=0) as file:
        assert explainer.read(file) == len(LOG)
    writer.join()
    assert explainer.finish(1).exception == "KeyError"


def test_a_file_that_grows_is_read_to_where_it_ends_then(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(filler(2 * PORTION))
    log = LogSource(str(path))
    parts = iter(log.portions())
    seen = len(next(parts))
    with path.open("ab") as more:
        more.write(FAILURE)
    rest = [bytes(p) for p in parts]
    assert seen + sum(map(len, rest)) == path.stat().st_size == log.size
    assert rest[-1].endswith(FAILURE)


def test_what_can_only_read_is_read() -> None:
    class Plain:
        def __init__(self) -> None:
            self._file = io.BytesIO(LOG)

        def read(self, size: int) -> bytes:
            return self._file.read(size)

    assert b"".join(map(bytes, portions(Plain()))) == LOG  # type: ignore[arg-type]


@pytest.mark.parametrize("scheme", PACKERS)
def test_padding_between_and_after_streams_is_no_damage(tmp_path: Path, scheme: str) -> None:
    pack = PACKERS[scheme]
    (tmp_path / "x").write_bytes(pack(LOG) + b"\0" * 512 + pack(FAILURE) + b"\0" * 1024)
    data, log = read(tmp_path / "x")
    assert data == LOG + FAILURE
    assert log.notes == []


@pytest.mark.parametrize("scheme", PACKERS)
def test_what_follows_a_compressed_log_and_is_no_such_data_is_noted(tmp_path: Path, scheme: str) -> None:
    (tmp_path / "x").write_bytes(PACKERS[scheme](LOG) + b"not compressed at all" * 9)
    data, log = read(tmp_path / "x")
    assert data == LOG
    assert "ends or is damaged" in log.notes[0]


@pytest.mark.parametrize("scheme", PACKERS)
def test_a_decompression_bomb_is_read_no_further_and_says_so(tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_UNPACKED", 600_000)
    monkeypatch.setattr(source, "MAX_RATIO", 20)
    (tmp_path / "bomb").write_bytes(PACKERS[scheme](b"step 1\n" * 200_000))
    data, log = read(tmp_path / "bomb")
    assert 600_000 < len(data) <= 600_000 + PORTION
    assert "decompression bomb" in log.notes[0]


def test_a_large_log_that_is_well_packed_is_no_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_UNPACKED", 1_000_000)
    (tmp_path / "x").write_bytes(gzip.compress(filler(4_000_000)))
    assert read(tmp_path / "x")[1].notes == []


def test_an_xz_file_that_asks_for_too_much_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "XZ_MEMORY", 1024 * 1024)
    (tmp_path / "x").write_bytes(lzma.compress(LOG, preset=9))
    with pytest.raises(InputError, match=r"begins like xz and cannot be unpacked.*[Mm]emory"):
        read(tmp_path / "x")
