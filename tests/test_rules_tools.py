"""The tools for whoever writes rules: new, diff, schema, check, and the pages made from the rules."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from tbparse import classify
from tbparse.cli.rule_diff import compare
from tbparse.cli.schema import rule_schema, site_schema
from tbparse.records import Frame
from tbparse.ruleset import docs
from tbparse.ruleset.draft import example_of, name_of, pattern_of
from tbparse.ruleset.kinds import category_of
from tbparse.ruleset.match import PackedRule, RuleSet
from tbparse.ruleset.pack import read_dir
from tbparse.ruleset.packs import load_rules
from tbparse.ruleset.store import profile_path, rule_files, rules_dir
from tbparse.ruleset.structure import by_structure

ROOT = Path(__file__).resolve().parent.parent
LOG = """step 1
Traceback (most recent call last):
  File "/home/ann/w/train.py", line 3, in <module>
    c.get()
  File "/opt/venv/lib/python3.11/site-packages/acme/client.py", line 31, in get
    raise LeaseLost(text)
acme.LeaseLost: lease 4711 of shard '/data/x' expired after 30.5 s (owner ann@corp.example.com)
"""


def tbparse(*args: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tbparse.cli.main", *map(str, args)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=120)


def test_a_drafted_rule_is_written_wins_its_log_and_says_what_is_still_to_be_written(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(LOG, encoding="utf-8")
    pack = tmp_path / "pack"
    done = tbparse("rules", "new", log, "--into", pack, "--id", "acme/lease", "--category", "storage")
    assert done.returncode == 0, done.stderr
    assert "acme/lease wins its example" in done.stderr
    text = (pack / "acme" / "lease.yaml").read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=../rule.schema.json\n")
    assert "ann" not in text, "neither home folders nor mail addresses of people are kept"
    assert json.loads((pack / "rule.schema.json").read_text(encoding="utf-8")) == rule_schema()
    other = LOG.replace("4711", "12").replace("/data/x", "/data/y").replace("30.5", "9")
    assert classify(other, rules=load_rules(pack)).rule == "acme/lease"
    checked = tbparse("rules", "check", pack)
    assert checked.returncode == 2
    assert re.search(r"lease\.yaml:\d+:\d+: still to be written", checked.stderr)
    again = tbparse("rules", "new", log, "--into", pack, "--id", "acme/lease")
    assert again.returncode == 2
    assert "is there already" in again.stderr


def test_a_line_that_no_dialect_knows_becomes_a_rule_of_that_line() -> None:
    done = tbparse(
        "rules", "new", "-", "--line", "2", "--print", "--id", "acme/quota", stdin="a\nacme: quota of 30 tiles exhausted\n"
    )
    assert done.returncode == 0, done.stderr
    rule = YAML(typ="safe").load(done.stdout)
    assert rule["match"] == [{"line": r"acme: quota of \d[\d.,]* tiles exhausted"}]
    assert rule["fatal"] is True


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["-"], "no failure"),
        (["-", "--line", "99"], "has 2 lines"),
        (["-", "--line", "1", "--id", "Nope"], "is no id"),
        (["-", "--line", "1", "--category", "weather"], "no category"),
        (["-", "--line", "1", "--verdict", "maybe"], "no verdict"),
        ([], "give the LOG"),
    ],
)
def test_a_mistake_in_new_exits_with_2_and_says_what_to_do(args: list[str], words: str) -> None:
    done = tbparse("rules", "new", *args, stdin="everything is fine here\n")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert words in done.stderr


def test_the_lines_that_the_answer_prints_draft_the_missing_rule(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(LOG, encoding="utf-8")
    shown = tbparse("explain", log).stdout
    assert "no rule knows this failure" in shown
    assert "tbparse rules new" in shown
    assert "--line 7" in shown


def test_a_pattern_loosens_what_differs_from_run_to_run() -> None:
    pattern = pattern_of("lost 3 of 12 tiles at 0x7f11 in '/a/b' (x)")
    assert pattern is not None
    assert re.search(pattern, "lost 10 of 400 tiles at 0xdead in 'c' (x)")
    assert pattern_of("17 42 '...'") is None
    assert name_of("acme.LeaseLost", "42") == "lease-lost"
    assert example_of(["\x1b[31mred\x1b[0m /home/ann/x"]) == "red /home/user/x\n"


def test_diff_shows_the_newly_retried_first(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("override: {python/key-error: {verdict: transient}, python/name-error: {verdict: unknown}}\n", encoding="utf-8")
    done = tbparse("rules", "diff", "--rules", site, "--format", "json", "--exit-code")
    moves = json.loads(done.stdout)
    assert done.returncode == 1
    assert moves[0]["new"]["verdict"] == "transient"
    assert {m["new"]["rule"] for m in moves} == {"python/key-error", "python/name-error"}


def test_equal_rule_sets_move_nothing(rules: RuleSet) -> None:
    same = RuleSet([PackedRule(r.data) for r in rules.rules])
    count, moves = compare(rules, same, iter([("a", LOG.encode())]))
    assert (count, moves) == (1, [])


def test_the_schema_accepts_every_rule_and_refuses_a_misspelt_key() -> None:
    check = jsonschema.Draft202012Validator(rule_schema())
    yaml = YAML(typ="safe", pure=False)
    for _, path in rule_files(rules_dir()):
        assert not list(check.iter_errors(yaml.load(path.read_text(encoding="utf-8")))), path
    assert list(check.iter_errors({"titel": "x"}))
    site = yaml.load(profile_path("tests").read_text(encoding="utf-8"))
    assert not list(jsonschema.Draft202012Validator(site_schema()).iter_errors(site))


def test_the_schema_beside_the_rules_is_the_one_that_is_printed() -> None:
    assert json.loads((rules_dir() / "rule.schema.json").read_text(encoding="utf-8")) == rule_schema()


def test_the_pages_and_the_readmes_table_say_what_the_rules_say() -> None:
    assert docs.stale(ROOT) == [], "run python -m tbparse.ruleset.docs"


def test_list_filters_by_category() -> None:
    rows = json.loads(tbparse("rules", "list", "--category", "storage", "--format", "json").stdout)
    assert {r["category"] for r in rows} == {"storage"}
    assert len(rows) == sum(r.category == "storage" for r in read_dir(rules_dir()).values())


USER = Frame("/w/train.py", 40, "main", "run(batch)")
LIB = "/v/lib/python3.11/site-packages/"


def library(path: str, function: str) -> Frame:
    return Frame(LIB + path, 10, function, origin="library")


@pytest.mark.parametrize(
    ("exception", "message", "frames", "verdict", "category"),
    [
        ("ValueError", "no", [USER], "real", "user-code"),
        (
            "redis.exceptions.ConnectionError",
            "Error while reading from socket",
            [USER, library("redis/c.py", "read")],
            "transient",
            "network",
        ),
        ("pymongo.errors.AutoReconnect", "connection closed", [library("pymongo/p.py", "send")], "transient", "network"),
        ("httpx.ConnectTimeout", "", [USER, library("httpx/_client.py", "send")], "transient", "network"),
        ("httpx.ConnectTimeout", "", [USER], "unknown", "network"),
        ("acme.ConnectionLost", "gone", [USER, library("acme/c.py", "send")], "unknown", "unknown"),
        ("OSError", "[Errno 116] Stale file handle: 'a'", [USER], "unknown", "storage"),
        ("OSError", "[Errno 28] No space left on device", [USER], "real", "storage"),
        ("acme.OutOfMemoryError", "CUDA out of memory in pool", [USER, library("acme/c.py", "grow")], "real", "gpu-memory"),
        ("RuntimeError", "acme: NCCL communicator broke", [USER, library("acme/c.py", "sync")], "unknown", "communication"),
        ("RuntimeError", "tensors on the meta device are left", [USER, library("acme/c.py", "check")], "real", "user-code"),
        ("RuntimeError", "expected a tensor of 512 rows", [library("acme/__main__.py", "main")], "real", "user-code"),
        ("acme.OddError", "zork", [library("acme/__main__.py", "main")], "unknown", "unknown"),
        ("acme.OddError", "zork", [USER, library("acme/__main__.py", "main")], "real", "user-code"),
    ],
)
def test_a_failure_that_no_rule_knows_is_judged_by_its_structure(
    exception: str, message: str, frames: list[Frame], verdict: str, category: str
) -> None:
    ruling = by_structure(exception, message, frames)
    assert (ruling.verdict, ruling.category) == (verdict, category)


@pytest.mark.parametrize(
    ("exception", "message", "frames", "category"),
    [
        ("ValueError", "--save_steps must be a multiple of --eval_steps", [USER, library("acme/trainer.py", "__init__")], "config"),
        ("ValueError", "Unknown optimizer adamx", [Frame("/w/optim.py", 3, "build_optimizer", "raise ValueError(x)")], "config"),
        ("AssertionError", "global batch size (7) is not divisible by world size (2)", [library("acme/p.py", "setup")], "config"),
        ("AssertionError", "", [USER, library("acme/arguments.py", "validate_args")], "config"),
        ("acme.ConfigError", "no", [USER], "config"),
        ("KeyError", "'ACME_HOME'", [Frame("/w/t.py", 3, "main", 'home = os.environ["ACME_HOME"]')], "config"),
        ("FileNotFoundError", "[Errno 2] No such file or directory: 'conf/big.yaml'", [USER], "config"),
        ("FileNotFoundError", "[Errno 2] No such file or directory: '/d/train.csv'", [USER], "data"),
        (
            "ValueError",
            "bad",
            [library("torch/utils/data/_utils/fetch.py", "fetch"), Frame("/w/d.py", 4, "__getitem__", "x")],
            "data",
        ),
        ("ValueError", "Input X contains NaN", [USER, library("acme/v.py", "check_array")], "data"),
        ("soundfile.LibsndfileError", "Format not recognised", [USER, library("soundfile.py", "_open")], "data"),
        ("RuntimeError", "acme requires torch>=2.4, please upgrade", [USER, library("acme/v.py", "check")], "dependency"),
        ("AttributeError", "module 'acme' has no attribute 'old'", [USER], "dependency"),
        (
            "ValueError",
            "Expected input batch_size (64) to match target batch_size (32).",
            [library("torch/nn/functional.py", "nll")],
            None,
        ),
        ("AttributeError", "'Net' object has no attribute 'num_classes'", [USER], None),
        ("NameError", "name 'sample' is not defined", [Frame("/w/d.py", 4, "__getitem__", "x")], None),
        ("ValueError", "shapes do not agree", [USER, library("acme/net.py", "forward")], None),
    ],
)
def test_the_structure_tells_settings_inputs_and_packages_from_the_program(
    exception: str, message: str, frames: list[Frame], category: str | None
) -> None:
    assert category_of(exception, message, frames) == category
