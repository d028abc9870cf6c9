"""The job scripts of docs/schedulers.md: they parse, they name options that exist, and what they decide is what the page says."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tbparse.cli.exits import ExitCode
from tbparse.launching.attempts import Attempts
from tbparse.launching.history import History
from tbparse.launching.story import LAPSE_S, MAX_FAILURES, MAX_PREEMPTIONS
from tbparse.model import RootCause

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "schedulers.md").read_text(encoding="utf-8")


def snippets(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)


def manifests() -> dict[str, Any]:
    kubernetes, skypilot = (YAML(typ="safe").load(text) for text in snippets("yaml"))
    return {"kubernetes": kubernetes, "skypilot": skypilot}


def test_the_exit_codes_are_those_of_the_command():
    rows = dict(re.findall(r"^\| (\d+) \| (\w+)", PAGE, re.M))
    assert rows == {"0": "clean", "75": "transient", "1": "real", "3": "unknown"}
    assert [ExitCode.OK, ExitCode.TRANSIENT, ExitCode.REAL, ExitCode.UNKNOWN] == [0, 75, 1, 3]


def test_every_command_is_one_that_run_understands(tmp_path):
    """Each with another command behind ``--``, for real."""
    task = manifests()["kubernetes"]["spec"]["template"]["spec"]["containers"][0]
    lines = [snippets("bash")[0], manifests()["skypilot"]["run"]]
    commands = [shlex.split(re.search(r"^tbparse run .*? -- ", x.replace("\\\n", ""), re.M)[0]) for x in lines]  # type: ignore[index]
    for command in [*commands, task["command"]]:
        assert command[:2] == ["tbparse", "run"]
        here = [x.replace("/data/", "").replace("$SLURM_JOB_ID", "7") for x in command[1:]]
        done = subprocess.run(
            [sys.executable, "-m", "tbparse.cli.main", *here, sys.executable, "-c", "raise SystemExit(0)"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["train-7.jsonl", "train.jsonl"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize(
    ("code", "starts", "requeued"), [(75, 0, True), (75, 10, False), (1, 0, False), (3, 0, False), (0, 0, False)]
)
def test_the_slurm_script_requeues_what_is_transient_and_a_bounded_number_of_times(tmp_path, code, starts, requeued):
    script = tmp_path / "job.sh"
    script.write_text(snippets("bash")[0])
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
    for name, body in (("tbparse", f"exit {code}"), ("scontrol", 'echo "$@" >> asked; echo node1')):
        tool = tmp_path / name
        tool.write_text(f"#!/bin/sh\n{body}\n")
        tool.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[1-2]", "SLURM_NNODES": "2"}
    env["SLURM_RESTART_COUNT"] = str(starts)
    assert subprocess.run(["bash", str(script)], cwd=tmp_path, env=env, check=False).returncode == code
    assert ("requeue 7" in (tmp_path / "asked").read_text().splitlines()) is requeued


def test_the_pod_failure_policy_counts_what_is_transient_and_ends_the_job_for_all_else():
    spec = manifests()["kubernetes"]["spec"]
    template = spec["template"]["spec"]
    assert template["restartPolicy"] == "Never"

    def action(code: int) -> str:
        """As the job controller reads it: the first rule that fits; none means that the failure is counted."""
        for rule in spec["podFailurePolicy"]["rules"]:
            on = rule.get("onExitCodes")
            if on is None:
                continue
            assert on["containerName"] == template["containers"][0]["name"]
            if (code in on["values"]) is (on["operator"] == "In"):
                return str(rule["action"])
        return "Count"

    assert [action(c) for c in (75, 137, 143)] == ["Count"] * 3
    assert [action(c) for c in (1, 2, 3, 125, 126, 127, 134, 139)] == ["FailJob"] * 8


def test_skypilot_recovers_on_the_transient_code_alone():
    recovery = manifests()["skypilot"]["resources"]["job_recovery"]
    assert recovery == {"max_restarts_on_errors": 0, "recover_on_exit_codes": [int(ExitCode.TRANSIENT)]}


def test_the_page_tells_how_often_nothing_may_be_done_before_it_ends():
    assert "Eleven failures in a row with nothing done" in PAGE
    assert MAX_FAILURES == 10
    assert "After twenty in a row with nothing done the next" in PAGE
    assert MAX_PREEMPTIONS == 20
    assert "more than six hours" in PAGE
    assert LAPSE_S == 6 * 3600


def test_the_history_has_the_keys_that_the_page_shows(tmp_path):
    shown = json.loads(snippets("json")[0])
    attempts = Attempts(["train.sh"], history=History(tmp_path / "h"), env={"SLURM_JOB_ID": "77"})
    attempts.begin()
    attempts.end(RootCause(verdict="unknown", category="unknown", confidence="low"), 1, "step 4")
    written = json.loads((tmp_path / "h").read_text())
    assert list(written) == list(shown)
    assert (written["schema"], written["job"]) == (shown["schema"], shown["job"])
