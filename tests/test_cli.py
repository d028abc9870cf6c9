"""The command itself, as a process: what it prints where, and what it exits with."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tbparse._version import __version__
from tbparse.cli.doctor import shadowing
from tbparse.cli.exits import BY_VERDICT, worst
from tbparse.cli.rule_checks import check_paths, try_rules
from tbparse.cli.schema import answer_schema, rule_schema
from tbparse.model import RootCause
from tbparse.ruleset.schema import Rule

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent / "tbparse"
REAL = b"""Traceback (most recent call last):
  File "/w/train.py", line 3, in <module>
    compute_los(x)
NameError: name 'compute_los' is not defined
"""
TRANSIENT = (
    b"slurmstepd: error: *** JOB 775120 ON c2-14 CANCELLED AT 2026-02-10T03:12:55 "
    b"DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n"
)
UNKNOWN = b"""Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/q/w.py", line 3, in f
    g()
q.WeirdError: zork
"""
CLEAN = b"step 1 loss 0.3\nstep 2 loss 0.2\ndone\n"


def tbparse(
    *args: str | Path, stdin: bytes | None = b"", env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    full = (
        {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")} | {"PYTHONUTF8": "1"} | (env or {})
    )
    return subprocess.run(
        [sys.executable, "-m", "tbparse.cli.main", *map(str, args)],
        input=stdin,
        capture_output=True,
        env=full,
        cwd=cwd,
        check=False,
        timeout=120,
    )


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for name, data in (("real", REAL), ("transient", TRANSIENT), ("unknown", UNKNOWN), ("clean", CLEAN), ("empty", b"")):
        (tmp_path / f"{name}.log").write_bytes(data)
    return tmp_path


def no_traceback(done: subprocess.CompletedProcess[bytes]) -> None:
    assert b"Traceback" not in done.stderr
    assert done.stderr.startswith(b"tbparse: ") or b"Usage:" in done.stderr


# --- explain


def test_the_console_script_is_installed_and_says_its_version():
    script = shutil.which("tbparse", path=str(Path(sys.executable).parent))
    assert script is not None
    assert subprocess.run([script, "--version"], capture_output=True, check=True).stdout == f"tbparse {__version__}\n".encode()


def test_help_is_for_reading():
    for args in ((), ("explain",), ("rules",), ("rules", "check"), ("schema",), ("doctor",)):
        done = tbparse(*args, "--help")
        assert done.returncode == 0
        assert done.stdout.decode().startswith("Usage: tbparse")
        assert max(len(x) for x in done.stdout.decode().split("\n")) <= 80


def test_text_goes_to_stdout_and_nothing_to_stderr(logs):
    done = tbparse("explain", logs / "real.log")
    assert (done.returncode, done.stderr) == (0, b"")
    out = done.stdout.decode()
    assert out.startswith("REAL — will fail again until something is changed\n")
    assert "  what   NameError: name 'compute_los' is not defined\n" in out
    assert "  where  /w/train.py:3 in <module>\n" in out
    assert "\x1b" not in out


def test_json_of_one_log_is_exactly_the_contract(logs):
    done = tbparse("explain", logs / "real.log", "--format", "json")
    assert done.stdout.count(b"\n") == 1
    answer = RootCause.from_json(done.stdout)
    assert (answer.exception, answer.verdict) == ("NameError", "real")
    assert set(json.loads(done.stdout)) == set(answer_schema()["properties"])


def test_json_of_several_logs_is_a_line_each(logs):
    done = tbparse("explain", "--format=json", logs / "real.log", logs / "clean.log", logs / "transient.log")
    assert [RootCause.from_json(x).verdict for x in done.stdout.splitlines()] == ["real", "clean", "transient"]


@pytest.mark.parametrize(("name", "code"), [("real", 1), ("transient", 75), ("unknown", 3), ("clean", 0), ("empty", 0)])
def test_exit_codes_tell_the_verdict_when_asked(logs, name, code):
    assert tbparse("explain", "--exit-code", logs / f"{name}.log").returncode == code


def test_without_the_option_an_answer_is_a_success(logs):
    assert tbparse("explain", logs / "transient.log", logs / "unknown.log").returncode == 0


def test_of_several_logs_the_worst_decides(logs):
    assert tbparse("explain", "--exit-code", logs / "transient.log", logs / "unknown.log", logs / "clean.log").returncode == 3
    assert [worst(v) for v in ([], ["clean", "transient"], ["real", "unknown"], ["unknown", "transient"])] == [0, 75, 1, 3]
    assert list(BY_VERDICT.values()) == [0, 75, 3, 1]


def test_several_texts_have_titles(logs):
    out = tbparse("explain", logs / "real.log", logs / "clean.log").stdout.decode()
    assert out.count("── ") == 2
    assert "CLEAN — nothing failed" in out
    assert "\n\n\n" not in out


def test_standard_input_is_read_as_bytes():
    assert tbparse("explain", "-", "--exit-code", stdin=REAL + b"\xff\xfe\x80").returncode == 1
    assert RootCause.from_json(tbparse("explain", "-", "-f", "json", stdin=gzip.compress(REAL)).stdout).exception == "NameError"


def test_a_compressed_log_is_a_log(logs):
    (logs / "x").write_bytes(gzip.compress(REAL))
    assert b"NameError" in tbparse("explain", logs / "x").stdout


def test_a_damaged_archive_is_answered_with_a_note(logs):
    (logs / "x.gz").write_bytes(gzip.compress(REAL * 200 + os.urandom(4000).hex().encode())[:-2000])
    out = tbparse("explain", logs / "x.gz").stdout.decode()
    assert "NameError" in out
    assert "the gzip data ends or is damaged" in " ".join(out.split())


def test_an_empty_log_is_clean_and_said_to_be_empty(logs):
    done = tbparse("explain", logs / "empty.log")
    assert done.stdout == "CLEAN — nothing failed\n".encode()
    assert b"is empty" in done.stderr


@pytest.mark.parametrize("args", [["--returncode", "-9"], ["--returncode=-9"], ["--returncode", "137"]])
def test_a_negative_returncode_is_a_value_not_an_option(logs, args):
    done = tbparse("explain", *args, logs / "clean.log", "--format", "json")
    assert RootCause.from_json(done.stdout).signal == "SIGKILL"


def test_a_profile_turns_a_verdict(logs):
    oom = REAL.splitlines()
    oom[-1] = (
        b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. "
        b"GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free."
    )
    assert tbparse("explain", "-", "--exit-code", stdin=b"\n".join(oom)).returncode == 1
    assert tbparse("explain", "-", "--exit-code", "--profile", "tests", stdin=b"\n".join(oom)).returncode == 75


def test_paths_settle_whose_code_it_is(logs):
    done = tbparse("explain", "-f", "json", "--library-path", "/w", logs / "real.log")
    assert RootCause.from_json(done.stdout).site is None
    site_packages = UNKNOWN.replace(b"q.WeirdError", b"ValueError")
    done = tbparse("explain", "-f", "json", "--user-path", "/opt/venv/lib/python3.11/site-packages/q", "-", stdin=site_packages)
    site = RootCause.from_json(done.stdout).site
    assert site is not None
    assert site.path.endswith("q/w.py")


def test_why_and_all(logs):
    out = tbparse("explain", logs / "real.log", "--why", "--all").stdout.decode()
    assert "What competed, strongest first" in out
    assert "python/name-error" in out
    assert "All failures of the log (1)" in out
    assert b"show only in the text format" in tbparse("explain", logs / "real.log", "--why", "-f", "json").stderr


# --- folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for rank, data in ((0, b""), (1, REAL)):
        place = tmp_path / "logs" / "none_x" / "attempt_0" / str(rank)
        place.mkdir(parents=True)
        (place / "stderr.log").write_bytes(data)
    return tmp_path / "logs"


def test_a_folder_is_one_job(folder):
    done = tbparse("explain", folder, "--format", "json")
    answer = RootCause.from_json(done.stdout)
    assert (answer.exception, answer.rank) == ("NameError", 1)
    assert done.stderr == b""


def test_the_ranks_logs_beside_the_consoles(folder, logs):
    for args in ([logs / "clean.log", "--log-dir", folder], ["--log-dir", folder]):
        assert RootCause.from_json(tbparse("explain", "-f", "json", *args).stdout).rank == 1


def test_two_runs_in_a_folder_are_mentioned(folder):
    shutil.copytree(folder / "none_x", folder / "none_y")
    assert b"holds 2 runs (none_x, none_y), read as one job" in tbparse("explain", folder).stderr


# --- what cannot be read, and wrong use


@pytest.mark.parametrize("target", ["missing.log", "empty", "binary", "wide", "nul"])
def test_unreadable_input_is_66_with_a_reason(logs, target):
    (logs / "binary").write_bytes(Path(sys.executable).resolve().read_bytes()[:100_000])
    (logs / "wide").write_bytes("Traceback\n".encode("utf-16-le"))
    (logs / "nul").write_bytes(b"\0" * 100)
    (logs / "empty").mkdir()
    done = tbparse("explain", logs / target, "--exit-code")
    assert (done.returncode, done.stdout) == (66, b"")
    no_traceback(done)


def test_a_wide_log_with_its_mark_is_read(logs):
    (logs / "wide").write_bytes(REAL.decode().encode("utf-16"))
    assert tbparse("explain", logs / "wide", "--exit-code").returncode == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_forbidden_log_is_66(logs):
    (logs / "real.log").chmod(0)
    assert tbparse("explain", logs / "real.log").returncode == 66


def test_one_unreadable_log_does_not_silence_the_others(logs):
    done = tbparse("explain", logs / "nowhere", logs / "real.log", "-f", "json", "--exit-code")
    assert done.returncode == 66
    assert RootCause.from_json(done.stdout).exception == "NameError"


@pytest.mark.parametrize(
    "args",
    [
        ["explain"],
        ["explain", "--nope", "x"],
        ["explain", "--format", "yaml", "x"],
        ["explain", "--profile", "nope", "-"],
        ["explain", "--returncode", "many", "-"],
        ["explain", "-", "-"],
        ["explain", "a", "b", "--log-dir", "c"],
        ["nope"],
        ["rules", "show", "gpu-memory/cuda-oo"],
        ["rules", "list", "--area", "nope"],
        ["rules", "list", "--verdict", "nope"],
        ["rules", "test", "nope/nope"],
    ],
    ids=" ".join,
)
def test_wrong_use_is_2_with_a_reason(args):
    done = tbparse(*args)
    assert (done.returncode, done.stdout) == (2, b"")
    no_traceback(done)


# --- the terminal


def test_colours_are_for_terminals_that_want_them(logs):
    assert b"\x1b[" in tbparse("explain", logs / "real.log", env={"FORCE_COLOR": "1", "TERM": "xterm"}).stdout
    assert b"\x1b[" not in tbparse("explain", logs / "real.log", env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stdout


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
@pytest.mark.parametrize(("env", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_in_a_terminal(logs, env, coloured):
    import pty

    main, side = pty.openpty()
    full = (
        {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
        | {"TERM": "xterm-256color", "COLUMNS": "80"}
        | env
    )
    child = subprocess.Popen(
        [sys.executable, "-m", "tbparse.cli.main", "explain", str(logs / "real.log")], stdout=side, stderr=side, env=full
    )
    os.close(side)
    out = b""
    try:
        while part := os.read(main, 65536):
            out += part
    except OSError:  # Linux says EIO when the other side is closed
        pass
    assert child.wait(60) == 0
    assert (b"\x1b[" in out) is coloured
    assert b"NameError" in out


def test_escapes_and_markup_of_a_log_stay_text():
    log = REAL.replace(b"'compute_los' is", "[red]\x9b31m\u202e[/red] \x1b]0;title\x07 is".encode())
    for env in ({}, {"FORCE_COLOR": "1"}):
        out = tbparse("explain", "-", "--all", "--why", stdin=log, env=env).stdout.decode()
        assert "[red]\\x9b31m\\u202e[/red]" in out
        assert not any(c in out for c in "\x07\x9b\u202e")
        assert "title" not in out.split("name ")[1].split(" is")[0]


def test_a_terminal_without_unicode_gets_plainer_signs(logs):
    done = tbparse("explain", logs / "real.log", env={"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert done.stdout.startswith(b"REAL - will fail")
    # JSON is UTF-8 whatever the locale says.
    done = tbparse(
        "explain",
        "-f",
        "json",
        "-",
        stdin=REAL.replace(b"los", "lös".encode()),
        env={"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
    )
    assert "lös" in done.stdout.decode()


def test_columns_set_the_width(logs):
    out = tbparse("explain", logs / "transient.log", env={"COLUMNS": "50"}).stdout.decode()
    assert max(map(len, out.split("\n"))) <= 50


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes")
def test_a_reader_that_leaves_early_is_no_error(logs):
    args = [str(logs / "real.log")] * 300
    child = subprocess.Popen(
        [sys.executable, "-m", "tbparse.cli.main", "explain", "--all", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    assert child.stderr.read() == b""
    child.stderr.close()
    assert child.wait(60) == 141


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_is_quiet():
    child = subprocess.Popen(
        [sys.executable, "-m", "tbparse.cli.main", "explain", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdin is not None
    child.stdin.write(b"step\n" * 400_000)  # more than a pipe holds: once it is written, the child is reading
    child.stdin.flush()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (130, b"", b"")


# --- schema


def test_the_checked_in_schema_is_the_models():
    path = PACKAGE / "rootcause.schema.json"
    assert json.loads(path.read_text(encoding="utf-8")) == answer_schema(), f"tbparse schema > {path}"
    assert tbparse("schema").stdout == path.read_bytes()


def test_answers_fit_the_schema(logs):
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(answer_schema())
    Draft202012Validator.check_schema(rule_schema())
    for name in ("real", "transient", "unknown", "clean"):
        out = tbparse("explain", "-f", "json", logs / f"{name}.log").stdout
        Draft202012Validator(answer_schema()).validate(json.loads(out))


def test_the_rules_schema_is_of_rules():
    assert "examples" in json.loads(tbparse("schema", "--rules").stdout)["properties"]


# --- rules


def test_rules_are_listed():
    rows = json.loads(tbparse("rules", "list", "--format", "json").stdout)
    assert len(rows) > 100
    out = tbparse("rules", "list", "--area", "gpu-memory", "--verdict", "real").stdout.decode()
    assert "gpu-memory/cuda-oom " in out
    assert all(x.startswith("real ") for x in out.splitlines()[:-1])


def test_a_rule_is_shown():
    out = tbparse("rules", "show", "gpu-memory/cuda-oom").stdout.decode()
    assert "CUDA ran out of memory" in out
    assert "What to do" in out
    assert b"did you mean" in tbparse("rules", "show", "gpu-memory/cuda-ooom").stderr
    assert b"gpu-memory/cuda-oom" in tbparse("rules", "show", "cuda-ooom").stderr


GOOD = """title: A site rule
summary: This is long enough to be a summary.
category: storage
verdict: transient
match: {message: 'quota on /mnt/fast'}
advice: Wait.
examples: [{text: x, source: none}]
"""


def test_all_problems_of_all_rule_files_are_told_at_once(tmp_path):
    (tmp_path / "my").mkdir()
    (tmp_path / "my" / "good.yaml").write_text(GOOD)
    done = tbparse("rules", "check", tmp_path)
    assert (done.returncode, done.stdout) == (0, b"1 rule file is fine\n")
    (tmp_path / "my" / "bad.yaml").write_text(GOOD.replace("summary", "sumary") + "related: [my/good, my/goood]\n")
    (tmp_path / "my" / "worse.yaml").write_text("title: [\n")
    (tmp_path / "site.yaml").write_text("disable: [my/*, nope/nope]\n")
    done = tbparse("rules", "check", tmp_path, tmp_path / "nowhere")
    assert (done.returncode, done.stdout) == (2, b"")
    err = done.stderr.decode()
    for part in (
        "bad.yaml:2:1: sumary: unknown key (did you mean `summary`?)",
        "bad.yaml:8:20: related: there is no rule `my/goood`",
        "worse.yaml:2:1: not valid YAML",
        "site.yaml:1:17: disable: there is no rule `nope/nope`",
        "nowhere: no such file or folder",
    ):
        assert part in err
    assert "lies in the folder" not in err


def test_a_folder_without_rules_is_a_problem(tmp_path):
    assert [p.message for p in check_paths([str(tmp_path)])[1]] == ["no rule files (*.yaml) below this folder"]


def test_examples_are_tried_under_all_rules():
    done = tbparse("rules", "test", "python/name-error")
    assert done.returncode == 0
    assert b"of 1 rules: 0 failed" in done.stdout


def test_a_rule_that_loses_its_own_example_is_told():
    lost = Rule.model_validate(
        {
            "title": "Never matches",
            "summary": "It is here to lose its example.",
            "category": "storage",
            "verdict": "real",
            "match": {"message": "zork"},
            "advice": "None.",
            "examples": [{"text": REAL.decode(), "source": "test"}],
            "counter_examples": [{"text": REAL.decode(), "wins": None, "why": "a name"}],
        }
    )
    tried, failures = try_rules({"my/lost": lost})
    assert tried == 2
    assert failures == [
        "my/lost: example 1 (test): python/name-error wins, on NameError",
        "my/lost: counter-example 1 (a name): no rule should win, python/name-error does",
    ]


# --- doctor


def test_doctor_says_what_is_installed():
    done = tbparse("doctor")
    out = done.stdout.decode()
    assert f"tbparse      {__version__}" in out
    assert "regex        2" in out
    assert "the distribution `tbparse`" not in out
    # Right after a change of rules the packed form is stale, and doctor says so.
    assert done.returncode == (1 if "problem:" in out else 0)


def other_project(site: Path) -> Path:
    """A folder of packages in which the TensorBoard reader is installed."""
    package = site / "tbparse"
    (package / "tensorflow_stub").mkdir(parents=True)
    for name in ("__init__.py", "summary_reader.py", "version.py"):
        (package / name).write_text("")
    info = site / "tbparse-0.0.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tbparse\nVersion: 0.0.9\n")
    (info / "RECORD").write_text("tbparse/__init__.py,,\ntbparse/summary_reader.py,,\n")
    return package


def test_doctor_notices_the_other_tbparse(tmp_path):
    package = other_project(tmp_path)
    found = shadowing(package, [str(tmp_path)])
    assert "`tbparse` 0.0.9" in found[0]
    assert "pip uninstall tbparse" in found[0]
    assert "__init__.py, summary_reader.py, version.py, tensorflow_stub" in found[1]
    elsewhere = shadowing(PACKAGE, [str(tmp_path)])
    assert "depends on the order of sys.path" in elsewhere[1]
    assert shadowing(PACKAGE, []) == []
    shutil.rmtree(tmp_path / "tbparse-0.0.9.dist-info")
    assert "files of another project" in shadowing(package, [str(tmp_path)])[0]


def test_doctor_exits_1_when_something_is_wrong(tmp_path):
    """With files of both projects in one folder, as after ``pip install tbparse tbparse-triage``."""
    other_project(tmp_path)
    shutil.copytree(PACKAGE, tmp_path / "tbparse", dirs_exist_ok=True)
    shutil.copytree(PACKAGE.parent / "rules", tmp_path / "rules")
    done = tbparse("doctor", env={"PYTHONPATH": str(tmp_path)}, cwd=tmp_path)
    assert done.returncode == 1
    assert b"problem: the distribution `tbparse` 0.0.9" in done.stdout


# --- the budget


def test_explaining_loads_nothing_that_it_does_not_need(logs):
    """Imports decide how long a small log takes: no colours, no YAML, no torch."""
    code = """
import sys, tbparse.cli.main
sys.argv = ["tbparse", "explain", sys.argv[1]]
try:
    tbparse.cli.main.run()
except SystemExit:
    pass
print(sorted(sys.modules), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code, str(logs / "real.log")], capture_output=True, check=True)
    loaded = done.stderr.decode()
    for name in ("torch", "accelerate", "numpy", "gzip", "rich.console", "rich.cells"):
        assert f"'{name}'" not in loaded


def test_quick_starting_leaves_the_environment_as_it_was(monkeypatch):
    from tbparse.cli import startup

    for value in (None, "logfire"):
        if value is None:
            monkeypatch.delenv("PYDANTIC_DISABLE_PLUGINS", raising=False)
        else:
            monkeypatch.setenv("PYDANTIC_DISABLE_PLUGINS", value)
        startup.load_model()
        assert os.environ.get("PYDANTIC_DISABLE_PLUGINS") == value
