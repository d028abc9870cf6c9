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
from typing import TYPE_CHECKING, Any, NamedTuple

from tbparse.launching.capture_pipe import Channel, open_channel
from tbparse.launching.recording import HEAD_BYTES, TAIL_BYTES, Recording
from tbparse.launching.report import reporting_env
from tbparse.records import Tags

if TYPE_CHECKING:
    from tbparse.engine import Explainer
    from tbparse.ruleset.match import RuleSet

MAX_CHILDREN = 64
"""So many children of a block are remembered; of more, those that ended well are forgotten first."""
_QUIET_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
"""Processes that multiprocessing keeps for as long as this one lives: they would hold the pipe for as long."""


class OwnFile(NamedTuple):
    """A named file into which a child writes (torchrun's ``--redirects``): where in it it began, and whether it is its stderr."""

    path: Path
    start: int
    stderr: bool


class Child:
    """One process of the block: what it is, how it ended, what it wrote to stderr."""

    def __init__(self, command: object, place: Tags, rules: RuleSet | None, head: int, tail: int) -> None:
        self.command = command
        self.place = place
        self.pid: int | None = None
        self.popen: subprocess.Popen[Any] | None = None
        self._returncode: int | None = None
        self.ended_at: float | None = None
        self.files: list[OwnFile] = []
        self.recording = ChildRecording(self, rules, head, tail)
        self.channel: Channel | None = None

    @property
    def returncode(self) -> int | None:
        """As ``subprocess`` has it; None while it runs, and where only another knows it."""
        return self.popen.returncode if self.popen is not None else self._returncode

    def close(self) -> None:
        """The block has ended: record nothing more, and let go of the process."""
        self._returncode, self.popen = self.returncode, None
        self.recording.drain()

    def running(self) -> bool:
        """Whether the process is still there. One that has ended but was not waited for is not."""
        if self.popen is not None and self.popen.returncode is not None:
            return False
        if self.pid is None:
            return False
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except (ChildProcessError, AttributeError):
            return False

    def name(self) -> str:
        """For messages: which of the children it is."""
        rank = f"rank {self.place.rank}, " if self.place.rank is not None else ""
        return f"{rank}process {self.pid}"


class ChildRecording(Recording):
    """A recording whose engine knows the child's rank, and is made when it is first needed."""

    def __init__(self, child: Child, rules: RuleSet | None, head: int, tail: int) -> None:
        super().__init__(head=head, tail=tail, place=child.place)
        self._child, self._rules = child, rules

    @property
    def explainer(self) -> Explainer:
        if self._explainer is None:
            from tbparse.engine import Explainer

            self._explainer = Explainer(rules=self._rules, tags=self._child.place)
        return self._explainer


class Watch:
    """The children of one open capture."""

    def __init__(self, rules: RuleSet | None, reports: Path | None, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self.rules, self.reports = rules, reports
        self.thread = threading.get_ident()
        self.pid = os.getpid()
        self.children: list[Child] = []
        self._sizes = head, tail
        self._lock = threading.Lock()

    def begin(self, command: object, env: Mapping[str, str] | None) -> Child:
        """Note a child that is about to be started."""
        environ = os.environ if env is None else env
        place = Tags(_number(environ.get("RANK")), _number(environ.get("LOCAL_RANK")))
        return Child(command, place, self.rules, *self._sizes)

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
        return reporting_env(os.environ if env is None else env, self.reports)


_watches: list[Watch] = []
_lock = threading.RLock()
_local = threading.local()
_originals: dict[str, Any] = {}


def open_watch(watch: Watch) -> None:
    """Begin to watch: children of this thread, and of threads that have no watch of their own, are this watch's."""
    with _lock:
        _watches.append(watch)
        if not _originals:
            _install()


def close_watch(watch: Watch) -> None:
    """End it. Nothing of what was patched stays once the last watch has ended."""
    with _lock:
        if watch in _watches:
            _watches.remove(watch)
        if not _watches:
            _uninstall()


def _current() -> Watch | None:
    if getattr(_local, "busy", False):
        return None
    with _lock:
        me, pid = threading.get_ident(), os.getpid()
        mine = [w for w in _watches if w.thread == me and w.pid == pid]
        if mine:
            return mine[-1]
        return _watches[-1] if _watches and _watches[-1].pid == pid else None


def _install() -> None:
    _originals["popen"] = subprocess.Popen.__init__
    subprocess.Popen.__init__ = _popen_init  # type: ignore[method-assign]
    if hasattr(os, "fork"):
        _originals["fork"] = os.fork
        os.fork = _fork
        import _posixsubprocess

        _originals["fork_exec"] = _posixsubprocess.fork_exec
        _posixsubprocess.fork_exec = _fork_exec


def _uninstall() -> None:
    # Whoever patched the same after us has our function inside theirs: it stays, and passes everything on.
    if not _originals:
        return
    left = {}
    if subprocess.Popen.__init__ is _popen_init:
        subprocess.Popen.__init__ = _originals["popen"]  # type: ignore[method-assign]
    else:
        left["popen"] = _originals["popen"]
    if "fork" in _originals:
        import _posixsubprocess

        for name, module, ours in (("fork", os, _fork), ("fork_exec", _posixsubprocess, _fork_exec)):
            if getattr(module, name) is ours:
                setattr(module, name, _originals[name])
            else:
                left[name] = _originals[name]
    _kept.update(left)
    _originals.clear()


_kept: dict[str, Any] = {}


def _original(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = _originals.get(name) or _kept[name]
    return found


_ORDER = ("args", "bufsize", "executable", "stdin", "stdout", "stderr", "preexec_fn", "close_fds", "shell", "cwd", "env")


def _popen_init(self: subprocess.Popen[Any], *args: Any, **kwargs: Any) -> None:
    original = _original("popen")
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
    merged = stderr == subprocess.STDOUT and _leads_to(stdout, 1)
    if watch.reports is not None:
        given["env"] = watch.environment(given.get("env"))
    streams = {id(s): s for s in (stdout, stderr)}
    child.files = [x for x in (_file_of(s, s is stderr) for s in streams.values()) if x is not None]
    channel = open_channel(1 if merged else 2, child) if merged or _leads_to(stderr, 2) else None
    if channel is not None:
        given["stdout" if merged else "stderr"] = channel.give
        child.channel = channel
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
    watch.keep(child)


def _leads_to(stream: Any, number: int) -> bool:
    """Whether a stream argument of Popen means this process's descriptor ``number``."""
    if stream is None or stream == number:
        return True
    if isinstance(stream, int) or stream is not (sys.stderr if number == 2 else sys.stdout):
        return False
    try:
        return bool(stream.fileno() == number)
    except (OSError, ValueError, AttributeError):
        return False


def _file_of(stream: Any, stderr: bool) -> OwnFile | None:
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
    child.channel = channel = open_channel(2, child)
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
        os.dup2(channel.give, 2)
    Channel.forget_all()
    _watches.clear()
    _uninstall()
    if watch.reports is not None:
        from tbparse.launching.hook import tbparse_child_report

        os.environ.update(reporting_env(os.environ, watch.reports))
        tbparse_child_report.install(forked=True)


def _fork_exec(*args: Any) -> int:
    original: Callable[..., int] = _original("fork_exec")
    watch = _current()
    # Only the call of multiprocessing.util.spawnv_passfds is known: six descriptors that are all inherited, no environment.
    if watch is None or len(args) < 17 or args[5] is not None or args[6:12] != (-1,) * 6 or _is_helper(args[0]):
        return original(*args)
    child = watch.begin([os.fsdecode(x) for x in args[0]], None)
    child.channel = channel = open_channel(2, child)
    new = list(args)
    if channel is not None:
        new[11] = channel.give
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


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
