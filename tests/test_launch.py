"""launch(): what passes through, what is kept, and what the error says."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from launching import BOOM, DEADLINE_S, await_gone, await_state, clean_env, parent, python, read_line, started

import tbparse
from tbparse import Completed, LaunchError, UsageError, launch
from tbparse.launching.pump import Pump

HOLDER = """
import subprocess, sys
p = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
print(p.pid, file=sys.stderr, flush=True)
sys.exit(7)
"""
TRACEBACK = b'Traceback (most recent call last):\n  File "/w/a.py", line 3, in f\n    g()\nKeyError: 1\n'


@pytest.fixture
def boom(tmp_path: Path) -> list[str]:
    path = tmp_path / "boom.py"
    path.write_text(BOOM)
    return [sys.executable, str(path)]


def test_a_failing_child_raises_an_error_that_says_why(boom: list[str], capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        launch(boom)
    error = caught.value
    assert isinstance(error, LaunchError)
    assert isinstance(error, tbparse.TbparseError)
    assert (error.returncode, error.cmd, error.output) == (1, boom, None)
    assert error.root_cause is not None
    assert (error.root_cause.exception, error.root_cause.message) == ("ValueError", "the real cause")
    assert error.root_cause.site is not None
    assert (error.root_cause.site.path, error.root_cause.site.line) == (boom[1], 1)
    # What the child printed is there once, for the reader of the terminal and for the holder of the error.
    shown = capfdbinary.readouterr().err
    assert shown.count(b"ValueError: the real cause") == 1
    assert error.stderr == shown.decode()


def test_a_plain_traceback_of_the_parent_names_the_root_cause(boom: list[str]) -> None:
    with pytest.raises(LaunchError) as caught:
        launch(boom)
    printed = "".join(traceback.format_exception(caught.value))
    last = printed.rstrip().splitlines()[-1]
    assert last.startswith("root cause: ValueError: the real cause, at ")
    assert "boom.py:1 in <module>" in last
    assert "tbparse.LaunchError: Command" in printed


def test_the_error_survives_pickling(boom: list[str]) -> None:
    with pytest.raises(LaunchError) as caught:
        launch(boom)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.returncode, copy.cmd, copy.stderr, copy.root_cause) == (
        1,
        boom,
        caught.value.stderr,
        caught.value.root_cause,
    )
    assert getattr(copy, "__notes__", None) == getattr(caught.value, "__notes__", None)


def test_without_check_the_result_tells_the_same(boom: list[str]) -> None:
    done = launch(boom, check=False)
    assert isinstance(done, Completed)
    assert (done.returncode, done.exit_code, done.cmd) == (1, 1, tuple(boom))
    assert done.root_cause.exception == "ValueError"
    assert "the real cause" in done.stderr
    with pytest.raises(LaunchError):
        done.check_returncode()


def test_a_child_that_works_is_clean() -> None:
    done = launch(python("import sys; sys.stderr.write('step 1\\n')"))
    assert (done.returncode, done.stderr, done.root_cause.verdict, done.notes) == (0, "step 1\n", "clean", ())
    done.check_returncode()


def test_a_silent_child_that_fails_is_told_by_its_code() -> None:
    with pytest.raises(LaunchError) as caught:
        launch(python("import os; os._exit(9)"))
    assert (caught.value.returncode, caught.value.stderr) == (9, "")
    assert caught.value.root_cause is not None
    assert (caught.value.root_cause.verdict, caught.value.root_cause.exit_code) == ("unknown", 9)


def test_bytes_pass_through_as_they_are(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    """Not UTF-8, NULs, carriage returns, escape sequences, no line end: what goes in comes out, and goes to the log."""
    sent = bytes(range(256)) * 3 + b"\xff\xfe\r\n\x1b[31mred\x1b[0m\r 50%|\xe2\x96\x88\r" + b"no end"
    code = f"import os; os.write(2, {sent!r}); os.write(1, {sent[::-1]!r})"
    done = launch(python(code), stdout="tee", log=tmp_path / "log")
    out, err = capfdbinary.readouterr()
    assert (out, err) == (sent[::-1], sent)
    assert sorted((tmp_path / "log").read_bytes()) == sorted(sent + sent[::-1])
    assert "�" in done.stderr


def test_standard_output_is_left_alone_unless_asked_for(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    code = "import os; os.write(1, b'out'); os.write(2, b'err')"
    assert launch(python(code)).stderr == "err"
    assert capfdbinary.readouterr() == (b"out", b"err")
    assert sorted(launch(python(code), stdout="tee").stderr) == sorted("outerr")
    assert capfdbinary.readouterr() == (b"out", b"err")


def test_of_two_streams_whole_lines_are_read() -> None:
    """A bar on standard output that ends no line does not run into the traceback on standard error."""
    code = f"import os; os.write(1, b'Epoch 1: '); os.write(2, {TRACEBACK!r}); os.write(1, b'done\\n'); os._exit(1)"
    done = launch(python(code), stdout="tee", check=False)
    assert done.root_cause.exception == "KeyError"
    assert "Epoch 1: done\n" in done.stderr


def test_streams_that_are_one_keep_their_order(tmp_path: Path) -> None:
    """``> file 2>&1``: a line of one stream never overtakes a line of the other."""
    code = "import os\nfor i in range(2000): os.write(1 + i % 2, b'%d\\n' % i)"
    call = f"tbparse.launch([sys.executable, '-S', '-c', {code!r}], stdout='tee')"
    with open(tmp_path / "both", "wb") as both:
        subprocess.run(parent(call), stdout=both, stderr=subprocess.STDOUT, check=True, env=clean_env())
    assert (tmp_path / "both").read_bytes().split() == [b"%d" % i for i in range(2000)]


def test_output_appears_before_the_child_ends_and_input_reaches_it() -> None:
    """A prompt without a line end is shown at once, and the answer goes to the child."""
    child = "import sys; sys.stdout.write('name? '); sys.stdout.flush(); print('hello', input())"
    with started(parent(f"tbparse.launch([sys.executable, '-S', '-c', {child!r}], stdout='tee')")) as p:
        assert p.stdin is not None
        assert p.stdout is not None
        assert p.stdout.read(6) == b"name? "
        p.stdin.write(b"Ada\n")
        assert read_line(p) == b"hello Ada\n"
        assert p.wait(DEADLINE_S) == 0


def test_the_first_failure_is_kept_whatever_follows() -> None:
    """A traceback, then 16 MB of other lines: the text is cut and says so, the answer is not."""
    code = """
import os
os.write(2, b'x' * 99 + b'\\n')
os.write(2, b'filler line of a quiet kind\\n' * 40000)
os.write(2, TRACEBACK)
for i in range(16):
    os.write(2, b'another line of a quiet kind\\n' * 36000)
os._exit(1)
""".replace("TRACEBACK", repr(TRACEBACK))
    with pytest.raises(LaunchError) as caught:
        launch(python(code))
    error = caught.value
    assert error.root_cause is not None
    assert error.root_cause.exception == "KeyError"
    assert len(error.stderr) < 1_400_000
    lines = error.stderr.splitlines()
    cut = [x for x in lines if x.startswith("[tbparse: ")]
    assert len(cut) == 1
    sent = 100 + 40000 * 28 + len(TRACEBACK) + 16 * 36000 * 29
    kept = sum(len(x) + 1 for x in lines if x not in cut)
    assert int(cut[0].split()[1].replace(",", "")) == sent - kept
    assert {x for x in lines if x not in cut} <= {"x" * 99, "filler line of a quiet kind", "another line of a quiet kind"}


def test_how_much_text_is_kept_can_be_chosen() -> None:
    code = "import os; os.write(2, b''.join(b'%04d\\n' % i for i in range(5000)))"
    text = launch(python(code), head=100, tail=50).stderr
    assert text.startswith("0000\n0001\n")
    assert text.endswith("4998\n4999\n")
    assert len(text) < 250


def test_a_signal_is_told_as_one() -> None:
    with pytest.raises(LaunchError, match="SIGKILL") as caught:
        launch(python("import os; os.kill(os.getpid(), 9)"))
    assert caught.value.returncode == -9
    assert caught.value.root_cause is not None
    assert caught.value.root_cause.signal == "SIGKILL"
    assert launch(python("import os; os.kill(os.getpid(), 11)"), check=False).exit_code == 139


def test_a_child_that_closes_its_streams_is_waited_for() -> None:
    code = "import os, sys; os.close(1); os.close(2); sys.stdin.close(); import time; time.sleep(0.2); os._exit(4)"
    assert launch(python(code), stdout="tee", check=False).returncode == 4


def test_a_process_left_behind_holds_nobody_longer_than_the_grace() -> None:
    done = launch(python(HOLDER), check=False, grace_s=0.1)
    left = int(done.stderr)
    try:
        await_state(left, "S", "R")
        assert done.returncode == 7
        assert len(done.notes) == 1
        assert "0.1 s" in done.notes[0]
    finally:
        os.kill(left, 9)


def test_what_cannot_be_started_is_told_as_subprocess_tells_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        launch(["no-such-program-anywhere"])
    with pytest.raises(PermissionError):
        launch([str(tmp_path)])
    with pytest.raises(FileNotFoundError):
        launch(python("pass"), cwd=tmp_path / "none")


@pytest.mark.parametrize(
    ("cmd", "options"),
    [
        ("python x.py", {}),
        ([], {}),
        (["true"], {"pty": "maybe"}),
        (["true"], {"stdout": "drop"}),
        (["true"], {"log": "/no/such/folder/x"}),
    ],
)
def test_a_wrong_argument_is_refused(cmd: object, options: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        launch(cmd, **options)  # type: ignore[arg-type]


def test_environment_and_folder_are_the_childs(tmp_path: Path) -> None:
    code = "import os, sys; sys.stderr.write(os.getcwd() + ' ' + ','.join(sorted(os.environ)))"
    done = launch(python(code), cwd=tmp_path, env={"ONLY": "1", "LC_CTYPE": "C.UTF-8"})
    assert done.stderr == f"{tmp_path} LC_CTYPE,ONLY"


def test_the_child_gets_no_descriptor_of_ours() -> None:
    code = "import os, sys; fds = os.listdir('/proc/self/fd'); print(sorted(fds), file=sys.stderr)"
    plain = subprocess.run(python(code), stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, check=True)
    assert launch(python(code), stdout="tee", log=os.devnull).stderr == plain.stderr


def test_a_full_disk_under_the_log_does_not_disturb_the_child(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    done = launch(python("import os; os.write(2, b'x' * 100000)"), log="/dev/full")
    assert done.returncode == 0
    assert capfdbinary.readouterr().err == b"x" * 100000
    assert done.notes == ("100,000 bytes of output could not be written to /dev/full",)


def test_an_engine_that_fails_fails_nobody_else(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    from tbparse.engine import Explainer

    def fail(self: Explainer, data: bytes) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(Explainer, "feed", fail)
    with pytest.raises(LaunchError) as caught:
        launch(python("import os; os.write(2, b'line\\n' * 400000); os._exit(6)"))
    assert caught.value.returncode == 6
    assert caught.value.stderr.endswith("line\n")
    assert caught.value.root_cause is not None
    assert (caught.value.root_cause.verdict, caught.value.root_cause.exit_code) == ("unknown", 6)
    assert "a fault of ours" in caught.value.root_cause.notes[0]
    assert "the command is not affected" in caplog.text


def test_a_fault_in_between_leaves_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    pids: list[int] = []

    def fail(self: Pump, process: subprocess.Popen[bytes], grace_s: float, forwarding: object) -> bool:
        pids.append(process.pid)
        raise MemoryError

    monkeypatch.setattr(Pump, "run", fail)
    with pytest.raises(MemoryError):
        launch(python("import time; time.sleep(600)"))
    await_gone(*pids)


def test_launches_in_threads_do_not_mix() -> None:
    """Outside the main thread no signal handler can be set; all else is the same."""

    def one(i: int) -> str | None:
        done = launch(python(f"raise ValueError('cause {i}')"), check=False)
        return done.root_cause.message

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(12))) == [f"cause {i}" for i in range(12)]


def test_a_hundred_launches_leave_nothing_behind() -> None:
    """No descriptor, no thread, no process."""

    def held() -> tuple[int, set[threading.Thread], list[str]]:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()  # multiprocessing keeps one of earlier tests
        return len(os.listdir("/proc/self/fd")), set(threading.enumerate()), children

    launch(["true"])
    before = held()
    for i in range(100):
        launch(["true"], stdout="tee" if i % 2 else "inherit", pty="yes" if i % 3 == 0 else "no")
    assert held() == before


def test_a_parent_without_standard_streams_still_launches(tmp_path: Path) -> None:
    """A daemon has closed them: nothing is shown, all is known."""
    child = "import os; os.write(2, b'KeyError: 1\\n'); os._exit(3)"
    call = f"""
import os
for fd in (0, 1, 2): os.close(fd)
done = tbparse.launch([sys.executable, '-S', '-c', {child!r}], stdout='tee', check=False)
open({str(tmp_path / "told")!r}, 'w').write(repr((done.returncode, done.stderr)))
os._exit(0)
"""
    subprocess.run(parent(call), check=True, env=clean_env())
    assert (tmp_path / "told").read_text() == repr((3, "KeyError: 1\n"))
