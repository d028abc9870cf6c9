"""The predicate: what it says of exceptions and texts, and what other packages make of what it returns."""

from __future__ import annotations

import pickle
import subprocess

import pytest

import tbparse
from tbparse import Decision, retryable

OOM = """Traceback (most recent call last):
  File "/w/train.py", line 3, in <module>
    main()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
"""


def test_a_decision_is_true_for_a_transient_failure_only_and_carries_the_advice() -> None:
    yes, no = retryable("ConnectionResetError: [Errno 104] Connection reset by peer"), retryable(ValueError("no"))
    assert yes
    assert (yes.max, yes.delay_s > 0, yes.root_cause.verdict) == (yes.root_cause.retry.max, True, "transient")
    assert not no
    assert (no.max, no.delay_s, no.root_cause.exception) == (0, 0.0, "ValueError")
    assert "ValueError: no" in no.reason


def test_unknown_and_clean_are_not_retried() -> None:
    assert not retryable("")
    assert not retryable("some words", returncode=1)


def test_decisions_are_frozen_compare_by_their_root_cause_and_travel_between_processes() -> None:
    for d in (retryable(OOM, profile="tests"), retryable(OOM, profile="job")):
        assert pickle.loads(pickle.dumps(d)) == d
        assert type(d) is Decision
        assert isinstance(d, Decision)
        with pytest.raises(AttributeError, match="frozen"):
            d.max = 7
    assert retryable(OOM, profile="tests") != retryable(OOM, profile="job")


def test_under_pytest_the_profile_is_tests_and_elsewhere_job(monkeypatch: pytest.MonkeyPatch) -> None:
    assert retryable(OOM)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    assert not retryable(OOM)


def test_a_root_cause_that_a_capture_attached_is_believed_and_read_under_the_profile() -> None:
    error = subprocess.CalledProcessError(1, ["trl", "sft"])
    error.root_cause = tbparse.classify(OOM, returncode=1)  # type: ignore[attr-defined]
    assert retryable(error, profile="tests")
    assert not retryable(error, profile="job")
    assert retryable(error, profile="tests").root_cause.exception == "torch.OutOfMemoryError"
