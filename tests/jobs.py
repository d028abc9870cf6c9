"""Jobs of several logs, made of texts: what a folder of ranks' logs becomes in the engine."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

from collections.abc import Mapping

from making import traceback

from tbparse.attribute.job import Job
from tbparse.attribute.witnesses import Statement
from tbparse.engine import Explainer
from tbparse.model import RootCause
from tbparse.records import Tags
from tbparse.ruleset.match import RuleSet

TORCH = "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
LOCAL = traceback("KeyError: 'labels'", ("/work/train.py", 9, "step"))
PEER = traceback(
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.3]:4242",
    ("/work/train.py", 12, "reduce"),
    (TORCH, 2501, "all_reduce"),
)
WAITED = traceback(
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 1800000ms for recv operation to complete",
    ("/work/train.py", 12, "reduce"),
    (TORCH, 2501, "all_reduce"),
)


def of_rank(rank: int, text: str) -> str:
    """The text behind torch's rank prefix."""
    return "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines())


def timed(start: str, text: str) -> str:
    """The text behind a time, the same on every line."""
    return "".join(f"{start} {line}\n" for line in text.splitlines())


def explained(
    rules: RuleSet, console: str = "", logs: Mapping[str, tuple[Tags, str]] | None = None, returncode: int | None = 1
) -> tuple[RootCause, Job]:
    """The answer about a console's text and ranks' own logs (name → what the name tells, text), and what was found."""
    explainer = Explainer(rules=rules)
    explainer.feed(console.encode())
    explainer.drain()
    for name, (tags, text) in (logs or {}).items():
        other = Explainer(rules=rules, source=name, tags=tags)
        other.feed(text.encode())
        explainer.join(other)
    return explainer.finish(returncode), explainer.job


def said(job: Job, witness: str) -> list[Statement]:
    """What one witness said."""
    assert job.decision is not None
    return [s for s in job.decision.statements if s.witness == witness]
