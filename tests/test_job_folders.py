"""Folders of logs in the layouts that launchers make: which files are read, and what their names tell."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import subprocess
import sys
from pathlib import Path, PurePath

import pytest

from tbparse.engine import Explainer
from tbparse.errors import InputError
from tbparse.logs.folder import find_jobs, one_job
from tbparse.logs.places import places
from tbparse.logs.reader import read_job
from tbparse.model import RootCause
from tbparse.ruleset.match import RuleSet

HEAD = 'Traceback (most recent call last):\n  File "/w/train.py", line 3, in <module>\n    main()\n'
OWN = f"step 1\n{HEAD}KeyError: 'labels'\n"
CLOSED = (
    f"step 1\n{HEAD}RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.3]:4242\n"
)
WORKER = "worker-{}-01000000-{}"
ID = "a4cc168c523c01e3c3a87d4379790ccbcc2b6bb58067bd70c5dc3c5"

# Layout: files of victims, the culprit's file, and what the answer must say of where it was.
LAYOUTS: dict[str, tuple[list[str], str, dict[str, object]]] = {
    "torchrun": (["none_ab/attempt_0/0/stderr.log"], "none_ab/attempt_0/1/stderr.log", {"rank": 1, "local_rank": 1, "attempt": 0}),
    "torchrun, two nodes": (
        ["n1/none_ab/attempt_0/0/stderr.log", "n1/none_ab/attempt_0/1/stderr.log", "n2/none_cd/attempt_0/0/stderr.log"],
        "n2/none_cd/attempt_0/1/stderr.log",
        {"rank": None, "local_rank": 1, "host": "n2"},
    ),
    "deepspeed": (["20260102030405_rank0.log", "20260102030405_rank1.log"], "20260102030405_rank11.log", {"rank": 11}),
    "srun %t": (["0.out", "1.out", "3.out"], "2.out", {"rank": 2}),
    "srun out.%t": (["out.0", "out.2"], "out.1", {"rank": 1}),
    "srun %N-%t": (["node03-0.out", "node03-1.out", "node04-3.out"], "node04-2.out", {"rank": 2, "host": "node04"}),
    "srun %N-%n": (["a3-0.out", "a3-1.out", "b4-0.out"], "b4-1.out", {"rank": None, "local_rank": 1, "host": "b4"}),
    "srun %j_%n_%t": (["99_0_0.out", "99_0_1.out", "99_1_3.out"], "99_1_2.out", {"rank": 2}),
    "mpirun": (["1/rank.0/stderr", "1/rank.1/stderr"], "1/rank.3/stderr", {"rank": 3}),
    "ray": (
        [
            f"logs/{WORKER.format(ID + '0', 14251)}.err",
            "logs/raylet.out",
            "logs/gcs_server.out",
            f"logs/python-core-driver-{ID}0_14069.log",
        ],
        f"logs/{WORKER.format(ID + '1', 14252)}.err",
        {"rank": None, "process": "pid=14252"},
    ),
    "pods": (["llm-worker-0.log", "llm-worker-1.log"], "llm-worker-3.log", {"rank": None, "host": "llm-worker-3"}),
    "pods of a node": (
        ["train_llm-worker-0_0a1b2c3d-11ee/pytorch/0.log"],
        "train_llm-worker-3_0f3a9c52-11ee/pytorch/1.log",
        {"host": "llm-worker-3", "attempt": 1},
    ),
    "rank_N.log": (["rank_0.log", "rank_1.log"], "rank_10.log", {"rank": 10}),
    "log.rankN": (["log.rank0", "log.rank2"], "log.rank1", {"rank": 1}),
    "a folder a rank": (["0/train.log", "1/train.log"], "2/train.log", {"rank": 2}),
    "a folder a host": (["gpu-a/rank0.log", "gpu-a/rank1.log"], "gpu-b/rank2.log", {"rank": 2, "host": "gpu-b"}),
    "hosts with the same ranks": (
        ["x1/rank0.log", "x1/rank1.log", "x2/rank0.log"],
        "x2/rank1.log",
        {"local_rank": 1, "host": "x2"},
    ),
    "attempts": (["attempt_1/rank_0.log", "attempt_0/rank_0.log"], "attempt_0/rank_1.log", {"rank": 1, "attempt": 0}),
    "names that tell nothing": (["first.log", "second.txt"], "third", {"rank": None}),
}


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return root


def answer_of(root: Path, rules: RuleSet) -> RootCause:
    explainer = Explainer(rules=rules)
    (job,) = find_jobs(root)
    read_job(explainer, job)
    return explainer.finish()


def tbparse(*args: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "tbparse.cli.main", "explain", *map(str, args)],
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layouts_names_tell_where_the_cause_was(layout: str, tmp_path: Path, rules: RuleSet) -> None:
    victims, culprit, told = LAYOUTS[layout]
    answer = answer_of(write(tmp_path, {**dict.fromkeys(victims, CLOSED), culprit: OWN}), rules)
    assert (answer.exception, answer.verdict) == ("KeyError", "real")
    assert {k: getattr(answer, k) for k in told} == told
    assert answer.evidence[-1].source == str(tmp_path / culprit)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_packed_logs_are_logs_of_the_job(pack, tmp_path: Path, rules: RuleSet) -> None:
    write(tmp_path, {"rank0.log.gz": pack(CLOSED.encode()), "rank1.log.gz": pack(OWN.encode())})
    assert answer_of(tmp_path, rules).rank == 1


def test_what_a_process_printed_wins_over_its_files_name(tmp_path: Path, rules: RuleSet) -> None:
    own = "".join(f"[rank5]: {line}\n" for line in OWN.splitlines())
    assert answer_of(write(tmp_path, {"rank_0.log": CLOSED, "rank_1.log": own}), rules).rank == 5


def test_the_consoles_table_gives_local_ranks_their_global_one(tmp_path: Path, rules: RuleSet) -> None:
    table = (
        "============================================================\ntrain.py FAILED\n"
        "------------------------------------------------------------\nFailures:\n  <NO_OTHER_FAILURES>\n"
        "------------------------------------------------------------\nRoot Cause (first observed failure):\n[0]:\n"
        "  time      : 2026-11-30_20:10:08\n  host      : n2\n  rank      : 9 (local_rank: 1)\n  exitcode  : 1 (pid: 27732)\n"
        "  error_file: <N/A>\n  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n"
        "============================================================\n"
    )
    files = {"none_a/attempt_0/0/stderr.log": CLOSED, "none_a/attempt_0/1/stderr.log": OWN, "console.log": table}
    answer = answer_of(write(tmp_path, files), rules)
    assert (answer.rank, answer.local_rank) == (9, 1)


def test_files_that_are_no_logs_are_passed_over_and_counted(tmp_path: Path, rules: RuleSet) -> None:
    picture = b"\x89PNG\r\n\x1a\n" + os.urandom(200)
    others = {
        "model.safetensors": b"KeyError: 1",
        "train.py": OWN,
        "cfg.yaml": OWN,
        "events.out.tfevents.1.n1": b"x",
        "plot": picture,
    }
    write(tmp_path, {"rank_0.log": CLOSED, "rank_1.log": OWN, ".git/HEAD.log": OWN, **others})
    os.mkfifo(tmp_path / "fifo.log")
    os.symlink(tmp_path / "nowhere", tmp_path / "gone.log")
    os.symlink(tmp_path / "rank_0.log", tmp_path / "latest.log")
    answer = answer_of(tmp_path, rules)
    assert answer.rank == 1
    (note,) = [n for n in answer.notes if "not read" in n]
    assert note.startswith("8 other files of the folder were not read: ")
    assert "1 sockets and pipes" in note


def test_one_damaged_file_does_not_silence_the_others(tmp_path: Path, rules: RuleSet) -> None:
    write(tmp_path, {"rank_0.log": CLOSED, "rank_1.log": OWN, "rank_2.log": b"\x1f\x8b\x08" + b"garbage" * 10})
    answer = answer_of(tmp_path, rules)
    assert answer.exception == "KeyError"
    assert any("could not be read" in n and "rank_2.log" in n for n in answer.notes)


def test_error_files_tell_when_and_what(tmp_path: Path, rules: RuleSet) -> None:
    def error(kind: str, time: int) -> str:
        return json.dumps(
            {"message": {"message": kind, "extraInfo": {"py_callstack": f"{HEAD}{kind}: x\n", "timestamp": str(time)}}}
        )

    write(
        tmp_path,
        {"r/attempt_0/0/error.json": error("ValueError", 1700000600), "r/attempt_0/1/error.json": error("IndexError", 1700000000)},
    )
    answer = answer_of(tmp_path, rules)
    assert (answer.exception, answer.rank) == ("IndexError", 1)


def test_a_sweeps_runs_are_jobs_of_their_own(tmp_path: Path) -> None:
    files = {f"2026-01-02/03-04-05/{i}/.hydra/config.yaml": "lr: 1" for i in (0, 1, 10)}
    files |= {"2026-01-02/03-04-05/0/train.log": OWN, "2026-01-02/03-04-05/1/train.log": "step 1\ndone\n"}
    files |= {"2026-01-02/03-04-05/10/train.log": OWN.replace("KeyError", "IndexError")}
    write(tmp_path, files)
    assert [j.root.name for j in find_jobs(tmp_path)] == ["0", "1", "10"]
    done = tbparse(tmp_path, "-f", "json")
    answers = [RootCause.from_json(x) for x in done.stdout.decode().replace("}\n{", "}\0{").split("\0")]
    assert [a.exception for a in answers] == ["KeyError", None, "IndexError"]
    assert b"holds 3 jobs" in done.stderr
    (one,) = [RootCause.from_json(tbparse(tmp_path, "--job", "-f", "json").stdout)]
    assert one.exception in ("KeyError", "IndexError")


def test_several_slurm_jobs_in_a_folder_are_several_jobs(tmp_path: Path) -> None:
    write(tmp_path, {"slurm-81.out": OWN, "slurm-81.err": "", "slurm-82_1.out": OWN, "slurm-82_2.out": "done\n"})
    assert [len(j.logs) for j in find_jobs(tmp_path)] == [2, 1, 1]
    write(tmp_path, {"rank_0.log": CLOSED})
    assert len(find_jobs(tmp_path)) == 1


def test_files_given_as_one_job_get_one_answer_in_any_order(tmp_path: Path) -> None:
    write(tmp_path, {"a/rank_0.log": CLOSED, "a/rank_1.log": OWN, "b.log": "step 1\n"})
    names = [tmp_path / x for x in ("a/rank_0.log", "b.log", "a/rank_1.log")]
    outs = [tbparse(*order, "--job", "-f", "json").stdout for order in (names, names[::-1])]
    assert outs[0] == outs[1]
    assert RootCause.from_json(outs[0]).rank == 1
    assert tbparse(names[0], "--job").returncode == 2
    assert tbparse(names[0], tmp_path / "gone", "--job").returncode == 66
    with pytest.raises(InputError, match="cannot be read"):
        one_job([str(tmp_path / "gone"), str(names[0])])


def test_any_layout_serves_as_log_dir_beside_a_console(tmp_path: Path) -> None:
    write(tmp_path, {"ranks/rank_0.log": CLOSED, "ranks/rank_1.log": OWN, "console.log": "starting\n"})
    answer = RootCause.from_json(tbparse(tmp_path / "console.log", "--log-dir", tmp_path / "ranks", "-f", "json").stdout)
    assert (answer.exception, answer.rank) == ("KeyError", 1)


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of open files")
def test_many_files_need_few_open_ones_and_little_memory(tmp_path: Path) -> None:
    """Six hundred logs with 40 files to be open at most: 4 MB of text each tenth, so that threads read them."""
    big = "step 1 of 2 | loss 0.5 | lr 1e-4\n" * 3000
    for i in range(600):
        (tmp_path / f"rank_{i}.log").write_text((big if i % 10 == 0 else "") + (OWN if i == 417 else CLOSED))
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)); from pathlib import Path\n"
        "from tbparse.engine import Explainer; from tbparse.logs.directory import join_log_dir\n"
        "e = Explainer(); n = join_log_dir(e, Path(sys.argv[1])); a = e.finish()\n"
        # ru_maxrss of a child begins at its parent's; the kernel's own mark does not.
        "high = next(x for x in open('/proc/self/status') if x.startswith('VmHWM'))\n"
        "print(n, a.exception, a.rank, int(high.split()[1]) // 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    count, kind, rank, memory = done.stdout.split()
    assert (count, kind, rank) == ("600", "KeyError", "417")
    assert int(memory) < 200


@pytest.mark.slow
def test_ten_thousand_files_are_one_job(tmp_path: Path, rules: RuleSet) -> None:
    for i in range(10_000):
        (tmp_path / f"rank_{i}.log").write_text(OWN if i == 7123 else CLOSED)
    explainer = Explainer(rules=rules)
    (job,) = find_jobs(tmp_path)
    assert read_job(explainer, job) == 10_000
    answer = explainer.finish()
    assert (answer.exception, answer.rank) == ("KeyError", 7123)
    assert len(explainer.job.failures) < 1000
    assert sum(x.count for x in explainer.job.failures) == 10_000


def test_names_with_numbers_that_are_no_ranks() -> None:
    for names in (("train.log", "train.log.1"), ("epoch_3.txt", "epoch_4.txt"), ("2026-01-02.log", "2026-01-03.log"), ("v2.log",)):
        assert [p.rank for p in places([PurePath(n) for n in names])] == [None] * len(names)
