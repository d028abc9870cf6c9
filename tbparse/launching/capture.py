"""``with tbparse.capture():`` around a launch in this process: what its children died of goes onto the exception that leaves.

``accelerate.commands.launch.launch_command``, ``trl.cli.main``, ``torch.distributed.run.run``, ``notebook_launcher``,
``debug_launcher``, ``torch.multiprocessing.spawn``, ``subprocess``: what they raise says no more than that a child failed.
How the children are watched, and what cannot be watched, is in :mod:`tbparse.launching.capture_children` and ``docs/capture.md``.
Neither torch nor accelerate is ever loaded from here, and the engine only once something has failed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import ContextDecorator, ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

    from tbparse.launching.capture_child import Child
    from tbparse.launching.capture_children import Watch
    from tbparse.launching.report import ChildReport
    from tbparse.launching.report_env import ChildReports
    from tbparse.model import RootCause
    from tbparse.ruleset.match import RuleSet

GRACE_S = 1.0
_CONTROL_FLOW = (GeneratorExit, StopIteration, StopAsyncIteration)
_log = logging.getLogger("tbparse")


class capture(ContextDecorator):  # noqa: N801 - used like a function
    """Know what killed the children of a block; a context manager, and a decorator.

    An exception that leaves the block and says that a child failed (``CalledProcessError``, torch's ``ChildFailedError``,
    ``ProcessRaisedException`` and ``ProcessExitedException``, ``SystemExit`` after a child's failure) gets ``.stderr``, the text
    that the children it is about wrote, unless it has one; ``.root_cause``, a :class:`~tbparse.RootCause`; and a note that names
    it. Any other ``Exception`` gets ``.root_cause`` alone. What the block raises, prints and returns stays as it is.

    ``report``: children in Python report their uncaught exception themselves, so that nothing has to be guessed.
    ``profile`` and ``rules`` as in :func:`tbparse.classify`. ``grace_s``: when the block ends, how many seconds to wait for
    output of children that have ended, while somebody else holds their stderr. ``head``, ``tail``: bytes of each child's text
    that are kept; the answer rests on all of it all the same.
    """

    def __init__(
        self,
        *,
        report: bool = False,
        profile: str = "job",
        rules: RuleSet | None = None,
        grace_s: float = GRACE_S,
        head: int | None = None,
        tail: int | None = None,
    ) -> None:
        self._report, self._profile, self._rules = report, profile, rules
        self._grace_s, self._head, self._tail = grace_s, head, tail
        self._watch: Watch | None = None
        self._reports: ChildReports | None = None
        self._undo = ExitStack()
        self._error: BaseException | None = None
        self._children: list[Child] = []
        self._answer: RootCause | None = None
        self._explained = False

    def _recreate_cm(self) -> capture:
        """As a decorator: every call is a block of its own."""
        return capture(
            report=self._report,
            profile=self._profile,
            rules=self._rules,
            grace_s=self._grace_s,
            head=self._head,
            tail=self._tail,
        )

    @property
    def stderr(self) -> str:
        """What the children wrote to stderr: those that the exception is about where one left the block, else all of them."""
        from tbparse.launching.capture_answer import text_of

        return text_of(self._error, self._children if self._watch is None or self._error else self._watch.children)

    @property
    def root_cause(self) -> RootCause | None:
        """Why the exception that left the block was raised; None while the block runs and where none left it."""
        if self._answer is None and isinstance(self._error, KeyboardInterrupt):
            from tbparse.engine import classify  # not before it is asked for: whoever pressed Ctrl-C wants the end

            self._answer = classify(self._error, rules=self._rules, profile=self._profile)
        return self._answer

    def __enter__(self) -> Self:
        if self._watch is not None or self._explained:
            raise RuntimeError("a capture() is for one block: make another one")
        from tbparse.launching.capture_children import Watch, open_watch

        if self._report:
            from tbparse.launching.report_env import child_report

            self._reports = self._undo.enter_context(child_report())
        self._watch = Watch(self._rules, self._reports.folder if self._reports else None, self._head, self._tail)
        open_watch(self._watch)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        watch, self._watch, self._explained = self._watch, None, True
        if watch is None or watch.pid != os.getpid():  # a forked child leaves its parent's block
            return
        from tbparse.launching.capture_children import close_watch

        try:
            close_watch(watch)
            watch.settle(self._grace_s)
            self._children = list(watch.children)
            if error is not None and not isinstance(error, _CONTROL_FLOW):
                self._explain(error)
        except Exception as e:  # the block's own exception is worth more than ours
            _log.error("what left the block could not be explained", exc_info=e)
        finally:
            for child in watch.children:
                child.close()
            try:
                self._undo.close()
            except Exception as e:
                _log.warning("the children's reports could not be cleared away", exc_info=e)

    def _explain(self, error: BaseException) -> None:
        from tbparse.launching.capture_answer import children_of, explain, launcher_error, text_of

        launcher = launcher_error(error, self._children)
        if launcher is None and not isinstance(error, (Exception, KeyboardInterrupt, SystemExit)):
            return  # a test runner's outcome, or the like: no failure
        if launcher is None and isinstance(error, SystemExit) and error.code in (None, 0):
            return
        if launcher is None and isinstance(error, KeyboardInterrupt):
            self._error = error
            return
        everyone = self._children
        if launcher is not None:
            self._children = children_of(launcher, self._children)
        from tbparse.launching.errors import explain_exception
        from tbparse.model import RootCause
        from tbparse.ruleset.match import builtin_rules

        known = getattr(error, "root_cause", None) or getattr(launcher, "root_cause", None)
        if launcher is not None and known is None and len(self._children) == 1:
            known = self._children[0].recording.answer
        text = text_of(launcher, self._children) if launcher is not None else None
        if isinstance(known, RootCause):
            self._answer = known  # a block inside this one, or launch(), has said it
        else:
            rules = self._rules if self._rules is not None else builtin_rules(self._profile)
            self._answer = explain(error, launcher, self._children, self._own_reports(everyone), rules)
        self._error = error
        if launcher is not None:
            for one in {id(x): x for x in (launcher, error)}.values():
                explain_exception(one, self._answer, text)
        elif isinstance(error, Exception):
            error.root_cause = self._answer  # type: ignore[attr-defined]

    def _own_reports(self, everyone: Sequence[Child]) -> list[ChildReport]:
        """The reports, without those of children (and their children) that the exception is not about."""
        others = {c.pid for c in everyone if c not in self._children}
        return [r for r in self._reports.read() if not {r.pid, r.ppid} & others] if self._reports is not None else []


__all__ = ["GRACE_S", "capture"]
