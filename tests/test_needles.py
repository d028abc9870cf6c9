"""Looking for many texts at once finds what looking for each finds (text/needles.py, ruleset/match.py)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tbparse.attribute.facts import NEEDLES
from tbparse.dialects.base import Page
from tbparse.dialects.registry import REGISTRY
from tbparse.records import Line
from tbparse.ruleset import match
from tbparse.ruleset.match import RuleSet
from tbparse.text.needles import Haystack, Needles

WORDS = st.sampled_from(["Err", "rank", "é", "Error: x", " ", "─", "a", "(", "\udc80"])
LINES = st.lists(st.lists(WORDS, max_size=4).map("".join), max_size=8)


@given(LINES, st.lists(st.lists(WORDS, min_size=1, max_size=3).map("".join), min_size=1, max_size=3))
@example([], ["a"])
@example(["ab", "ab", "b"], ["bb"])
def test_a_text_is_found_where_a_line_holds_it(lines: list[str], wanted: list[str]) -> None:
    assert Needles(*wanted).in_any(Haystack(lines)) is any(w in line for w in wanted for line in lines)


def test_no_trigger_spans_lines() -> None:
    """Lines are searched one by one, each once."""
    assert not [t for entry in REGISTRY for t in entry.triggers if "\n" in t]
    assert not [t for t in NEEDLES if "\n" in t]


def test_a_page_that_is_narrowed_shows_only_lines_that_nobody_took() -> None:
    page = Page([Line(k, 4 * k, 4 * k + 3, text) for k, text in enumerate(["one", "two", "two"])])
    assert Needles("one").in_any(page.words)
    assert page.index_at(4) == 1
    page.take(0, 0)
    assert page.narrow()
    assert not Needles("one").in_any(page.words)
    assert Needles("two").in_any(page.words)
    assert Needles("one").in_any(page.everything)
    assert (page.index_at(page.blob.index("two")), page.offset_of(2)) == (1, 5)


def test_a_short_message_meets_the_matchers_that_a_long_one_meets(rules: RuleSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Literals are looked up by their start in short messages, and searched in long ones."""
    index: Any = rules._untyped
    exact, lower, _ = index._by_literal
    texts = [f"x {word[:-1]} {word}{word}" for word, _ in [*exact[::7], *lower[::7]]] + ["", "a", "Er"]
    found = [index._hits(text, text.lower()) for text in texts]
    monkeypatch.setattr(match, "SHORT_MESSAGE", -1)
    assert found == [index._hits(text, text.lower()) for text in texts]
    assert all(found[:-3])
