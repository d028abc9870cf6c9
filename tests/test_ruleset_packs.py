"""Packs: folders, site files and installed packages over the built-in rules (tbparse/ruleset/packs.py)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from making import traceback

from tbparse import classify, load_rules
from tbparse.errors import RuleError, UsageError
from tbparse.ruleset.packs import rule_paths

LEASE = """title: A lease of the shard store ran out
summary: The store gives a lease on a shard; whoever keeps it too long loses it.
category: storage
verdict: transient
match:
  - type: LeaseLost
    message: 'lease \\d+ expired'
advice: ['Look at the store, then run again.']
examples:
  - text: 'acme.LeaseLost: lease 7 expired'
    source: acme 1.0, made up
"""
LOST = traceback("acme.LeaseLost: lease 7 expired", ("/opt/venv/lib/python3.11/site-packages/acme/client.py", 3, "get"))
KEY = traceback("KeyError: 'lr'")


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    (tmp_path / "pack" / "acme").mkdir(parents=True)
    (tmp_path / "pack" / "acme" / "lease.yaml").write_text(LEASE, encoding="utf-8")
    return tmp_path / "pack"


def site(pack: Path, text: str, name: str = "site.yaml") -> Path:
    path = pack / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_folder_adds_its_rules_to_the_built_in_ones(pack: Path) -> None:
    rules = load_rules(pack)
    assert classify(LOST, rules=rules).rule == "acme/lease"
    assert classify(KEY, rules=rules).rule == "python/key-error"
    assert "acme/lease" in rule_paths([pack])


def test_alone_leaves_the_built_in_rules_out(pack: Path) -> None:
    assert list(load_rules(pack, alone=True).by_id) == ["acme/lease"]


def test_a_later_pack_replaces_a_rule_of_the_same_id(pack: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "acme"
    other.mkdir(parents=True)
    (other / "lease.yaml").write_text(LEASE.replace("verdict: transient", "verdict: real"), encoding="utf-8")
    assert load_rules([pack, tmp_path / "other"]).by_id["acme/lease"].verdict == "real"


def test_a_site_file_disables_overrides_and_filters(pack: Path) -> None:
    text = "disable: [python/key-error]\noverride: {acme/*: {verdict: unknown}}\n"
    text += "filters:\n  - rules: acme/lease\n    unless: [{message: 'lease 9'}]\n    because: shard 9 is a test\n"
    site(pack, text)
    rules = load_rules(pack)
    assert classify(KEY, rules=rules).rule != "python/key-error"
    assert classify(LOST, rules=rules).verdict == "unknown"
    assert classify(LOST.replace("lease 7", "lease 9"), rules=rules).rule is None


def test_a_site_file_extends_what_it_names_and_no_more(pack: Path, tmp_path: Path) -> None:
    path = site(tmp_path, "extends: [pack]\n", "only.yaml")
    assert list(load_rules(path).by_id) == ["acme/lease"]
    both = site(tmp_path, "extends: [builtin, pack]\n", "both.yaml")
    assert {"acme/lease", "python/key-error"} <= set(load_rules(both).by_id)


def test_a_site_file_that_extends_itself_is_told_so(tmp_path: Path) -> None:
    site(tmp_path, "extends: [b.yaml]\n", "a.yaml")
    site(tmp_path, "extends: [a.yaml]\n", "b.yaml")
    with pytest.raises(RuleError, match="extends itself"):
        load_rules(tmp_path / "a.yaml")


def test_a_rule_that_a_site_file_names_has_to_exist(pack: Path) -> None:
    site(pack, "disable: [python/key-eror]\n")
    with pytest.raises(RuleError, match="did you mean `python/key-error`"):
        load_rules(pack)


def test_a_pack_that_is_not_there_is_a_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no rules at"):
        load_rules("nowhere", base=tmp_path)


def test_an_installed_package_offers_its_folder_and_is_not_run(pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "acme_rules"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemError('a pack is data')\n", encoding="utf-8")
    pack.rename(package / "rules")
    info = tmp_path / "acme_rules-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-rules\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[tbparse.rules]\nacme = acme_rules:rules\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "acme/lease" in load_rules("acme").by_id
    assert "acme/lease" in load_rules("installed").by_id
    assert "acme_rules" not in sys.modules
    with pytest.raises(UsageError, match="did you mean `acme`"):
        load_rules("acmee", base=tmp_path)


def test_a_profile_goes_over_the_packs(pack: Path) -> None:
    assert load_rules(pack, profile="tests").by_id["gpu-memory/cuda-oom"].verdict == "transient"
