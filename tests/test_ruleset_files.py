"""Rule files: every problem at once with its place, and the packed form (tbparse/ruleset/pack.py, store.py)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tbparse.errors import RuleError, UsageError
from tbparse.ruleset import store
from tbparse.ruleset.match import PackedRule, apply_profile, builtin_rules
from tbparse.ruleset.pack import pack_dir, packed_text, read_dir, read_site
from tbparse.ruleset.store import digest, load_packed, rule_files, rules_dir

GOOD = """title: a rule of a test
summary: a rule that a test wrote, and nothing else
category: user-code
verdict: real
match:
  - type: KeyError
    message: 'no such key'
advice: ['look']
examples:
  - text: x
    source: a test
"""


def write(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def problems(root: Path) -> list:
    with pytest.raises(RuleError) as caught:
        read_dir(root)
    return list(caught.value.problems)


def test_a_good_folder_is_read_and_ids_are_paths(tmp_path: Path) -> None:
    assert list(read_dir(write(tmp_path, a__one=GOOD, b__two=GOOD))) == ["a/one", "b/two"]


def test_all_problems_of_all_files_come_at_once_with_line_and_column(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        a__verdict=GOOD.replace("verdict: real", "verdict: maybe"),
        a__key=GOOD.replace("category:", "categroy:"),
        a__yaml=GOOD.replace("advice: ['look']", "advice: ['look'"),
        a__deep=GOOD.replace("    message: 'no such key'", "    mesage: 'no such key'"),
    )
    found = {Path(p.path).stem: p for p in problems(root)}
    assert set(found) == {"verdict", "key", "yaml", "deep"}
    assert (found["verdict"].line, found["verdict"].column) == (4, 1)
    by_place = {(Path(p.path).stem, p.line, p.column) for p in problems(root)}
    assert ("key", 3, 1) in by_place
    assert ("deep", 7, 5) in by_place
    assert found["yaml"].line >= 8
    assert any("/a/deep.yaml:7:5: " in str(p) for p in problems(root))


@pytest.mark.parametrize(("wrong", "right", "where"), [
    ("categroy:", "category", "category:"), ("advise:", "advice", "advice:"), ("examplse:", "examples", "examples:"),
])  # fmt: skip
def test_a_misspelt_key_gets_the_nearest_one_as_a_hint(wrong: str, right: str, where: str, tmp_path: Path) -> None:
    hints = [p.hint for p in problems(write(tmp_path, a__x=GOOD.replace(where, wrong)))]
    assert f"did you mean `{right}`?" in hints


def test_a_misspelt_key_of_a_matcher_gets_a_hint_from_the_matchers_keys(tmp_path: Path) -> None:
    found = problems(write(tmp_path, a__x=GOOD.replace("    message:", "    mesage:")))
    assert "did you mean `message`?" in [p.hint for p in found]


@pytest.mark.parametrize(("old", "new", "part"), [
    ("message: 'no such key'", "message: '(a+)+b'", "exponential"),
    ("message: 'no such key'", "message: 'x*'", "matches everything"),
    ("message: 'no such key'", "message: 'no (such'", "cannot be read"),
    ("message: 'no such key'", "message: 'no (?P<what>such) key'", "captures"),
    ("advice: ['look']", "advice: ['look']\ncaptures: {nothing: int}", "nothing"),
    ("  - type: KeyError\n    message: 'no such key'", "  - {}", "empty matcher"),
    ("verdict: real", "verdict: transient\nretry: {action: stop}", "contradicts"),
    ("verdict: real", "verdict: real\nfatal: true", "fatal"),
    ("title: a rule of a test", "title: a\ntitle: b", "YAML"),
    ("title: a rule of a test", "title: no", "title"),
    (GOOD, "- a\n- list\n", "mapping"),
    (GOOD, "", "mapping"),
])  # fmt: skip
def test_what_a_rule_must_not_be(old: str, new: str, part: str, tmp_path: Path) -> None:
    found = problems(write(tmp_path, a__x=GOOD.replace(old, new)))
    assert any(part in str(p) for p in found), [str(p) for p in found]


def test_a_rule_that_names_another_that_does_not_exist(tmp_path: Path) -> None:
    root = write(tmp_path, a__one=GOOD + "over: [a/twoo]\nrelated: [zz/*]\n", a__two=GOOD)
    texts = [str(p) for p in problems(root)]
    assert any("a/twoo" in t and "did you mean `a/two`?" in t for t in texts)
    assert any("zz/*" in t for t in texts)


def test_a_rule_outside_an_area_is_refused(tmp_path: Path) -> None:
    assert any("area" in str(p) for p in problems(write(tmp_path, stray=GOOD)))


def test_a_folder_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    assert "no such folder" in str(problems(tmp_path / "nowhere")[0])


def test_a_file_that_is_not_utf8_is_a_problem_not_a_crash(tmp_path: Path) -> None:
    root = write(tmp_path, a__x=GOOD)
    (root / "a" / "x.yaml").write_bytes(b"title: \xff\xfe\n")
    assert "cannot be read" in str(problems(root)[0])


def test_files_whose_names_begin_with_a_dot_or_an_underscore_are_no_rules(tmp_path: Path) -> None:
    root = write(tmp_path, a__x=GOOD)
    (root / "a" / "_draft.yaml").write_text("nothing", encoding="utf-8")
    (root / "a" / ".hidden.yaml").write_text("nothing", encoding="utf-8")
    assert list(read_dir(root)) == ["a/x"]


def test_the_packed_form_says_what_the_yaml_says() -> None:
    root = rules_dir()
    body = json.loads(packed_text(root))
    rules = pack_dir(root)
    assert body["rules"] == json.loads(json.dumps(rules))
    assert body["digest"] == digest(rule_files(root))
    assert [r["id"] for r in load_packed()] == [r["id"] for r in rules]
    assert sorted(json.dumps(r, sort_keys=True) for r in load_packed()) == sorted(json.dumps(r, sort_keys=True) for r in rules)


def test_a_packed_form_of_other_rules_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = tmp_path / "packed.json"
    stale.write_text(json.dumps({"digest": "other", "rules": [{"id": "a/x"}]}), encoding="utf-8")
    os.utime(stale, (1, 1))
    monkeypatch.setattr(store, "PACKED", stale)
    assert len(load_packed()) == len(list(rule_files(rules_dir())))


def test_the_ids_of_the_built_in_rules_are_their_paths(rules) -> None:
    wanted = sorted(p.relative_to(rules_dir()).with_suffix("").as_posix() for p in rules_dir().rglob("*.yaml"))
    assert sorted(rules.by_id) == wanted


def test_every_rule_that_another_names_exists() -> None:
    found = read_dir(rules_dir())
    areas = {r.split("/")[0] for r in found}
    for rule_id, rule in found.items():
        for other in (*(rule.over or ()), *rule.related):
            assert other in found or (other.endswith("/*") and other[:-2] in areas), f"{rule_id} names {other}"


def test_a_profile_changes_what_its_site_file_says_and_no_more() -> None:
    job, tests = builtin_rules("job").by_id, builtin_rules("tests").by_id
    assert (job["gpu-memory/cuda-oom"].verdict, tests["gpu-memory/cuda-oom"].verdict) == ("real", "transient")
    changed = {i for i in job if job[i].data != tests[i].data}
    site = read_site(store.profile_path("tests"))
    assert changed == {i for i in job if any(i == k or (k.endswith("/*") and i.startswith(k[:-1])) for k in site.override)}


def test_a_profile_that_does_not_exist_is_a_users_mistake() -> None:
    with pytest.raises(UsageError, match="choose one of job, tests"):
        apply_profile([], "night")


@pytest.mark.parametrize("text", ["override:\n  a/x:\n    verdict: maybe\n", "overide: {}\n", "override: [a]\n"])
def test_a_wrong_site_file_is_refused_with_its_place(text: str, tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RuleError) as caught:
        read_site(path)
    assert all(p.line >= 1 for p in caught.value.problems)


def test_the_built_in_rules_have_an_area_that_tells_what_they_are_about(rules) -> None:
    assert all(isinstance(r, PackedRule) and r.id.count("/") == 1 for r in rules.rules)
