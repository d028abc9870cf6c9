"""What is shown: a failed test's root cause in its report, its summary line and its JUnit properties; retries that helped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any

import pytest

from tbparse.model import RootCause
from tbparse.pytest_verdicts import Verdicts
from tbparse.render.report import Report
from tbparse.render.safe import printable
from tbparse.render.text import render

SECTION = "tbparse: root cause"
PREFIX = "tbparse."
"""How the names of our JUnit properties begin."""


class Reports:
    """Adds the root cause to reports where tests run."""

    def __init__(self, config: pytest.Config, verdicts: Verdicts) -> None:
        self.config, self.verdicts = config, verdicts

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Around everybody else, when it is settled that the test failed and was not expected to."""
        report = yield
        if call.when == "setup":
            # An item that is run again keeps its properties.
            for kept in (item.user_properties, report.user_properties):
                kept[:] = [p for p in kept if not str(p[0]).startswith(PREFIX)]
            causes = self.verdicts.causes(item)
            if causes:
                self._say(item, report, [("retried_for", "; ".join(causes))])
        if report.failed:
            decision = self.verdicts.judge(item, call, report)
            if decision is not None:
                self._add(item, report, decision.root_cause, call)
        return report

    def _add(self, item: pytest.Item, report: pytest.TestReport, answer: RootCause, call: pytest.CallInfo[None]) -> None:
        # The lines that it rests on are numbered in a text that nobody else has.
        text = render(Report(answer.model_copy(update={"evidence": ()})), width=100).rstrip("\n")
        add = getattr(report.longrepr, "addsection", None)
        if self.config.getoption("showcapture", "all") == "all" or add is None:
            report.sections.append((SECTION, text))
        else:  # sections of captured output are not all shown
            add(SECTION, text + "\n", "-")
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash is not None and call.excinfo is not None:
            crash.message = summary(answer, call.excinfo.type.__name__, str(crash.message))
        self._say(item, report, properties(answer))

    @staticmethod
    def _say(item: pytest.Item, report: pytest.TestReport, said: list[tuple[str, str]]) -> None:
        """As JUnit properties: of this report, and of those that follow, since the last one's are written."""
        for kept in (item.user_properties, report.user_properties):
            kept += [(f"{PREFIX}{name}", value) for name, value in said]


def summary(answer: RootCause, outer: str, message: str) -> str:
    """The line of the short summary: the verdict and the root cause first, since terminals cut it off."""
    first, _, rest = message.partition("\n")
    root = (answer.exception or answer.signal or "").rpartition(".")[2]
    if not root or root == outer:
        said = printable(first)
    else:
        reason = (answer.message or "").strip().partition("\n")[0] if answer.exception else ""
        said = f"{root}: {printable(reason)}" if reason else root
        said = f"{said} (from {printable(first)})"
    return f"{answer.verdict}: {said}" + (f"\n{rest}" if rest else "")


def properties(answer: RootCause) -> list[tuple[str, str]]:
    """The root cause as JUnit properties: names and texts, without those that it does not have."""
    site = f"{answer.site.path}:{answer.site.line}" if answer.site is not None else None
    values: dict[str, Any] = {
        "verdict": answer.verdict,
        "category": answer.category,
        "rule": answer.rule,
        "exception": answer.exception,
        "message": (answer.message or "")[:2000] or None,
        "site": site,
        "fingerprint": answer.fingerprint,
    }
    return [(name, printable(str(value))) for name, value in values.items() if value is not None]


def show_retries(terminal: pytest.TerminalReporter, reruns: Sequence[pytest.TestReport]) -> None:
    """Name the tests that passed only on a retry, by what failed before. ``reruns`` are the reports of the attempts that failed."""
    passed = {r.nodeid for r in terminal.stats.get("passed", ()) if r.when == "call"}
    passed -= {r.nodeid for key in ("failed", "error") for r in terminal.stats.get(key, ())}
    tests: dict[str, list[str]] = {}
    for report in reruns:
        if report.nodeid in passed:
            tests.setdefault(report.nodeid, []).append(str(report.tbparse_cause))
    if not tests:
        return
    causes = Counter(told[0] for told in tests.values())
    by_cause = ", ".join(f"{n} {cause}" for cause, n in causes.most_common())
    many = "tests" if len(tests) > 1 else "test"
    terminal.write_sep("=", f"tbparse: {len(tests)} {many} passed only on a retry", yellow=True)
    terminal.write_line(f"by cause: {by_cause}")
    for nodeid, told in tests.items():
        terminal.write_line(f"RETRIED {nodeid} - passed at attempt {len(told) + 1}, after {', then '.join(told)}")
