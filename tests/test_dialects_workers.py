"""Failures that come from another process: rows 8 to 13, 22, 29 and 31 of the dialects."""

# ruff: noqa: E501, W291 - lines of logs stand as they are printed
from __future__ import annotations

import pytest
from scoring import chain_of, place

INNER = 'Traceback (most recent call last):\n  File "/work/prep.py", line 14, in clean\n    return row["text"].strip()\n           ~~~^^^^^^^^\nKeyError: \'text\'\n'
OUTER = 'Traceback (most recent call last):\n  File "/work/prep.py", line 30, in <module>\n    rows = pool.map(clean, rows)\n  File "/usr/lib/python3.11/multiprocessing/pool.py", line 774, in get\n    raise self._value\n'


@pytest.mark.parametrize(
    "name",
    [
        "multiprocessing.pool.RemoteTraceback",
        "multiprocess.pool.RemoteTraceback",
        "concurrent.futures.process._RemoteTraceback",
        "joblib.externals.loky.process_executor._RemoteTraceback",
    ],
)
def test_row_08_a_pools_remote_traceback(name: str, explain) -> None:
    """The cause stands in the quoted block; the same exception follows again."""
    answer = explain(
        f'{name}: \n"""\n{INNER}"""\n\nThe above exception was the direct cause of the following exception:\n\n{OUTER}KeyError: \'text\'\n'
    )
    assert (answer.exception, answer.message, place(answer.site)) == ("KeyError", "'text'", ("/work/prep.py", 14, "clean"))
    assert place(answer.entry) == ("/work/prep.py", 30, "<module>")
    assert chain_of(answer)[-1] == ("KeyError", "root")
    assert chain_of(answer)[0][0] == "KeyError"


def test_row_08_a_killed_pool_worker_shows_no_cause(explain) -> None:
    answer = explain(
        'Traceback (most recent call last):\n  File "/work/prep.py", line 30, in <module>\n    list(ex.map(f, rows))\n  File "/usr/lib/python3.11/concurrent/futures/_base.py", line 401, in __get_result\n    raise self._exception\nconcurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while the future was running or pending.\n'
    )
    assert answer.exception == "concurrent.futures.process.BrokenProcessPool"
    assert place(answer.site) == ("/work/prep.py", 30, "<module>")
    assert answer.verdict != "transient"


WRAPPED = """Traceback (most recent call last):
  File "/work/train.py", line 50, in <module>
    for batch in loader:
  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 1491, in _process_data
    data.reraise()
  File "/opt/venv/lib/python3.11/site-packages/torch/_utils.py", line 715, in reraise
    raise exception
%s: Caught %s in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 351, in _worker_loop
    data = fetcher.fetch(index)
  File "/work/data.py", line 21, in __getitem__
    return self.rows[i]
           ~~~~~~~~~^^^
%s
"""


def test_row_09_a_loaders_worker_keeps_its_traceback_in_the_message(explain) -> None:
    answer = explain(WRAPPED % ("IndexError", "IndexError", "IndexError: list index out of range\n"))
    assert (answer.exception, answer.message, place(answer.site)) == (
        "IndexError",
        "list index out of range",
        ("/work/data.py", 21, "__getitem__"),
    )
    assert place(answer.entry) == ("/work/train.py", 50, "<module>")
    assert chain_of(answer) == [("IndexError", "remote"), ("IndexError", "root")]


def test_row_09_the_type_outside_lies(explain) -> None:
    """An exception whose constructor wants two arguments comes back as RuntimeError."""
    answer = explain(WRAPPED % ("RuntimeError", "ShardFault", "work.data.ShardFault: shard 3 is torn\n"))
    assert (answer.exception, answer.message) == ("work.data.ShardFault", "shard 3 is torn")
    assert chain_of(answer) == [("RuntimeError", "remote"), ("work.data.ShardFault", "root")]


def test_row_09_the_traceback_inside_is_itself_a_chain(explain) -> None:
    inside = (
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/3.npy'\n\nThe above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "/work/data.py", line 25, in __getitem__\n    raise ShardFault(3) from e\nwork.data.ShardFault: 3\n'
    )
    answer = explain(WRAPPED % ("RuntimeError", "ShardFault", inside))
    assert [x for x, _ in chain_of(answer)] == ["RuntimeError", "work.data.ShardFault", "FileNotFoundError"]
    assert place(answer.site) == ("/work/data.py", 21, "__getitem__")


def test_row_09_a_replica_says_its_device(explain) -> None:
    text = WRAPPED.replace("in DataLoader worker process 0.", "in replica 1 on device 1.") % (
        "RuntimeError",
        "RuntimeError",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 16x2)\n",
    )
    answer = explain(text)
    assert (answer.exception, place(answer.site)) == ("RuntimeError", ("/work/data.py", 21, "__getitem__"))
    assert answer.message.startswith("mat1 and mat2")


KILLED = """Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 1251, in _try_get_data
    data = self._data_queue.get(timeout=timeout)
  File "/usr/lib/python3.11/threading.py", line 324, in wait
    gotit = waiter.acquire(True, timeout)
  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/_utils/signal_handling.py", line 67, in handler
    _error_if_any_worker_fails()
RuntimeError: DataLoader worker (pid 4242) is killed by signal: %s. %s

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/work/train.py", line 50, in <module>
    for batch in loader:
  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 1264, in _try_get_data
    raise RuntimeError(f'DataLoader worker (pid(s) {pids_str}) exited unexpectedly') from e
RuntimeError: DataLoader worker (pid(s) 4242) exited unexpectedly
"""


@pytest.mark.parametrize(("what", "signal"), [("Killed", "SIGKILL"), ("Bus error", "SIGBUS"), ("Segmentation fault", "SIGSEGV")])
def test_row_10_a_killed_loader_worker(what: str, signal: str, explain) -> None:
    answer = explain(
        KILLED % (what, "It is possible that dataloader's workers are out of shared memory." if what == "Bus error" else "")
    )
    assert answer.message.startswith(f"DataLoader worker (pid 4242) is killed by signal: {what}")
    assert answer.signal == signal
    assert place(answer.site) == ("/work/train.py", 50, "<module>"), "the frames above a signal handler's are accidental"


SPAWN = """W1130 18:04:40.217000 4242 torch/multiprocessing/spawn.py:169] Terminating process 4301 via signal SIGTERM
Traceback (most recent call last):
  File "/work/train.py", line 60, in <module>
    mp.spawn(worker, nprocs=2)
  File "/opt/venv/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 340, in spawn
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
%s"""


def test_row_11_a_spawned_process_raised(explain) -> None:
    answer = explain(
        SPAWN
        % f"torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 1 terminated with the following error:\n{INNER.replace('KeyError', 'ValueError')}\n"
    )
    assert (answer.exception, place(answer.site), answer.rank) == ("ValueError", ("/work/prep.py", 14, "clean"), 1)
    assert place(answer.entry) == ("/work/train.py", 60, "<module>")
    assert chain_of(answer) == [("torch.multiprocessing.spawn.ProcessRaisedException", "remote"), ("ValueError", "root")]


def test_row_11_a_spawned_process_was_killed(explain) -> None:
    answer = explain(SPAWN % "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL\n")
    assert (answer.rank, answer.signal) == (1, "SIGKILL")
    assert answer.exit_code is None


ELASTIC = """E0325 08:47:31.877000 140012 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 1 (pid: 4302) of binary: /opt/venv/bin/python
Traceback (most recent call last):
  File "/opt/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/run.py", line 918, in main
    run(args)
torch.distributed.elastic.multiprocessing.errors.ChildFailedError: 
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-03-25_08:47:31
  host      : node-3
  rank      : 9 (local_rank: 1)
  exitcode  : %s
  error_file: <N/A>
  traceback : %s
============================================================
"""
TO_ENABLE = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"


def test_row_12_the_ranks_own_block_is_the_root_not_the_summary(explain) -> None:
    answer = explain(
        "".join(f"[rank9]: {line}\n" for line in INNER.splitlines()) + ELASTIC % ("1 (pid: 4302)", TO_ENABLE), returncode=1
    )
    assert (answer.exception, place(answer.site)) == ("KeyError", ("/work/prep.py", 14, "clean"))
    assert (answer.rank, answer.local_rank, answer.host) == (9, 1, "node-3")
    assert chain_of(answer) == [
        ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError", "launcher"),
        ("KeyError", "root"),
    ]


def test_row_12_without_a_block_of_its_own_the_summarys_traceback_counts(explain) -> None:
    nested = "Traceback (most recent call last):\n  " + "\n  ".join(INNER.rstrip().split("\n")[1:])
    answer = explain(
        ELASTIC.replace("error_file: <N/A>", "error_file: /tmp/x/attempt_0/1/error.json") % ("1 (pid: 4302)", nested),
        returncode=1,
    )
    assert (answer.exception, place(answer.site), answer.rank) == ("KeyError", ("/work/prep.py", 14, "clean"), 9)


def test_row_12_a_killed_worker_is_known_by_its_exit_code_alone(explain) -> None:
    answer = explain(ELASTIC % ("-9 (pid: 4302)", "Signal 9 (SIGKILL) received by PID 4302"), returncode=1)
    assert (answer.exception, answer.signal, answer.rank, answer.local_rank) == (None, "SIGKILL", 9, 1)


OLD_ELASTIC = """ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 77) of binary: /usr/bin/python3
Traceback (most recent call last):
  File "/usr/lib/python3.8/runpy.py", line 194, in _run_module_as_main
    return _run_code(code, main_globals, None,
torch.distributed.elastic.multiprocessing.errors.ChildFailedError: 
***************************************
             train.py FAILED           
=======================================
Root Cause:
[0]:
  time: 2021-08-01_10:00:00
  rank: 0 (local_rank: 0)
  exitcode: 1 (pid: 77)
  error_file: <N/A>
  msg: "Process failed with exitcode 1"
=======================================
Other Failures:
  <NO_OTHER_FAILURES>
***************************************
"""


def test_row_12_the_summary_of_torch_1_9(explain) -> None:
    answer = explain(INNER + OLD_ELASTIC, returncode=1)
    assert (answer.exception, answer.rank) == ("KeyError", 0)


LAUNCHER = """Traceback (most recent call last):
  File "/opt/venv/bin/accelerate", line 8, in <module>
    sys.exit(main())
  File "/opt/venv/lib/python3.11/site-packages/accelerate/commands/launch.py", line 1193, in launch_command
    simple_launcher(args)
  File "/opt/venv/lib/python3.11/site-packages/accelerate/commands/launch.py", line 778, in simple_launcher
    raise subprocess.CalledProcessError(returncode=process.returncode, cmd=cmd)
subprocess.CalledProcessError: Command '['/opt/venv/bin/python', 'prep.py']' %s
"""


def test_row_13_the_child_of_a_launcher(explain) -> None:
    answer = explain(INNER + LAUNCHER % "returned non-zero exit status 1.", returncode=1)
    assert (answer.exception, place(answer.site)) == ("KeyError", ("/work/prep.py", 14, "clean"))
    assert chain_of(answer) == [("subprocess.CalledProcessError", "launcher"), ("KeyError", "root")]


def test_row_13_a_child_whose_output_went_elsewhere_is_said_to_be_hidden(explain) -> None:
    answer = explain(LAUNCHER % "returned non-zero exit status 1.", returncode=1)
    assert (answer.exception, answer.site, answer.verdict) == ("subprocess.CalledProcessError", None, "unknown")
    assert any("not in this log" in n for n in answer.notes)


@pytest.mark.parametrize(
    ("how", "signal"),
    [
        ("died with <Signals.SIGKILL: 9>.", "SIGKILL"),
        ("died with <Signals.SIGSEGV: 11>.", "SIGSEGV"),
        ("returned non-zero exit status 137.", "SIGKILL"),
    ],
)
def test_row_13_a_child_that_died_by_a_signal(how: str, signal: str, explain) -> None:
    assert explain(LAUNCHER % how, returncode=1).signal == signal


def test_row_22_two_ranks_inside_one_another(explain) -> None:
    """Whose frame is whose cannot be told any more; the exception still can, with low confidence."""
    answer = explain(
        "Traceback (most recent call last):\nTraceback (most recent call last):\n"
        '  File "/work/fit.py", line 80, in <module>\n  File "/work/fit.py", line 80, in <module>\n        main()main()\n\n'
        '  File "/work/fit.py", line 41, in main\n  File "/work/fit.py", line 41, in main\n        load(cfg)load(cfg)\n\n'
        "FileNotFoundErrorFileNotFoundError: : [Errno 2] No such file or directory: 'cfg.yaml'[Errno 2] No such file or directory: 'cfg.yaml'\n\n"
        "FileNotFoundError: [Errno 2] No such file or directory: 'cfg.yaml'\n"
    )
    assert answer.exception == "FileNotFoundError"
    assert place(answer.site) == ("/work/fit.py", 41, "main")
    assert answer.confidence == "low"


RAY = """Traceback (most recent call last):
  File "/work/tune.py", line 70, in <module>
    ray.get(score.remote(cfg))
  File "/opt/venv/lib/python3.11/site-packages/ray/_private/worker.py", line 2753, in get
    values, debugger_breakpoint = worker.get_objects(object_refs, timeout=timeout)
ray.exceptions.RayTaskError(ValueError): \x1b[36mray::score()\x1b[39m (pid=812, ip=10.0.0.2)
  File "/work/tune.py", line 33, in score
    raise ValueError(f"no data for {k}")
ValueError: no data for maths
"""


def test_row_29_a_ray_task(explain) -> None:
    answer = explain(RAY)
    assert (answer.exception, answer.message, place(answer.site)) == (
        "ValueError",
        "no data for maths",
        ("/work/tune.py", 33, "score"),
    )
    assert answer.host == "10.0.0.2"
    assert chain_of(answer) == [("ray.exceptions.RayTaskError", "remote"), ("ValueError", "root")]


def test_row_29_a_dead_actors_boilerplate_is_no_evidence_of_memory(explain) -> None:
    answer = explain(
        'Traceback (most recent call last):\n  File "/work/tune.py", line 70, in <module>\n    ray.get(a.fit.remote())\nray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n'
        "\tclass_name: Trainer\n\tactor_id: 7713c0aa41d2\n\tpid: 812\nThe actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file. "
        "There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer due to high memory usage. (2) ray stop --force is called. (3) The worker is crashed unexpectedly due to SIGSEGV or other unexpected errors.\n"
    )
    assert answer.exception == "ray.exceptions.ActorDiedError"
    assert answer.category != "host-memory"
    assert answer.verdict == "unknown"


def test_row_31_lightnings_own_kill_is_not_the_oom_killer(explain) -> None:
    answer = explain(
        "".join(f"[rank1]: {line}\n" for line in INNER.splitlines())
        + "[rank: 1] Child process with PID 4302 terminated with code 1. Forcefully terminating all other processes to avoid zombies 🧟\nKilled\n",
        returncode=137,
    )
    assert (answer.exception, answer.rank, place(answer.site)) == ("KeyError", 1, ("/work/prep.py", 14, "clean"))
    assert answer.category != "host-memory"
