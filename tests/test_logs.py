"""Where logs come from: files, pipes, compressed files, folders of ranks."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import random
import struct
import sys
from pathlib import Path

import pytest

from tbparse.attribute.origin import PathSettings
from tbparse.engine import Explainer
from tbparse.errors import InputError
from tbparse.logs.binary import binary_kind
from tbparse.logs.compressed import Rejoined
from tbparse.logs.directory import join_log_dir, runs
from tbparse.logs.error_file import read_error_file
from tbparse.logs.folder import find_jobs
from tbparse.logs.source import CHUNK, LogSource

LOG = b'step 1\nTraceback (most recent call last):\n  File "/w/train.py", line 3, in <module>\n    f()\nValueError: bad lr\n'
CASES = Path(__file__).resolve().parent.parent / "fixtures" / "corpus" / "cases"


def read(path: Path | str) -> tuple[bytes, LogSource]:
    source = LogSource(str(path))
    return b"".join(source.chunks()), source


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress], ids=["plain", "gzip", "bzip2", "xz"])
def test_a_log_is_read_whatever_it_is_packed_with_and_whatever_its_name(tmp_path, pack):
    path = tmp_path / "train.log"
    path.write_bytes(pack(LOG))
    data, source = read(path)
    assert data == LOG
    assert source.size == len(LOG)
    assert source.notes == []


def test_several_gzip_members_are_one_log(tmp_path):
    (tmp_path / "x").write_bytes(gzip.compress(LOG) + gzip.compress(LOG))
    assert read(tmp_path / "x")[0] == LOG + LOG


def test_no_piece_is_larger_than_a_mebibyte(tmp_path):
    text = b"".join(b"step %d loss 0.1\n" % i for i in range(200_000))
    (tmp_path / "plain").write_bytes(text)
    (tmp_path / "packed").write_bytes(gzip.compress(text, 1))
    for name in ("plain", "packed"):
        pieces = list(LogSource(str(tmp_path / name)).chunks())
        assert max(map(len, pieces)) <= CHUNK
        assert b"".join(pieces) == text


def test_what_stands_before_a_cut_in_a_compressed_log_is_used(tmp_path):
    rng = random.Random(1)
    text = b"".join(b"%d\n" % rng.randrange(10**9) for _ in range(50_000))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(text)[:100_000])
    data, source = read(tmp_path / "cut.gz")
    assert text.startswith(data)
    assert len(data) > 50_000
    assert "gzip data ends or is damaged" in source.notes[0]


def test_a_file_that_only_begins_like_gzip_is_an_error(tmp_path):
    (tmp_path / "x").write_bytes(b"\x1f\x8b\x08" + b"garbage" * 10)
    with pytest.raises(InputError, match="begins like gzip"):
        read(tmp_path / "x")


def test_zstd_without_a_module_says_what_to_do(tmp_path, monkeypatch):
    for name in ("compression.zstd", "backports.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "x").write_bytes(b"\x28\xb5\x2f\xfd" + b"....")
    with pytest.raises(InputError, match="zstd -dc FILE"):
        read(tmp_path / "x")


def test_a_missing_file_names_its_neighbour(tmp_path):
    (tmp_path / "train.log").write_bytes(LOG)
    with pytest.raises(InputError, match=r"no such file.*did you mean .*train\.log\?"):
        read(tmp_path / "train.lgo")
    with pytest.raises(InputError, match="there is no folder"):
        read(tmp_path / "nowhere" / "train.log")
    with pytest.raises(InputError, match="is a directory"):
        read(tmp_path)
    with pytest.raises(InputError, match="null"):
        read("a\0b")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_forbidden_file_is_an_error(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(LOG)
    path.chmod(0)
    with pytest.raises(InputError, match="permission denied"):
        read(path)


TEXTS = {
    "utf-8": "Traceback: 你好, Übergröße\n".encode() * 9,
    "latin-1": "Fehler: Übergröße überschritten, größer als möglich\n".encode("latin-1") * 9,
    "shift-jis": "エラーが発生しました\n".encode("shift_jis") * 9,
    "utf-16": "Traceback (most recent call last):\n".encode("utf-16"),
    "utf-32": "Traceback (most recent call last):\n".encode("utf-32"),
    "utf-8 with a mark": b"\xef\xbb\xbf" + LOG,
    "colours and bars": b"\x1b[32mINFO\x1b[0m 3%|#  |\r 4%|## |\x08\x08\r\n" * 30,
    "truncated under its writer": b"\0" * 200_000 + LOG,
    "with holes": LOG + b"\0" * 4096 + LOG,
    "one NUL": b"a\0b and more text that is quite all right\n" + LOG,
    "short": b"\x01",
    "empty": b"",
}
NOT_TEXTS = {
    "ELF": b"\x7fELF\x02\x01\x01" + b"\0" * 9 + struct.pack("<HHI", 2, 62, 1) * 20,
    "PNG": b"\x89PNG\r\n\x1a\n" + random.Random(2).randbytes(2000),
    "zip": b"PK\x03\x04" + b"\0" * 30,
    "tar": b"train.log".ljust(257, b"\0") + b"ustar  \0" + LOG,
    "random": random.Random(3).randbytes(5000),
    "floats": b"".join(struct.pack("<f", random.Random(i).gauss(0, 1)) for i in range(2000)),
    "NULs": b"\0" * 5000,
    "wide text without a mark": "Traceback (most recent call last):\n".encode("utf-16-le"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_in_any_encoding_is_a_log(name):
    assert binary_kind(TEXTS[name]) is None


@pytest.mark.parametrize("name", NOT_TEXTS)
def test_what_is_not_text_is_no_log(name, tmp_path):
    assert binary_kind(NOT_TEXTS[name])
    (tmp_path / "x").write_bytes(NOT_TEXTS[name])
    with pytest.raises(InputError, match="is no log but"):
        read(tmp_path / "x")


def test_every_log_of_the_corpus_is_text():
    logs = [p for p in CASES.rglob("*") if p.suffix in (".txt", ".log")]
    assert len(logs) > 150
    assert [p for p in logs if binary_kind(p.read_bytes()[:65536])] == []


def test_a_stream_whose_head_was_read_is_whole_again():
    for size in (1, 3, 100):
        stream = Rejoined(b"abcdef", io.BytesIO(b"ghi"))
        out = b""
        while part := stream.read(size):
            out += part
        assert out == b"abcdefghi"


# --- folders


def layout(root: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


TWO_RANKS = {
    "none_ab12/attempt_0/0/stderr.log": LOG.replace(
        b"ValueError: bad lr", b"RuntimeError: [gloo/transport/tcp/pair.cc:525] Connection closed by peer [127.0.0.1]:1"
    ),
    "none_ab12/attempt_0/0/stdout.log": b"",
    "none_ab12/attempt_0/1/stderr.log": LOG,
    "none_ab12/attempt_0/1/stdout.log": b"step 1\n",
    "none_ab12/attempt_0/1/settings.yaml": b"KeyError: 'not a log'\n",
}


@pytest.mark.parametrize("inside", [".", "none_ab12", "none_ab12/attempt_0"])
def test_torchruns_folder_is_one_job_from_whichever_level(tmp_path, rules, inside):
    explainer = Explainer(rules=rules)
    assert join_log_dir(explainer, layout(tmp_path, TWO_RANKS) / inside) == 4
    answer = explainer.finish()
    assert (answer.exception, answer.message, answer.rank) == ("ValueError", "bad lr", 1)
    assert answer.attempt == 0 or inside == "none_ab12/attempt_0"
    assert answer.evidence[-1].source is not None
    assert answer.evidence[-1].source.endswith("attempt_0/1/stderr.log")
    assert [s.rank for s in answer.secondary] == [0]


def test_path_settings_hold_for_the_ranks_logs(tmp_path, rules):
    paths = PathSettings(library_paths=("/w",))
    explainer = Explainer(rules=rules, paths=paths)
    join_log_dir(explainer, layout(tmp_path, TWO_RANKS), paths=paths)
    assert explainer.finish().site is None


def test_an_error_file_counts_as_its_ranks_log(tmp_path, rules):
    error = {"message": {"message": "ValueError: bad lr", "extraInfo": {"py_callstack": LOG.decode(), "timestamp": "1"}}}
    explainer = Explainer(rules=rules)
    join_log_dir(explainer, layout(tmp_path, {"r/attempt_2/3/error.json": json.dumps(error).encode()}))
    answer = explainer.finish()
    assert (answer.exception, answer.rank, answer.attempt) == ("ValueError", 3, 2)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b'{"message": 3}', b"\xff\xfe", b"[" * 100_000])
def test_an_error_file_that_says_nothing_is_passed_over(raw, tmp_path, rules):
    assert read_error_file(raw) is None
    explainer = Explainer(rules=rules)
    assert join_log_dir(explainer, layout(tmp_path, {"r/attempt_0/0/error.json": raw})) == 1
    assert explainer.finish().verdict == "clean"


def test_logs_come_by_attempt_and_rank_as_numbers(tmp_path):
    names = [f"r/attempt_{a}/{r}/stderr.log" for a in (10, 2) for r in (10, 2)]
    layout(tmp_path, dict.fromkeys(names, b""))
    assert [(x.place.attempt, x.place.local_rank) for x in find_jobs(tmp_path)[0].logs] == [(2, 2), (2, 10), (10, 2), (10, 10)]


def test_runs_are_told_apart_and_far_folders_left_alone(tmp_path):
    layout(tmp_path, {f"{run}/attempt_0/0/stderr.log": b"" for run in ("b_1", "a_1", "deep/er/and/deeper")})
    assert [p.name for p in runs(tmp_path)] == ["a_1", "b_1"]


def test_a_folder_without_logs_says_what_it_holds(tmp_path, rules):
    with pytest.raises(InputError, match="no such folder"):
        join_log_dir(Explainer(rules=rules), tmp_path / "x")
    with pytest.raises(InputError, match=r"holds no logs \(it is empty\)"):
        join_log_dir(Explainer(rules=rules), tmp_path)
    for name in ("model.pt", "train.py", "b.safetensors"):
        (tmp_path / name).write_bytes(LOG)
    with pytest.raises(InputError, match=r"it holds 2 checkpoints and weights, 1 code"):
        join_log_dir(Explainer(rules=rules), tmp_path)
