"""Which of many failures began it (tbparse/attribute/cascade.py, job.py, survived.py)."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

import itertools

import pytest
from making import traceback
from scoring import place

LOCAL = traceback("KeyError: 'labels'", ("/work/train.py", 9, "step"))
COLLECTIVE = traceback(
    "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:3356, remote process exited or there was a network error, NCCL version 2.21.5\nncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
    ("/work/train.py", 12, "reduce"),
    ("/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 2501, "all_reduce"),
)
GLOO = traceback(
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.3]:4242",
    ("/work/train.py", 12, "reduce"),
    ("/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 2501, "all_reduce"),
)
STORE = traceback(
    "torch.distributed.DistNetworkError: failed to recv, got 0 bytes",
    ("/opt/venv/lib/python3.11/site-packages/torch/distributed/rendezvous.py", 80, "_create"),
)
WATCHDOG = "[rank0]:[E1130 18:04:40.2 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n"
PREEMPTED = "slurmstepd: error: *** JOB 81 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO PREEMPTION ***\n"
CHILD = traceback(
    "subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.",
    ("/opt/venv/lib/python3.11/site-packages/accelerate/commands/launch.py", 778, "simple_launcher"),
)


def of_rank(rank: int, text: str) -> str:
    return "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines())


@pytest.mark.parametrize("effects", list(itertools.permutations([of_rank(0, COLLECTIVE), of_rank(1, GLOO), of_rank(3, STORE)], 2)))
@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_local_error_beats_errors_of_communication_whatever_the_order(effects: tuple[str, ...], position: int, explain) -> None:
    blocks = list(effects)
    blocks.insert(position, of_rank(2, LOCAL))
    answer = explain("".join(blocks), returncode=1)
    assert (answer.exception, answer.rank, place(answer.site)) == ("KeyError", 2, ("/work/train.py", 9, "step"))
    assert len(answer.secondary) == 2


def test_the_agents_sigterm_is_an_effect(explain) -> None:
    sigterm = traceback(
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4242 got signal: 15",
        ("/opt/venv/lib/python3.11/site-packages/torch/distributed/elastic/agent/server/api.py", 700, "run"),
    )
    assert explain(sigterm + of_rank(1, LOCAL), returncode=1).exception == "KeyError"


def test_among_equals_the_first_in_the_log_began_it(explain) -> None:
    other = traceback("ValueError: later", ("/work/other.py", 4, "g"))
    assert explain(of_rank(3, LOCAL) + of_rank(0, other)).rank == 3
    assert explain(of_rank(0, other) + of_rank(3, LOCAL)).rank == 0


def test_only_communication_errors_are_answered_as_such(explain) -> None:
    answer = explain(of_rank(0, COLLECTIVE) + of_rank(1, GLOO), returncode=1)
    assert answer.category in ("communication", "network")


def test_a_scheduler_that_preempted_the_job_beats_what_the_ranks_then_printed(explain) -> None:
    answer = explain(PREEMPTED + of_rank(0, COLLECTIVE) + of_rank(1, GLOO), returncode=1)
    assert (answer.category, answer.verdict, answer.exception) == ("scheduler", "transient", None)


def test_a_scheduler_that_ends_a_job_which_was_already_dying_is_an_effect(explain) -> None:
    answer = explain(
        of_rank(1, LOCAL) + "slurmstepd: error: *** STEP 81.0 ON n1 CANCELLED AT 2026-01-02T03:04:05 ***\n", returncode=1
    )
    assert (answer.exception, answer.rank) == ("KeyError", 1)


NOTICES = (
    PREEMPTED,
    "Spot instance interruption notice received\n",
    "Instance was preempted.\n",
    "TERM_PREEMPT: job killed by preemption.\n",
    "42s  Warning  Preempted  pod/a-4-w-0  Preempted by pod on node n1\n",
    "srun: error: Node failure on c3-14\n",
    "004 (0213.004.000) 03/14 13:02:10 Job was evicted.\n",
)


@pytest.mark.parametrize("notice", NOTICES)
def test_a_job_that_worked_on_after_a_schedulers_notice_died_of_its_own_later_error(notice: str, explain) -> None:
    progress = "".join(f"step {i} loss {2.0 - i / 10:.2f}\n" for i in range(6))
    answer = explain(notice + progress + LOCAL, returncode=1)
    assert (answer.verdict, answer.exception) == ("real", "KeyError")


@pytest.mark.parametrize("notice", NOTICES)
def test_a_schedulers_notice_behind_an_error_that_lasts_is_no_reason_to_run_it_again(notice: str, explain) -> None:
    answer = explain(LOCAL + notice, returncode=1)
    assert (answer.verdict, answer.exception) == ("real", "KeyError")


@pytest.mark.parametrize("notice", NOTICES)
def test_a_schedulers_notice_explains_the_interrupts_and_broken_collectives_that_follow_its_grace_time(
    notice: str, explain
) -> None:
    progress = "".join(f"step {i} loss {2.0 - i / 10:.2f}\n" for i in range(6))
    answer = explain(notice + progress + of_rank(0, COLLECTIVE) + of_rank(1, GLOO), returncode=1)
    assert (answer.category, answer.verdict) == ("scheduler", "transient")


def test_the_kernels_killer_beats_a_killed_workers_wrapper(explain) -> None:
    oom = "[ 912.1] Out of memory: Killed process 4242 (python) total-vm:90000000kB, anon-rss:64000000kB, file-rss:0kB, shmem-rss:0kB\n"
    answer = explain(oom + CHILD.replace("returned non-zero exit status 1.", "died with <Signals.SIGKILL: 9>."), returncode=1)
    assert answer.category == "host-memory"
    assert "Killed process 4242" in answer.message


def test_a_wrapper_speaks_only_when_nothing_else_does(explain) -> None:
    assert explain(LOCAL + CHILD, returncode=1).exception == "KeyError"
    assert explain(CHILD, returncode=1).exception == "subprocess.CalledProcessError"


def test_a_logged_error_speaks_before_a_wrapper(explain) -> None:
    answer = explain("ERROR:trainer:the run failed\n" + LOCAL + CHILD, returncode=1)
    assert (answer.exception, answer.chain[0].relation) == ("KeyError", "launcher")


def test_an_error_of_an_earlier_attempt_beats_a_communication_error_of_a_later_one(explain) -> None:
    restart = "[2026-01-02 03:04:05,678] torch.distributed.elastic.agent.server.api: [INFO] [default] Worker group FAILED. 1/2 attempts left; will restart worker group\n"
    refused = traceback(
        "torch.distributed.DistNetworkError: The client socket has failed to connect to any network address of (n1, 29500). Connection refused",
        ("/opt/venv/lib/python3.11/site-packages/torch/distributed/rendezvous.py", 80, "_create"),
    )
    answer = explain(of_rank(1, LOCAL) + restart + of_rank(0, refused), returncode=1)
    assert (answer.exception, answer.rank) == ("KeyError", 1)


STEPS = "".join(f"step {n}: loss=0.{n}\n" for n in range(40, 60))


@pytest.mark.parametrize("lead", ["", "retrying after:\n", "ERROR:root:eval failed\n", "WARNING:root:bad sample\n"])
def test_a_traceback_after_which_training_went_on_is_no_failure(lead: str, explain) -> None:
    assert explain(lead + LOCAL + STEPS, returncode=0).verdict == "clean"
    assert explain(lead + LOCAL + STEPS).verdict == "clean"


def test_three_survived_tracebacks_and_an_end_in_peace(explain) -> None:
    text = "".join(f"step {n} ok\n{LOCAL}" for n in range(3)) + "training finished\n"
    assert explain(text, returncode=0).verdict == "clean"


def test_another_ranks_steps_do_not_mean_that_this_one_went_on(explain) -> None:
    answer = explain(of_rank(1, LOCAL) + of_rank(0, STEPS), returncode=1)
    assert (answer.exception, answer.rank) == ("KeyError", 1)


def test_a_traceback_that_was_survived_loses_against_one_that_was_not(explain) -> None:
    fatal = traceback("ZeroDivisionError: division by zero", ("/work/train.py", 80, "end"))
    answer = explain(LOCAL + STEPS + fatal, returncode=1)
    assert answer.exception == "ZeroDivisionError"
    assert [s.exception for s in answer.secondary] == ["KeyError"]


def test_a_swallowed_exception_explains_only_a_job_that_failed_and_says_nothing_else(explain) -> None:
    swallowed = "Exception ignored in: <function Pool.__del__ at 0x7f>\n" + LOCAL
    assert explain(swallowed, returncode=0).verdict == "clean"
    assert explain(swallowed).verdict == "clean"


def test_the_same_error_of_eight_ranks_is_one_failure_with_seven_copies(explain) -> None:
    answer = explain("".join(of_rank(r, LOCAL) for r in range(8)), returncode=1)
    assert answer.exception == "KeyError"
    assert answer.rank == 0
    assert sorted(s.rank for s in answer.secondary) == [1, 2, 3, 4, 5, 6, 7]


def test_a_watchdog_alone_speaks_for_its_rank(explain) -> None:
    answer = explain(WATCHDOG, returncode=1)
    assert (answer.rank, answer.category) == (0, "communication")


def test_a_local_error_beats_the_watchdog_of_a_rank_that_waited_for_it(explain) -> None:
    answer = explain(WATCHDOG + of_rank(1, LOCAL), returncode=1)
    assert (answer.exception, answer.rank) == ("KeyError", 1)


@pytest.mark.parametrize(("returncode", "verdict"), [(0, "clean"), (None, "clean"), (1, "unknown")])
def test_a_log_without_a_failure_is_judged_by_the_return_code(returncode: int | None, verdict: str, explain) -> None:
    assert explain(STEPS + "training finished\n", returncode=returncode).verdict == verdict


def test_a_xid_explains_the_error_that_the_process_then_raised(explain) -> None:
    cuda = traceback(
        "RuntimeError: CUDA error: unspecified launch failure\nCUDA kernel errors might be asynchronously reported at some other API call",
        ("/work/train.py", 9, "step"),
    )
    answer = explain(
        "[ 912.1] NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=python, GPU has fallen off the bus.\n" + cuda, returncode=1
    )
    assert answer.category == "gpu-hardware"
    assert (answer.exception, place(answer.site)) == ("RuntimeError", ("/work/train.py", 9, "step"))
    assert any("Xid" in e.text for e in answer.evidence)


def test_a_programs_own_exception_that_quotes_an_exit_status_is_a_cause(explain) -> None:
    text = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/work/train.py", line 61, in main
[rank0]:     loss.backward()
[rank0]: RuntimeError: NCCL communicator was aborted on rank 0.
[rank1]: Traceback (most recent call last):
[rank1]:   File "/work/video.py", line 19, in decode
[rank1]:     raise DecodeError(f"ffmpeg {path} returned non-zero exit status {p.returncode}")
[rank1]: video.DecodeError: ffmpeg 0071.mp4 returned non-zero exit status 69
"""
    answer = explain(text, returncode=1)
    assert (answer.exception, answer.rank) == ("video.DecodeError", 1)


def test_sruns_task_gives_the_rank_of_a_memory_kill(explain) -> None:
    step = "slurmstepd: error: Detected 1 oom_kill event in StepId=81.0. Some of the step tasks have been OOM Killed.\n"
    one = "srun: error: gn61: task 3: Out Of Memory\nsrun: error: gn60: tasks 0-2: Terminated\n"
    two = "srun: error: gn61: task 3: Out Of Memory\nsrun: error: gn60: task 1: Out Of Memory\n"
    assert explain(step + one, returncode=137).rank == 3
    assert explain(step + two, returncode=137).rank is None


def test_a_distributed_checkpoints_error_names_the_rank_that_failed(explain) -> None:
    error = traceback(
        "torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([3])\n"
        "Traceback (most recent call last): (RANK 3)\nOSError: [Errno 28] No space left on device",
        ("/work/ckpt.py", 66, "save"),
    )
    assert explain(of_rank(0, error), returncode=1).rank == 3
    assert explain(of_rank(3, error), returncode=1).rank == 3


HANDLED = traceback(
    "ConnectionResetError: [Errno 104] Connection reset by peer",
    ("/work/fetch.py", 31, "attempt"),
    ("/opt/venv/lib/python3.11/site-packages/urllib3/connection.py", 199, "send"),
)
WENT_ON = "".join(f"step {n}/9000 loss=0.41 lr=1e-4\n" for n in (110, 120, 130, 140))
DIED = traceback(
    "AssertionError: 1023 tokens for 1024 positions", ("/work/train.py", 141, "<module>"), ("/work/train.py", 90, "step")
)


def test_an_error_that_one_rank_survived_is_not_the_same_errors_end_of_another(explain) -> None:
    """Rank 5 handled it and went on, until its assertion; rank 3 printed it without more steps being seen."""
    told = of_rank(5, HANDLED) + of_rank(5, WENT_ON) + of_rank(5, DIED) + of_rank(3, HANDLED)
    answer = explain(told, returncode=1)
    assert (answer.exception, answer.rank, answer.verdict) == ("AssertionError", 5, "real")


def test_an_error_that_one_rank_survived_may_have_ended_another(explain) -> None:
    ended = HANDLED.replace('File "/work/fetch.py", line 31, in attempt', 'File "/work/fetch.py", line 31, in <module>')
    told = of_rank(5, HANDLED) + of_rank(5, WENT_ON) + of_rank(3, ended)
    assert explain(told, returncode=1).rank == 3


def test_an_error_that_several_ranks_handled_did_not_end_the_job_with_another_error_of_one_of_them(explain) -> None:
    """Rank 5 handled it and died of its assertion; that ranks 3 and 4 handled it as well only the assertion tells."""
    told = of_rank(5, HANDLED) + of_rank(3, HANDLED) + of_rank(4, HANDLED) + of_rank(5, DIED)
    answer = explain(told, returncode=1)
    assert (answer.exception, answer.rank, answer.verdict) == ("AssertionError", 5, "real")


def test_an_error_that_one_rank_handled_gives_way_to_another_ranks_crash(explain) -> None:
    bad = HANDLED.replace("ConnectionResetError: [Errno 104] Connection reset by peer", "ValueError: bad row")
    crash = "srun: error: node03: task 7: Segmentation fault (core dumped)\n"
    answer = explain(of_rank(5, bad) + of_rank(5, WENT_ON) + of_rank(3, bad) + crash, returncode=139)
    assert (answer.signal, answer.rank) == ("SIGSEGV", 7)
    alone = explain(of_rank(3, bad) + crash, returncode=139)
    assert (alone.exception, alone.rank) == ("ValueError", 3)
