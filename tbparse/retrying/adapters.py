"""Where another package's retry takes a function of its own kind; most take ``retryable`` as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tbparse.retrying.decision import retryable

if TYPE_CHECKING:
    import tenacity


def wait_advised(retry_state: tenacity.RetryCallState) -> float:
    """For tenacity's ``wait=``: the seconds that the rule of the last failure advises, 0 after a result."""
    outcome = retry_state.outcome
    exc = outcome.exception() if outcome is not None else None
    return retryable(exc).delay_s if exc is not None else 0.0
