"""Each witness by itself, and the judge that orders them (tbparse/attribute/witnesses.py, judge.py, clocks.py)."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

import itertools
import json

import pytest
from corpora import FIXTURES
from jobs import LOCAL, PEER, WAITED, explained, of_rank, said, timed
from making import traceback

from tbparse.attribute.clocks import Clocks, compare, gap, read_time
from tbparse.attribute.witnesses import WITNESSES
from tbparse.records import Tags
from tbparse.ruleset.match import RuleSet

NODE_FAILURE = (
    "slurmstepd: error: *** JOB 81 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n"
)
PREEMPTED = "slurmstepd: error: *** JOB 81 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO PREEMPTION ***\n"
OOM_KILL = (
    "[ 912.1] Out of memory: Killed process 4242 (python) total-vm:90000000kB, anon-rss:64000000kB, file-rss:0kB, shmem-rss:0kB\n"
)


def exit_table(*rows: tuple[int, int, int], named: int) -> str:
    """torchrun's block: rank, exit code and pid of each worker, and the rank that it names as the first."""

    def entry(i: int, rank: int, code: int, pid: int) -> str:
        trace = f"Signal {-code} (SIG) received by PID {pid}" if code < 0 else "To enable traceback see: https://pytorch.org"
        return (
            f"[{i}]:\n  time      : 2026-01-02_03:04:07\n  host      : n1\n  rank      : {rank} (local_rank: {rank})\n"
            f"  exitcode  : {code} (pid: {pid})\n  error_file: <N/A>\n  traceback : {trace}\n"
        )

    others = "".join(entry(i, *row) for i, row in enumerate(rows, 1) if row[0] != named)
    root = next(entry(0, *row) for row in rows if row[0] == named)
    rule, dashes = "=" * 60 + "\n", "-" * 60 + "\n"
    return f"{rule}train.py FAILED\n{dashes}Failures:\n{others or '  <NO_OTHER_FAILURES>'}{dashes}Root Cause (first observed failure):\n{root}{rule}"


def closing(*pids: int) -> str:
    """The agent's lines about the workers that it ends itself."""
    return "".join(
        f"W0102 03:04:06.1 9 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process {p} closing signal SIGTERM\n"
        for p in pids
    )


def test_every_witness_has_a_name_of_its_own_and_says_what_it_looks_at() -> None:
    assert len({w.name for w in WITNESSES}) == len(WITNESSES)
    assert all(w.ask.__doc__ for w in WITNESSES)


def test_the_first_witness_that_accuses_decides(rules: RuleSet) -> None:
    answer, job = explained(rules, OOM_KILL + of_rank(0, LOCAL) + of_rank(1, PEER))
    accusers = [s.witness for s in job.decision.statements if s.accuses is not None]
    assert accusers[:3] == ["scheduler and kernel lines", "local exceptions", "effects"]
    assert answer.category == "host-memory"


def test_scheduler_lines_tell_where_they_stand(rules: RuleSet) -> None:
    _, job = explained(rules, "step 1\n" + PREEMPTED + of_rank(0, PEER))
    (statement,) = said(job, "scheduler and kernel lines")
    assert "PREEMPTION" in statement.accuses.root.link.message
    assert statement.line.no == 2


def test_a_local_exception_is_told_with_its_ranks(rules: RuleSet) -> None:
    _, job = explained(rules, "".join(of_rank(r, LOCAL) for r in (0, 1, 2, 4, 5)) + of_rank(3, PEER))
    (statement,) = said(job, "local exceptions")
    assert statement.claim.startswith("KeyError on ranks 0-2, 4, 5: ")


def test_the_exit_table_says_who_ended_how_and_whom_the_launcher_names(rules: RuleSet) -> None:
    _, job = explained(
        rules, of_rank(0, PEER) + closing(11, 12) + exit_table((0, 1, 10), (1, -15, 11), (2, -15, 12), (3, -9, 13), named=3)
    )
    claim = said(job, "exit table")[0].claim
    assert (
        claim == "workers ended: rank 0 by code 1; ranks 1, 2 by SIGTERM; rank 3 by SIGKILL; the launcher names rank 3 as the first"
    )


def test_a_killed_rank_beats_those_that_lost_it(rules: RuleSet) -> None:
    answer, _ = explained(rules, of_rank(0, PEER) + exit_table((0, 1, 10), (1, -9, 11), named=0))
    assert (answer.rank, answer.signal) == (1, "SIGKILL")


def test_a_sigterm_that_the_agent_did_not_send_came_from_outside(rules: RuleSet) -> None:
    table = exit_table((0, -15, 10), (1, -15, 11), (2, -15, 12), named=1)
    answer, job = explained(rules, of_rank(0, PEER) + closing(10, 12) + table)
    assert (answer.rank, answer.signal, answer.transient) == (1, "SIGTERM", False)
    assert "from outside" in said(job, "exit table")[1].accuses.why


def test_where_the_agent_ended_all_of_them_nobody_is_accused_by_sigterm(rules: RuleSet) -> None:
    table = exit_table((0, -15, 10), (1, -15, 11), named=1)
    answer, job = explained(rules, of_rank(0, PEER) + closing(10, 11) + table)
    assert answer.rule == "communication/gloo-peer-lost"
    assert [s for s in said(job, "exit table") if s.accuses is not None] == []


def test_error_files_name_the_rank_that_wrote_first(rules: RuleSet) -> None:
    logs = {
        f"logs/attempt_0/{r}/error.json": (Tags(r, r, None, None, str(1_790_000_000 + t)), text)
        for r, t, text in ((0, 5, LOCAL.replace("labels", "a")), (1, 2, LOCAL.replace("labels", "b")))
    }
    answer, job = explained(rules, "", logs)
    assert said(job, "error files")[0].rank == 1
    assert answer.rank == 1


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_earliest_of_several_local_errors_is_the_first_whatever_the_order_of_files(
    order: tuple[int, ...], rules: RuleSet
) -> None:
    times = ("2026-01-02 03:04:07,100", "2026-01-02 03:04:05,900", "2026-01-02 03:04:09,000")
    logs = {f"rank_{r}.log": (Tags(r), timed(times[r], LOCAL.replace("labels", "abc"[r]))) for r in order}
    answer, job = explained(rules, "", logs)
    assert answer.rank == 1
    assert "1.2 s before the next" in said(job, "times")[0].claim


def test_without_times_the_order_of_files_changes_nothing(rules: RuleSet) -> None:
    logs = {f"rank_{r}.log": (Tags(r), "\n" * (9 - r) + LOCAL.replace("labels", "abc"[r])) for r in range(3)}
    answers = [explained(rules, "", dict(p))[0] for p in itertools.permutations(logs.items())]
    assert {(a.rank, a.message) for a in answers} == {(0, "'a'")}


def test_a_bug_in_one_file_is_not_excused_by_a_node_failure_of_unknown_time_in_another(rules: RuleSet) -> None:
    answer, _ = explained(rules, NODE_FAILURE, {"rank_3.log": (Tags(3), LOCAL)})
    assert (answer.exception, answer.verdict, answer.rank) == ("KeyError", "real", 3)


def test_a_node_failure_that_came_first_by_time_explains_what_ranks_then_raised(rules: RuleSet) -> None:
    console = timed("2026-01-02 03:04:05,000", NODE_FAILURE)
    reset = traceback("ConnectionResetError: [Errno 104] Connection reset by peer", ("/work/train.py", 30, "fetch"))
    answer, _ = explained(rules, console, {"rank_3.log": (Tags(3), timed("2026-01-02 03:04:06,000", reset))})
    assert answer.category == "scheduler"


def test_steps_that_all_hosts_log_tell_how_far_their_clocks_are_apart(rules: RuleSet) -> None:
    def host(name: str, hour: str, text: str) -> tuple[Tags, str]:
        steps = "".join(f"2026-01-02 {hour}:00:{n:02},000 step {n} loss 1.0\n" for n in range(1, 9))
        return Tags(host=name), steps + text

    # n2 runs an hour ahead: by the bare times n1's error came an hour earlier, by the steps n2's came first.
    logs = {
        "n1.log": host("n1", "03", timed("2026-01-02 03:00:20,000", LOCAL.replace("labels", "late"))),
        "n2.log": host("n2", "04", timed("2026-01-02 04:00:12,000", LOCAL.replace("labels", "early"))),
    }
    answer, job = explained(rules, "", logs)
    assert (answer.message, answer.host) == ("'early'", "n2")
    assert "n2 3600 s ahead" in said(job, "clocks")[0].claim


def test_clocks_that_agree_and_clocks_of_which_nothing_is_known_are_not_spoken_of() -> None:
    same = {n: f"03:00:{n:02}" for n in range(5)}
    assert compare({"a": same, "b": same}).said() is None
    assert compare({"a": same, "b": {99: "05:00:00"}}).said() is None
    assert Clocks({}).said() is None


@pytest.mark.parametrize(
    ("text", "day", "second"),
    [
        ("2026-11-30T18:04:40.250Z", 335, 65080.25), ("2026-11-30 20:04:40,250+0200", 335, 65080.25), ("1130 18:04:40.250000", 335, 65080.25),
        ("602 11:17:52.5", 154, 40672.5), ("Nov 30 18:04:40", 335, 65080.0), ("11-30 18:04:40", 335, 65080.0), ("18:04:40", None, 65080.0),
        ("2026-11-30_18:04:40", 335, 65080.0), ("1796061880.25", 335, 65080.25), ("2026-12-01T00:30:00+01:00", 335, 84600.0),
    ],
)  # fmt: skip
def test_times_of_all_writers_are_read_on_one_scale(text: str, day: int | None, second: float) -> None:
    assert read_time(text) == (day, second)


@pytest.mark.parametrize("text", ["", "no time", "99", "2026-13-40", "[12]"])
def test_what_is_no_time_is_none(text: str) -> None:
    assert read_time(text) is None


def test_the_gap_between_times_without_dates_crosses_midnight() -> None:
    assert gap(read_time("00:00:01"), read_time("23:59:59")) == 2.0


def test_identical_exceptions_of_many_ranks_are_one_answer_with_its_ranks(rules: RuleSet) -> None:
    answer, _ = explained(rules, "".join(of_rank(r, LOCAL) for r in (0, 1, 2, 4, 5, 6, 7)))
    assert answer.ranks == (0, 1, 2, 4, 5, 6, 7)
    assert [s.kind for s in answer.secondary] == ["same"] * 6


def test_effects_carry_their_kind_and_their_rule(rules: RuleSet) -> None:
    answer, _ = explained(rules, of_rank(2, LOCAL) + of_rank(0, PEER) + of_rank(1, WAITED))
    assert {(s.kind, s.rule, s.rank) for s in answer.secondary} == {
        ("effect", "communication/gloo-peer-lost", 0), ("effect", "communication/gloo-timeout", 1),
    }  # fmt: skip


def test_the_schema_of_the_answer_only_gained_fields(rules: RuleSet) -> None:
    answer, _ = explained(rules, of_rank(2, LOCAL) + of_rank(0, PEER))
    data = json.loads(answer.to_json())
    assert {"exception", "rank", "line"} <= data["secondary"][0].keys()


def test_worker_records_of_other_attempts_do_not_tell_how_this_one_ended(rules: RuleSet) -> None:
    case = FIXTURES / "cases" / "ranks2-attempts"
    answer, _ = explained(rules, (case / "log.txt").read_text(encoding="utf-8"))
    assert (answer.rank, answer.attempt, answer.signal, answer.exit_code) == (1, 0, None, 1)
