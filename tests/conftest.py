"""What all tests share: the rules, loaded once, and ``explain``."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tbparse.engine import classify
from tbparse.model import RootCause
from tbparse.ruleset.match import RuleSet, builtin_rules

settings.register_profile(
    "tbparse",
    deadline=None,
    max_examples=40,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("tbparse")


SAMPLED_FROM = 10
"""A test with fewer parameters than this is never sampled."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--everything", action="store_true", help="also the tests marked slow and live")
    parser.addoption("--long", action="store_true", help="also the tests marked long, whatever else is given")
    parser.addoption("--sample", type=int, default=1, metavar="N", help="of a test with many parameters, run every N-th")


def pytest_configure() -> None:
    """Ctrl-C works in what tests start, though a shell may have started them in the background, with it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow and live tests run when they are asked for: by --everything, or by -m. Long ones run by --long alone."""
    out = _sampled_out(items, config.getoption("--sample"))
    if not config.getoption("--long"):
        out.update(x for x in items if x.get_closest_marker("long"))
    if out:
        config.hook.pytest_deselected(items=[x for x in items if x in out])
        items[:] = [x for x in items if x not in out]
    if config.getoption("--everything") or config.getoption("markexpr"):
        return
    skip = pytest.mark.skip(reason="slow or live: needs --everything, or -m")
    for item in items:
        if item.get_closest_marker("slow") or item.get_closest_marker("live"):
            item.add_marker(skip)


def _sampled_out(items: list[pytest.Item], every: int) -> set[pytest.Item]:
    if every < 1:
        raise pytest.UsageError(f"--sample {every}: give a number from 1")
    of_one_test: dict[str, list[pytest.Item]] = {}
    for item in items:
        of_one_test.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return {x for group in of_one_test.values() if len(group) >= SAMPLED_FROM for n, x in enumerate(group) if n % every}


@pytest.fixture(scope="session")
def rules() -> RuleSet:
    """The built-in rules."""
    return builtin_rules()


@pytest.fixture(scope="session")
def explain(rules: RuleSet) -> Callable[..., RootCause]:
    """``classify`` under the built-in rules."""

    def run(text: str | bytes | BaseException, **kw: Any) -> RootCause:
        return classify(text, rules=rules, **kw)

    return run
