"""The verdict on a failed test: from its exception, and where that only says that a child failed, from what the child printed."""

from __future__ import annotations

import signal
import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from tbparse.attribute.cascade import Candidate, Tier
from tbparse.attribute.live import chain, printed
from tbparse.dialects.wrappers import is_wrapper
from tbparse.engine import Explainer
from tbparse.errors import TbparseError
from tbparse.launching.capture import capture
from tbparse.launching.capture_child import Child as ChildProcess
from tbparse.model import RootCause, not_transient
from tbparse.pytest_evidence import Child, failed_child, is_assertion, peek, read_before
from tbparse.records import Link
from tbparse.retrying.choose import speaks_for_itself
from tbparse.retrying.decision import Decision, retryable
from tbparse.ruleset.match import RuleSet, builtin_rules
from tbparse.settings import load_project

CAUSE = "tbparse_cause"
"""The attribute of a report that says what the test failed for."""
_CAPTURING = ("capfd", "capsys", "capfdbinary", "capsysbinary", "capteesys")


class Seen(NamedTuple):
    """The last failure that was judged: of which phase's call, and the decision. Items live as long as the session, so
    they must not hold a call: its exception holds all that the test had made."""

    call: weakref.ref[object]
    decision: Decision


class Printed(NamedTuple):
    """What children wrote to stderr; of several that failed one after the other, what the last one wrote (None: there was one)."""

    text: str = ""
    last: str | None = None


class Verdicts:
    """Judges failures once, for everybody who asks. Registered as a plugin for what must be noted as tests run."""

    def __init__(self, config: pytest.Config) -> None:
        try:
            self.project = load_project(config.rootpath)
            self.profile = self.project.profile(config.getoption("tbparse_profile"), "tests")
            self.rules: RuleSet = self.project.rules(self.profile) or builtin_rules(self.profile)
        except TbparseError as e:
            raise pytest.UsageError(str(e)) from None
        self._seen = pytest.StashKey[Seen]()
        self._causes = pytest.StashKey[list[str]]()
        self._sections = pytest.StashKey[tuple[int, int]]()
        self._printed = pytest.StashKey[Printed]()

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Children of fixtures."""
        with self._watching(item):
            return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Children of the test. Next to the test itself, so that what they printed is there when pytest takes what it captured."""
        with self._watching(item):
            return (yield)

    @contextmanager
    def _watching(self, item: pytest.Item) -> Generator[None, None, None]:
        """Keep what children print, also where pytest captures nothing (``-s``)."""
        item.stash[self._printed] = Printed()
        watch = capture(rules=self.rules)
        children: list[ChildProcess] = []
        try:
            with watch:
                try:
                    yield
                finally:
                    children = list(watch._watch.children) if watch._watch is not None else []
        except BaseException:
            item.stash[self._printed] = Printed(watch.stderr, _last_of_several(children))
            raise

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Next to pytest's own, so that the report is not yet what other plugins make of it."""
        report = yield
        # An item that is run again keeps what its earlier attempts printed.
        start, end = item.stash.get(self._sections, (0, 0))
        item.stash[self._sections] = (end if call.when == "setup" else start, len(report.sections))
        return report

    def judge(self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> Decision | None:
        """The decision on a failed phase of a test; None where it did not fail by an exception."""
        if call.excinfo is None:
            return None
        seen = item.stash.get(self._seen, None)
        if seen is None or seen.call() is not call:
            seen = Seen(weakref.ref(call), self._decide(item, call.excinfo.value, report))
            item.stash[self._seen] = seen
            cause = _cause(seen.decision.root_cause)
            item.stash.setdefault(self._causes, []).append(cause)
            setattr(report, CAUSE, cause)  # plain text: reports travel between processes
        return seen.decision

    def causes(self, item: pytest.Item) -> list[str]:
        """What the test failed for so far, this attempt and earlier ones: rules, or types where no rule knows them."""
        return item.stash.get(self._causes, [])

    def _decide(self, item: pytest.Item, exc: BaseException, report: pytest.TestReport) -> Decision:
        if isinstance(exc, SystemExit) and speaks_for_itself(exc):
            decision = self._plain(exc)
            return _not_transient(decision) if decision else decision
        child = failed_child(exc)
        if child is not None and child.exception is not None:
            return self._plain(child.exception)
        if child is not None and child.text.strip():
            return self._plain(child.text, child.returncode)
        decision = self._plain(exc)
        if child is None and is_assertion(exc):
            # Its message may quote a log that the test was about; only a child's end is a reason to run it again.
            return _not_transient(decision) if decision else decision
        if decision or not (child is not None or _points_elsewhere(exc, decision.root_cause)):
            return decision
        text = "\n".join(self._captured(item, exc, report))
        if not text.strip():
            return decision
        # A status that was handed on (`sys.exit(code)`) says no more than its number.
        wrapper = exc if child is None and not isinstance(exc, SystemExit) else None
        found = self._of_mixed(text, _returncode(exc, child), wrapper)
        last = item.stash.get(self._printed, Printed()).last
        if found and last is not None and not self._plain(last):
            return _not_transient(found)  # what an earlier child printed, which the test or the program got over
        return found if found.root_cause.verdict != "clean" else decision

    def _plain(self, failure: BaseException | str, returncode: int | None = None) -> Decision:
        return retryable(failure, returncode=returncode, rules=self.rules, paths=self.project.paths)

    def _of_mixed(self, text: str, returncode: int | None, exc: BaseException | None) -> Decision:
        """From all that a test printed. It may hold several children's failures: then each must be worth a re-run."""
        explainer = Explainer(rules=self.rules, paths=self.project.paths)
        explainer.feed(text.encode("utf-8", "replace") + b"\n")
        if exc is not None:
            explainer.feed(printed(exc).encode("utf-8", "replace"))
        decision = Decision(explainer.finish(returncode or 1))
        cause = explainer.job.decision.cause if explainer.job.decision is not None else None
        if decision and any(self._verdict(c) != "transient" for c in explainer.candidates if c is not cause and _own(c)):
            return _not_transient(decision)
        return decision

    def _verdict(self, candidate: Candidate) -> str | None:
        match, root = candidate.root.match, candidate.root
        if match is None:
            return None
        turned = self.rules.qualify(match, root.link, root.context) or {}
        return str(turned.get("verdict") or match.rule.verdict)

    def _captured(self, item: pytest.Item, exc: BaseException, report: pytest.TestReport) -> list[str]:
        """What this attempt printed: as pytest captured it, as the test took it from a fixture, as its children wrote it."""
        start, _ = item.stash.get(self._sections, (0, 0))
        texts = [text for name, text in report.sections[start:] if name.startswith(("Captured stdout", "Captured stderr"))]
        texts += read_before(exc)
        texts.append(item.stash.get(self._printed, Printed()).text)
        fixtures: dict[str, Any] = getattr(item, "funcargs", None) or {}
        for name in _CAPTURING:
            if name in fixtures:
                texts += peek(fixtures[name])
        return texts


def _last_of_several(children: Sequence[ChildProcess]) -> str | None:
    """See :class:`Printed`. Ranks of one launch fail together, and whoever is told to stop does not fail by itself; children whose
    stderr somebody took are that one's business."""
    failed = [c for c in children if c.channel is not None and c.returncode not in (None, 0, -signal.SIGTERM)]
    failed = [c for c in failed if c.place.rank is None]
    return failed[-1].recording.text() if len(failed) > 1 else None


def _own(candidate: Candidate) -> bool:
    """A failure in its own right: no effect of another, no wrapper, not survived."""
    return candidate.tier in (Tier.SYSTEM, Tier.LOCAL, Tier.CRASH) and not is_wrapper(candidate.root.link)


def _points_elsewhere(exc: BaseException, answer: RootCause) -> bool:
    """Whether the exception only says that a child, or a command run in-process, ended badly."""
    for x in chain(exc):
        if isinstance(x, SystemExit):
            return isinstance(x.code, int) and x.code != 0
    return is_wrapper(Link(answer.exception, answer.message))


def _cause(answer: RootCause) -> str:
    return answer.rule or answer.exception or answer.signal or "unknown"


def _returncode(exc: BaseException, child: Child | None) -> int | None:
    if child is not None:
        return child.returncode
    for x in chain(exc):
        code = x.code if isinstance(x, SystemExit) else getattr(x, "returncode", None)
        if isinstance(code, int):
            return code
    return None


def _not_transient(decision: Decision) -> Decision:
    """The same answer without its advice to run again."""
    note = "not called transient: another failure of this test is not, or the test itself found something wrong"
    return Decision(not_transient(decision.root_cause, note))
