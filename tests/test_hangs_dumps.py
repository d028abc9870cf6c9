"""Flight-recorder dumps: read safely, compared within their groups (tbparse/logs/flight_recorder.py, attribute/hang.py)."""

# ruff: noqa: E501 - rows of a schema stand on one line
from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import pickle
import time
from pathlib import Path
from typing import Any

import pytest
from corpora import FIXTURES
from hypothesis import given
from hypothesis import strategies as st
from jobs import WAITED, of_rank, said

from tbparse.engine import Explainer
from tbparse.errors import InputError
from tbparse.logs.flight_recorder import DumpError, dump_files, dump_rank, join_dump, read_dump
from tbparse.ruleset.match import RuleSet

REAL = FIXTURES / "cases" / "ranks4-flight-sleeps" / "logs"


def entry(
    seq: int, op: str = "nccl:all_reduce", size: int = 8, group: tuple[str, str] = ("0", "default_pg"), **more: Any
) -> dict[str, Any]:
    """One entry as torch 2.6 writes it for NCCL."""
    frames = [
        {
            "name": "all_reduce",
            "filename": "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py",
            "line": 3,
        },
        {"name": "step", "filename": "/work/train.py", "line": 40 + seq},
    ]
    return {
        "frames": frames, "record_id": seq - 1, "pg_id": 0, "process_group": group, "collective_seq_id": seq, "p2p_seq_id": 0, "op_id": seq,
        "profiling_name": op, "time_created_ns": 1_790_000_000_000_000_000 + seq, "input_sizes": [[size]], "input_dtypes": ["Float"],
        "output_sizes": [[size]], "output_dtypes": ["Float"], "state": "completed", "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None, "retired": True, "timeout_ms": 600_000, "is_p2p": False, **more,
    }  # fmt: skip


def dump(entries: list[dict[str, Any]], members: dict[str, dict[str, Any]] | None = None) -> bytes:
    """A dump as torch pickles it."""
    config = members or {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    content = {"version": "2.6", "pg_config": config, "pg_status": {}, "entries": entries, "nccl_comm_state": {}}
    return pickle.dumps(content, protocol=2)


def explained(rules: RuleSet, dumps: dict[int, bytes], folder: Path):
    """The answer about ranks that waited in vain, with these dumps beside the console."""
    explainer = Explainer(rules=rules)
    explainer.feed("".join(of_rank(r, WAITED) for r in (0, 3)).encode())
    explainer.drain()
    for rank, data in dumps.items():
        path = folder / f"nccl_trace_rank_{rank}"
        path.write_bytes(data)
        assert join_dump(explainer.job, path)
    return explainer.finish(1), explainer.job


def test_a_real_dump_of_gloo_says_the_same_as_pickle_and_as_json() -> None:
    for rank in range(4):
        pickled = read_dump((REAL / f"nccl_trace_rank_{rank}").read_bytes(), rank)
        assert read_dump((REAL / f"nccl_trace_rank_{rank}.json").read_bytes(), rank).calls.keys() == pickled.calls.keys()
        last = pickled.calls["default_pg"][-1]
        assert (last.seq, last.op, last.sizes) == ((3, "all_reduce", "[8]") if rank == 1 else (4, "all_reduce", "[16]"))
        assert last.where == f"/srv/project/dist/flight.py:{32 if rank == 1 else 38} in main"
        assert pickled.members["default_pg"] == (0, 1, 2, 3)


@pytest.mark.parametrize("form", ["", ".json"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(4)))[::5])
def test_the_rank_that_never_called_what_the_others_wait_in_is_missing(form: str, order: tuple[int, ...], rules: RuleSet) -> None:
    explainer = Explainer(rules=rules)
    explainer.feed("".join(of_rank(r, WAITED) for r in (0, 2, 3)).encode())
    explainer.drain()
    for rank in order:
        assert join_dump(explainer.job, REAL / f"nccl_trace_rank_{rank}{form}")
    answer = explainer.finish(1)
    assert (answer.rank, answer.captures["missing_ranks"], answer.captures["seq"]) == (1, (1,), 4)
    assert answer.captures["told_by"] == "flight recorder"


def test_a_rank_without_a_dump_is_the_missing_one(rules: RuleSet, tmp_path: Path) -> None:
    answer, job = explained(rules, {r: dump([entry(n) for n in range(1, 6)]) for r in (0, 1, 3)}, tmp_path)
    assert answer.rank == 2
    assert said(job, "flight recorder")[0].claim.startswith("rank 2 left no dump of default_pg")


def test_a_group_of_its_own_is_compared_by_its_own_members(rules: RuleSet, tmp_path: Path) -> None:
    members = {
        "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"},
        "5": {"name": "5", "desc": "TENSOR", "ranks": [0, 1]},
        "6": {"name": "6", "desc": "TENSOR", "ranks": [2, 3]},
    }

    def of(rank: int, calls: int) -> bytes:
        group = ("5", "TENSOR") if rank < 2 else ("6", "TENSOR")
        return dump([entry(1), *[entry(n, group=group, size=rank // 2 + 1) for n in range(1, calls + 1)]], members)

    # Ranks 2 and 3 are far behind ranks 0 and 1, which says nothing: they are another group. Rank 3 is late in its own.
    answer, _ = explained(rules, {0: of(0, 90), 1: of(1, 90), 2: of(2, 7), 3: of(3, 6)}, tmp_path)
    assert (answer.rank, answer.captures["group"], answer.captures["seq"]) == (3, "6 (TENSOR)", 7)
    assert not any("disagree" in n for n in answer.notes)


@pytest.mark.parametrize(("change", "kind"), [({"size": 9}, "all_reduce of [9]"), ({"op": "nccl:broadcast"}, "broadcast")])
def test_other_sizes_or_operations_at_one_number_are_the_programs_fault(
    change: dict, kind: str, rules: RuleSet, tmp_path: Path
) -> None:
    plain, odd = [entry(n) for n in (1, 2, 3)], [entry(1), entry(2, **change), entry(3)]
    answer, _ = explained(rules, {0: dump(plain), 1: dump(odd), 2: dump(plain), 3: dump(plain)}, tmp_path)
    assert (answer.verdict, answer.rank) == ("real", 1)
    assert answer.notes[0] == (
        "the ranks disagree at sequence number 2: ranks 0, 2, 3 in all_reduce of [8], "
        f"rank 1 in {kind}; rank 1 called it at /work/train.py:42 in step"
    )


@pytest.mark.parametrize("op", ["nccl:all_to_all", "nccl:reduce_scatter_v", "nccl:send", "nccl:ALLTOALL_BASE"])
def test_uneven_collectives_do_not_disagree(op: str, rules: RuleSet, tmp_path: Path) -> None:
    answer, _ = explained(rules, {r: dump([entry(1, op, size=r + 1)]) for r in range(4)}, tmp_path)
    assert not any("disagree" in n for n in answer.notes)


def test_point_to_point_calls_count_for_themselves() -> None:
    recorded = read_dump(dump([entry(1), entry(0, "nccl:send 0->1", is_p2p=True, p2p_seq_id=900)]), 0)
    assert [(c.seq, c.p2p) for c in recorded.calls["default_pg"]] == [(1, False), (900, True)]


def test_entries_of_the_first_versions_have_fewer_fields() -> None:
    old = {"seq_id": 7, "pg_id": 0, "profiling_name": "nccl:all_reduce", "input_sizes": [[4]], "state": "scheduled"}
    recorded = read_dump(pickle.dumps({"version": "1.5", "entries": [old]}), 0)
    assert [(c.seq, c.op, c.where) for c in recorded.calls["default_pg"]] == [(7, "all_reduce", None)]


class Evil:
    """Runs a command when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_would_run_something_is_refused_and_nothing_is_run(protocol: int, tmp_path: Path) -> None:
    trace = tmp_path / "it-ran"
    data = pickle.dumps({"version": "2.6", "entries": [Evil(trace)]}, protocol=protocol)
    with pytest.raises(DumpError, match="nothing of it was executed"):
        read_dump(data, 0)
    assert not trace.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"(S'true'\nios\nsystem\n.",
        b"\x80\x02c__builtin__\neval\nq\x01X\x01\x00\x00\x001\x85R.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x02Pid\n.",
        b"\x80\x02}r\xff\xff\xff\x7f.",
        b"\x80\x05\x96\x00\x00\x00\x00\x00\x00\x00\x7f.",
    ],
    ids=["global", "inst", "reduce", "stack-global", "persistent", "wild-memo", "huge-bytes"],
)
def test_every_way_out_of_plain_data_is_refused(data: bytes) -> None:
    with pytest.raises(DumpError):
        read_dump(data, 0)


def test_containers_that_hold_one_another_a_thousand_times_over_cost_nothing() -> None:
    inner: list[Any] = [1]
    for _ in range(60):
        inner = [inner] * 10
    data = pickle.dumps({"version": "2.6", "entries": [entry(1, input_sizes=inner, state=inner, process_group=(inner, inner))]})
    started = time.process_time()
    read_dump(data, 0)
    assert time.process_time() - started < 5


@given(st.binary(max_size=300))
def test_any_bytes_are_a_dump_or_are_refused(data: bytes) -> None:
    with contextlib.suppress(DumpError):
        read_dump(data, 0)


@given(st.integers(min_value=0, max_value=5000), st.integers(min_value=0, max_value=255))
def test_a_damaged_dump_is_a_dump_or_is_refused(at: int, byte: int) -> None:
    data = bytearray((REAL / "nccl_trace_rank_0").read_bytes())
    data[at % len(data)] = byte
    for damaged in (bytes(data), bytes(data[: at % len(data)])):
        with contextlib.suppress(DumpError):
            read_dump(damaged, 0)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda x: st.lists(x, max_size=3), max_leaves=6
)


@given(
    st.dictionaries(
        st.sampled_from(["process_group", "pg_id", "collective_seq_id", "input_sizes", "frames", "profiling_name"]), _JSON
    )
)
def test_entries_of_any_content_are_read_or_left_out(content: dict[str, Any]) -> None:
    text = json.dumps({"version": "2.6", "entries": [content, 3, None], "pg_config": {"0": {"ranks": content}}})
    read_dump(text.encode(), 0)


def test_a_file_that_is_no_dump_is_noted_and_the_job_is_explained_all_the_same(rules: RuleSet, tmp_path: Path) -> None:
    explainer = Explainer(rules=rules)
    (tmp_path / "nccl_trace_rank_0").write_bytes(b"\x80\x02cut")
    assert not join_dump(explainer.job, tmp_path / "nccl_trace_rank_0")
    assert any("nccl_trace_rank_0 was not used" in n for n in explainer.finish(1).notes)
    with pytest.raises(InputError):
        join_dump(explainer.job, tmp_path / "nccl_trace_rank_1")


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("nccl_trace_rank_3", 3), ("comm_lib_trace_rank_12", 12), ("nccl_trace_rank_0.json", 0), ("nccl_trace_rank_7.pkl", 7), ("rank_3.log", None),
        ("nccl_trace_rank_", None), ("trace_3", None),
    ],
)  # fmt: skip
def test_a_dumps_rank_stands_in_its_name(name: str, rank: int | None) -> None:
    assert dump_rank(name) == rank


def test_of_a_ranks_two_forms_the_pickle_is_read() -> None:
    assert [(r, p.name) for r, p in dump_files(REAL)] == [(r, f"nccl_trace_rank_{r}") for r in range(4)]


def test_reading_a_dump_changes_no_module_and_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io, "open", lambda *a, **k: pytest.fail("a dump opened a file"))
    assert read_dump(dump([entry(1)]), 0).calls["default_pg"][0].seq == 1
