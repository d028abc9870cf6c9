"""What a failed test had made is not held by the plugin: not during its next attempt, not until the session ends."""

from __future__ import annotations

import pytest

pytest_plugins = ("pytester",)
pytest.importorskip("pytest_rerunfailures")

MADE = """
import gc, subprocess, sys, weakref

import pytest

MADE = []


class Tensor:
    pass


def fail():
    tensor = Tensor()
    MADE.append(weakref.ref(tensor))
    subprocess.run([sys.executable, "-S", "-c", "import sys; sys.exit('ConnectionResetError: Connection reset by peer')"])
    raise ConnectionResetError(104, "Connection reset by peer")


def alive():
    gc.collect()
    return sum(ref() is not None for ref in MADE)
"""


def test_what_a_failed_attempt_had_made_is_gone_before_the_next_one_is_set_up(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        MADE
        + """
@pytest.fixture
def fresh():
    assert alive() == 0


@pytest.mark.parametrize("n", range(3))
def test_it(fresh, n):
    if len(MADE) < 2 * (n + 1):
        fail()
"""
    )
    options = ("--tbparse-rerun", "3", "--tbparse-rerun-delay", "0")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *options)
    assert result.parseoutcomes() == {"passed": 3, "rerun": 6}


def test_a_failed_test_is_not_held_until_the_session_ends(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        MADE
        + """
@pytest.mark.parametrize("n", range(3))
def test_it(n):
    assert alive() == 0
    fail()


def test_last():
    assert alive() == 0
    assert len(MADE) == 3
"""
    )
    # pytest-rerunfailures holds them itself where it runs nothing again.
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:rerunfailures", "--tbparse")
    assert result.parseoutcomes() == {"failed": 3, "passed": 1}
