"""Over every labelled log: what is real is retried by none of the surfaces, whatever carries the log."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest

import tbparse
from tbparse import classify, retryable
from tests.corpora import Case, all_cases

REAL = [c for c in all_cases() if c.label["verdict"] == "real" and "verdict" not in c.label.get("unscored", ())]


def _label(case: Case) -> str:
    return f"{case.id}: labelled real"


def carriers(text: str, returncode: int) -> dict[str, BaseException]:
    """The log as exceptions carry it to whoever decides about a retry."""
    child = subprocess.CalledProcessError(returncode or 1, ["trl", "sft"], stderr=text)
    output = subprocess.CalledProcessError(returncode or 1, ["trl", "sft"], output=text.encode("utf-8", "surrogatepass"))
    failed = type("ChildFailedError", (Exception,), {})("train.py FAILED")
    failed.failures = {0: SimpleNamespace(message={"message": "E", "extraInfo": {"py_callstack": text}}, error_file="")}
    outer = RuntimeError("stage 2 failed")
    outer.__cause__ = child
    return {"stderr": child, "output": output, "ChildFailedError": failed, "cause": outer}


def test_nothing_that_is_real_is_retried() -> None:
    assert len(REAL) > 300
    wrong = []
    for n, case in enumerate(REAL):
        data = case.read()
        returncode = case.returncode
        if retryable(data, returncode=returncode, profile="job"):
            wrong.append((case.id, "text"))
        if len(data) > 200_000 or n % 4:  # the exceptions add little to the text: every fourth case is enough
            continue
        text = data.decode("utf-8", "surrogateescape").encode("utf-8", "replace").decode()
        for name, error in carriers(text, returncode or 1).items():
            if retryable(error, profile="job"):
                wrong.append((case.id, name))
    assert not wrong


@pytest.mark.slow
def test_nothing_that_is_real_is_retried_by_any_surface() -> None:
    wrong = []
    for case in REAL:
        data = case.read()
        text = data.decode("utf-8", "replace")
        for name, error in carriers(text, case.returncode or 1).items():
            calls: list[int] = []

            def work(error: BaseException = error, calls: list[int] = calls) -> None:
                calls.append(1)
                raise error

            for call in (tbparse.retry(attempts=2, wait=0, capture=False, profile="job")(work), _surfaced(work)):
                try:
                    call()
                except tbparse.TransientFailure:
                    wrong.append((case.id, name, "surface"))
                except Exception:
                    pass
            if len(calls) != 2:
                wrong.append((case.id, name, "retry"))
    assert not wrong


def _surfaced(work):
    return tbparse.surface(capture=False, profile="job")(work)


def test_under_the_profile_of_tests_only_memory_on_a_shared_card_is_judged_otherwise() -> None:
    moved = set()
    for case in REAL:
        data = case.read()
        answer = classify(data, returncode=case.returncode, profile="tests")
        if answer.transient:
            moved.add(answer.rule)
    assert moved <= {
        "gpu-memory/cuda-oom",
        "gpu-memory/cuda-oom-driver",
        "gpu-memory/cublas-alloc-failed",
        "gpu-memory/hip-oom",
        "gpu-memory/xpu-oom",
    }
    assert "gpu-memory/cuda-oom" in moved
