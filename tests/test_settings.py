"""A project's settings: where they are found, what is refused and how it is said, and what they change."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tbparse.engine import classify
from tbparse.errors import SettingsError, UsageError
from tbparse.settings import NO_PROJECT, Project, load_project
from tbparse.settings_model import Settings

OOM = b"""Traceback (most recent call last):
  File "/w/train.py", line 3, in <module>
    step()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. \
GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free.
"""
FULL = """\
[project]
name = "x"

[tool.tbparse]
profile = "tests"
transient = [
    "python/name-error",
    "storage/*",
]
real = ["gpu-memory/cuda-oom"]
attempts = 5
wait = 2
timeout = 60.5
user_paths = "checkouts"
library_paths = ["vendored"]

[tool.other]
attemps = 1
"""


def tbparse(*args: str, cwd: Path, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")} | {"PYTHONUTF8": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tbparse.cli.main", *args], cwd=cwd, input=stdin, capture_output=True, env=env, timeout=120
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def problems(folder: Path) -> list[str]:
    with pytest.raises(SettingsError) as info:
        load_project(folder)
    return [str(p).removeprefix(f"{folder}{os.sep}") for p in info.value.problems]


def write(folder: Path, text: str, name: str = "tbparse.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder


# --- where


def test_without_a_file_nothing_is_set_and_no_parser_is_loaded(tmp_path):
    assert load_project(tmp_path) == NO_PROJECT
    assert (NO_PROJECT.attempts, NO_PROJECT.profile(None), NO_PROJECT.rules("job")) == (3, "job", None)
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\n")
    code = "import sys; from tbparse.settings import load_project; load_project(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split()
    assert not {"tomllib", "tomli", "tbparse.settings_model"} & set(loaded)


def test_settings_are_found_upwards_and_every_key_is_read(tmp_path):
    write(tmp_path, FULL, "pyproject.toml")
    (tmp_path / "a" / "b").mkdir(parents=True)
    project = load_project(tmp_path / "a" / "b")
    assert project.path == tmp_path / "pyproject.toml"
    assert (project.attempts, project.get("wait"), project.get("timeout")) == (5, 2.0, 60.5)
    assert project.paths == (("checkouts",), ("vendored",))
    assert (project.profile(None), project.profile("job"), NO_PROJECT.profile(None, "tests")) == ("tests", "job", "tests")
    assert project.lines["real"] == 10


def test_a_pyproject_without_our_table_does_not_end_the_search(tmp_path):
    write(tmp_path, "attempts = 7\n")
    write(tmp_path / "sub", "[project]\nname = 'tbparse-user'\n", "pyproject.toml")
    assert load_project(tmp_path / "sub").attempts == 7


def test_of_two_files_in_one_folder_our_own_counts_and_doctor_says_so(tmp_path):
    write(tmp_path, "attempts = 7\n")
    write(tmp_path, FULL, "pyproject.toml")
    project = load_project(tmp_path)
    assert (project.attempts, project.ignored) == (7, tmp_path / "pyproject.toml")
    done = tbparse("doctor", cwd=tmp_path)
    assert done.returncode == 1
    assert "its [tool.tbparse] does not count" in done.stdout


# --- what is refused


def test_an_unknown_key_is_refused_with_its_place_and_the_nearest_one(tmp_path):
    write(tmp_path, "# ours\nattempts = 3\nattemps = 3\nuser-paths = ['x']\nzzz = 1\n")
    found = problems(tmp_path)
    assert found[0] == "tbparse.toml:3:1: unknown key `attemps` (did you mean `attempts`?)"
    assert found[1] == "tbparse.toml:4:1: unknown key `user-paths` (did you mean `user_paths`?)"
    assert found[2].startswith("tbparse.toml:5:1: unknown key `zzz` (known keys: profile, transient, real, attempts, ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("attempts = 0", "1:1: `attempts` should be greater than or equal to 1, not 0"),
        ("attempts = true", "1:1: `attempts` should be a valid integer, not True"),
        ("wait = -1", "1:1: `wait` should be greater than or equal to 0, not -1"),
        ("timeout = inf", "1:1: `timeout` should be a finite number, not inf"),
        ("transient = 5", "1:1: `transient` should be a list of texts, not 5"),
        ('\nreal = [\n  "a/b",\n  "",\n]', "4:3: `real` should be a text that is not empty, not ''"),
        ("real = [1]", "1:1: `real` should be a text, not 1"),
        ("x = [\n", "2:1: not valid TOML: "),
        ("a = = 1", "1:5: not valid TOML: Invalid value"),
        (
            "[tool.tbparse]\nattempts = 3",
            "1:1: unknown key `tool` (in tbparse.toml the keys stand at the top, without [tool.tbparse])",
        ),
        ("transient = ['a/b']\nreal = ['c/d', 'a/b']", "2:16: `a/b` is both in `transient` and in `real` (a rule has one verdict"),
    ],
)
def test_what_does_not_fit_is_said_with_line_and_column(tmp_path, text, said):
    write(tmp_path, text)
    assert problems(tmp_path)[0].startswith(f"tbparse.toml:{said}")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[tool]\ntbparse = { attemps = 3 }", "2:13"),
        ("[tool.x]\n[tool]\ntbparse.attemps = 3", "3:9"),
        ("tool.tbparse.attemps = 3", "1:14"),
        ("[tool.x]\nattemps = 1\n[ tool . tbparse ]\n'attemps' = 3", "4:1"),
        ("[tool.tbparse]\nattempts = 1\n[tool.tbparse.attemps]\nx = 1", "3:1"),
        ("[[tool.tbparse]]\nattempts = 1", "1:1"),
    ],
)
def test_a_keys_place_is_found_however_the_table_is_written(tmp_path, text, place):
    write(tmp_path, text, "pyproject.toml")
    assert problems(tmp_path)[0].startswith(f"pyproject.toml:{place}: ")


def test_a_file_that_is_not_utf8_is_said_to_be_so(tmp_path):
    (tmp_path / "tbparse.toml").write_bytes(b"profile = '\xff'")
    assert problems(tmp_path) == ["tbparse.toml: is not UTF-8 (byte 11) (TOML is UTF-8)"]


def test_somebody_elses_broken_pyproject_is_none_of_our_business(tmp_path):
    write(tmp_path, "[tool.poetry\nname = 'tbparse'", "pyproject.toml")
    assert load_project(tmp_path) == NO_PROJECT


def test_a_broken_pyproject_with_our_table_is(tmp_path):
    write(tmp_path, "[tool.tbparse]\nattempts =", "pyproject.toml")
    assert "not valid TOML" in problems(tmp_path)[0]


def test_names_of_no_rule_are_errors_with_the_nearest_one(tmp_path):
    write(tmp_path, 'transient = [\n  "gpu-memory/cuda-om",\n  "name-error",\n  "nothing/*",\n]\n')
    with pytest.raises(SettingsError) as info:
        load_project(tmp_path).rules("job")
    said = [str(p).removeprefix(f"{tmp_path}{os.sep}") for p in info.value.problems]
    assert said[0] == "tbparse.toml:2:3: transient: there is no rule `gpu-memory/cuda-om` (did you mean `gpu-memory/cuda-oom`?)"
    assert said[1] == "tbparse.toml:3:3: transient: there is no rule `name-error` (did you mean `python/name-error`?)"
    assert said[2].startswith("tbparse.toml:4:3: transient: there is no rule `nothing/*` (")


def test_unknown_keys_wrong_values_and_names_of_no_rule_are_told_at_once(tmp_path):
    write(tmp_path, 'attemps = 5\ntransient = ["gpu-memory/cuda-om"]\nwait = -1\n\n[tool.tbparse]\nx = 1\n')
    assert [line.partition("(")[0] for line in problems(tmp_path)] == [
        "tbparse.toml:1:1: unknown key `attemps` ",
        "tbparse.toml:2:14: transient: there is no rule `gpu-memory/cuda-om` ",
        "tbparse.toml:3:1: `wait` should be greater than or equal to 0, not -1",
        "tbparse.toml:5:1: unknown key `tool` ",
    ]


def test_a_profile_that_does_not_exist_is_an_error(tmp_path):
    write(tmp_path, 'profile = "test"\ntransient = ["storage/*"]')
    project = load_project(tmp_path)
    with pytest.raises(UsageError, match="no profile `test`"):
        project.rules(project.profile(None))


# --- what they change


def verdict(project: Project, text: bytes, profile: str = "job") -> tuple[str, str]:
    answer = classify(text, rules=project.rules(profile), profile=profile)
    return answer.verdict, answer.retry.action


def test_a_verdict_of_the_projects_own_goes_over_the_rules_and_the_profiles(tmp_path):
    assert verdict(load_project(write(tmp_path / "t", "transient = 'gpu-memory/cuda-oom'")), OOM) == ("transient", "retry")
    assert verdict(load_project(write(tmp_path / "r", "real = ['gpu-memory/cuda-oom']")), OOM, "tests") == ("real", "stop")


def test_a_rules_own_name_says_more_than_its_areas(tmp_path):
    project = load_project(write(tmp_path, "transient = ['gpu-memory/*']\nreal = ['gpu-memory/cuda-oom']"))
    assert verdict(project, OOM) == ("real", "stop")
    project = load_project(write(tmp_path, "real = ['gpu-memory/*']\ntransient = ['gpu-memory/cuda-oom']"))
    assert verdict(project, OOM) == ("transient", "retry")


def test_other_rules_stay_as_they_are(tmp_path, rules):
    ours = load_project(write(tmp_path, "transient = ['gpu-memory/cuda-oom']")).rules("job")
    assert ours is not None
    changed = [r.id for r in rules.rules if ours.by_id[r.id].verdict != r.verdict or ours.by_id[r.id].retry != r.retry]
    assert changed == ["gpu-memory/cuda-oom"]


def test_classify_itself_reads_no_settings(tmp_path, monkeypatch):
    monkeypatch.chdir(write(tmp_path, "transient = ['gpu-memory/cuda-oom']"))
    assert classify(OOM).verdict == "real"


def test_explain_reads_them(tmp_path):
    write(tmp_path, 'transient = ["gpu-memory/cuda-oom"]')
    assert tbparse("explain", "--exit-code", "-", cwd=tmp_path, stdin=OOM).returncode == 75
    write(tmp_path, 'profile = "tests"')
    assert tbparse("explain", "--exit-code", "-", cwd=tmp_path, stdin=OOM).returncode == 75
    assert tbparse("explain", "--exit-code", "--profile", "job", "-", cwd=tmp_path, stdin=OOM).returncode == 1
    write(tmp_path, 'library_paths = ["/w"]')
    assert "no frame of your own" in tbparse("explain", "-", cwd=tmp_path, stdin=OOM).stdout


def test_explain_refuses_wrong_ones_and_names_every_problem(tmp_path):
    write(tmp_path, "attemps = 1\nwait = -1\n")
    done = tbparse("explain", "-", cwd=tmp_path, stdin=OOM)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"{tmp_path}/tbparse.toml:1:1: unknown key `attemps` (did you mean `attempts`?)",
        f"{tmp_path}/tbparse.toml:2:1: `wait` should be greater than or equal to 0, not -1",
        "tbparse: 2 problems in the settings",
    ]


def test_doctor_shows_what_is_in_force_and_from_where(tmp_path):
    write(tmp_path, FULL, "pyproject.toml")
    out = tbparse("doctor", cwd=tmp_path).stdout
    assert f"settings     {tmp_path / 'pyproject.toml'}\n" in out
    assert "  attempts      5  (line 11)\n" in out
    assert "  transient     python/name-error, storage/*  (line 6)\n" in out
    assert "  rules         none  (default)\n" in out
    write(tmp_path, "[tool.tbparse]\nreal = ['python/nam-error']\n", "pyproject.toml")
    done = tbparse("doctor", cwd=tmp_path)
    assert done.returncode == 1
    assert "there is no rule `python/nam-error`" in done.stdout
    (tmp_path / "pyproject.toml").unlink()
    assert "settings     none: " in tbparse("doctor", cwd=tmp_path).stdout


def test_the_page_about_settings_has_a_row_for_every_key():
    page = (Path(__file__).resolve().parent.parent / "docs" / "settings.md").read_text(encoding="utf-8")
    keys = [key for cell in re.findall(r"^\| (`.*?) \|", page, re.M) for key in re.findall(r"`(\w+)`", cell)]
    assert sorted(keys) == sorted(Settings.model_fields)
