"""The pytest plugin: why a test failed, and re-runs of what a re-run can cure, by pytest-rerunfailures.

Inactive unless ``--tbparse``, ``--tbparse-rerun`` or the marker ``tbparse_retry`` asks for it. Until then nothing of ours
beyond this module is imported, which is why it imports only the standard library and pytest at the top.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tbparse.pytest_reruns import Reruns
    from tbparse.pytest_verdicts import Verdicts

MARKER = "tbparse_retry"
_NAMES = {"verdicts": "tbparse-verdicts", "reports": "tbparse-reports", "reruns": "tbparse-reruns"}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tbparse", "why a test failed, and re-runs of what a re-run can cure")
    group.addoption(
        "--tbparse",
        action="store_true",
        default=False,
        help="Show the root cause of each failed test: in its report, the short summary and the JUnit properties.",
    )
    group.addoption(
        "--tbparse-rerun",
        type=int,
        default=None,
        metavar="N",
        help="Re-run a test up to N times while its failure is transient; needs pytest-rerunfailures.",
    )
    group.addoption(
        "--tbparse-rerun-delay",
        type=float,
        default=None,
        metavar="SECONDS",
        help="Wait so long before a re-run, instead of as long as the rule advises.",
    )
    group.addoption(
        "--tbparse-profile",
        default=None,
        metavar="tests|job",
        help="tests (default): running out of a card's memory passes, since tests share it. job: it does not.",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(n, delay=None): re-run the test up to n times while its failure is transient, after delay seconds "
        "(None: as the rule advises).",
    )
    count, delay = config.getoption("tbparse_rerun"), config.getoption("tbparse_rerun_delay")
    if count is not None and count < 0:
        raise pytest.UsageError(f"--tbparse-rerun takes how often to re-run, 0 or more, not {count}")
    if delay is not None and not 0 <= delay < float("inf"):
        raise pytest.UsageError(f"--tbparse-rerun-delay takes seconds, 0 or more, not {delay:g}")
    if config.getoption("tbparse"):
        _reports(config)
    if count:
        _reruns(config).need_rerunfailures("--tbparse-rerun")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """After everybody else, so that whatever put a ``flaky`` marker on a test has done so."""
    if config.getoption("tbparse_rerun") or any(item.get_closest_marker(MARKER) for item in items):
        _reruns(config).mark(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tests that passed only on a retry, so that a flaky test does not hide behind its last attempt."""
    reruns = [r for r in terminalreporter.stats.get("rerun", ()) if hasattr(r, "tbparse_cause")]
    if reruns:
        from tbparse.pytest_reports import show_retries

        show_retries(terminalreporter, reruns)


def _verdicts(config: pytest.Config) -> Verdicts:
    found: Verdicts | None = config.pluginmanager.get_plugin(_NAMES["verdicts"])
    if found is None:
        from tbparse.pytest_verdicts import Verdicts

        found = Verdicts(config)
        config.pluginmanager.register(found, _NAMES["verdicts"])
    return found


def _reports(config: pytest.Config) -> None:
    from tbparse.pytest_reports import Reports

    config.pluginmanager.register(Reports(config, _verdicts(config)), _NAMES["reports"])


def _reruns(config: pytest.Config) -> Reruns:
    found: Reruns | None = config.pluginmanager.get_plugin(_NAMES["reruns"])
    if found is None:
        from tbparse.pytest_reruns import Reruns

        found = Reruns(config, _verdicts(config))
        config.pluginmanager.register(found, _NAMES["reruns"])
    return found
