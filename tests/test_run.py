"""``tbparse run`` as a process: exit codes, the child's own words, the explanation behind them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from launching import TBPARSE, clean_env, python

BOOM = python("raise ValueError('the real cause')")


def run(*args: str, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*TBPARSE, "run", *args], input=stdin, capture_output=True, env=clean_env(**env), check=False)


def test_the_explanation_follows_what_the_command_printed() -> None:
    done = run("--", *python("print('out'); raise ValueError('the real cause')"))
    assert (done.returncode, done.stdout) == (1, b"out\n")
    own, _, said = done.stderr.partition(b"\n\nREAL ")
    assert own.endswith(b"ValueError: the real cause")
    assert b"what   ValueError: the real cause" in said


def test_a_command_that_works_is_not_commented_on() -> None:
    done = run("--", *python("print('out')"))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"out\n", b"")


def test_quiet_explains_nothing() -> None:
    done = run("--quiet", "--", *python("raise SystemExit(3)"))
    assert (done.returncode, done.stderr) == (3, b"")


def test_json_is_the_last_line_of_standard_error() -> None:
    answer = json.loads(run("--format", "json", "--", *BOOM, SLURM_PROCID="3", SLURM_LOCALID="1").stderr.splitlines()[-1])
    assert (answer["exception"], answer["rank"], answer["local_rank"]) == ("ValueError", 3, 1)
    assert answer["host"]


@pytest.mark.parametrize("dashes", [["--"], []])
def test_the_commands_flags_are_its_own(dashes: list[str]) -> None:
    done = run("--quiet", *dashes, *python("import sys; print(sys.argv[1:])"), "--log", "x", "--help", "--", "-q")
    assert done.stdout == b"['--log', 'x', '--help', '--', '-q']\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [("raise SystemExit(42)", 42), ("import os; os.kill(os.getpid(), 9)", 137), ("import os; os.kill(os.getpid(), 11)", 139)],
)
def test_it_exits_as_the_command_did(code: str, expected: int) -> None:
    assert run("--", *python(code)).returncode == expected


def test_it_exits_by_verdict_where_asked_to() -> None:
    assert run("--exit-code", "--", *BOOM).returncode == 1
    assert run("--exit-code", "--", *python("raise SystemExit(42)")).returncode == 3
    assert run("--exit-code", "--", *python("")).returncode == 0


def test_what_cannot_be_run_is_told_in_one_line(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program")
    lost = tmp_path / "lost"
    lost.write_text("#!/no/such/interpreter\n")
    lost.chmod(0o755)
    for args, code in (
        (["no-such-program"], 127),
        ([str(plain)], 126),
        ([str(lost)], 126),
        (["--log", str(tmp_path / "none" / "log"), "true"], 125),
        ([], 2),
        (["--pty", "maybe", "true"], 2),
        (["--profile", "none", "true"], 2),
    ):
        done = run(*args)
        assert done.returncode == code, args
        assert len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith(b"tbparse: ")


def test_the_log_holds_what_passed_through(tmp_path: Path) -> None:
    done = run("--quiet", "--log", str(tmp_path / "log"), "--", *python("import os; os.write(1, b'a\\n'); os.write(2, b'\\xff')"))
    assert sorted((tmp_path / "log").read_bytes()) == sorted(done.stdout + done.stderr) == sorted(b"a\n\xff")


def test_a_reader_that_goes_away_ends_the_command_as_without_us() -> None:
    command = f"{' '.join(TBPARSE)} run -q --pty no -- yes | head -c 10"
    assert subprocess.run(command, shell=True, capture_output=True, check=True).stdout == b"y\ny\ny\ny\ny\n"


def test_a_report_leaves_nothing_to_guess(tmp_path: Path) -> None:
    script = tmp_path / "boom.py"
    script.write_text("raise ValueError('the real cause')\n")
    done = run("--report", "--format", "json", "--", sys.executable, str(script))
    assert json.loads(done.stderr.splitlines()[-1])["confidence"] == "high"
