"""The answer as text and as JSON. ``TBPARSE_BLESS=1 pytest tests/test_render.py`` rewrites tests/golden: read the diff."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbparse.attribute.facts import number_list, show_ranks
from tbparse.engine import Explainer
from tbparse.model import ChainLink, Evidence, Frame, Retry, RootCause, Secondary, Site
from tbparse.render import FORMATS, renderer
from tbparse.render.layout import Sheet, cells, cut, short_path, wrap
from tbparse.render.report import Report
from tbparse.render.rules import listing
from tbparse.render.safe import printable
from tbparse.render.words import count
from tbparse.ruleset.match import PackedRule, RuleSet
from tbparse.ruleset.pack import pack_rule
from tbparse.ruleset.schema import Rule

HERE = Path(__file__).resolve().parent
GOLDEN = HERE / "golden"
CASES = HERE.parent / "fixtures" / "corpus" / "cases"


def rule(rule_id: str, title: str, category: str, verdict: str, match: dict[str, str], advice: str, **more: object) -> PackedRule:
    data: dict[str, object] = {
        "title": title,
        "summary": title + ", for the tests of rendering.",
        "category": category,
        "verdict": verdict,
    }
    data |= {"match": match, "advice": advice, "examples": [{"text": "x", "source": "none"}], **more}
    return PackedRule(pack_rule(rule_id, Rule.model_validate(data)))


# Rules of these tests' own, so that a better word of advice elsewhere changes no golden text.
RETRY = {"action": "retry_elsewhere", "delay_s": 300, "max": 3}
RULES = RuleSet(
    rule(*row[:4], row[4], row[5], **(row[6] if len(row) > 6 else {}))
    for row in (
        ("python/name-error", "A name is not defined", "user-code", "real", {"type": "NameError"}, "Look at your deepest frame."),
        ("gpu-memory/cuda-oom", "CUDA ran out of memory", "gpu-memory", "real", {"type": "OutOfMemoryError"},
         "Lower the batch size."),
        ("scheduler/node-failure", "A node of the Slurm job failed", "scheduler", "transient", {"message": "DUE TO NODE FAILURE"},
         "Run it again.", {"retry": RETRY}),
        ("network/reset", "The other side closed the connection", "network", "transient", {"type": "ConnectionResetError"},
         "Run it again."),
        ("communication/peer-lost", "Another rank went away", "communication", "unknown", {"message": "closed by peer"},
         "Look at the other rank.", {"symptom": True}),
        ("config/usage-error", "The command line is wrong", "config", "real", {"kind": "usage"}, "Correct the option."),
        ("host-memory/sigkill", "A process was killed with SIGKILL", "unknown", "unknown", {"signal": "SIGKILL"},
         "Look for an OOM kill."),
        ("gpu-hardware/xid-79", "A GPU fell off the bus (Xid 79)", "gpu-hardware", "transient", {"message": "Xid .*: 79,"},
         "Run it again on another node."),
    )
)  # fmt: skip


def report(case: str, **more: object) -> Report:
    explainer = Explainer(rules=RULES)
    log = sorted((CASES / case).glob("*.txt"))[0]
    explainer.feed(log.read_bytes())
    return Report(explainer.finish(), explainer.job, name=f"logs/{case}.txt", **more)


def text(r: Report, width: int = 80, colour: bool = False) -> str:
    return renderer("text")(r, width=width, colour=colour)


GOLDENS = [
    "accelerate_cpu",
    "elastic_cascade",
    "kill_torchrun",
    "field-gpu-xid79-fallen-off-bus",
    "field-py-slurm-node-fail",
    "exit_argparse",
    "group_taskgroup",
    "field-gpu-cuda-oom-adam-step-rank1",
]


def golden(name: str, got: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("TBPARSE_BLESS"):
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(got, encoding="utf-8")
    assert got == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("case", GOLDENS)
def test_the_screen_of_a_common_failure(case):
    got = text(report(case))
    assert got.count("\n") <= 24
    golden(case, got)


def test_why_and_all_name_everything_that_was_weighed():
    golden("elastic_cascade.why", text(report("elastic_cascade", why=True, every=True)))


def every_case() -> list[str]:
    return sorted(p.name for p in CASES.iterdir() if any(p.glob("*.txt")))


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_row_is_too_wide_or_ends_in_a_blank(width):
    """Nor does any answer fill more than a screen and a half."""
    for case in every_case():
        r = report(case, why=True, every=True)
        for row in text(r, width).split("\n"):
            assert row == row.rstrip(), case
            # Only a word that cannot be shortened, a file's name, may stand out.
            assert cells(row) <= width or (width == 40 and ("/" in row or "\\" in row)), (case, row)
        assert text(Report(r.answer, r.job), width).count("\n") <= (36 if width >= 80 else 80), case


def test_plain_and_coloured_say_the_same():
    import re

    for case in GOLDENS:
        r = report(case, why=True)
        coloured = text(r, colour=True)
        assert "\x1b[" in coloured
        plain = "\n".join(x.rstrip() for x in re.sub(r"\x1b\[[\d;]*m", "", coloured).split("\n"))
        assert plain == text(r)


def test_json_is_the_model():
    r = report("elastic_cascade")
    out = renderer("json")(r)
    assert out.count("\n") == 1
    assert out.endswith("}\n")
    assert RootCause.from_json(out) == r.answer


def test_every_format_can_be_loaded():
    assert all(renderer(name)(report("exit_argparse")).endswith("\n") for name in FORMATS)


@pytest.mark.parametrize("verdict", ["real", "transient", "unknown", "clean"])
def test_an_answer_alone_can_be_shown(verdict):
    """A report needs no job: an answer that was read back from JSON is enough."""
    out = text(Report(RootCause(verdict=verdict, category=None if verdict == "clean" else "unknown", confidence="low")))
    assert out.startswith(f"{verdict.upper()} — ")


FULL = RootCause(
    verdict="transient",
    category="network",
    confidence="high",
    rule="a/b",
    title="title",
    exception="pkg.Error",
    message="first\nsecond\n\nthird\nfourth",
    site=Site(path="/w/a.py", line=3, function="f", source="go()"),
    entry=Site(path="/w/main.py", line=9, function="<module>"),
    frames=(
        Frame(path="/w/a.py", line=3, function="f", origin="user"),
        Frame(path="/l/b.py", line=1, function="g", origin="library"),
    ),
    chain=(ChainLink(exception="pkg.Error", relation="root"),),
    rank=9,
    local_rank=1,
    host="n1",
    attempt=2,
    process="Worker-3",
    signal="SIGKILL",
    evidence=(Evidence(line=7, start=0, end=1, text="x"), Evidence(line=9, start=2, end=3, text="y")),
    secondary=tuple(Secondary(exception="m.E", rank=r, line=r) for r in (0, 1, 2, 5)),
    advice=tuple(f"advice {i}" for i in range(7)),
    retry=Retry(action="retry_later", delay_s=300.0, max=1),
    notes=("a note",),
)


def test_everything_that_the_answer_knows_is_on_the_screen():
    golden("full", text(Report(FULL, name="x.log", titled=True)))


# --- log text is data

EVIL = [
    "\x1b[2J",
    "\x9b31m",
    "\x07",
    "\x08",
    "\r",
    "\x7f",
    "\u202e",
    "\u2066",
    "\u200f",
    "\u2028",
    "\ufeff",
    "\U000e0041",
    "\ud800",
]
EVIL += ["[red]", "[/]", "[link=x]", ":smile:"]


def filled(evil: str) -> RootCause:
    s = f"a{evil}b"
    site = Site(path=f"/w/{s}/{s}.py", line=1, function=s, source=s)
    words = dict.fromkeys(("exception", "host", "process", "title", "rule", "signal"), s)
    texts = {"message": f"{s}\n{s}", "notes": (s,), "advice": (s,), "secondary": (Secondary(exception=s, rank=1, line=1),)}
    return FULL.model_copy(update={**words, **texts, "site": site, "entry": Site(path=s, line=2, function=s)})


@pytest.mark.parametrize("evil", EVIL, ids=[ascii(e).strip("'") for e in EVIL])
def test_no_text_of_a_log_steers_the_terminal(evil):
    r = Report(filled(evil), name=f"{evil}.log", titled=True)
    out = text(r)
    assert all(c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in out)
    if evil.isprintable():
        assert f"a{evil}b" in out
        assert f"a{evil}b" in text(r, colour=True)


@given(st.text())
def test_printable_text_is_one_line_without_controls(s):
    out = printable(s)
    assert "\n" not in out
    assert not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in out)
    assert not any(c in out for c in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    out.encode()


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "Zs", "So"])), st.integers(2, 60))
def test_wrapping_loses_nothing_but_blanks(s, width):
    rows = wrap(s, width)
    assert all(cells(r) <= width for r in rows)
    assert "".join("".join(rows).split()) == "".join(s.split())


def test_wrapping_breaks_at_blanks():
    assert wrap("one two three", 7) == ["one two", "three"]
    assert wrap("a " + "x" * 20, 10) == ["a xxxxxxxx", "xxxxxxxxxx", "xx"]
    assert wrap("", 10) == [""]
    assert wrap("aa  bb", 10) == ["aa  bb"]


def test_a_long_path_keeps_its_file():
    path = "/mnt/very/long/way/to/the/project/src/train.py"
    assert short_path(path, 80) == path
    assert short_path(path, 30) == "/mnt/…/project/src/train.py"
    assert short_path(path, 3) == "…/train.py"
    assert short_path(r"C:\Users\someone\work\project\train.py", 24) == r"C:\…\project\train.py"
    assert short_path("train_with_a_long_name.py", 5) == "…/train_with_a_long_name.py"


def test_cut_counts_cells_not_characters():
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdefg", 6) == "abcde…"
    assert cut("你好你好", 6) == "你好…"


def test_words():
    assert number_list([3, 1, 2, 7, 9, 10]) == "1-3, 7, 9, 10"
    assert number_list(range(0, 20000, 2)) == "0, 2, 4, 6, 8, 10, 12, 14 … 19998 (10,000 in all)"
    assert show_ranks([4]) == "rank 4"
    assert show_ranks([]) == ""
    assert count(1, "frame") == "1 frame"
    assert count(1200, "entry", "entries") == "1,200 entries"


def test_a_sheet_never_has_two_blank_rows():
    sheet = Sheet(80)
    sheet.blank()
    sheet.row(("a", ""))
    sheet.blank()
    sheet.blank()
    sheet.item("what", [("b", "")])
    assert sheet.plain() == "a\n\n  what   b\n"


def test_a_list_of_rules_fits_the_terminal():
    rows = listing([r.data for r in RULES.rules], width=60, colour=False).split("\n")
    assert max(map(cells, rows)) <= 60
    assert rows[-2] == "8 rules"
