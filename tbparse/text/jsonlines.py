"""Logs of JSON objects, one a line or indented over many: the text inside their fields, as lines with the span of their own.

Shapes seen: docker's json-file and fluentd (``log``), kubectl and CRI forwarders, structlog (``event`` with ``exception`` as text
or as dict_tracebacks' list), loguru's serialize (``text``, ``record``), python-json-logger (``message``, ``exc_info``), ECS
(``error.stack_trace``), Google Cloud (``jsonPayload``, and ``gcloud logging read``'s indented ``textPayload``), OpenTelemetry
(``exception.stacktrace``), milabench (``data`` of an ``event`` that is a line), Datadog (``error.stack``), Sentry
(``exception.values`` with ``stacktrace.frames``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from tbparse.records import Line, Tags, merge_tags
from tbparse.text.lines import clean

_TEXT_FIELDS = ("text", "log", "message", "msg", "event", "MESSAGE", "textPayload", "body", "line")
_TRACE_FIELDS = (
    "exception",
    "exc_info",
    "exc_text",
    "traceback",
    "stack_trace",
    "stack",
    "stacktrace",
    "error.stack_trace",
    "error.stack",
    "exception.stacktrace",
    "exc_traceback",
    "err",
    "error",
    "tb",
)
_NESTED = ("record", "jsonPayload", "error", "exception", "attributes", "fields", "err", "data", "extra")
_LEVELS = ("level", "levelname", "severity", "log_level", "lvl", "log.level")
_HEADER = "Traceback (most recent call last)"
_ESCAPED = f"{_HEADER}:\\n"


_LOGFMT_RANK = re.compile(r"(?:^| )(?:rank|RANK|global_rank)=\"?(\d{1,6})\"?(?: |$)")
# A field of an object that is printed over many lines, and the lines that hold such an object together.
_FIELD = re.compile(r'^\s*"(?P<key>[\w.@-]+)": ?(?P<value>"(?:[^"\\]|\\.)*"),?$')
_FRAME_WORK = re.compile(r'^\s*(?:[\[\]{},\s]*|"[\w.@/-]+": ?.*)$')


def expand(lines: Sequence[Line]) -> tuple[list[Line], dict[int, str]] | None:
    """Lines with JSON objects replaced by the text in them, and their levels by index; None where there is no JSON."""
    indented = _indented(lines)
    if indented is not None:
        return indented, {}
    if not any(x.text[-1:] == "}" and '{"' in x.text[:100] for x in lines) and not any(_ESCAPED in x.text for x in lines):
        return None
    out: list[Line] = []
    levels: dict[int, str] = {}
    changed = False
    for line in lines:
        at = line.text.find('{"', 0, 100) if line.text.endswith("}") else -1  # a label may stand before the object
        found = _fields(line.text[at:]) if at >= 0 else None
        if found is None:
            quoted = _unescaped(line.text) if _ESCAPED in line.text and line.text[0] not in " \t" else None
            if quoted is None:
                out.append(line)
            else:
                changed = True
                told = _LOGFMT_RANK.search(line.text)
                tags = merge_tags(line.tags, Tags(rank=int(told[1]))) if told is not None else line.tags
                out += [line._replace(text=clean(piece), tags=tags) for piece in quoted.rstrip("\n").split("\n")]
            continue
        changed = True
        texts, level, tags, stream = found
        for text in texts:
            for piece in text.rstrip("\n").split("\n"):
                if level:
                    levels[len(out)] = level
                out.append(Line(line.no, line.start, line.end, clean(piece), "json", stream, tags))
    return (out, levels) if changed else None


def _indented(lines: Sequence[Line]) -> list[Line] | None:
    """The texts in objects that are printed over many lines; None where none of their fields holds a traceback."""
    if not any(_HEADER in x.text and _FIELD.match(x.text) for x in lines):
        return None
    out: list[Line] = []
    for line in lines:
        m = _FIELD.match(line.text)
        if m is not None and m["key"] in (*_TEXT_FIELDS, *_TRACE_FIELDS):
            pieces = str(json.loads(m["value"], strict=False)).rstrip("\n").split("\n")
            out += [line._replace(text=clean(piece)) for piece in pieces]
        elif not _FRAME_WORK.match(line.text):
            out.append(line)
    return out


def _unescaped(text: str) -> str | None:
    """The traceback that a line quotes with its line ends escaped (logfmt, a repr), and what stands before it."""
    start = text.index(_ESCAPED)
    quote = text[start - 1] if start else ""
    end = len(text)
    if quote not in "\"'" or not start:
        return None
    if quote:
        end = start
        while end < len(text) and (text[end] != quote or text[end - 1] == "\\"):
            end += 1
    body = text[start:end]
    if "\\n" not in body:
        return None
    body = (
        body.replace("\\\\", "\0")
        .replace("\\n", "\n")
        .replace('\\"', '"')
        .replace("\\'", "'")
        .replace("\\t", "\t")
        .replace("\0", "\\")
    )
    before = text[: start - 1 if quote in "\"'" else start].rstrip()
    return f"{before}\n{body}" if before else body


def _fields(text: str) -> tuple[list[str], str | None, Tags, str] | None:
    try:
        data = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    texts = [data[k] for k in _TEXT_FIELDS if isinstance(data.get(k), str)][:1]
    if data.get("event") == "line" and isinstance(data.get("data"), str):
        texts = [data["data"]]  # milabench: one object for each line of a run's output
    inner = data.get("record") if isinstance(data.get("record"), dict) else None
    if not any(t.strip() for t in texts):
        # loguru, Google Cloud's agents and tracing put the line's text one level down
        deeper = (v for k in ("record", "jsonPayload", "fields") if isinstance(v := data.get(k), dict))
        texts = next(([t] for v in deeper if (t := _first(v, _TEXT_FIELDS))), texts)
    if not any(_HEADER in t for t in texts):
        trace = _trace(data)
        if trace:
            texts.append(trace)
    if not texts:
        return None
    level = next(
        (
            str(v["name"] if isinstance(v, dict) and "name" in v else v)
            for k in _LEVELS
            if (v := data.get(k) or (inner or {}).get(k))
        ),
        None,
    )
    rank = next((data[k] for k in ("rank", "RANK", "global_rank") if _small(data.get(k))), None)
    local = data.get("local_rank") if _small(data.get("local_rank")) else None
    host = next((data[k] for k in ("hostname", "host", "node", "nodename") if isinstance(data.get(k), str)), None)
    process = next((data[k] for k in ("pod", "pod_name", "container_name", "container") if isinstance(data.get(k), str)), None)
    stream = "".join(f"[{x}]" for x in (rank, local, host, process) if x is not None)
    return texts, level.upper() if level else None, Tags(rank, local, host, process, None), stream


def _small(value: object) -> bool:
    """A plausible rank: an int that is no bool."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10_000_000


def _trace(data: dict[str, Any]) -> str | None:
    """The traceback among an object's fields, as CPython would print it."""
    for key in _TRACE_FIELDS:
        value = data.get(key)
        if isinstance(value, str) and (_HEADER in value or 'File "' in value):
            return value
        chain = value.get("values") if isinstance(value, dict) else value
        if isinstance(chain, list) and chain and all(isinstance(v, dict) for v in chain) and _frames(chain[0]) is not None:
            # structlog's list begins with the outermost, Sentry's with the first that was raised
            printed = map(_structured, reversed(chain) if isinstance(value, list) else chain)
            return "\n\nThe above exception was the direct cause of the following exception:\n\n".join(printed)
        if isinstance(value, dict) and _frames(value):
            return _structured(value)
        if isinstance(value, list) and value and all(isinstance(v, str) for v in value) and _HEADER in value[0]:
            return "".join(v if v.endswith("\n") else v + "\n" for v in value)
    for key in _NESTED:
        value = data.get(key)
        if isinstance(value, dict):
            found = _trace(value)
            kind, text = _first(value, _TYPE_KEYS), _first(value, _MESSAGE_KEYS)
            if found and isinstance(kind, str) and not _names(found, kind):
                head = "" if _HEADER in found else f"{_HEADER}:\n"  # ECS: frames alone, type and message beside them
                return f"{head}{found.rstrip()}\n{kind}: {text}" if text else f"{head}{found.rstrip()}\n{kind}"
            if found:
                return found
            if isinstance(kind, str) and key in ("exception", "error", "err") and kind[:1].isupper():
                return f"{kind}: {text}" if text else kind
    for value in data.values():
        if isinstance(value, str) and _HEADER in value:
            return value
    return None


def _names(trace: str, kind: str) -> bool:
    """Whether a traceback has an exception line of this type."""
    last = kind.rpartition(".")[2]
    return re.search(rf"^(?:[\w.]*\.)?{re.escape(last)}(?::|$)", trace, re.MULTILINE) is not None


_TYPE_KEYS = ("exc_type", "type", "kind", "class", "name")
_MESSAGE_KEYS = ("exc_value", "value", "message", "msg")
_PATH_KEYS = ("filename", "abs_path", "file", "path")
_LINE_KEYS = ("lineno", "line_number", "line")
_FUNCTION_KEYS = ("name", "function", "method", "func")
_SOURCE_KEYS = ("context_line", "source", "code", "line")


def _first(data: dict[str, Any], keys: Sequence[str], kind: type = str) -> Any:
    """The first of these fields that is filled with such a value."""
    return next((v for k in keys if isinstance(v := data.get(k), kind) and not isinstance(v, bool) and v != ""), None)


def _frames(exc: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The frames of an exception told as an object, outermost first; None where the object tells of no exception."""
    stack = exc.get("stacktrace") or exc.get("frames") or exc.get("traceback") or exc.get("stack")
    if isinstance(stack, dict):
        stack = stack.get("frames")
    if isinstance(stack, list) and all(isinstance(x, dict) for x in stack):
        frames = [x for x in stack if _first(x, _PATH_KEYS) and _first(x, _LINE_KEYS, int) is not None]
        if len(frames) == len(stack) and _first(exc, _TYPE_KEYS):
            return frames
    return [] if "exc_type" in exc else None


def _structured(exc: dict[str, Any]) -> str:
    """An exception told as an object, as CPython would print it."""
    rows = [_HEADER + ":"]
    for frame in _frames(exc) or ():
        place = f'  File "{_first(frame, _PATH_KEYS)}", line {_first(frame, _LINE_KEYS, int)}'
        rows.append(f"{place}, in {_first(frame, _FUNCTION_KEYS) or '?'}")
        source = _first(frame, _SOURCE_KEYS)
        if source:
            rows.append(f"    {source.strip()}")
    kind, value = _first(exc, _TYPE_KEYS) or "Exception", _first(exc, _MESSAGE_KEYS)
    rows.append(f"{kind}: {value}" if value else kind)
    return "\n".join(rows)
