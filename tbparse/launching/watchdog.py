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
read -r done && exit
kill -s TERM -- "-$1"; kill -s CONT -- "-$1"
i=0
while [ "$i" -lt "$2" ] && kill -s 0 -- "-$1"; do sleep 1; i=$((i + 1)); done
kill -s KILL -- "-$1"
"""


class Watchdog:
    """Watches over the process group ``group`` until :meth:`dismiss`. Without ``/bin/sh`` there is none, which is logged."""

    def __init__(self, group: int) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "tbparse-watchdog", str(group), str(KILL_AFTER_S)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": "/usr/bin:/bin"},
                start_new_session=True,
            )
        except OSError as e:
            _log.info("no watchdog: %s; the command would outlive this process if that were killed", e)

    def dismiss(self) -> None:
        """The group needs no watching any more. Returns when the watchdog is gone."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        with suppress(OSError):
            process.stdin.write(b"\n")
            process.stdin.flush()
        with suppress(OSError):
            process.stdin.close()
        process.wait()
