"""Attempts of one job: which failure belongs to which, and what a failure that comes again is worth (tbparse/attribute/attempts.py)."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

import pytest
from jobs import LOCAL, PEER, explained, of_rank, timed
from making import traceback

from tbparse.model import RootCause
from tbparse.records import Tags
from tbparse.ruleset.match import RuleSet

AGAIN = "I1130 18:04:41.1 9 torch/distributed/elastic/agent/server/api.py:944] [default] Worker group FAILED. 1/2 attempts left; will restart worker group\n"
REFUSED = traceback(
    "torch.distributed.DistNetworkError: The client socket has failed to connect to any network address of (n1, 29500). Connection refused",
    ("/opt/venv/lib/python3.11/site-packages/torch/distributed/rendezvous.py", 80, "_create"),
)
STORE = traceback("torch.distributed.DistStoreError: wait timeout after 1000ms, keys: /shard-ready", ("/work/train.py", 3, "main"))
RESET = traceback("ConnectionResetError: [Errno 104] Connection reset by peer", ("/work/train.py", 30, "fetch"))
RAISED = traceback(
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    ("/opt/venv/lib/python3.11/site-packages/torch/distributed/launcher/api.py", 383, "launch_agent"),
)


def agent(local_rank: int, pid: int, at: str = "18:04:41") -> str:
    """torchrun's line about a failed worker: once an attempt."""
    return f"E1130 {at}.1 9 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: {local_rank} (pid: {pid}) of binary: /usr/bin/python\n"


def numbers(answer: RootCause) -> list[tuple[int, str | None, int | None]]:
    return [(a.number, a.exception and a.exception.rpartition(".")[2], a.rank) for a in answer.attempts]


@pytest.mark.parametrize("between", [AGAIN, agent(1, 11)], ids=["said", "an agent's line without its summary"])
def test_each_attempts_own_cause_is_listed(between: str, rules: RuleSet) -> None:
    log = of_rank(1, LOCAL) + of_rank(0, PEER) + between + of_rank(0, REFUSED) + agent(0, 20) + RAISED
    answer, _ = explained(rules, log)
    assert (answer.exception, answer.rank, answer.attempt) == ("KeyError", 1, 0)
    assert numbers(answer) == [(0, "KeyError", 1), (1, "DistNetworkError", 0)]


def test_two_agents_of_one_attempt_are_no_two_attempts(rules: RuleSet) -> None:
    log = of_rank(3, LOCAL) + of_rank(1, PEER) + agent(1, 11) + agent(1, 21) + RAISED + RAISED
    answer, _ = explained(rules, log)
    assert answer.attempts == ()
    assert answer.attempt is None


def test_a_failure_that_may_pass_and_comes_again_alike_is_doubted_and_not_retried(rules: RuleSet) -> None:
    once, _ = explained(rules, of_rank(1, STORE) + agent(1, 11) + RAISED)
    twice, _ = explained(rules, of_rank(1, STORE) + agent(1, 11) + of_rank(1, STORE) + agent(1, 21) + RAISED)
    assert (once.verdict, twice.verdict) == ("transient", "unknown")
    assert twice.retry.action == "stop"
    assert any(n.startswith("attempts 0, 1 failed alike") for n in twice.notes)


def test_numbers_in_the_message_do_not_make_it_another_failure(rules: RuleSet) -> None:
    log = of_rank(1, STORE) + AGAIN + of_rank(1, STORE.replace("1000ms", "1003ms")) + agent(1, 21) + RAISED
    assert explained(rules, log)[0].verdict == "unknown"


def test_failures_that_differ_are_not_doubted(rules: RuleSet) -> None:
    log = of_rank(0, RESET) + AGAIN + of_rank(1, STORE) + agent(1, 21) + RAISED
    answer, _ = explained(rules, log)
    assert answer.verdict == "transient"
    assert len(answer.attempts) == 2


def test_a_bug_of_a_later_attempt_goes_over_what_passed_in_an_earlier_one(rules: RuleSet) -> None:
    answer, _ = explained(rules, of_rank(0, RESET) + AGAIN + of_rank(0, LOCAL) + agent(0, 21) + RAISED)
    assert (answer.exception, answer.verdict, answer.attempt) == ("KeyError", "real", 1)


PREEMPTED = "slurmstepd: error: *** JOB 81 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO PREEMPTION ***\n"


@pytest.mark.parametrize(("at", "exception", "attempts"), [("03:04:09", None, 0), ("03:31:00", "KeyError", 2)])
def test_a_job_that_began_again_after_a_preemption_is_told_by_the_time(
    at: str, exception: str | None, attempts: int, rules: RuleSet
) -> None:
    log = PREEMPTED + timed(f"2026-01-02 {at},000", LOCAL)
    answer, _ = explained(rules, log)
    assert answer.exception == exception
    assert len(answer.attempts) == attempts


def test_a_scheduler_that_ended_two_attempts_alike_is_no_reason_for_doubt(rules: RuleSet) -> None:
    log = (
        timed("2026-01-02 03:00:00,000", "step 1")
        + PREEMPTED
        + "SLURM_RESTART_COUNT=1\n"
        + timed("2026-01-02 04:00:00,000", "step 1")
    )
    answer, _ = explained(rules, log + PREEMPTED.replace("03:04:05", "04:04:05"))
    assert (answer.verdict, answer.category) == ("transient", "scheduler")


RAY = "2026-01-02 03:04:05,678\tINFO default.py:70 -- [FailurePolicy] RETRY\n  Source: worker group\n  Error count: 1 (max allowed: 3)\nError: Training failed due to worker errors:\n"


def test_rays_retries_quote_the_failure_of_the_attempt_that_they_end(rules: RuleSet) -> None:
    first = LOCAL.replace("labels", "first")
    answer, _ = explained(rules, RAY + first + "step 1\n" + LOCAL.replace("labels", "second"))
    assert answer.message == "'first'"
    assert [(a.number, a.message) for a in answer.attempts] == [(0, "'first'"), (1, "'second'")]


def test_folders_name_attempts(rules: RuleSet) -> None:
    logs = {f"logs/attempt_{n}/1/stderr.log": (Tags(1, 1), text) for n, text in enumerate((LOCAL, REFUSED))}
    explained_once, job = explained(rules, "", logs)
    for failure in job.failures:
        failure.attempt = int(failure.source.split("attempt_")[1][0])
    from tbparse.answer import answer_values
    from tbparse.attribute.decide import attribute

    answer = RootCause.model_validate(answer_values(job, attribute(job, rules, 1), rules, 1))
    assert numbers(answer) == [(0, "KeyError", 1), (1, "DistNetworkError", 1)]
    assert explained_once.exception == answer.exception == "KeyError"


STEPS = "".join(f"rank 0 step {n} loss 1.{n}\n" for n in range(6))


def test_a_log_that_ends_while_a_later_attempt_is_at_work_shows_no_failure_that_ended_the_job(rules: RuleSet) -> None:
    answer, _ = explained(rules, RESET + agent(0, 11) + STEPS, returncode=None)
    assert answer.verdict == "clean"
    assert explained(rules, RESET + agent(0, 11) + STEPS, returncode=1)[0].verdict != "clean"


def test_where_the_later_attempt_fails_too_the_job_failed(rules: RuleSet) -> None:
    answer, _ = explained(rules, RESET + agent(0, 11) + STEPS + LOCAL, returncode=None)
    assert answer.exception == "KeyError"
