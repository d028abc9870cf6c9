"""``tbparse run --retries``: what is run again, how long it waits, when it stops, and the history that it writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tbparse.errors import UsageError
from tbparse.launching.attempts import MAX_PREEMPTIONS, REPEATED, Attempts
from tbparse.launching.history import History
from tbparse.launching.progress import progress_of, went_further
from tbparse.model import Retry, RootCause

HEAD = 'Traceback (most recent call last):\n  File "/w/t.py", line 3, in <module>\n    f()\n'
RESET = f"{HEAD}ConnectionResetError: [Errno 104] Connection reset by peer\n"
NAME = f"{HEAD}NameError: name 'f' is not defined\n"
PREEMPTED = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-02-10T03:12:55 DUE TO PREEMPTION ***\n"
JOB = """
import pathlib, sys
count = pathlib.Path("count")
n = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(n))
says = [s.encode().decode("unicode_escape") for s in sys.argv[1:]]
if n > len(says):
    print("done")
    raise SystemExit(0)
sys.stderr.write(says[n - 1])
raise SystemExit(1)
"""


def run(folder: Path, *says: str, options: tuple[str, ...] = (), env: dict[str, str] | None = None) -> tuple[int, int, str]:
    """Run a job that fails once with each text and then does well: exit code, how often it ran, standard error."""
    (folder / "job.py").write_text(JOB)
    quoted = [s.encode("unicode_escape").decode() for s in says]
    command = [sys.executable, "-m", "tbparse.cli.main", "run", *options, "--", sys.executable, "-S", "job.py", *quoted]
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONUTF8": "1"} | (env or {}),
    )
    return done.returncode, int((folder / "count").read_text()), done.stderr


def records(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


AGAIN = ("--retries", "3", "--retry-wait", "0")


# --- the command


def test_a_transient_failure_is_run_again_and_the_history_has_a_line_for_each_attempt(tmp_path):
    code, ran, err = run(tmp_path, RESET, options=(*AGAIN, "--history", "h.jsonl"))
    assert (code, ran) == (0, 2)
    assert "tbparse: attempt 1 failed: ConnectionResetError: " in err
    assert "again in 0 s (retry 1 of 3)" in err
    first, second = records(tmp_path / "h.jsonl")
    assert [first[k] for k in ("attempt", "verdict", "exception", "returncode", "next", "wait_s")] == [
        1, "transient", "ConnectionResetError", 1, "retry", 0.0,
    ]  # fmt: skip
    assert (second["attempt"], second["verdict"], second["next"], second["returncode"]) == (2, "clean", "stop", 0)


@pytest.mark.parametrize("text", [NAME, "it is broken\n"], ids=["real", "unknown"])
def test_anything_else_ends_it_at_once(tmp_path, text):
    code, ran, err = run(tmp_path, text, options=AGAIN)
    assert (code, ran) == (1, 1)
    assert "tbparse: not run again: its failure is" in err


def test_the_same_failure_twice_with_no_progress_is_no_longer_transient(tmp_path):
    code, ran, err = run(tmp_path, RESET, RESET, options=(*AGAIN, "--exit-code", "--history", "h.jsonl"))
    assert (code, ran) == (3, 2)
    assert f"not run again: {REPEATED}" in err
    assert [r["verdict"] for r in records(tmp_path / "h.jsonl")] == ["transient", "unknown"]


@pytest.mark.parametrize(
    ("first", "second", "third"),
    [
        ("step 10\n", "step 20\n", "step 30\n"),
        ("{'loss': 1.1, 'epoch': 0.5}\n", "{'loss': 1.1, 'epoch': 0.75}\n", "{'loss': 1.0, 'epoch': 1.0}\n"),
        ("", "Saving model checkpoint to out/checkpoint-500\n", "Saving model checkpoint to out/checkpoint-1000\n"),
        ("  1%| | 10/1000 [00:01<\r", "  2%| | 20/1000 [00:01<\r", "  3%| | 30/1000 [00:01<\n"),
    ],
    ids=["steps", "epochs", "checkpoints", "bar"],
)
def test_a_job_that_gets_further_each_time_is_run_again(tmp_path, first, second, third):
    code, ran, _ = run(tmp_path, first + RESET, second + RESET, third + RESET, options=AGAIN)
    assert (code, ran) == (0, 4)


def test_retries_are_used_up_and_the_verdict_stays_transient(tmp_path):
    says = [f"step {n}\n{RESET}" for n in range(1, 9)]
    code, ran, err = run(tmp_path, *says, options=("--retries", "2", "--retry-wait", "0", "--exit-code"))
    assert (code, ran) == (75, 3)
    assert "not run again: all 2 retries are used up" in err


def test_preemptions_use_up_no_retry(tmp_path):
    code, ran, err = run(tmp_path, PREEMPTED, PREEMPTED, RESET, options=("--retries", "1", "--retry-wait", "0"))
    assert (code, ran) == (0, 4)
    assert err.count("it was preempted, which uses up no retry") == 2


def test_a_job_started_anew_by_its_scheduler_goes_on_with_its_history(tmp_path):
    """As after a requeue: another process, the same job."""
    options, env = ("--history", "h.jsonl", "--exit-code"), {"SLURM_JOB_ID": "77"}
    assert run(tmp_path, RESET, RESET, options=options, env=env)[:2] == (75, 1)
    assert run(tmp_path, RESET, RESET, options=options, env=env)[:2] == (3, 2)
    (tmp_path / "count").write_text("0")
    assert run(tmp_path, RESET, RESET, options=options, env={"SLURM_JOB_ID": "78"})[:2] == (75, 1)
    assert [r["attempt"] for r in records(tmp_path / "h.jsonl")] == [1, 2, 1]


def test_the_project_says_how_often_and_which_failures_pass(tmp_path):
    (tmp_path / "tbparse.toml").write_text('attempts = 2\nwait = 0\ntransient = ["python/name-error"]\n')
    assert run(tmp_path, NAME)[:2] == (0, 2)
    (tmp_path / "count").unlink()
    (tmp_path / "tbparse.toml").write_text("attemps = 2\n")
    done = subprocess.run(
        [sys.executable, "-m", "tbparse.cli.main", "run", "--", "true"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "unknown key `attemps` (did you mean `attempts`?)" in done.stderr


def test_a_history_that_cannot_be_written_is_refused_before_anything_runs(tmp_path):
    (tmp_path / "count").write_text("0")
    code, ran, err = run(tmp_path, RESET, options=("--history", "no/such/folder/h.jsonl"))
    assert (code, ran) == (2, 0)
    assert "--history no/such/folder/h.jsonl: cannot be written: no such file or directory" in err


def test_told_to_stop_it_does_not_begin_another_attempt(tmp_path):
    """A scheduler that ends the job means it: the child's death by that signal is no reason to run it again."""
    job = f"import sys, time\nprint('ready', flush=True)\ntry:\n    time.sleep(60)\nfinally:\n    sys.stderr.write({PREEMPTED!r})\n"
    (tmp_path / "job.py").write_text("import signal, sys\nsignal.signal(15, lambda *_: sys.exit(1))\n" + job)
    command = [sys.executable, "-m", "tbparse.cli.main", "run", *AGAIN, "--history", "h.jsonl", "--", sys.executable, "job.py"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    (record,) = records(tmp_path / "h.jsonl")
    assert record["next"] == "stop", err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)], ids=["int", "term"])
def test_a_signal_while_it_waits_ends_it_at_once(tmp_path, number, code):
    """No child runs then that it could be passed on to. SIGTERM ends it as it ends any process: a shell sees 143."""
    (tmp_path / "job.py").write_text(JOB)
    job = [sys.executable, "-S", "job.py", *(RESET.encode("unicode_escape").decode() for _ in range(2))]
    command = [sys.executable, "-m", "tbparse.cli.main", "run", "--retries", "3", "--retry-wait", "3600", "--", *job]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        assert any("again in 3600 s" in line for line in process.stderr)
        process.send_signal(number)
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == code
    assert (tmp_path / "count").read_text() == "1"


# --- what decides


def answer(**kw: object) -> RootCause:
    base: dict[str, object] = {"verdict": "transient", "category": "network", "confidence": "high", "fingerprint": "f"}
    return RootCause.model_validate(base | {"retry": Retry(action="retry", delay_s=40.0, max=3)} | kw)


def test_it_waits_as_the_rule_advises_and_up_to_a_quarter_more():
    attempts = Attempts(["x"], retries=50, env={})
    waits = []
    for n in range(50):
        attempts.begin()
        wait = attempts.end(answer(), 1, f"step {n + 1}").wait_s
        assert wait is not None
        waits.append(wait)
    assert all(40.0 <= w <= 50.0 for w in waits)
    assert len(set(waits)) > 1


def test_no_attempt_begins_after_the_timeout():
    attempts = Attempts(["x"], retries=5, timeout_s=30.0, env={})
    attempts.begin()
    assert attempts.end(answer(), 1, "").why == "30 s are over"


def test_another_failure_in_between_is_another_matter():
    attempts = Attempts(["x"], retries=5, env={})
    for fingerprint in "aba":
        attempts.begin()
        assert attempts.end(answer(fingerprint=fingerprint), 1, "step 5").wait_s is not None


def test_a_progress_file_that_was_written_is_progress(tmp_path):
    file = tmp_path / "last.ckpt"
    attempts = Attempts(["x"], retries=9, progress_file=file, env={})
    for n, written in enumerate((False, True, True, False)):
        attempts.begin()
        if written:
            file.write_text("x")
            os.utime(file, ns=(n * 10**9, n * 10**9))
        assert (attempts.end(answer(), 1, "").wait_s is not None) is (n < 3)


def test_preemptions_without_end_come_to_one():
    attempts = Attempts(["x"], retries=1, env={})
    for n in range(MAX_PREEMPTIONS + 1):
        attempts.begin()
        assert (attempts.end(answer(category="scheduler"), 1, "").wait_s is not None) is (n < MAX_PREEMPTIONS)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("step 12", {"step": 12.0}),
        ("global_step=7 step: 3 Step 12/100", {"globalstep": 7.0, "step": 12.0}),
        ("{'loss': 2.1, 'epoch': 0.25}", {"epoch": 0.25}),
        ("Epoch 2/10 [5%]", {"epoch": 2.0}),
        (" iteration      100/  500000 | lr", {"iteration": 100.0}),
        ("  3%|▎ | 30/1000 [00:10<05:00, 3.1it/s]", {"bar of 1000": 30.0}),
        ("Saving model checkpoint to out/checkpoint-500", {"checkpoint": 500.0, "saved": 1.0}),
        ("step by step, 5 GPUs, epoch", {}),
        ("", {}),
    ],
)
def test_counters_are_read_as_frameworks_print_them(text, found):
    assert progress_of(text) == found


def test_further_is_further_in_any_counter():
    assert went_further({"step": 5}, {"step": 6})
    assert went_further({}, {"step": 1})
    assert not went_further({"step": 5}, {"step": 5})
    assert not went_further({"step": 5, "epoch": 1}, {"step": 3})


# --- the history file


def test_two_processes_at_once_do_not_corrupt_it(tmp_path):
    path = tmp_path / "h.jsonl"
    code = (
        "import sys; from tbparse.launching.history import History\n"
        "h = History(sys.argv[1])\n"
        "for n in range(150): h.add({'job': sys.argv[2], 'n': n, 'pad': 'x' * 9000})\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", code, str(path), who]) for who in "ab"]
    assert [p.wait(120) for p in both] == [0, 0]
    rows = records(path)
    assert sorted((r["job"], r["n"]) for r in rows) == [(w, n) for w in "ab" for n in range(150)]


def test_threads_of_one_process_neither(tmp_path):
    history = History(tmp_path / "h.jsonl")
    threads = [threading.Thread(target=lambda w=w: [history.add({"job": w, "n": n}) for n in range(40)]) for w in "abc"]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(records(tmp_path / "h.jsonl")) == 120


def test_a_line_that_a_crash_cut_off_is_skipped_and_spoils_nothing_after_it(tmp_path):
    path = tmp_path / "h.jsonl"
    history = History(path)
    history.add({"job": "a", "n": 1})
    with path.open("ab") as file:
        file.write(b'{"job":"a","n":')
    assert history.last("a") == {"job": "a", "n": 1}
    history.add({"job": "a", "n": 3})
    assert history.last("a") == {"job": "a", "n": 3}
    assert history.last("b") is None
    assert path.read_text().splitlines()[1:] == ['{"job":"a","n":', '{"job":"a","n":3}']


def test_a_folder_is_no_history(tmp_path):
    with pytest.raises(UsageError, match="cannot be written: is a directory"):
        History(tmp_path)
