"""Watching what the children of a block write, without coming between them and where it goes.

While a capture is open, three ways in which Python starts a process are watched: ``subprocess.Popen`` (accelerate, torchrun,
deepspeed, trl), ``os.fork`` (``multiprocessing``'s fork method: ``notebook_launcher``, ``debug_launcher``) and the call
by which ``multiprocessing`` spawns (``torch.multiprocessing.spawn``). A child that would inherit this process's stderr gets a pipe,
or a terminal where that stderr is one, and a thread that writes on at once to where that stderr led when the child started.
This process's own ``sys.stderr`` and descriptors 1 and 2 are not touched, so pytest, notebooks and other threads see no change.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from tbparse.launching.capture_pipe import Channel, open_channel

if TYPE_CHECKING:
    from tbparse.launching.capture_child import Child, OwnFile
    from tbparse.launching.recording import Recording
    from tbparse.ruleset.match import RuleSet

MAX_CHILDREN = 64
"""So many children of a block are remembered; of more, those that ended well are forgotten first."""
_QUIET_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
"""Processes that multiprocessing keeps for as long as this one lives: they would hold the pipe for as long."""


class Watch:
    """The children of one open capture."""

    def __init__(self, rules: RuleSet | None, reports: Path | None, head: int | None = None, tail: int | None = None) -> None:
        self.rules, self.reports = rules, reports
        self.thread = threading.get_ident()
        self.pid = os.getpid()
        self.children: list[Child] = []
        self._sizes = head, tail
        self._lock = threading.Lock()

    def begin(self, command: object, env: Mapping[str, str] | None) -> Child:
        """Note a child that is about to be started."""
        from tbparse.launching.capture_child import new_child

        return new_child(command, os.environ if env is None else env, self.rules, *self._sizes)

    def keep(self, child: Child) -> None:
        """Remember a child that was started."""
        with self._lock:
            self.children.append(child)
            if len(self.children) > MAX_CHILDREN:
                done = next((c for c in self.children if c.returncode == 0), None)
                done = done or next((c for c in self.children if not c.running()), self.children[0])
                self.children.remove(done)

    def settle(self, grace: float) -> None:
        """Wait until what ended children wrote has passed through: ``grace`` seconds at most for all, none for those that run on.

        Whoever still holds a pipe then goes on writing through it; it is only not recorded any more.
        """
        deadline = time.monotonic() + grace
        for child in self.children:
            if child.channel is not None and not child.running():
                child.channel.join(max(0.0, deadline - time.monotonic()))

    def environment(self, env: Mapping[str, str] | None) -> dict[str, str] | None:
        """What a child gets as its environment: None for this process's own."""
        if self.reports is None:
            return None if env is None else dict(env)
        from tbparse.launching.report_env import FOLDER, reporting_env

        if env is not None and env.get(FOLDER) not in (None, os.environ.get(FOLDER)):
            return dict(env)  # it is to report to somebody further in: launch()
        return reporting_env(os.environ if env is None else env, self.reports)


_watches: list[Watch] = []
_lock = threading.RLock()
_local = threading.local()
_originals: dict[str, Any] = {}
_channels: WeakKeyDictionary[subprocess.Popen[Any], Channel] = WeakKeyDictionary()
FLUSH_S = 0.5
"""A reader that is slower than this at the far end is waited for no longer."""


def open_watch(watch: Watch) -> None:
    """Begin to watch: children of this thread, and of threads that have no watch of their own, are this watch's."""
    with _lock:
        _watches.append(watch)
        if not _originals:
            _install()


def close_watch(watch: Watch) -> None:
    """End it: its children are the next outer watch's too. Nothing of what was replaced stays once the last watch has ended."""
    with _lock:
        if watch in _watches:
            _watches.remove(watch)
        if not _watches:
            _uninstall()
        outer = next((w for w in reversed(_watches) if (w.thread, w.pid) == (watch.thread, watch.pid)), None)
    if outer is not None:
        for child in watch.children:
            outer.keep(child)


def _current() -> Watch | None:
    if getattr(_local, "busy", False):
        return None
    with _lock:
        me, pid = threading.get_ident(), os.getpid()
        mine = [w for w in _watches if w.thread == me and w.pid == pid]
        if mine:
            return mine[-1]
        return _watches[-1] if _watches and _watches[-1].pid == pid else None


def adopt(recording: Recording) -> None:
    """A child of the open block was recorded by :func:`tbparse.launch`: that is what it wrote, and why it died."""
    watch = _current()
    if watch is not None:
        for child in watch.children:
            if child.pid is not None and child.pid == recording.pid:
                child.recording = recording


def wants_reports() -> bool:
    """Whether the block that a child would belong to asks for reports."""
    watch = _current()
    return watch is not None and watch.reports is not None


def _install() -> None:
    for owner, name, ours in _places():
        there = getattr(owner, name)
        if name in _kept and there is not _kept[name]:
            _originals[name] = _kept[name]  # ours is inside what somebody put there
            continue
        _kept.pop(name, None)
        _originals[name] = there
        setattr(owner, name, ours)


def _places() -> list[tuple[Any, str, Any]]:
    """What is replaced while a watch is open: where, its name there, and by what."""
    popen = subprocess.Popen
    places: list[tuple[Any, str, Any]] = [(popen, "__init__", _popen_init), (popen, "wait", _wait), (popen, "poll", _poll)]
    if hasattr(os, "fork"):
        import _posixsubprocess

        places += [(os, "fork", _fork), (_posixsubprocess, "fork_exec", _fork_exec)]
    return places


def _uninstall() -> None:
    # Whoever replaced the same after us has our function inside theirs: it stays there, and passes everything on.
    for owner, name, ours in _places() if _originals else ():
        if getattr(owner, name) is ours:
            setattr(owner, name, _originals[name])
            _kept.pop(name, None)
        else:
            _kept[name] = _originals[name]
    _originals.clear()


_kept: dict[str, Any] = {}


def _original(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = _originals.get(name) or _kept[name]
    return found


def _wait(self: subprocess.Popen[Any], *args: Any, **kwargs: Any) -> Any:
    return _after_end(self, _original("wait")(self, *args, **kwargs))


def _poll(self: subprocess.Popen[Any]) -> Any:
    return _after_end(self, _original("poll")(self))


def _after_end(popen: subprocess.Popen[Any], code: Any) -> Any:
    """Whoever waited for a child may write next: what the child wrote comes out before."""
    channel = _channels.get(popen) if code is not None else None
    if channel is not None:
        channel.flush(FLUSH_S)
    return code


_ORDER = ("args", "bufsize", "executable", "stdin", "stdout", "stderr", "preexec_fn", "close_fds", "shell", "cwd", "env")


def _popen_init(self: subprocess.Popen[Any], *args: Any, **kwargs: Any) -> None:
    original = _original("__init__")
    watch = _current()
    if watch is None or len(args) > len(_ORDER):
        original(self, *args, **kwargs)
        return
    given = dict(zip(_ORDER, args, strict=False))
    if given.keys() & kwargs.keys():
        original(self, *args, **kwargs)  # it says best itself what is wrong
        return
    given.update(kwargs)
    child = watch.begin(given.get("args"), given.get("env"))
    stderr, stdout = given.get("stderr"), given.get("stdout")
    merged = stderr == subprocess.STDOUT
    inherited = _inherited(stdout, 1) if merged else _inherited(stderr, 2)
    if watch.reports is not None:
        given["env"] = watch.environment(given.get("env"))
    streams = {id(s): s for s in (stdout, stderr)}
    child.files = [x for x in (_file_of(s, s is stderr) for s in streams.values()) if x is not None]
    beside = None if merged else _inherited(stdout, 1)
    child.channel = channel = open_channel(inherited, child, beside) if inherited is not None else None
    if channel is not None:
        given["stdout" if merged else "stderr"] = channel.give
        if channel.both:
            given["stdout"] = channel.give
    _local.busy = True
    try:
        original(self, **given)
    except BaseException:
        if channel is not None:
            channel.cancel()
        raise
    finally:
        _local.busy = False
    child.popen, child.pid = self, self.pid
    if channel is not None:
        channel.start()
        _channels[self] = channel
    watch.keep(child)


def _inherited(stream: Any, number: int) -> int | None:
    """The descriptor of this process's own output that a stream argument of Popen leads to; None for any other place."""
    if stream is None or stream == number:
        return number
    if isinstance(stream, int) or all(stream is not x for x in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)):
        return None
    try:
        return int(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return None


def _file_of(stream: Any, stderr: bool) -> OwnFile | None:
    from tbparse.launching.capture_child import OwnFile

    name = getattr(stream, "name", None)
    if not isinstance(name, str) or not os.path.isfile(name):
        return None
    try:
        return OwnFile(Path(name).absolute(), stream.tell(), stderr)
    except (OSError, ValueError, AttributeError):
        return None


def _fork() -> int:
    original: Callable[[], int] = _original("fork")
    watch = _current()
    if watch is None:
        return original()
    child = watch.begin(None, None)
    child.channel = channel = open_channel(2, child, 1)
    if watch.reports is not None:
        # Loaded before the fork: what the child does before it is its caller's is then short, and a handler of a signal
        # that raises (torch's of SIGTERM) hardly meets it there, where nobody catches for the child.
        from tbparse.launching import hook, report_env  # noqa: F401
        from tbparse.launching.hook import tbparse_child_report  # noqa: F401
    try:
        pid = original()
    except BaseException:
        if channel is not None:
            channel.cancel()
        raise
    if pid == 0:
        _in_forked_child(channel, watch)
        return 0
    child.pid = pid
    if channel is not None:
        channel.start()
    watch.keep(child)
    return pid


def _in_forked_child(channel: Channel | None, watch: Watch) -> None:
    """The child has no threads of this module, and is under no watch: it writes to its own channel, and reports if it is to."""
    global _lock
    _lock = threading.RLock()
    if channel is not None:
        for number in (1, 2) if channel.both else (2,):
            os.dup2(channel.give, number)
    Channel.forget_all()
    _watches.clear()
    _uninstall()
    if watch.reports is not None:
        from tbparse.launching.hook import tbparse_child_report
        from tbparse.launching.report_env import reporting_env

        os.environ.update(reporting_env(os.environ, watch.reports))
        tbparse_child_report.install(forked=True)


def _fork_exec(*args: Any) -> int:
    original: Callable[..., int] = _original("fork_exec")
    watch = _current()
    # Only the call of multiprocessing.util.spawnv_passfds is known: six descriptors that are all inherited, no environment.
    if watch is None or len(args) < 17 or args[5] is not None or args[6:12] != (-1,) * 6 or _is_helper(args[0]):
        return original(*args)
    child = watch.begin([os.fsdecode(x) for x in args[0]], None)
    child.channel = channel = open_channel(2, child, 1)
    new = list(args)
    if channel is not None:
        new[11] = channel.give
        if channel.both:
            new[9] = channel.give
    env = watch.environment(None)
    if env is not None:
        new[5] = [os.fsencode(k) + b"=" + os.fsencode(v) for k, v in env.items()]
    try:
        child.pid = original(*new)
    except BaseException:
        if channel is not None:
            channel.cancel()
        raise
    if channel is not None:
        channel.start()
    watch.keep(child)
    return child.pid


def _is_helper(command: Sequence[Any]) -> bool:
    return any(h in os.fsdecode(x) for x in command for h in _QUIET_HELPERS)
