"""The error file that torch elastic's ``@record`` leaves of each rank (``TORCHELASTIC_ERROR_FILE``).

``{"message": {"message": "Type: text", "extraInfo": {"py_callstack": "<traceback>", "timestamp": "<seconds>"}}}``, or a plain
string as ``message`` (torch.distributed.elastic.multiprocessing.errors.error_handler, 1.9 to 2.13).
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

MAX_BYTES = 16 * 1024 * 1024


class ErrorFile(NamedTuple):
    """What an error file tells: the traceback or else the message, and the time as whole seconds since 1970."""

    text: str
    time: str | None = None


def read_error_file(raw: bytes) -> ErrorFile | None:
    """The traceback in an error file, or its message; None where it is empty or not JSON."""
    try:
        data: Any = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    message = data.get("message") if isinstance(data, dict) else None
    if isinstance(message, str):
        return ErrorFile(message) if message.strip() else None
    if not isinstance(message, dict):
        return None
    extra = message.get("extraInfo")
    extra = extra if isinstance(extra, dict) else {}
    when = extra.get("timestamp")
    time = str(when) if isinstance(when, (str, int)) and str(when).isdecimal() else None
    stack = extra.get("py_callstack")
    if isinstance(stack, str) and stack.strip():
        return ErrorFile(stack, time)
    text = message.get("message")
    return ErrorFile(text, time) if isinstance(text, str) and text.strip() else None
