"""What all tests share: the rules, loaded once, and ``explain``."""

from __future__ import annotations

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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--everything", action="store_true", help="also the tests marked slow and live")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow and live tests run when they are asked for: by --everything, or by -m."""
    if config.getoption("--everything") or config.getoption("markexpr"):
        return
    skip = pytest.mark.skip(reason="slow or live: needs --everything, or -m")
    for item in items:
        if item.get_closest_marker("slow") or item.get_closest_marker("live"):
            item.add_marker(skip)


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
