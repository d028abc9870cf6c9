"""``tbparse run --retries``: what is run again, how long it waits, when it stops, and the history that it writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tbparse.errors import UsageError
from tbparse.launching.attempts import REPEATED, Attempts
from tbparse.launching.history import History, job_of
from tbparse.launching.progress import progress_of, went_further
from tbparse.launching.story import LAPSE_S, MAX_FAILURES, MAX_PREEMPTIONS
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


def waiting(folder: Path, *options: str, code: str = JOB) -> subprocess.Popen[str]:
    """A ``tbparse run`` that waits for an hour after its command failed; standard error is read up to there."""
    (folder / "job.py").write_text(code)
    job = [sys.executable, "-S", "job.py", *(RESET.encode("unicode_escape").decode() for _ in range(2))]
    again = ["--retries", "3", "--retry-wait", "3600", "--history", "h.jsonl", *options]
    command = [sys.executable, "-m", "tbparse.cli.main", "run", *again, "--", *job]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert any("again in 3600 s" in line for line in process.stderr)
    return process


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"])
def test_a_signal_while_it_waits_ends_it_at_once_and_the_last_attempt_is_explained(tmp_path, name):
    """No child runs then that it could be passed on to. The attempt's last record says why there is none after it."""
    process = waiting(tmp_path)
    try:
        process.send_signal(getattr(signal, name))
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 128 + getattr(signal, name)
    assert f"tbparse: not run again: {name} came while it waited\n" in err
    assert "ConnectionResetError: [Errno 104] Connection reset by peer" in err.partition("came while it waited")[2]
    assert (tmp_path / "count").read_text() == "1"
    first, last = records(tmp_path / "h.jsonl")
    assert (first["next"], last["next"], last["why"]) == ("retry", "stop", f"{name} came while it waited")
    assert {k for k in first if first[k] != last[k]} == {"next", "wait_s", "why"}


def test_with_exit_codes_by_verdict_a_signal_while_it_waits_leaves_the_verdict_of_the_last_attempt(tmp_path):
    process = waiting(tmp_path, "--exit-code")
    try:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 75


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGUSR2"])
def test_a_warning_while_it_waits_is_told_and_ends_nothing(tmp_path, name):
    """As Slurm's ``--signal`` sends it to a job that is about to run out of time."""
    process = waiting(tmp_path)
    assert process.stderr is not None
    try:
        process.send_signal(getattr(signal, name))
        assert process.stderr.readline() == f"tbparse: {name} came while no command runs, so it reaches none\n"
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 143


def test_a_signal_that_is_ignored_stays_so_while_it_waits(tmp_path):
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = waiting(tmp_path)
    finally:
        signal.signal(signal.SIGHUP, before)
    try:
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "SIGTERM came while it waited" in err


def test_the_command_after_a_pause_gets_signals_as_the_first_one_does(tmp_path):
    """What the pause does with them ends with the pause."""
    job = """
import pathlib, signal, sys, time
first = not pathlib.Path("count").exists()
pathlib.Path("count").write_text("x")
if first:
    raise ConnectionResetError(104, "Connection reset by peer")
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))
print("ready", flush=True)
time.sleep(600)
"""
    (tmp_path / "job.py").write_text(job)
    command = [sys.executable, "-m", "tbparse.cli.main", "run", *AGAIN, "--", sys.executable, "-S", "job.py"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGUSR1)
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 7


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


def decided(attempts: Attempts, *told: tuple[str, str], category: str = "network") -> list[str | None]:
    """Attempts that failed with these fingerprints and output: of each whether it is run again (None), or why it is not."""
    out = []
    for fingerprint, text in told:
        attempts.begin()
        following = attempts.end(answer(fingerprint=fingerprint, category=category), 1, text)
        out.append(None if following.wait_s is not None else following.why)
    return out


def test_failures_that_take_turns_are_no_better_than_one_that_comes_twice():
    """Whatever came in between: it came before, and nothing was done since."""
    assert decided(Attempts(["x"], retries=9, env={}), ("a", ""), ("b", ""), ("a", "")) == [None, None, REPEATED]
    told = [(x, "step 5") for x in "abcb"]
    assert decided(Attempts(["x"], retries=9, env={}), *told) == [None, None, None, REPEATED]


def test_a_preemption_in_between_does_not_excuse_a_failure():
    attempts = Attempts(["x"], retries=9, env={})
    assert decided(attempts, ("a", "step 5")) == [None]
    assert decided(attempts, ("p", ""), ("p", "step 5"), category="scheduler") == [None, None]
    assert decided(attempts, ("a", "step 5")) == [REPEATED]


def test_progress_is_measured_against_the_furthest_attempt_and_excuses_what_came_before():
    """An attempt that got less far than the one before the last, but further than the last, did nothing new."""
    attempts = Attempts(["x"], retries=9, env={})
    assert decided(attempts, ("a", "step 100"), ("b", "step 50"), ("a", "step 90")) == [None, None, REPEATED]
    attempts = Attempts(["x"], retries=9, env={})
    assert decided(attempts, ("a", "step 100"), ("b", "step 150"), ("a", "step 90"), ("b", "step 9")) == [
        None,
        None,
        None,
        REPEATED,
    ]


def test_failures_that_are_always_new_come_to_an_end():
    told = [(f"f{n}", "step 1") for n in range(MAX_FAILURES + 1)]
    *before, last = decided(Attempts(["x"], retries=MAX_FAILURES - 1, env={}), *told[:-1])
    assert (before, last) == ([None] * (MAX_FAILURES - 1), f"all {MAX_FAILURES - 1} retries are used up")


def test_failures_that_are_always_new_come_to_an_end_under_a_scheduler_that_sets_no_limit(tmp_path):
    """Each start is a process of its own that tries once."""
    why = []
    for n in range(MAX_FAILURES + 1):
        attempts = Attempts(["x"], history=History(tmp_path / "h"), env={"SKYPILOT_TASK_ID": "t"})
        attempts.begin()
        why.append(attempts.end(answer(fingerprint=f"f{n}"), 1, "step 1").answer.verdict)
    assert why == ["transient"] * MAX_FAILURES + ["unknown"]


def test_a_progress_file_that_was_written_is_progress(tmp_path):
    file = tmp_path / "last.ckpt"
    attempts = Attempts(["x"], retries=9, progress_file=file, env={})
    for n, written in enumerate((False, True, True, False)):
        attempts.begin()
        if written:
            file.write_text("x")
            os.utime(file, ns=(n * 10**9, n * 10**9))
        assert (attempts.end(answer(), 1, "").wait_s is not None) is (n < 3)


def test_preemptions_come_to_an_end_where_nothing_is_done_between_them():
    told = [("p", "step 5")] * (MAX_PREEMPTIONS + 1)
    *before, last = decided(Attempts(["x"], retries=1, env={}), *told, category="scheduler")
    assert before == [None] * MAX_PREEMPTIONS
    assert last is not None
    assert "preempted 21 times in a row with no progress" in last


def test_a_job_that_gets_on_is_preempted_as_often_as_it_happens():
    told = [("p", f"step {n}") for n in range(3 * MAX_PREEMPTIONS)]
    assert decided(Attempts(["x"], retries=1, env={}), *told, category="scheduler") == [None] * len(told)


# --- which job it is


def outcome(path: Path, returncode: int = 1, *, env: dict[str, str] | None = None, key: str | None = None) -> str:
    """The verdict of a process of its own that tries once and fails as always, or does well."""
    attempts = Attempts(["train.sh"], history=History(path), env=env or {}, key=key)
    attempts.begin()
    failed = answer() if returncode else RootCause(verdict="clean", category=None, confidence="high")
    return attempts.end(failed, returncode, "").answer.verdict


def test_a_success_ends_the_story(tmp_path):
    """What an earlier run died of says nothing about the next, once it did well."""
    path = tmp_path / "h"
    assert [outcome(path), outcome(path, 0), outcome(path)] == ["transient", "clean", "transient"]
    assert outcome(path) == "unknown"
    assert [(r["attempt"], r["verdict"]) for r in records(path)] == [
        (1, "transient"),
        (2, "clean"),
        (1, "transient"),
        (2, "unknown"),
    ]


def test_one_command_in_two_folders_is_two_jobs(tmp_path, monkeypatch):
    told = []
    for folder in ("one", "two", "one"):
        (tmp_path / folder).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        told.append(outcome(tmp_path / "h"))
    assert told == ["transient", "transient", "unknown"]


@pytest.mark.parametrize(("hours", "verdict"), [(1, "unknown"), (72, "transient")])
def test_without_an_id_a_long_pause_ends_the_story(tmp_path, hours, verdict):
    """Somebody starts the command anew; a scheduler with an id may well let a job wait for days."""
    for name, env in (("by folder", {}), ("by id", {"SLURM_JOB_ID": "7"})):
        path = tmp_path / name
        outcome(path, env=env)
        (record,) = records(path)
        record["began"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - hours * 3600))
        path.write_text(json.dumps(record) + "\n")
        assert outcome(path, env=env) == (verdict if name == "by folder" else "unknown")
    assert 3600 < LAPSE_S < 72 * 3600


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "1"}, {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "2"}, True),
        ({"SLURM_JOB_ID": "7"}, {"SLURM_JOB_ID": "8"}, False),
        ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "0"}, {"SLURM_JOB_ID": "7", "SLURM_PROCID": "1"}, False),
        ({"SKYPILOT_TASK_ID": "t", "SLURM_JOB_ID": "7"}, {"SKYPILOT_TASK_ID": "t", "SLURM_JOB_ID": "8"}, True),
        ({"JOB_COMPLETION_INDEX": "0"}, {"JOB_COMPLETION_INDEX": "1"}, False),
        ({"HOSTNAME": "train-abcde"}, {"HOSTNAME": "train-fghij"}, True),
        ({"SLURM_JOB_ID": "7"}, {}, False),
    ],
)
def test_a_job_keeps_its_key_when_its_scheduler_starts_it_anew(one, other, same):
    assert (job_of(["x"], one) == job_of(["x"], other)) is same
    assert job_of(["x"], one) != job_of(["x", "--lr", "1"], one)


def test_a_key_of_ones_own_replaces_all_of_it(tmp_path):
    """As for runs that differ in their environment alone, or that go on in another folder."""
    options = ("--history", "h.jsonl", "--exit-code")
    assert run(tmp_path, RESET, options=(*options, "--history-key", "lr 1"))[:2] == (75, 1)
    (tmp_path / "count").unlink()
    assert run(tmp_path, RESET, options=(*options, "--history-key", "lr 2"))[:2] == (75, 1)
    (tmp_path / "count").unlink()
    assert run(tmp_path, RESET, options=(*options, "--history-key", "lr 1"))[:2] == (3, 1)
    assert [r["job"] for r in records(tmp_path / "h.jsonl")] == ["lr 1", "lr 2", "lr 1"]
    for wrong in (("--history-key", "x"), ("--history", "h.jsonl", "--history-key", " ")):
        assert run(tmp_path, RESET, options=wrong)[0] == 2


def test_an_attempt_whose_record_was_corrected_is_one_attempt(tmp_path):
    path = tmp_path / "h"
    attempts = Attempts(["train.sh"], retries=2, history=History(path), env={})
    attempts.begin()
    attempts.end(answer(), 1, "step 1")
    attempts.stopped(signal.SIGTERM)
    following = Attempts(["train.sh"], retries=2, history=History(path), env={})
    assert following.number == 1
    assert decided(following, ("g", "step 1"), ("f", "step 1")) == [None, REPEATED]


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
        ("last update: 1764558780, epoch=1764558780.25, batch_20261201T031255", {}),
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
    assert history.of("a") == [{"job": "a", "n": 1}]
    history.add({"job": "a", "n": 3})
    assert history.of("a") == [{"job": "a", "n": 1}, {"job": "a", "n": 3}]
    assert history.of("b") == []
    assert path.read_text().splitlines()[1:] == ['{"job":"a","n":', '{"job":"a","n":3}']


def test_what_others_wrote_into_it_is_no_obstacle(tmp_path):
    path = tmp_path / "h"
    key = job_of(["train.sh"], {}).key
    for odd in (
        {"progress": {"step": 10**400, "loss": float("nan"), "x": "y"}},
        {"progress": 5},
        {"seconds": float("inf")},
        {"began": 7},
    ):
        History(path).add({"job": key, "attempt": "1", "fingerprint": 3, "began": "2026-02-30T00:00:00Z"} | odd)
    assert outcome(path) == "transient"
    assert outcome(path) == "unknown"


def test_a_folder_is_no_history(tmp_path):
    with pytest.raises(UsageError, match="cannot be written: is a directory"):
        History(tmp_path)
