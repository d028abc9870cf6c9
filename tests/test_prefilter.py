"""Where a trigger stands next: both ways of finding it agree (tbparse/text/prefilter.py)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tbparse.dialects import registry
from tbparse.text.prefilter import TRIGGERS, FindScanner, load_hyperscan, make_scanner

BODIES = st.lists(st.sampled_from([b"rror", b"x", b"\n", b"Traceback (most recent call last):", b"oo", b"m", "❱".encode(), b"\xff", b"---", b"> ", b"a quiet line\n"]), max_size=60).map(b"".join)


def all_hits(scanner, body: bytes) -> list[int]:
    scanner.load(body)
    out, at = [], 0
    while (hit := scanner.next_hit(at)) < len(body):
        out.append(hit)
        at = hit + 1
    return out


@given(BODIES)
def test_the_plain_scanner_finds_every_trigger_in_order(body: bytes) -> None:
    wanted = {t.encode() for t in TRIGGERS}
    expected = sorted({n for n in range(len(body)) if any(body.startswith(w, n) for w in wanted)})
    assert all_hits(make_scanner(backend="find"), body) == expected


@pytest.mark.skipif(load_hyperscan() is None, reason="hyperscan is an extra, and this machine lacks it or AVX2")
@given(BODIES)
@settings(max_examples=60)
def test_hyperscan_hits_the_same_lines(body: bytes) -> None:
    """Its offsets are those of the triggers' last bytes; what counts is the line."""
    plain, fast = all_hits(make_scanner(backend="find"), body), all_hits(make_scanner(backend="hyperscan"), body)
    assert {body.count(b"\n", 0, n) for n in fast} == {body.count(b"\n", 0, n) for n in plain}


@given(st.lists(st.text(alphabet="ab(.*[\\", min_size=3, max_size=6), min_size=1, max_size=4), st.text(alphabet="ab(.*[\\\n", max_size=60))
def test_extra_literals_are_found_as_they_are_written(extra: list[str], text: str) -> None:
    hits = all_hits(make_scanner(extra, backend="find"), text.encode())
    assert [n for n in range(len(text)) if any(text.startswith(e, n) for e in extra)] == hits


def test_a_scanner_can_be_loaded_again() -> None:
    scanner = FindScanner([b"abc"])
    assert all_hits(scanner, b"xxabc") == [2]
    assert all_hits(scanner, b"abc abc") == [0, 4]
    assert all_hits(scanner, b"") == []


@pytest.mark.parametrize(("name", "trigger"), [(d.name, t) for d in registry() for t in d.triggers])
def test_a_line_that_a_dialect_asks_for_is_let_through(name: str, trigger: str) -> None:
    """Whatever makes a dialect read a page must make the prefilter keep the line, or the two ways of reading differ."""
    scanner = make_scanner(backend="find")
    lines = {
        # Triggers that stand in every line of a kind have a longer text around them in the logs where they matter.
        "(most recent call first):": "Current thread 0x01 (most recent call first):\nFatal Python error: x",
        "noticed that process rank": "mpirun noticed that process rank 3 exited on signal 9 (Killed)",
        "In [": "KeyError  Traceback (most recent call last)\nIn [3]",
        "In[": "KeyError  Traceback (most recent call last)\nIn[3]",
        "<ipython-input-": "<ipython-input-1> in f()\n---> 1 x",
        "*** ": "*** SIGSEGV received at time=1 ***",
        "*** Process received": "*** Process received signal ***",
    }
    body = lines.get(trigger, trigger).encode()
    scanner.load(body)
    assert scanner.next_hit(0) < len(body), f"the dialect {name} looks for {trigger!r}, which no trigger finds"
