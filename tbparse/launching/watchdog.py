"""No orphans: a small process that ends the child's group when this process is gone.

A signal at the parent's death (``PR_SET_PDEATHSIG``) reaches one process, not its children, comes when the *thread* that
started the child ends, and must be set between fork and exec, where a threaded parent must not run Python. A shell that
waits at a pipe has none of these faults and needs no particular system: the pipe ends when the last holder of its other end,
which is this process, is gone in whatever way.
"""

from __future__ import annotations

import logging
import subprocess
from contextlib import suppress

_log = logging.getLogger("tbparse")

KILL_AFTER_S = 35
"""Between SIGTERM and SIGKILL. torchrun gives its workers, which have process groups of their own, 30 s."""

_SCRIPT = """
trap '' HUP INT QUIT TERM TSTP TTIN TTOU PIPE
read -r group && [ -n "$group" ] || exit
read -r done && exit
kill -s TERM -- "-$group"; kill -s CONT -- "-$group"
i=0
while [ "$i" -lt "$1" ] && kill -s 0 -- "-$group"; do sleep 1; i=$((i + 1)); done
kill -s KILL -- "-$group"
"""


class Watchdog:
    """Watches over a process group from :meth:`watch` until :meth:`dismiss`. Without ``/bin/sh`` there is none, which is logged.

    It is made before the child, so that between the child's start and its being watched lies one write, not the start of a
    process: a parent killed in between would leave an orphan.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "tbparse-watchdog", str(KILL_AFTER_S)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": "/usr/bin:/bin"},
                start_new_session=True,
            )
        except OSError as e:
            _log.info("no watchdog: %s; the command would outlive this process if that were killed", e)

    def watch(self, group: int) -> None:
        """From now on the process group ``group`` ends when this process does."""
        self._tell(b"%d\n" % group)

    def dismiss(self) -> None:
        """The group, if there was one, needs no watching any more. Returns when the watchdog is gone."""
        self._tell(b"\n")
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        with suppress(OSError):
            process.stdin.close()
        process.wait()

    def _tell(self, line: bytes) -> None:
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.write(line)
                self._process.stdin.flush()
