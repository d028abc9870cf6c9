"""Which rank did not arrive, at which collective, and whether the program's ranks disagree (tbparse/attribute/facts.py, hang.py)."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

import itertools

import pytest
from jobs import LOCAL, PEER, TORCH, WAITED, explained, of_rank, said
from making import traceback
from test_witnesses import closing, exit_table

from tbparse.records import Tags
from tbparse.ruleset.match import RuleSet


def watchdog(
    rank: int, seq: int, op: str = "ALLREDUCE", n: int = 100, *, group: str | None = "0(default_pg)", enqueued: int | None = None
) -> str:
    """What NCCL's watchdog prints on a rank that waited: the work, and the state of its group."""
    lines = f"[rank{rank}]:[E1130 18:04:40.2 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={n}, NumelOut={n}, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n"
    if group is not None:
        lines += f"[rank{rank}]:[E1130 18:04:40.3 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID {group} Rank {rank}]  failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {seq if enqueued is None else enqueued}, last completed work: {seq - 1}\n"
    return lines


def dumping(rank: int, enqueued: int, completed: int, by: int = 0, group: str = "0(default_pg)") -> str:
    """What a rank prints that is told to dump, because another one timed out."""
    return f"[rank{rank}]:[E1130 18:04:41.1 ProcessGroupNCCL.cpp:1682] [PG ID 0 PG GUID {group} Rank {rank}] Received a dump signal due to a collective timeout from  rank {by} and we will try our best to dump the debug info. Last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}.This is most likely caused by incorrect usages of collectives\n"


def test_the_rank_with_the_lowest_last_enqueued_number_never_entered_the_collective(rules: RuleSet) -> None:
    log = "".join(watchdog(r, 31) for r in (0, 1, 3)) + dumping(2, 30, 30)
    answer, job = explained(rules, log)
    assert (answer.rank, answer.captures["missing_ranks"], answer.captures["seq"], answer.captures["op"]) == (
        2,
        (2,),
        31,
        "ALLREDUCE",
    )
    assert said(job, "process-group status")[0].claim == "rank 2 never entered ALLREDUCE number 31 (its last is number 30)"
    assert answer.advice[0].startswith("Rank 2 did not arrive at ALLREDUCE number 31")


def test_the_same_whatever_the_order_of_the_ranks_logs(rules: RuleSet) -> None:
    logs = {f"rank_{r}.log": (Tags(r), watchdog(r, 31)) for r in (0, 1, 3)} | {"rank_2.log": (Tags(2), dumping(2, 30, 30))}
    answers = [explained(rules, "", dict(p))[0] for p in itertools.permutations(logs.items())]
    assert {(a.rank, a.captures["missing_ranks"], a.message, a.verdict) for a in answers} == {
        (2, (2,), answers[0].message, "transient")
    }


def test_what_the_missing_rank_printed_last_is_told(rules: RuleSet) -> None:
    logs = {f"rank_{r}.log": (Tags(r), "step 30\n" + watchdog(r, 31)) for r in (0, 1, 3)}
    logs["rank_2.log"] = (Tags(2), "step 30\nsaving checkpoint to /mnt/slow\n" + dumping(2, 30, 30))
    answer, _ = explained(rules, "", logs)
    assert "rank 2 printed last: saving checkpoint to /mnt/slow (line 2 of rank_2.log)" in answer.notes


def test_a_rank_that_says_nothing_while_all_others_wait_is_the_missing_one(rules: RuleSet) -> None:
    answer, job = explained(rules, "".join(watchdog(r, 31, group=None) for r in (0, 1, 3)))
    assert answer.rank == 2
    assert (
        said(job, "silence")[0].claim
        == "rank 2 printed no failure, while ranks 0, 1, 3 waited in vain (the others wait in ALLREDUCE number 31)"
    )


def test_one_rank_that_waits_accuses_nobody(rules: RuleSet) -> None:
    answer, _ = explained(rules, watchdog(3, 31))
    assert answer.rank == 3
    assert "missing_ranks" not in answer.captures


def test_a_rank_that_raised_in_its_own_code_is_the_cause_and_no_one_is_missing(rules: RuleSet) -> None:
    answer, _ = explained(rules, "".join(watchdog(r, 31) for r in (0, 1, 3)) + of_rank(2, LOCAL))
    assert (answer.exception, answer.rank, answer.verdict) == ("KeyError", 2, "real")
    assert "missing_ranks" not in answer.captures


def test_the_rank_that_the_agent_had_to_end_is_the_one_that_slept(rules: RuleSet) -> None:
    waited = "".join(of_rank(r, WAITED) for r in (0, 1))
    table = exit_table((0, 1, 10), (1, 1, 11), (2, -15, 12), named=0)
    answer, _ = explained(rules, waited + closing(12) + table)
    assert (answer.rank, answer.captures["told_by"]) == (2, "exit table")


def test_victims_that_the_agent_ended_before_they_could_print_are_not_missing(rules: RuleSet) -> None:
    table = exit_table((0, -15, 10), (1, -15, 11), (2, -15, 12), (3, 1, 13), named=3)
    answer, _ = explained(rules, of_rank(3, WAITED) + closing(10, 11, 12) + table)
    assert answer.rank == 3
    assert "missing_ranks" not in answer.captures


def test_where_every_rank_waited_in_vain_a_rerun_is_not_trusted(rules: RuleSet) -> None:
    waited = "".join(of_rank(r, WAITED) for r in range(3))
    answer, _ = explained(rules, waited + exit_table((0, 1, 10), (1, 1, 11), (2, 1, 12), named=0))
    assert answer.verdict == "unknown"
    assert any("none is missing" in n for n in answer.notes)


def test_where_all_entered_the_collective_and_it_did_not_finish_the_transport_is_named(rules: RuleSet) -> None:
    answer, job = explained(rules, "".join(watchdog(r, 31) for r in range(4)))
    assert answer.verdict == "transient"
    assert said(job, "process-group status")[0].claim.startswith("all 4 ranks that tell entered ALLREDUCE number 31")


@pytest.mark.parametrize(
    ("change", "text"), [({"n": 7}, "ALLREDUCE of 7 elements"), ({"op": "BROADCAST"}, "BROADCAST of 100 elements")]
)
def test_other_operation_or_size_at_one_number_of_one_group_is_the_programs_fault(change: dict, text: str, rules: RuleSet) -> None:
    log = "".join(watchdog(r, 31) for r in (0, 1, 3)) + watchdog(2, 31, **change)
    answer, _ = explained(rules, log)
    assert (answer.verdict, answer.rank, answer.captures["odd_rank"]) == ("real", 2, 2)
    assert (
        answer.notes[0] == f"the ranks disagree at sequence number 31: ranks 0, 1, 3 in ALLREDUCE of 100 elements, rank 2 in {text}"
    )


def test_equal_numbers_of_two_groups_are_never_compared(rules: RuleSet) -> None:
    tensor = "".join(watchdog(r, 77, "_ALLGATHER_BASE", 512, group="3(TENSOR_PARALLEL)") for r in (0, 1))
    data = "".join(watchdog(r, 77, "ALLREDUCE", 9000, group="5(DATA_PARALLEL)") for r in (2, 3))
    answer, _ = explained(rules, tensor + data)
    assert not any("disagree" in n for n in answer.notes)
    assert answer.verdict != "real"


def test_ranks_of_two_groups_at_different_numbers_are_not_late(rules: RuleSet) -> None:
    tensor = "".join(watchdog(r, 900, group="3(TENSOR_PARALLEL)") for r in (0, 1))
    data = "".join(watchdog(r, 12, group="5(DATA_PARALLEL)") for r in (2, 3))
    answer, _ = explained(rules, tensor + data)
    assert "missing_ranks" not in answer.captures


def test_a_disagreement_within_one_of_two_groups_is_certain(rules: RuleSet) -> None:
    tensor = "".join(watchdog(r, 77, n=n, group="3(TENSOR_PARALLEL)") for r, n in ((0, 8), (1, 9)))
    answer, _ = explained(rules, tensor + watchdog(2, 5, group="5(DATA_PARALLEL)"))
    assert answer.verdict == "real"
    assert answer.captures["group"] == "3 (TENSOR_PARALLEL)"


def test_where_lines_name_no_group_in_a_job_of_several_a_disagreement_proves_nothing(rules: RuleSet) -> None:
    log = watchdog(0, 77, n=8, group=None) + watchdog(1, 77, n=9, group=None) + watchdog(2, 5, group="5(DATA_PARALLEL)")
    answer, _ = explained(rules, log)
    assert answer.verdict == "unknown"


def test_sends_and_receives_and_uneven_collectives_do_not_disagree(rules: RuleSet) -> None:
    for a, b in (("SEND", "RECV"), ("ALLTOALL_BASE", "ALLTOALL_BASE")):
        answer, _ = explained(rules, watchdog(0, 77, a, 8) + watchdog(1, 77, b, 9))
        assert not any("disagree" in n for n in answer.notes)


def test_the_rank_that_timed_out_first_is_told(rules: RuleSet) -> None:
    _, job = explained(rules, watchdog(3, 31) + dumping(0, 31, 30, by=3))
    assert "rank 3 timed out first, and told the others to dump" in [s.claim for s in said(job, "process-group status")]


MONITORED = "[Rank 0]: Rank{} failed to pass monitoredBarrier in 2000 ms\n Original exception:\n[../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:84] Timed out waiting 2000ms for recv operation to complete"


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("RuntimeError: " + MONITORED.format(" 2"), (2,)),
        ("RuntimeError: " + MONITORED.format("s 1, 3"), (1, 3)),
        ("torch.distributed.DistStoreError: Timed out waiting on barrier on rank 0, for key prefix: torch_rendezvous (world_size=4, missing_ranks=[2], timeout=300)", (2,)),
        ("jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: sync.0.\n# of tasks that reached the barrier: 3/4.\nThe first task at the barrier: /job:jax_worker/replica:0/task:0. Some timed out task names:\n/job:jax_worker/replica:0/task:2\n", (2,)),
    ],
)  # fmt: skip
def test_ranks_that_a_barrier_or_a_store_names_are_the_missing_ones(line: str, missing: tuple[int, ...], rules: RuleSet) -> None:
    answer, _ = explained(rules, of_rank(0, traceback(line, ("/work/train.py", 12, "main"), (TORCH, 4000, "monitored_barrier"))))
    assert answer.captures["missing_ranks"] == missing
    assert answer.captures["told_by"] == "named missing ranks"
    assert answer.rank == (missing[0] if len(missing) == 1 else 0)


def test_torchs_desync_report_names_the_ranks_and_the_number(rules: RuleSet) -> None:
    report = "[rank0]:   - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n[rank0]:     - [2] finished collective #30, but didn't join collective #31 (count from 1)\n"
    answer, _ = explained(rules, watchdog(0, 31) + report)
    assert (answer.captures["missing_ranks"], answer.captures["seq"]) == ((2,), 31)
    never = "[rank0]:   - To our best knowledge, ranks [1, 3] are the lagging ranks that caused this timeout. They never joined any collectives\n"
    assert explained(rules, watchdog(0, 1) + never)[0].captures["missing_ranks"] == (1, 3)


def test_a_store_that_counts_its_clients_says_how_many_came(rules: RuleSet) -> None:
    error = traceback(
        "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 6/8 clients joined.",
        ("/work/train.py", 3, "main"),
    )
    _, job = explained(rules, error)
    assert said(job, "store")[0].claim == "6 of 8 clients joined"


def fingerprint(rank: int, own: str, other: int, theirs: str) -> str:
    text = f"RuntimeError: Detected mismatch between collectives on ranks. Rank {rank} is running collective: CollectiveFingerPrint(SequenceNumber=4, {own}), but Rank {other} is running collective: CollectiveFingerPrint(SequenceNumber=4, {theirs})."
    return of_rank(rank, traceback(text, ("/work/train.py", 50 + rank, "step"), (TORCH, 2501, "all_reduce")))


def test_torchs_own_comparison_names_the_rank_that_is_alone(rules: RuleSet) -> None:
    reduce, cast = (
        "OpType=ALLREDUCE, TensorShape=[10], TensorDtypes=Float",
        "OpType=BROADCAST, TensorShape=[10], TensorDtypes=Float",
    )
    log = "".join(fingerprint(r, reduce, 1, cast) for r in (0, 2, 3)) + fingerprint(1, cast, 0, reduce)
    answer, _ = explained(rules, log)
    assert (answer.verdict, answer.rank, answer.site.line) == ("real", 1, 51)
    assert "ranks 0, 2, 3 in ALLREDUCE of [10], rank 1 in BROADCAST of [10]" in answer.notes[0]


def test_of_two_ranks_that_disagree_neither_is_called_the_odd_one(rules: RuleSet) -> None:
    reduce, barrier = "OpType=ALLREDUCE, TensorShape=[10], TensorDtypes=Float", "OpType=BARRIER"
    answer, _ = explained(rules, fingerprint(0, reduce, 1, barrier) + fingerprint(1, barrier, 0, reduce))
    assert answer.verdict == "real"
    assert "odd_rank" not in answer.captures


def test_ranks_that_lost_a_peer_do_not_make_a_hang(rules: RuleSet) -> None:
    answer, _ = explained(rules, "".join(of_rank(r, PEER) for r in (0, 1, 3)))
    assert "missing_ranks" not in answer.captures


def test_a_quotation_of_a_watchdog_in_a_users_log_line_makes_no_hang_of_a_healthy_run(rules: RuleSet) -> None:
    log = "notes: last week rank 2 said 'last enqueued work: 3, last completed work: 2' and hung\nstep 1/2 loss 1.0\nstep 2/2 loss 0.9\ntraining finished\n"
    answer, _ = explained(rules, log, returncode=0)
    assert answer.verdict == "clean"


def test_the_log_of_one_rank_alone_says_nothing_of_the_others(rules: RuleSet) -> None:
    answer, _ = explained(rules, watchdog(1, 77))
    assert answer.rank == 1
    assert "missing_ranks" not in answer.captures


def test_lines_that_leave_out_the_only_group_are_of_it(rules: RuleSet) -> None:
    """torch 2.3 names the group in some lines of the watchdog and not in others."""
    answer, _ = explained(rules, watchdog(0, 931, n=8, group=None) + watchdog(1, 931, n=65536, group="0"))
    assert answer.verdict != "transient"
