"""Tracebacks of several processes that came line by line into one console without prefixes (tbparse/dialects/mixed.py)."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from synthetic import texts as t

from tbparse.model import RootCause

EFFECTS = [
    x.replace("{h}", "3").replace("{port}", "4242").replace("{host}", "n1") for x in (t.GLOO_CLOSED, t.NCCL_REMOTE, t.STORE_WAIT)
]
CAUSES = t.CAUSES[:10]


def mixed(rng: random.Random, blocks: list[str], *, torn: float = 0.0) -> str:
    """The blocks' lines in one stream; with ``torn``, that share of line ends is lost."""
    rows = [b.rstrip("\n").split("\n") for b in blocks]
    out = ""
    while left := [r for r in rows if r]:
        out += rng.choice(left).pop(0) + ("" if rng.random() < torn else "\n")
    return out + "\n"


def job(seed: int, *, torn: float = 0.0) -> tuple[str, str | None]:
    rng = random.Random(seed)
    cause = rng.choice(CAUSES)
    effects = rng.choices(EFFECTS, k=rng.randrange(1, 4))
    return "step 1\nstep 2\n" + mixed(rng, [cause.text, *effects], torn=torn), cause.exception


@pytest.mark.parametrize("seed", range(60))
def test_the_local_error_survives_with_low_confidence_and_its_reason(seed: int, explain: Callable[..., RootCause]) -> None:
    text, exception = job(seed)
    answer = explain(text, returncode=1)
    assert answer.exception == exception
    assert answer.confidence == "low"
    assert any("without prefixes" in n or "mixed" in n for n in answer.notes)


def test_where_line_ends_are_lost_most_survive_and_none_is_called_transient(explain: Callable[..., RootCause]) -> None:
    right = 0
    for seed in range(100):
        text, exception = job(seed, torn=0.15)
        answer = explain(text, returncode=1)
        assert answer.verdict != "transient", text
        right += answer.exception == exception
    assert right >= 90


def test_effects_alone_that_are_mixed_are_not_run_again(explain: Callable[..., RootCause]) -> None:
    answer = explain(mixed(random.Random(1), [EFFECTS[1], EFFECTS[1], EFFECTS[2]]), returncode=1)
    assert (answer.verdict, answer.retry.action) == ("unknown", "stop")


def test_tracebacks_one_after_the_other_are_not_mixed(explain: Callable[..., RootCause]) -> None:
    for cause in CAUSES:
        answer = explain(EFFECTS[0] + cause.text + EFFECTS[2], returncode=1)
        assert answer.exception == cause.exception
        assert not any("without prefixes" in n for n in answer.notes)
        assert answer.site is not None
