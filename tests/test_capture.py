# ruff: noqa: PT012 - what is tested is a block of several statements
"""``capture()`` around launches in this process: what a child died of is on the exception, and nothing else changes."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import tbparse
from tbparse.launching.capture_children import Watch, close_watch, open_watch

pytest_plugins = ["pytester"]
BLOCK = "import subprocess, tbparse\nwith tbparse.capture():\n    subprocess.check_call({!r})\n"
BOOM = 'raise ValueError("the real cause")\n'
WATCHED = ("__init__", "wait", "poll")


@pytest.fixture
def boom(tmp_path: Path) -> list[str]:
    """A command whose child raises in line 1 of boom.py."""
    script = tmp_path / "boom.py"
    script.write_text(BOOM)
    return [sys.executable, str(script)]


def _python(source: str) -> list[str]:
    return [sys.executable, "-c", source]


def _state() -> tuple[object, ...]:
    import _posixsubprocess

    return (*(getattr(subprocess.Popen, n) for n in WATCHED), os.fork, _posixsubprocess.fork_exec, sys.stdout, sys.stderr)


def _until(met: Callable[[], object]) -> None:
    """Wait for something that another process does; half a minute of turns at most."""
    for _ in range(3000):
        if met():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come")


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_the_exception_carries_text_and_cause_and_the_terminal_shows_the_traceback_once(boom, capfd):
    with pytest.raises(subprocess.CalledProcessError) as e, tbparse.capture() as c:
        subprocess.check_call(boom)
    error = e.value
    assert "ValueError: the real cause" in error.stderr
    assert error.stderr.startswith("Traceback (most recent call last):")
    assert (error.root_cause.site.path, error.root_cause.site.line) == (boom[1], 1)
    assert error.root_cause is c.root_cause
    assert c.stderr == error.stderr
    assert "ValueError: the real cause" in "".join(error.__notes__)
    assert [x.exception for x in error.root_cause.chain] == ["subprocess.CalledProcessError", "ValueError"]
    assert capfd.readouterr().err == error.stderr


def test_a_traceback_of_the_parent_names_the_cause(boom, capfd):
    script = BLOCK.format(boom)
    done = subprocess.run(_python(script), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.count("Traceback (most recent call last)") == 2
    if sys.version_info >= (3, 11):
        assert "root cause: ValueError: the real cause" in done.stderr.splitlines()[-1]


def test_stdout_is_left_alone_and_stderr_appears_while_the_child_runs(tmp_path):
    """Read through the real descriptors of another process, line by line, while the child still waits."""
    child = "import sys; print('out', flush=True); print('first', file=sys.stderr); input(); sys.exit('last')"
    script = BLOCK.format([sys.executable, "-c", child])
    with subprocess.Popen(_python(script), stdin=-1, stdout=-1, stderr=-1, text=True) as parent:
        assert parent.stderr.readline() == "first\n"
        assert parent.stdout.readline() == "out\n"
        parent.stdin.write("go on\n")
        parent.stdin.close()
        assert parent.stderr.readline() == "last\n"
        parent.stderr.read()
    assert parent.returncode == 1


def test_a_stderr_that_is_there_already_is_never_overwritten(boom):
    with pytest.raises(subprocess.CalledProcessError) as e, tbparse.capture():
        subprocess.run(boom, check=True, capture_output=True)
    assert isinstance(e.value.stderr, bytes)
    assert e.value.root_cause.exception == "ValueError"
    assert e.value.root_cause.site.line == 1

    def launcher():
        try:
            subprocess.check_call(boom)
        except subprocess.CalledProcessError as error:
            raise subprocess.CalledProcessError(1, error.cmd, stderr="mine") from None

    with pytest.raises(subprocess.CalledProcessError) as e, tbparse.capture():
        launcher()
    assert e.value.stderr == "mine"
    assert e.value.root_cause.exception == "ValueError"


def test_a_launcher_that_exits_quietly_is_explained_too(boom, capfd):
    with pytest.raises(SystemExit) as e, tbparse.capture() as c:
        sys.exit(subprocess.call(boom))
    assert c.root_cause.exception == "ValueError"
    assert c.root_cause.exit_code == 1
    assert e.value.root_cause is c.root_cause
    assert e.value.stderr.endswith("ValueError: the real cause\n")


def test_an_exit_that_is_no_failure_is_none(boom):
    for code in (0, None):
        with pytest.raises(SystemExit), tbparse.capture() as c:
            subprocess.call(boom, stderr=subprocess.DEVNULL)
            sys.exit(code)
        assert c.root_cause is None


def test_the_cause_of_an_exception_raised_from_a_launchers(boom, capfd):
    with pytest.raises(RuntimeError) as e, tbparse.capture():
        try:
            subprocess.check_call(boom)
        except subprocess.CalledProcessError as error:
            raise RuntimeError("An issue was found when launching") from error
    for one in (e.value, e.value.__cause__):
        assert one.root_cause.exception == "ValueError"
        assert "the real cause" in one.stderr


def test_the_exception_is_about_its_own_child_not_about_an_earlier_one(boom, tmp_path, capfd):
    other = tmp_path / "other.py"
    other.write_text('raise KeyError("label")\n')
    with pytest.raises(subprocess.CalledProcessError) as e, tbparse.capture() as c:
        subprocess.call(boom)  # its failure was looked at, and the program went on
        subprocess.check_call([sys.executable, str(other)])
    assert e.value.root_cause.exception == "KeyError"
    assert "ValueError" not in e.value.stderr
    assert c.stderr == e.value.stderr


def test_another_exception_gets_its_cause_and_no_note(boom, capfd):
    with pytest.raises(KeyError) as e, tbparse.capture() as c:
        subprocess.call(boom)
        {}["label"]
    assert e.value.root_cause.exception == "KeyError"
    assert not getattr(e.value, "__notes__", [])
    assert not hasattr(e.value, "stderr")
    assert c.root_cause is e.value.root_cause


@pytest.mark.parametrize("kind", [StopIteration, GeneratorExit, pytest.skip.Exception])
def test_control_flow_is_not_a_failure(kind):
    with contextlib.suppress(BaseException), tbparse.capture() as c:
        raise kind()
    assert c.root_cause is None


def test_an_interrupt_is_explained_only_when_it_is_asked_for():
    with pytest.raises(KeyboardInterrupt) as e, tbparse.capture() as c:
        raise KeyboardInterrupt
    assert not hasattr(e.value, "root_cause")
    assert c.root_cause.category == "interrupted"


def test_blocks_nest(boom, capfd):
    with pytest.raises(subprocess.CalledProcessError) as e, tbparse.capture() as outer, tbparse.capture() as inner:
        subprocess.check_call(boom)
    assert outer.root_cause is inner.root_cause is e.value.root_cause
    assert outer.stderr == inner.stderr == e.value.stderr
    assert len(e.value.__notes__) == 1
    assert capfd.readouterr().err.count("ValueError: the real cause") == 1


def test_a_function_under_the_decorator_is_a_block_at_every_call(boom, capfd):
    @tbparse.capture()
    def launch(code: int) -> str:
        if code:
            subprocess.check_call(boom)
        return "done"

    for _ in range(2):
        with pytest.raises(subprocess.CalledProcessError) as e:
            launch(1)
        assert e.value.root_cause.exception == "ValueError"
    assert launch(0) == "done"
    block = tbparse.capture()
    with block:
        pass
    with pytest.raises(RuntimeError, match="one block"), block:
        pass


def test_everything_is_restored_whatever_happens(boom, capfd):
    before, fds, threads = _state(), _descriptors(), threading.active_count()
    with pytest.raises(subprocess.CalledProcessError), tbparse.capture():
        assert _state() != before
        subprocess.check_call(boom)
    with pytest.raises(FileNotFoundError) as e, tbparse.capture():
        subprocess.check_call(["/no/such/program"])
    assert e.value.root_cause.exception == "FileNotFoundError"
    with pytest.raises(TypeError), tbparse.capture():
        subprocess.Popen(["true"], nonsense=1)
    with tbparse.capture(), pytest.raises(TypeError):
        subprocess.Popen(["true"], args=["twice"])
    with tbparse.capture(report=True):
        subprocess.check_call(["true"])
    assert _state() == before
    assert (_descriptors(), threading.active_count()) == (fds, threads)


def test_many_launches_leave_nothing_behind(capfd):
    fds, threads = _descriptors(), threading.active_count()
    with tbparse.capture() as c:
        for n in range(100):
            subprocess.check_call(["sh", "-c", f"echo {n} >&2"])
    assert (_descriptors(), threading.active_count()) == (fds, threads)
    assert capfd.readouterr().err == "".join(f"{n}\n" for n in range(100))
    assert c.stderr.endswith("98\n99\n")


def test_a_patch_that_somebody_puts_over_ours_stays_and_works(monkeypatch, boom, capfd):
    calls = []

    def traced(self, *args, **kwargs):
        calls.append(args)
        inner(self, *args, **kwargs)

    with tbparse.capture():
        inner = subprocess.Popen.__init__
        monkeypatch.setattr(subprocess.Popen, "__init__", traced)
    assert subprocess.Popen.__init__ is traced
    subprocess.check_call(["true"])
    with pytest.raises(subprocess.CalledProcessError) as e, tbparse.capture():
        subprocess.check_call(boom)
    assert e.value.root_cause.exception == "ValueError"
    assert len(calls) == 2
    monkeypatch.undo()
    with tbparse.capture():
        pass


def test_what_the_child_wrote_comes_before_what_the_parent_writes_then(capfd):
    with tbparse.capture():
        for n in range(20):
            subprocess.call(["sh", "-c", f"echo child {n} >&2"])
            os.write(2, f"parent {n}\n".encode())
    assert capfd.readouterr().err == "".join(f"child {n}\nparent {n}\n" for n in range(20))


@pytest.mark.parametrize("where", ["inherited", "number", "object", "merged"])
def test_every_way_to_hand_down_stderr_is_watched(where, boom, capfd):
    streams = {
        "inherited": {},
        "number": {"stderr": 2},
        "object": {"stderr": sys.stderr},
        "merged": {"stderr": subprocess.STDOUT},
    }[where]
    with pytest.raises(subprocess.CalledProcessError) as e, tbparse.capture():
        subprocess.check_call(boom, **streams)
    assert "ValueError: the real cause" in e.value.stderr
    out, err = capfd.readouterr()
    assert "ValueError: the real cause" in (out if where == "merged" else err)


def test_output_that_goes_elsewhere_stays_there(boom, tmp_path, capfd):
    """A file takes the child's stderr (torchrun's --redirects): it is read from there."""
    log = tmp_path / "stderr.log"
    with pytest.raises(subprocess.CalledProcessError) as e, tbparse.capture(), log.open("w") as file:
        file.write("before\n")
        file.flush()
        subprocess.check_call(boom, stderr=file)
    assert e.value.root_cause.exception == "ValueError"
    assert e.value.root_cause.evidence[0].source == str(log)
    assert e.value.stderr.startswith("Traceback")
    assert log.read_text().startswith("before\nTraceback")
    assert capfd.readouterr().err == ""


def test_bytes_pass_as_they_are_and_the_first_failure_outlives_a_flood(tmp_path, capfdbinary):
    script = tmp_path / "flood.py"
    script.write_text(
        "import os, sys, traceback\n"
        "try:\n    open('/no/such/config.yaml')\nexcept OSError:\n    traceback.print_exc()\n"
        "sys.stderr.flush()\n"
        "block = b'\\xff\\xfe noise %06d\\n'\n"
        "for n in range(200):\n    os.write(2, b''.join(block % i for i in range(2000)))\n"
        "sys.exit(1)\n"
    )
    with pytest.raises(subprocess.CalledProcessError) as e, tbparse.capture(head=100, tail=1000):
        subprocess.check_call([sys.executable, str(script)])
    assert e.value.root_cause.exception == "FileNotFoundError"
    assert "bytes are left out" in e.value.stderr
    assert len(e.value.stderr) < 2000
    shown = capfdbinary.readouterr().err
    assert shown.endswith(b"".join(b"\xff\xfe noise %06d\n" % i for i in range(2000)) * 200)


def test_a_signal_is_the_cause_where_there_is_no_text(capfd):
    with pytest.raises(subprocess.CalledProcessError) as e, tbparse.capture():
        subprocess.check_call(_python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"))
    assert e.value.root_cause.signal == "SIGKILL"


def test_a_child_that_runs_on_holds_nobody_and_still_has_its_stderr(tmp_path, capfd):
    child = "import sys; print('up', file=sys.stderr); input(); print('still here', file=sys.stderr)"
    with tbparse.capture(grace_s=60) as c:
        server = subprocess.Popen(_python(child), stdin=subprocess.PIPE)
        _until(lambda: "up" in c.stderr)
    assert server.poll() is None
    server.communicate(b"\n", timeout=30)
    seen: list[str] = []
    _until(lambda: seen.append(capfd.readouterr().err) or "still here" in "".join(seen))
    assert "".join(seen) == "up\nstill here\n"
    assert c.stderr == "up\n"


def test_a_grandchild_that_keeps_the_pipe_does_not_hold_the_block(capfd):
    script = "import subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid); sys.exit('the end')"
    with pytest.raises(subprocess.CalledProcessError) as e, tbparse.capture(grace_s=0.1):
        subprocess.check_call(_python(script))
    grandchild = int(capfd.readouterr().out)
    os.kill(grandchild, signal.SIGKILL)  # it is still there
    assert e.value.stderr == "the end\n"


def test_threads_have_blocks_of_their_own(tmp_path, capfd):
    found: dict[str, str] = {}
    start = threading.Barrier(2)

    def work(name: str) -> None:
        with pytest.raises(subprocess.CalledProcessError) as e, tbparse.capture():
            start.wait()
            subprocess.check_call(_python(f"import time; time.sleep(0.1); raise KeyError('{name}')"))
        found[name] = e.value.stderr + str(e.value.root_cause.message)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert "one" in found["one"]
    assert "two" not in found["one"]
    assert "one" not in found["two"]


def test_a_thread_without_a_block_belongs_to_the_open_one(boom, capfd):
    """Launchers that start their children from a pool of threads."""
    from concurrent.futures import ThreadPoolExecutor

    with pytest.raises(subprocess.CalledProcessError) as e, tbparse.capture(), ThreadPoolExecutor(1) as pool:
        pool.submit(subprocess.check_call, boom).result()
    assert e.value.root_cause.site.line == 1


def test_asyncio_children_are_watched(boom, capfd):
    async def launch() -> None:
        process = await asyncio.create_subprocess_exec(*boom)
        code = await process.wait()
        raise subprocess.CalledProcessError(code, boom)

    with pytest.raises(subprocess.CalledProcessError) as e, tbparse.capture():
        asyncio.run(launch())
    assert e.value.root_cause.exception == "ValueError"


def _worker() -> None:
    sys.stderr.flush()
    os.write(2, b"the worker's words\n")
    raise ValueError("in the worker")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_multiprocessing_are_watched(method, capfd, monkeypatch):
    monkeypatch.setattr(sys, "stderr", sys.__stderr__)
    with tbparse.capture() as c:
        process = multiprocessing.get_context(method).Process(target=_worker)
        process.start()
        process.join()
    assert process.exitcode == 1
    assert "the worker's words" in c.stderr
    assert capfd.readouterr().err.count("the worker's words") == 1


def test_a_forked_child_is_under_no_block(boom, capfd):
    before = _state()
    with tbparse.capture() as c:
        pid = os.fork()
        if pid == 0:
            code = 7 if _state()[:5] == before[:5] and "tbparse" in sys.modules else 1
            os.write(2, b"from the fork\n")
            subprocess.call(["sh", "-c", "echo and its child >&2"])
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert c.stderr == "from the fork\nand its child\n"


def test_a_block_that_launches_nothing_loads_nothing():
    heavy = ("torch", "accelerate", "regex", "pydantic", "rich", "tempfile", "multiprocessing")
    script = f"import sys, tbparse\nwith tbparse.capture():\n    pass\nprint([m for m in {heavy!r} if m in sys.modules])\n"
    done = subprocess.run(_python(script), capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


def test_children_that_end_well_cost_no_reading():
    script = BLOCK.format(["sh", "-c", "echo a warning >&2"]) + "import sys\nprint('tbparse.engine' in sys.modules)\n"
    done = subprocess.run(_python(script), capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("False\n", "a warning\n")


def test_a_closed_stderr_does_not_hinder_the_child(boom):
    script = (
        "import os, subprocess, tbparse\nos.close(2)\n"
        f"try:\n    with tbparse.capture():\n        subprocess.check_call({boom!r})\n"
        "except subprocess.CalledProcessError as e:\n    print(e.root_cause.exception)\n"
    )
    done = subprocess.run(_python(script), stdout=-1, text=True, timeout=60)
    assert done.stdout == "ValueError\n"


def test_a_reader_that_went_away_does_not_hurt_the_child(tmp_path):
    """``launch | head``: the far end closes; the child writes on and ends as it would."""
    marker = tmp_path / "ended"
    child = f"import sys\nfor n in range(50000): print('line', n, file=sys.stderr)\nopen({str(marker)!r}, 'w').close()"
    script = BLOCK.format([sys.executable, "-c", child])
    with subprocess.Popen(_python(script), stderr=subprocess.PIPE) as parent:
        parent.stderr.readline()
        parent.stderr.close()
    assert parent.returncode == 0
    assert marker.exists()


TERMINAL = """
import os, sys
print("out", sys.stdout.isatty(), os.get_terminal_size(1), flush=True)
print("err", sys.stderr.isatty(), os.get_terminal_size(2), file=sys.stderr, flush=True)
for n in range(50):
    sys.stderr.write(f"\\r{n}%|##"); sys.stderr.flush()
    if n % 10 == 0:
        sys.stderr.write("\\r      \\r"); sys.stderr.flush()
        print("text", n, flush=True)
raise ValueError("in a terminal")
"""


def _in_terminal(argv: list[str]) -> bytes:
    pid, fd = os.forkpty()
    if pid == 0:
        os.execv(argv[0], argv)
    out = b""
    while select.select([fd], [], [], 60)[0]:
        try:
            data = os.read(fd, 65536)
        except OSError:
            break
        out += data
    os.waitpid(pid, 0)
    os.close(fd)
    return out


def test_a_terminal_shows_the_same_with_and_without(tmp_path):
    """Progress bars stay in place: the child has a terminal, and stdout and stderr keep their order."""
    (tmp_path / "child.py").write_text(TERMINAL)
    shown = []
    child = [sys.executable, str(tmp_path / "child.py")]
    for block in ("contextlib.nullcontext()", "tbparse.capture()"):
        script = f"import contextlib, subprocess, tbparse\nwith {block}: subprocess.call({child!r})"
        shown.append(_in_terminal(_python(script)))
    assert shown[0] == shown[1]
    assert b"out True" in shown[0]


TEST_FILE = """
import subprocess, sys, pytest, tbparse

@pytest.mark.parametrize("n", [1, 2])
def test_launch(n):
    with pytest.raises(subprocess.CalledProcessError) as e, tbparse.capture():
        subprocess.check_call([sys.executable, "-c", "raise ValueError('the real cause')"])
    assert e.value.stderr.count("ValueError: the real cause") == 1
    assert e.value.root_cause.exception == "ValueError"
    assert n == 1
"""


@pytest.mark.parametrize("mode", ["-s", "--capture=fd", "--capture=sys", "--capture=tee-sys", "-n2"])
def test_it_works_in_every_capture_mode_of_pytest(mode, pytester, monkeypatch):
    """The child's words appear where they would appear without: captured by descriptor in the failing test's report."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    without = TEST_FILE.replace(", tbparse.capture()", "").replace("    assert e.value.", "    #")
    pytester.makepyfile(test_with=TEST_FILE, test_without=without.replace("the real cause", "the same without"))
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:randomly", mode)
    done.assert_outcomes(passed=2, failed=2)
    shown = [
        [sum(x == f"ValueError: {words}" for x in t) for t in (done.outlines, done.errlines, done.outlines + done.errlines)]
        for words in ("the real cause", "the same without")
    ]
    assert shown[0] == shown[1]
    assert shown[0][2] >= 1


def test_a_child_that_is_forgotten_is_one_that_ended_well():
    watch = Watch(None, None)
    open_watch(watch)
    try:
        bad = subprocess.Popen(["false"])
        bad.wait()
        for _ in range(70):
            subprocess.check_call(["true"])
    finally:
        close_watch(watch)
    assert len(watch.children) <= 64
    assert watch.children[0].popen is bad
