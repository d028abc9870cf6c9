"""The pytest plugin: what it shows of a failed test, which tests are run again, and that it costs nothing when nobody asks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

pytest_plugins = ("pytester",)
pytest.importorskip("pytest_rerunfailures")

OOM = """\
Traceback (most recent call last):
  File "/w/sft.py", line 31, in <module>
    trainer.train()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. \
GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free.
"""
NAME = """\
Traceback (most recent call last):
  File "/w/sft.py", line 9, in <module>
    trane()
NameError: name 'trane' is not defined
"""
NEAR = f"""
import os, pathlib, subprocess, sys

import pytest

HERE = pathlib.Path(__file__).parent
OOM = {OOM!r}
NAME = {NAME!r}


def attempt(name):
    file = HERE / f"attempts-{{name}}"
    n = int(file.read_text()) + 1 if file.exists() else 1
    file.write_text(str(n))
    return n


def child(name, kind, good_after=2, code=1):
    '''A command that prints a failure of this kind and exits; after so many times it does well.'''
    n = attempt(name)
    if kind == "oom" and n > good_after:
        return [sys.executable, "-S", "-c", "print('trained')"]
    (HERE / "child.py").write_text("import sys; sys.stderr.write(open(sys.argv[1]).read()); sys.exit(int(sys.argv[2]))")
    (HERE / f"says-{{kind}}").write_text({{"oom": OOM, "name": NAME, "silent": ""}}[kind])
    return [sys.executable, "-S", str(HERE / "child.py"), str(HERE / f"says-{{kind}}"), str(code)]
"""
RERUN = ("--tbparse-rerun", "5", "--tbparse-rerun-delay", "0")


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Write a test module. ``near.py`` beside it has children that fail."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    for name in ("CI", "BUILD_NUMBER"):  # with them pytest does not shorten its lines
        monkeypatch.delenv(name, raising=False)
    pytester.makepyfile(near=NEAR)
    pytester.syspathinsert()

    def write(source: str) -> None:
        pytester.makepyfile(test_it=f"from near import *\n{source}")

    return write


def attempts(pytester: pytest.Pytester) -> dict[str, int]:
    return {p.name.removeprefix("attempts-"): int(p.read_text()) for p in pytester.path.glob("attempts-*")}


def run(pytester: pytest.Pytester, *args: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:hypothesispytest", *args)


def fresh(pytester: pytest.Pytester, *args: str) -> pytest.RunResult:
    """In a process of its own, with a terminal's width of 200."""
    return pytester.run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *args)


# --- TRL's command-line tests, in shape

TRL = """
from unittest.mock import patch


def main():
    subprocess.run(child(*sys.argv[1:]), check=True)


class TestCLI:
    @pytest.fixture
    def config(self, tmp_path):
        (tmp_path / "config.yaml").write_text("lr: 1")
        return tmp_path / "config.yaml"
    {marker}
    @pytest.mark.parametrize("kind", ["oom", "name"])
    def test_sft(self, config, kind):
        assert config.exists()
        with patch("sys.argv", ["trl", kind, kind]):
            main()
"""
TODAY = ("--reruns", "5", "--only-rerun", "(OSError|Timeout|HTTPError.*502|HTTPError.*504|OutOfMemoryError)")


def test_without_the_plugin_a_filter_on_the_exceptions_text_never_fires(pytester, suite):
    suite(TRL.replace("{marker}", ""))
    run(pytester, *TODAY).assert_outcomes(failed=2)
    assert attempts(pytester) == {"oom": 1, "name": 1}


@pytest.mark.parametrize("marker", ["", "@pytest.mark.tbparse_retry(5, delay=0)"], ids=["option", "marker"])
@pytest.mark.parametrize("mode", [["--capture=fd"], ["--capture=sys"], ["-s"], ["-n", "2", "-s"], ["-n", "2"]], ids=" ".join)
def test_a_child_that_ran_out_of_memory_is_run_again_and_a_bug_is_not(pytester, suite, marker, mode):
    suite(TRL.replace("{marker}", marker))
    result = fresh(pytester, "--strict-markers", *mode, *(() if marker else RERUN))
    result.assert_outcomes(passed=1, failed=1)
    assert attempts(pytester) == {"oom": 3, "name": 1}
    result.stdout.fnmatch_lines(
        [
            "*= tbparse: 1 test passed only on a retry =*",
            "by cause: 1 gpu-memory/cuda-oom",
            "RETRIED test_it.py::TestCLI::test_sft?oom? - passed at attempt 3, after gpu-memory/cuda-oom, then gpu-memory/cuda-oom",
        ]
    )


def test_beside_the_suites_own_filter_both_count(pytester, suite):
    """What ``--only-rerun`` names is run again as before, unless we know that it is real."""
    suite(
        """
def test_child():
    subprocess.run(child("child", "oom"), check=True)

def test_unknown():
    class OddTimeout(Exception): pass
    if attempt("unknown") < 3:
        raise OddTimeout("Timeout")

def test_real():
    attempt("real")
    raise OSError(2, "No such file or directory", "/data/train.jsonl")

def test_other():
    class Odd(Exception): pass
    attempt("other")
    raise Odd("odd")
"""
    )
    run(pytester, *TODAY, *RERUN).assert_outcomes(passed=2, failed=2)
    assert attempts(pytester) == {"child": 3, "unknown": 3, "real": 1, "other": 1}


# --- what a test shows of its child

WAYS = {
    "raised": "subprocess.run(cmd, check=True, capture_output=True, text=True)",
    "raised_bytes": "subprocess.check_output(cmd, stderr=subprocess.STDOUT)",
    "asserted": "r = subprocess.run(cmd, capture_output=True, text=True)\n    assert r.returncode == 0",
    "asserted_bytes": "r = subprocess.run(cmd, capture_output=True)\n    assert not r.returncode, 'training failed'",
    "message": "r = subprocess.run(cmd, capture_output=True, text=True)\n    assert r.returncode == 0, r.stderr",
    "with_output": "r = subprocess.run(cmd, capture_output=True)\n    assert r.returncode == 0 and b'trained' in r.stdout",
    "checked": "r = subprocess.run(cmd, capture_output=True, text=True)\n    r.check_returncode()",
    "failed": "r = subprocess.run(cmd, capture_output=True, text=True)\n    if r.returncode != 0:\n        pytest.fail('no')",
    "otherwise": (
        "r = subprocess.run(cmd, capture_output=True, text=True)\n    if r.returncode == 0:\n        pass\n"
        "    else:\n        raise RuntimeError('no')"
    ),
    "popen": (
        "p = subprocess.Popen(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)\n"
        "    out, err = p.communicate()\n    assert 0 == p.returncode"
    ),
    "called": "assert subprocess.call(cmd) == 0",
    "code": "rc = subprocess.call(cmd)\n    assert rc == 0",
    "exits": "sys.exit(subprocess.call(cmd))",
    "read": (
        "r = subprocess.run(cmd)\n    captured = capfd.readouterr()\n    if r.returncode:\n        raise RuntimeError('see above')"
    ),
    "unread": "capfd.readouterr()\n    subprocess.run(cmd, check=True)",
    "helper": "ends_well(subprocess.run(cmd, capture_output=True, text=True))",
    "unittest": (
        "import unittest\n    r = subprocess.run(cmd, capture_output=True)\n    unittest.TestCase().assertEqual(r.returncode, 0)"
    ),
    "click": (
        "import click.testing, click\n    from click.testing import CliRunner\n"
        "    @click.command()\n    def cli():\n        subprocess.run(cmd, check=True, capture_output=True)\n"
        "    result = CliRunner().invoke(cli)\n    assert result.exit_code == 0"
    ),
}


def test_whatever_way_a_test_watches_its_child_the_childs_failure_decides(pytester, suite):
    """One file with each way twice: with a child that runs out of memory, and with a child that has a bug."""
    source = ["def ends_well(result):\n    assert result.returncode == 0, 'it ended badly'\n"]
    for name, body in WAYS.items():
        for kind in ("oom", "name"):
            fixture = "capfd" if "capfd" in body else ""
            source.append(f"def test_{name}_{kind}({fixture}):\n    cmd = child('{name}-{kind}', '{kind}')\n    {body}\n")
    suite("\n".join(source))
    result = run(pytester, *RERUN, "--tb=no", "-q")
    got = attempts(pytester)
    assert {n: got[f"{n}-oom"] for n in WAYS} == dict.fromkeys(WAYS, 3)
    assert {n: got[f"{n}-name"] for n in WAYS} == dict.fromkeys(WAYS, 1)
    outcomes = result.parseoutcomes()
    assert (outcomes["passed"], outcomes["failed"]) == (len(WAYS) - 1, len(WAYS) + 1)  # sys.exit(0) is a failure in a test


def test_a_failure_of_the_test_itself_is_never_its_childs(pytester, suite):
    """Children that are meant to fail, logs that the test is about, and an assertion of another kind."""
    suite(
        """
def test_sample():
    attempt("sample")
    text = OOM
    assert len(text) == 3, text

def test_expected():
    attempt("expected")
    r = subprocess.run(child("x", "oom", 99), capture_output=True, text=True)
    assert r.returncode == 1
    assert "please lower the batch size" in r.stderr

def test_code():
    attempt("code")
    r = subprocess.run(child("x", "oom", 99), capture_output=True, text=True)
    assert r.returncode == 3

def test_or():
    attempt("or")
    r = subprocess.run(child("x", "oom", 99), capture_output=True, text=True)
    assert r.returncode == 0 or "please" in r.stderr

def test_handled_then_bug():
    attempt("handled")
    assert subprocess.call(child("x", "oom", 99)) == 1
    subprocess.run(child("y", "name"), check=True)

def test_handled_then_bug_then_asserted():
    attempt("both")
    subprocess.call(child("x", "oom", 99))
    code = subprocess.call(child("y", "name"))
    assert code == 0

def test_printed():
    attempt("printed")
    sys.stderr.write(OOM)
    assert [1] == [2]

def test_not_raised():
    attempt("raises")
    sys.stderr.write(OOM)
    with pytest.raises(ValueError):
        pass

def test_silent():
    attempt("silent")
    subprocess.run(child("z", "silent"), check=True)

def test_killed():
    attempt("killed")
    subprocess.run([sys.executable, "-S", "-c", "import os; os.kill(os.getpid(), 11)"], check=True)
"""
    )
    result = run(pytester, *RERUN, "--tb=no", "-q")
    result.assert_outcomes(failed=10)
    got = {k: v for k, v in attempts(pytester).items() if k not in "xyz"}
    assert got == dict.fromkeys(("sample", "expected", "code", "or", "handled", "both", "printed", "raises", "silent", "killed"), 1)


def test_output_of_an_earlier_attempt_is_not_the_laters(pytester, suite):
    """An item that is run again keeps what its earlier attempts printed: the third failure here is another one."""
    suite(
        """
def test_two_causes():
    kind = "oom" if attempt("n") < 3 else "name"
    subprocess.run(child(f"c-{kind}", kind, 9), check=True)
"""
    )
    run(pytester, *RERUN).assert_outcomes(failed=1)
    assert attempts(pytester)["n"] == 3


def test_looking_at_a_capture_fixture_takes_nothing_out_of_it(pytester, suite):
    suite(
        """
@pytest.fixture(autouse=True)
def late(capfd):
    yield
    out, err = capfd.readouterr()
    (HERE / "late").write_text(err)

def test_child(capfd):
    subprocess.run(child("child", "name"), check=True)
"""
    )
    result = run(pytester, "--tbparse")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*what   NameError: name 'trane' is not defined"])
    assert (pytester.path / "late").read_text() == NAME


# --- phases, fixtures, subtests


def test_every_phase_of_an_attempt_must_be_worth_another(pytester, suite):
    suite(
        """
@pytest.fixture
def flaky_setup():
    subprocess.run(child("setup", "oom"), check=True, capture_output=True)

@pytest.fixture
def bad_teardown():
    yield
    undefined_name

def test_setup(flaky_setup):
    pass

def test_both(bad_teardown):
    subprocess.run(child("both", "oom"), check=True, capture_output=True)
"""
    )
    result = run(pytester, *RERUN, "--tb=no")
    result.assert_outcomes(passed=1, failed=1, errors=1)
    assert attempts(pytester) == {"setup": 3, "both": 1}


def test_wider_fixtures_are_torn_down_once_whatever_the_verdict(pytester, suite):
    suite(
        """
@pytest.fixture(scope="module")
def model():
    attempt("made")
    yield
    attempt("unmade")

def test_oom(model):
    subprocess.run(child("oom", "oom"), check=True, capture_output=True)

def test_name(model):
    subprocess.run(child("name", "name"), check=True, capture_output=True)
"""
    )
    run(pytester, *RERUN, "--tb=no").assert_outcomes(passed=1, failed=1)
    got = attempts(pytester)
    assert (got["oom"], got["name"], got["made"], got["unmade"]) == (3, 1, got["unmade"], got["made"])


@pytest.mark.skipif(not hasattr(pytest, "Subtests"), reason="pytest has no subtests before 9")
def test_subtests(pytester, suite):
    suite(
        """
def test_transient(subtests):
    for i in range(2):
        with subtests.test(i=i):
            subprocess.run(child(f"oom{i}", "oom"), check=True, capture_output=True)

def test_one_real(subtests):
    attempt("mixed")
    with subtests.test("a"):
        subprocess.run(child("a", "name"), check=True, capture_output=True)
    with subtests.test("b"):
        subprocess.run(child("b", "oom"), check=True, capture_output=True)
"""
    )
    result = run(pytester, *RERUN, "--tbparse", "--tb=short")
    assert attempts(pytester) == {"oom0": 3, "oom1": 3, "mixed": 1, "a": 1, "b": 1}
    result.stdout.fnmatch_lines(["*SUBFAILED?a? test_it.py::test_one_real - real: NameError: *"])
    assert result.ret == 1


def test_a_worker_that_crashes_is_not_started_again_for_the_same_test(pytester, suite):
    suite("def test_crash():\n    attempt('crash')\n    os._exit(3)\n\ndef test_well():\n    attempt('well')\n")
    fresh(pytester, "-n", "1", *RERUN).assert_outcomes(failed=1, passed=1)
    assert attempts(pytester) == {"crash": 1, "well": 1}


def test_an_expected_failure_is_none(pytester, suite):
    suite(
        """
@pytest.mark.xfail
def test_expected():
    subprocess.run(child("expected", "oom"), check=True, capture_output=True)
"""
    )
    result = run(pytester, *RERUN, "--tbparse", "-rx")
    result.assert_outcomes(xfailed=1)
    result.stdout.no_fnmatch_line("*tbparse:*")


# --- who decides


def test_a_flaky_marker_that_is_there_stays_alone(pytester, suite):
    suite(
        """
@pytest.mark.flaky(reruns=1)
@pytest.mark.tbparse_retry(4)
def test_own():
    attempt("own")
    undefined_name

@pytest.mark.tbparse_retry(1, delay=0)
def test_once():
    subprocess.run(child("once", "oom", 9), check=True, capture_output=True)

@pytest.mark.tbparse_retry(0)
def test_never():
    subprocess.run(child("never", "oom", 9), check=True, capture_output=True)
"""
    )
    run(pytester, *RERUN, "--tb=no").assert_outcomes(failed=3)
    assert attempts(pytester) == {"own": 2, "once": 2, "never": 1}


def test_the_profile_and_the_projects_settings_count(pytester, suite):
    suite("def test_oom():\n    subprocess.run(child('oom', 'oom'), check=True, capture_output=True)\n")
    run(pytester, *RERUN, "--tb=no", "--tbparse-profile", "job").assert_outcomes(failed=1)
    pytester.path.joinpath("tbparse.toml").write_text("real = ['gpu-memory/cuda-oom']\n")
    run(pytester, *RERUN, "--tb=no").assert_outcomes(failed=1)
    assert attempts(pytester) == {"oom": 2}
    pytester.path.joinpath("tbparse.toml").write_text("transient = ['python/name-error']\nattempts = 2\nwait = 0\n")
    suite(
        "@pytest.mark.tbparse_retry\ndef test_name():\n    subprocess.run(child('name', 'name'), check=True, capture_output=True)\n"
    )
    run(pytester, "--tb=no").assert_outcomes(failed=1)
    assert attempts(pytester)["name"] == 2


def test_between_attempts_it_waits_as_told(pytester, suite):
    suite(
        """
import time

@pytest.fixture
def held():
    yield
    (HERE / "freed").write_text(str(time.monotonic()))

def test_oom(held):
    if (HERE / "freed").exists():
        (HERE / "waited").write_text(str(time.monotonic() - float((HERE / "freed").read_text())))
    subprocess.run(child("oom", "oom", 1), check=True, capture_output=True)
"""
    )
    run(pytester, "--tbparse-rerun", "1", "--tbparse-rerun-delay", "0.4").assert_outcomes(passed=1)
    assert float((pytester.path / "waited").read_text()) > 0.2


# --- what it shows


def test_the_root_cause_is_in_the_report_the_summary_and_the_junit_file(pytester, suite):
    suite("def test_child():\n    subprocess.run(child('child', 'name'), check=True)\n")
    for mode in (["-n", "1"], ["--show-capture=no"]):
        result = fresh(pytester, "--tbparse", "--junitxml=junit.xml", *mode)
        result.stdout.fnmatch_lines(
            [
                "*- tbparse: root cause -*",
                "REAL * will fail again until something is changed",
                "*what   NameError: name 'trane' is not defined",
                "*where  /w/sft.py:9 in <module>",
                "*rule   python/name-error, high confidence",
                "FAILED test_it.py::test_child - real: NameError: name *",
            ]
        )
        case = ElementTree.parse(pytester.path / "junit.xml").getroot().find(".//testcase")
        assert case is not None
        found = {p.get("name"): p.get("value") for p in case.iter("property")}
        assert found["tbparse.verdict"] == "real"
        assert found["tbparse.rule"] == "python/name-error"
        assert found["tbparse.site"] == "/w/sft.py:9"
        assert re.fullmatch("[0-9a-f]{16}", found["tbparse.fingerprint"])


def test_a_retry_that_helped_is_a_property_too_and_what_it_failed_for_is_not(pytester, suite):
    suite("def test_child():\n    subprocess.run(child('child', 'oom', 1), check=True)\n")
    run(pytester, "--tbparse", *RERUN, "--junitxml=junit.xml").assert_outcomes(passed=1)
    last = list(ElementTree.parse(pytester.path / "junit.xml").getroot().iter("testcase"))[-1]
    assert {p.get("name"): p.get("value") for p in last.iter("property")} == {"tbparse.retried_for": "gpu-memory/cuda-oom"}


def test_a_plain_failure_keeps_its_line_with_the_verdict_before_it(pytester, suite):
    suite("def test_plain():\n    assert [1] == [2]\n\ndef test_hostile():\n    raise ValueError('a\\x1b[31m[bold]b')\n")
    result = run(pytester, "--tbparse")
    result.stdout.fnmatch_lines(["FAILED test_it.py::test_plain - real: *assert ?1? == ?2?"])
    section = result.stdout.str().rpartition("- tbparse: root cause -")[2]
    assert "\x1b[31m" not in section
    assert "[bold]b" in section


def test_the_retry_summary_counts_by_cause_and_leaves_out_what_failed_in_the_end(pytester, suite):
    suite(
        """
def test_a():
    subprocess.run(child("a", "oom", 1), check=True)

def test_b():
    subprocess.run(child("b", "oom", 2), check=True)

def test_c():
    if attempt("c") == 1:
        raise ConnectionResetError(104, "Connection reset by peer")

def test_d():
    subprocess.run(child("d", "oom", 9), check=True)
"""
    )
    result = run(pytester, "--tbparse-rerun", "2", "--tbparse-rerun-delay", "0")
    result.assert_outcomes(passed=3, failed=1)
    assert attempts(pytester) == {"a": 2, "b": 3, "c": 2, "d": 3}
    result.stdout.fnmatch_lines(["*= tbparse: 3 tests passed only on a retry =*", "by cause: 2 gpu-memory/cuda-oom, 1 *"])
    result.stdout.no_fnmatch_line("RETRIED*test_d*")


# --- what is refused


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--tbparse-rerun", "2", "-p", "no:rerunfailures"], "pytest-rerunfailures, which is switched off: leave out"),
        (["--tbparse-rerun", "2", "--pdb"], "--tbparse-rerun cannot be used with --pdb"),
        (["--tbparse-rerun", "-1"], "--tbparse-rerun takes how often to re-run, 0 or more, not -1"),
        (["--tbparse-rerun", "1", "--tbparse-rerun-delay", "nan"], "--tbparse-rerun-delay takes seconds, 0 or more, not nan"),
        (["--tbparse", "--tbparse-profile", "test"], "no profile `test`: choose one of job, tests"),
    ],
)
def test_wrong_options_are_usage_errors(pytester, suite, args, said):
    suite("def test_it():\n    pass\n")
    result = fresh(pytester, *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*ERROR: *{said}*"])
    assert "Traceback" not in result.stderr.str() + result.stdout.str()


@pytest.mark.parametrize(
    ("marker", "said"),
    [("'3'", "n is '3'"), ("-1", "n is -1"), ("1, 2, 3", "takes"), ("m=3", "'m'"), ("1, delay=-1", "delay is -1")],
)
def test_a_wrong_marker_is_a_usage_error_that_names_the_test(pytester, suite, marker, said):
    suite(f"@pytest.mark.tbparse_retry({marker})\ndef test_it():\n    pass\n")
    result = run(pytester)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert said in result.stderr.str()
    assert "test_it.py::test_it: @pytest.mark.tbparse_retry(n, delay=None) takes" in result.stderr.str()


def test_the_marker_without_rerunfailures_is_a_usage_error_that_names_the_test(pytester, suite):
    suite("@pytest.mark.tbparse_retry(2)\ndef test_it():\n    pass\n")
    result = run(pytester, "-p", "no:rerunfailures")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "the marker tbparse_retry of test_it.py::test_it re-runs tests by pytest-rerunfailures" in result.stderr.str()


def test_wrong_settings_are_a_usage_error(pytester, suite):
    suite("def test_it():\n    pass\n")
    pytester.path.joinpath("tbparse.toml").write_text("attemps = 3\n")
    run(pytester).assert_outcomes(passed=1)
    result = fresh(pytester, "--tbparse")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *tbparse.toml:1:1: unknown key `attemps` (did you mean `attempts`?)"])


def test_reports_need_no_rerunfailures(pytester, suite):
    suite("def test_child():\n    subprocess.run(child('child', 'name'), check=True)\n")
    result = fresh(pytester, "--tbparse", "-p", "no:rerunfailures", "-p", "no:xdist", "-p", "no:terminalreporter")
    assert result.ret == 1
    result = fresh(pytester, "--tbparse", "-p", "no:rerunfailures")
    result.stdout.fnmatch_lines(["FAILED test_it.py::test_child - real: NameError: name *"])


# --- what it costs


@pytest.mark.parametrize(("args", "active"), [([], False), (["--tbparse"], True)])
def test_nothing_of_ours_is_imported_until_somebody_asks(pytester, suite, args, active):
    suite("def test_it():\n    assert 1 == 2\n")
    pytester.makeconftest("def pytest_unconfigure():\n    import sys; open('modules', 'w').write('\\n'.join(sys.modules))\n")
    env = {k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS"}
    command = [sys.executable, "-X", "importtime", "-m", "pytest", "-p", "no:cacheprovider", *args]
    done = subprocess.run(command, cwd=pytester.path, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 1
    timed = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    loaded = {m for m in (pytester.path / "modules").read_text().split() if m.partition(".")[0] == "tbparse"}
    inactive = {"tbparse", "tbparse._version", "tbparse.pytest_plugin"}
    if active:
        assert {"tbparse.engine", "tbparse.pytest_reports"} < loaded
    else:
        assert loaded == inactive
        assert {m for m in timed if m.partition(".")[0] == "tbparse"} <= inactive


def test_the_plugin_is_found_where_it_is_installed():
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    assert [e.value for e in entry_points(group="pytest11") if e.name == "tbparse"] == ["tbparse.pytest_plugin"]
    assert find_spec("tbparse.pytest_plugin") is not None
