"""Signals, terminals and ends: what reaches the child's group, and that nothing outlives its parent."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from launching import TBPARSE, Terminal, await_gone, await_state, clean_env, parent, python, read_line, started

FAMILY = """
import os, signal, subprocess, sys, time
p = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
print(os.getpid(), p.pid, flush=True)
time.sleep(600)
"""
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print(os.getpid(), flush=True)
time.sleep(600)
"""
CLEANS_UP = """
import sys, time
try:
    print("ready", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    try:
        print("cleaning up", flush=True)
        time.sleep(600)
    except KeyboardInterrupt:
        print("left at once", flush=True)
        sys.exit(5)
"""
TELLS = """
import os, signal, sys, time
def tell(number, frame):
    os.write(1, signal.Signals(number).name.encode() + b"\\n")
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), tell)
print(os.getpid(), flush=True)
while True:
    time.sleep(600)
"""


def run(code: str, *args: str, options: tuple[str, ...] = ()) -> list[str]:
    """``tbparse run`` of a program."""
    return [*TBPARSE, "run", *options, "--", *python(code), *args]


def launching(code: str, more: str = "") -> list[str]:
    """A parent that launches a program."""
    return parent(f"tbparse.launch([sys.executable, '-S', '-c', {code!r}]{more})")


def pids(line: bytes) -> list[int]:
    return [int(x) for x in line.split()]


def test_a_parent_told_to_stop_leaves_no_orphan() -> None:
    """SIGTERM reaches the child and its children; the exit code is the child's."""
    with started(run(FAMILY)) as p:
        family = pids(read_line(p))
        p.terminate()
        assert p.wait() == 143
        await_gone(*family)


def test_children_that_ignore_the_signal_are_ended_after_the_grace() -> None:
    code = FAMILY.replace('"import time', '"import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True)').replace(
        "print(os", "time.sleep(0.3); print(os"
    )
    with started(run(code, options=("--grace", "0.2"))) as p:
        read_line(p)
        family = pids(read_line(p))
        p.terminate()
        assert p.wait() == 143
        await_gone(*family)


@pytest.mark.parametrize("command", [run(FAMILY), launching(FAMILY)], ids=["run", "launch"])
def test_a_parent_killed_outright_leaves_no_orphan(command: list[str]) -> None:
    """Not even a grandchild: a signal at the parent's death would reach the child only."""
    with started(command) as p:
        family = pids(read_line(p))
        p.kill()
        p.wait()
        await_gone(*family)


def test_a_program_that_launches_is_stopped_as_it_would_be_without() -> None:
    """The child first, then, by the same signal, the parent."""
    with started(launching(FAMILY)) as p:
        family = pids(read_line(p))
        p.terminate()
        assert p.wait() == -signal.SIGTERM
        await_gone(*family)


def test_a_handler_of_the_program_is_called_once_the_child_is_gone() -> None:
    call = f"""
import signal
signal.signal(signal.SIGTERM, lambda n, f: print('mine', flush=True))
done = tbparse.launch([sys.executable, '-S', '-c', {FAMILY!r}], check=False)
print(done.returncode, signal.getsignal(signal.SIGTERM).__name__, flush=True)
"""
    with started(parent(call)) as p:
        read_line(p)
        p.terminate()
        assert read_line(p) == b"mine\n"
        assert read_line(p) == b"-15 <lambda>\n"
        assert p.wait() == 0


def test_an_interrupt_is_a_keyboardinterrupt_that_knows_the_cause() -> None:
    call = f"""
try:
    tbparse.launch([sys.executable, '-S', '-c', {FAMILY!r}])
except KeyboardInterrupt as e:
    print(e.root_cause.category, 'KeyboardInterrupt' in e.stderr, flush=True)
"""
    with started(parent(call)) as p:
        read_line(p)
        p.send_signal(signal.SIGINT)
        assert read_line(p) == b"interrupted True\n"


def test_a_second_interrupt_works_too() -> None:
    with started(run(CLEANS_UP)) as p:
        assert read_line(p) == b"ready\n"
        p.send_signal(signal.SIGINT)
        assert read_line(p) == b"cleaning up\n"
        p.send_signal(signal.SIGINT)
        assert read_line(p) == b"left at once\n"
        assert p.wait() == 5


def test_a_child_that_ignores_interrupts_is_ended_by_the_third() -> None:
    with started(run(STUBBORN)) as p:
        (child,) = pids(read_line(p))
        for _ in range(3):
            p.send_signal(signal.SIGINT)
            # The system keeps one of each kind: a signal that is still pending would swallow the next.
            while f"{1 << (signal.SIGINT - 1):016x}" in Path(f"/proc/{p.pid}/status").read_text():
                pass
        await_gone(child)
        assert p.wait() == 143


@pytest.mark.parametrize(("presses", "code"), [(3, -signal.SIGTERM), (4, -signal.SIGKILL)])
def test_interrupts_in_one_moment_are_counted_one_by_one(presses: int, code: int, tmp_path: Path) -> None:
    """Another thread works on while they come, so that Python calls the handler once for all of them."""
    os.mkfifo(tmp_path / "ready")
    child = f"""
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
if {presses} == 4: signal.signal(signal.SIGTERM, signal.SIG_IGN)
open({str(tmp_path / "ready")!r}, "w").close()
time.sleep(600)
"""
    call = f"""
import ctypes, signal, threading
library = ctypes.PyDLL(None)  # its calls keep the interpreter's lock
def press():
    open({str(tmp_path / "ready")!r}).read()
    me = ctypes.c_ulong(threading.get_ident())
    list(map(library.pthread_kill, [me] * {presses}, [signal.SIGINT] * {presses}))
threading.Thread(target=press).start()
try:
    tbparse.launch([sys.executable, '-S', '-c', {child!r}])
except KeyboardInterrupt as e:
    print(e.root_cause.signal, flush=True)
"""
    with started(parent(call)) as p:
        assert read_line(p).decode().strip() == signal.Signals(-code).name


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGUSR2", "SIGHUP", "SIGQUIT", "SIGTERM", "SIGINT", "SIGCONT", "SIGWINCH"])
def test_signals_reach_the_child(name: str) -> None:
    with started(run(TELLS, name)) as p:
        (child,) = pids(read_line(p))
        p.send_signal(getattr(signal, name))
        assert read_line(p) == name.encode() + b"\n"
        os.kill(child, signal.SIGKILL)
        assert p.wait() == 137


def test_stopping_and_going_on_are_passed_on() -> None:
    # In a group of its own, as a shell starts it: nobody can stop a group that has no parent in its session, as ours may be.
    with started(run(FAMILY), preexec_fn=os.setpgrp) as p:
        family = pids(read_line(p))
        p.send_signal(signal.SIGTSTP)
        for pid in (*family, p.pid):
            await_state(pid, "T")
        p.send_signal(signal.SIGCONT)
        for pid in (*family, p.pid):
            await_state(pid, "S")
        p.terminate()
        assert p.wait() == 143


def test_a_signal_that_the_parent_ignores_stays_ignored() -> None:
    """nohup, and background jobs of shells without job control."""
    command = ["/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh", *run(FAMILY)]
    with started(command) as p:
        family = pids(read_line(p))
        for pid in (p.pid, *family):
            assert int(re.search(r"SigIgn:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())[1], 16) & 1
        p.terminate()
        p.wait()
        await_gone(*family)


def test_at_a_terminal_the_child_sees_a_terminal(tmp_path: Path) -> None:
    """Each stream as it would be without us: its size too; and the bytes are those that the child wrote."""
    code = """
import os, sys
print([os.isatty(x) for x in (0, 1, 2)], tuple(os.get_terminal_size(2)))
print("name? ", end="", flush=True)
print("hello", input())
sys.exit(3)
"""
    with Terminal(run(code, options=("--log", str(tmp_path / "log"), "--quiet"))) as t:
        t.until(b"name? ")
        t.type(b"Ada\n")
        assert t.end() == 3
    assert b"[True, True, True] (100, 30)\r\n" in t.shown
    assert b"hello Ada\r\n" in t.shown
    assert (tmp_path / "log").read_bytes() == b"[True, True, True] (100, 30)\nname? hello Ada\n"


def test_a_stream_that_is_no_terminal_stays_none(tmp_path: Path) -> None:
    code = "import os, sys; print([os.isatty(x) for x in (0, 1, 2)], file=sys.stderr)"
    with open(tmp_path / "out", "wb") as out, Terminal(run(code), stdout=out) as t:
        assert t.end() == 0
    assert t.shown == b"[True, False, True]\r\n"


@pytest.mark.parametrize(("mode", "seen"), [("yes", "[True, True]"), ("no", "[False, False]")])
def test_a_terminal_can_be_forced_or_refused(mode: str, seen: str) -> None:
    code = "import os; print([os.isatty(x) for x in (1, 2)])"
    with Terminal(run(code, options=("--pty", mode))) as t:
        t.end()
    assert t.shown == seen.encode() + b"\r\n"
    with started(run(code, options=("--pty", mode))) as p:
        assert read_line(p) == seen.encode() + b"\n"


def test_a_windows_new_size_reaches_the_child() -> None:
    code = """
import os, signal, time
signal.signal(signal.SIGWINCH, lambda n, f: os.write(1, b"now %d %d\\n" % tuple(os.get_terminal_size(2))))
print("ready", flush=True)
while True: time.sleep(600)
"""
    with Terminal(run(code)) as t:
        t.until(b"ready")
        t.resize(40, 77)
        t.until(b"now 77 40")


def test_ctrl_c_reaches_the_child_once_and_again_when_pressed_again() -> None:
    with Terminal(run(CLEANS_UP)) as t:
        t.until(b"ready")
        t.type(b"\x03")
        t.until(b"cleaning up")
        t.type(b"\x03")
        assert t.end() == 5
        assert b"left at once" in t.shown


def test_ctrl_c_is_explained_as_an_interrupt() -> None:
    with Terminal(run("import time; print('ready', flush=True); time.sleep(600)")) as t:
        t.until(b"ready")
        t.type(b"\x03")
        assert t.end() == 130
        shown = re.sub(rb"\x1b\[[\d;]*m", b"", t.shown)  # newer Pythons colour their tracebacks
        assert b"KeyboardInterrupt\r\n" in shown
        assert b"interrupted: The run was interrupted" in shown


def test_an_event_loop_still_gets_the_signals_that_it_handles() -> None:
    """Those that are not passed on come to the descriptor of ``launch()`` while it runs, and go on to the loop's."""
    call = """
import asyncio, signal
CHILD = "import os, signal; os.kill(os.getppid(), signal.SIGUSR1)"
async def main():
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, told.set)
    tbparse.launch([sys.executable, "-S", "-c", CHILD])
    await told.wait()
    print("told", flush=True)
asyncio.run(main())
"""
    with started(parent(call)) as p:
        assert read_line(p) == b"told\n"


def test_outside_the_main_thread_a_signal_does_what_it_always_did() -> None:
    """No handler can be set there: SIGTERM ends the parent, and the watchdog ends the family."""
    call = f"""
import threading
t = threading.Thread(target=tbparse.launch, args=([sys.executable, '-S', '-c', {FAMILY!r}],))
t.start(); t.join()
"""
    with started(parent(call)) as p:
        family = pids(read_line(p))
        p.terminate()
        assert p.wait() == -signal.SIGTERM
        await_gone(*family)


def test_handlers_are_put_back() -> None:
    call = """
import json, signal
def mine(n, f): pass
signal.signal(signal.SIGINT, mine); signal.signal(signal.SIGWINCH, mine); signal.signal(signal.SIGHUP, signal.SIG_IGN)
before = {n: signal.getsignal(n) for n in signal.valid_signals()}
tbparse.launch(['true'])
print(json.dumps([int(n) for n in before if signal.getsignal(n) is not before[n]]), flush=True)
"""
    with started(parent(call), env=clean_env()) as p:
        assert json.loads(read_line(p)) == []
    assert sys.platform != "win32"
