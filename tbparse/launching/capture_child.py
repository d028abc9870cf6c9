"""One process of a captured block: what it is, how it ended, what it wrote."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tbparse.launching.recording import HEAD_BYTES, TAIL_BYTES, Recording
from tbparse.records import Tags

if TYPE_CHECKING:
    import subprocess

    from tbparse.engine import Explainer
    from tbparse.launching.capture_pipe import Channel
    from tbparse.ruleset.match import RuleSet


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


def new_child(command: object, environ: Mapping[str, str], rules: RuleSet | None, head: int | None, tail: int | None) -> Child:
    """A child that is about to be started with this environment. ``head``, ``tail``: bytes to keep, None for the usual."""
    place = Tags(_number(environ.get("RANK")), _number(environ.get("LOCAL_RANK")))
    return Child(command, place, rules, HEAD_BYTES if head is None else head, TAIL_BYTES if tail is None else tail)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
