"""What a test fails for although passing failures stand near it: children that were meant to fail, words that it looks for.

One suite with a test for each; those named ``test_r_…`` must run once, those named ``test_t_…`` are run again.
"""

from __future__ import annotations

import collections
import sys

import pytest

pytest_plugins = ("pytester",)
pytest.importorskip("pytest_rerunfailures")

NEAR = r"""
import asyncio, subprocess, sys, unittest
from unittest import mock
import pytest

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

HEAD = 'Traceback (most recent call last):\n  File "/w/train.py", line 3, in <module>\n    main()\n'
OOMLOG = (
    HEAD
    + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB "
    "of which 1.00 GiB is free.\n"
)
BUGLOG = HEAD + "NameError: name 'x' is not defined\n"


def child(text, code=1):
    return [sys.executable, "-S", "-c", f"import sys; sys.stderr.write({text!r}); sys.exit({code})"]


def run(*a):
    return subprocess.run(child(*a), capture_output=True, text=True)
"""
SUITE = r"""
from near import *


@pytest.fixture(autouse=True)
def counted(request):
    with open("runs", "a") as file:
        file.write(request.node.name + "\n")


def test_r_assert_in():
    out = run(OOMLOG).stderr
    assert "CUDA out of memory" not in out


def test_r_assert_in2():
    out = run("fine", 0).stderr
    assert "CUDA out of memory" in out


def test_r_pytest_fail():
    pytest.fail("CUDA out of memory. Tried to allocate 2.00 GiB")


def test_r_pytest_fail_log():
    r = run(OOMLOG)
    pytest.fail("unexpected: " + r.stderr)


def test_r_expected_oom_then_valueerror():
    r = run(OOMLOG)
    assert r.returncode == 1
    raise ValueError("the message of the OOM is not user friendly")


def test_r_expected_oom_then_assert():
    r = run(OOMLOG)
    assert "friendly" in r.stderr


def test_r_expected_oom_passed_through_then_cpe_bug():
    subprocess.run(child(OOMLOG))
    subprocess.run(child(BUGLOG), check=True)


def test_r_expected_oom_passed_through_then_silent():
    subprocess.run(child(OOMLOG))
    subprocess.run(child(""), check=True)


def test_r_silent_assert_rc_after_oom():
    subprocess.run(child(OOMLOG))
    r = subprocess.run(child(""))
    assert r.returncode == 0


def test_r_silent_assert_rc_after_oom_captured(capfd):
    subprocess.run(child(OOMLOG))
    r = subprocess.run(child("ERROR: metrics differ\n"))
    assert r.returncode == 0


def test_r_child_handles_oom_then_bug():
    r = run(OOMLOG + "falling back to cpu\n" + BUGLOG)
    assert r.returncode == 0, r.stderr


def test_r_systemexit_argparse():
    import argparse

    subprocess.run(child(OOMLOG))
    argparse.ArgumentParser().parse_args(["--bad"])


def test_r_systemexit_own():
    subprocess.run(child(OOMLOG))
    sys.exit("config key `lr` is missing")


def test_r_mock():
    mock.Mock(side_effect=ConnectionResetError(104, "Connection reset by peer"))()


def test_r_did_not_raise():
    with pytest.raises(RuntimeError, match="CUDA out of memory"):
        subprocess.run(child(OOMLOG))


def test_r_raises_mismatch():
    with pytest.raises(RuntimeError, match="friendly"):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")


def test_r_raises_other_type():
    with pytest.raises(ValueError):
        assert 1 == 2, "CUDA out of memory. Tried to allocate 2.00 GiB"


@pytest.mark.xfail(strict=True, raises=ConnectionResetError)
def test_r_xfail_strict():
    pass


def test_r_warns():
    with pytest.warns(UserWarning, match="CUDA out of memory"):
        pass


class TestU(unittest.TestCase):
    def test_r_u_in(self):
        self.assertIn("friendly", OOMLOG)

    def test_r_u_subtest(self):
        for i in range(2):
            with self.subTest(i=i):
                if i:
                    raise ConnectionResetError(104, "Connection reset by peer")
                self.assertEqual(1, 2)

    def test_r_u_raisesregex(self):
        with self.assertRaisesRegex(RuntimeError, "friendly"):
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")


@pytest.fixture
def teardown_bug():
    yield
    raise NameError("bug in teardown")


def test_r_call_transient_teardown_real(teardown_bug):
    raise ConnectionResetError(104, "Connection reset by peer")


@pytest.fixture
def setup_real():
    subprocess.run(child(OOMLOG))
    raise KeyError("labels")


def test_r_setup_real(setup_real):
    pass


def test_r_group():
    raise ExceptionGroup("g", [ConnectionResetError(104, "Connection reset by peer"), AssertionError("1 != 2")])


def test_r_assert_helper():
    def check(r):
        if r.returncode:
            raise AssertionError(f"command failed:\n{r.stderr}")

    check(run(BUGLOG))


def test_r_thread_exc():
    import threading

    def f():
        raise ConnectionResetError(104, "Connection reset by peer")

    t = threading.Thread(target=f)
    t.start()
    t.join()
    assert False


def test_r_assert_not_oom_rc():
    # the child was meant to fail with code 2
    r = run(OOMLOG, 1)
    assert r.returncode == 2


def test_r_assert_rc_of_other():
    a = run(OOMLOG, 1)
    b = run(BUGLOG, 1)
    assert b.returncode == 0


def test_r_two_children_assert_and():
    a = run("", 0)
    b = run(BUGLOG, 1)
    assert a.returncode == 0 and b.returncode == 0


def test_r_cpe_output_bug_stdout():
    code = f"import sys; print({BUGLOG!r}); sys.stderr.write({OOMLOG!r}); sys.exit(1)"
    r = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True)
    assert r.returncode == 0


def test_t_cpe():
    subprocess.run(child(OOMLOG), check=True)


def test_t_fail_helper():
    r = run(OOMLOG)
    if r.returncode:
        pytest.fail(r.stderr)


def test_t_raise_helper():
    r = run(OOMLOG)
    if r.returncode:
        raise RuntimeError(r.stderr)


def test_t_plain():
    raise ConnectionResetError(104, "Connection reset by peer")
"""


@pytest.mark.parametrize("captured", [(), ("-s",)], ids=["captured", "passed through"])
def test_what_is_real_runs_once_whatever_stands_near_it(pytester: pytest.Pytester, captured: tuple[str, ...]) -> None:
    if sys.version_info < (3, 11):
        pytest.importorskip("exceptiongroup")
    pytester.makepyfile(near=NEAR)
    pytester.makepyfile(test_it=SUITE)
    options = ("--tbparse-rerun", "2", "--tbparse-rerun-delay", "0", "--tb=no", "-q", *captured)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:xdist", *options)
    runs = collections.Counter((pytester.path / "runs").read_text().split())
    assert {name: n for name, n in runs.items() if n != (3 if name.startswith("test_t_") else 1)} == {}
    assert len(runs) > 30
    assert result.ret == 1
