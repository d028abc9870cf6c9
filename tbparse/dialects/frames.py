"""Frames, exception lines and the ends of messages: the pieces that many dialects share."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tbparse.records import Frame

FILE_LINE = re.compile(
    r'^(?P<indent>[ \t]*)(?:[|>│] ?)*File "(?P<path>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>.*\S)?)?\s*$'
)
HEADER = re.compile(r"Traceback \(most recent call last\):?\s*$")
HEADER_TEXT = "Traceback (most recent call last)"
CAUSE_SENTENCE = "The above exception was the direct cause of the following exception:"
CONTEXT_SENTENCE = "During handling of the above exception, another exception occurred:"
SEPARATORS = {CAUSE_SENTENCE: "cause", CONTEXT_SENTENCE: "context"}

# IPython's plain mode quotes nothing: ``  File /a/b.py:5 in mean``.
_PLAIN_FILE = re.compile(r"^  File (?P<path>[^\s\"][^\n]*?):(?P<line>\d+)(?: in (?P<function>\S.*))?$")

_NAME = r"[A-Za-z_]\w*(?:\.(?:[A-Za-z_]\w*|<locals>))*"
EXCEPTION_LINE = re.compile(rf"^(?P<type>{_NAME})(?P<inner>\({_NAME}\))?(?::(?P<sep> ?)(?P<message>.*))?$", re.DOTALL)
# Standing alone, a line is believed to be an exception only by the usual endings of exception names.
_ENDINGS = (
    r"Error|Exception|Interrupt|Exit|Timeout|TimeoutExpired|Iteration|Failure|Abort|Aborted|Refused|Unsupported|Died|Overflow|Killed|"
    r"Warning|gaierror|herror|timeout|NotFound|Unavailable|KilledWorker|Empty|Full|Cancelled|Canceled|Expired|Preempted|Crashed"
)
LONE_EXCEPTION = re.compile(
    rf"^(?P<type>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*?(?:{_ENDINGS}))(?P<inner>\({_NAME}\))?(?::(?P<sep> )?(?P<message>.*))?$"
)

_STOP = re.compile(
    r"""^(?:
      \S.*Traceback\ \(most\ recent\ call\ last\)
    | Exception\ (?:ignored\ (?:in|on|while)|in\ thread)\b
    | (?:The\ above\ exception\ was\ the\ direct\ cause|During\ handling\ of\ the\ above\ exception)
    | Error\ in\ atexit
    | [=\-_*#~]{16,}\s*$
    | \[(?:[EWIFDC]\d{3,4}\ |\d+\]:?(?:\s|$)|\d{4}-\d\d-\d\d)
    | (?:srun|slurmstepd|sbatch|mpirun|mpiexec|prterun|orted|bash|sh|zsh|make|timeout|docker|kubectl|wandb|conda|pip|nvidia-smi|DeprecationWarning)(?:\[\d+\])?:\s
    | (?:Killed|Terminated|Aborted|Segmentation\ fault|Bus\ error|Hangup)\b(?:\ \(core\ dumped\))?\s*$
    | \S+:\ line\ \d+:\s+\d+\ (?:Killed|Aborted|Segmentation|Terminated)
    | \[\d+\]\s*[+-]?\s+(?:\d+\s+)?(?:Exit|Killed|Done|Terminated|Aborted|[Ss]egmentation)
    | [\w.-]+@[\w.-]+[:\ ].*[$\#%]\s*
    | \(\w[\w.-]*\)\ [\w.-]+@[\w.-]+
    | \+\ \w
    | Fatal\ Python\ error
    | terminate\ called
    | \#\#\[\w+\]
    | (?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS|RERUN)\b
    | (?:Message|Arguments):\ ['"(]
    | \+{3,}\ Timeout
    | (?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL)(?:[ :\t]|$)
    | ```
    | section_(?:start|end):\d+:
    | Child\ process\ with\ PID\ \d+\ terminated
    | (?:subprocess|torch\.distributed\.elastic\.multiprocessing\.errors)\.\w+:
    | .*\bSending\ process\ \d+\ closing\ signal
    | .*\bfailed\ \(exitcode:
    | .*\bexits?\ with\ return\ code\s*=
    | sys:1:\ \w*Warning
    | \S+:\d+:\ \w*Warning:
    | /\S+/resource_tracker\.py
    | -{3,}\ Logging\ error
    | Call\ stack:
    | (?:Task|Step|Workflow|Flow)\ failed\.?\s*$
    | (?:Job|Status\ message:|command\ terminated|Error:\ Process\ completed)\b
    )""",
    re.VERBOSE,
)
PROGRESS = re.compile(
    r"""(?:
      \d{1,3}%\|
    | \b\d+(?:\.\d+)?\s?(?:it/s|s/it|img/s|tok/s|samples/s)\b
    | ^\s*\{?['"]?(?:loss|train_loss|eval_loss|train_runtime|eval_runtime|grad_norm)['"]?\s*[:=]
    | \b(?:[Ss]tep|[Ee]poch|EPOCH|STEP|[Ii]ter(?:ation)?|[Bb]atch|global_step|[Ee]pisode|[Tt]rial)\b[\s:=\#/\[(]*\d
    | \b(?:loss|lr|acc|accuracy|ppl|reward)\s*[:=]\s*-?\d
    )""",
    re.VERBOSE,
)
SUCCESS = re.compile(
    r"(?i)(?:training (?:is )?(?:complete|completed|finished|done)\b|^\s*done\.?\s*$|finished successfully|completed successfully|successfully completed"
    r"|'train_runtime'|max_epochs=\d+` reached|saved (?:model|final)|saving final|(?:model|checkpoint|results?|weights) (?:written|saved) to|job \S+ (?:succeeded|completed)|=+ (?:\d+ \w+, )*\d+ passed(?:, \d+ (?:skipped|xfailed|xpassed|deselected|warnings?|rerun))* in |^Successfully installed |all done\b|^\s*exiting normally|^OK(?: \(|$))"
)


def read_frame(text: str) -> Frame | None:
    """A frame from a ``File "…", line N, in f`` line, or None."""
    if 'File "' not in text:
        plain = _PLAIN_FILE.match(text) if text.startswith("  File ") else None
        return Frame(plain["path"], int(plain["line"]), plain["function"] or "<module>") if plain else None
    m = FILE_LINE.match(text)
    if m is None:
        return None
    _, path, line, function = m.groups()
    return Frame(path, int(line), function)


_SCATTERED = re.compile(r'File "(?P<path>[^"\n]+)", line (?P<line>\d+), in (?P<function><?\w+>?)')


def scattered_frames(texts: Sequence[str]) -> list[Frame]:
    """Frames found anywhere in lines that several writers mixed, each once, in the order in which they first appear."""
    found: dict[tuple[str, str], Frame] = {}
    for text in texts:
        for m in _SCATTERED.finditer(text):
            found.setdefault((m["path"], m["line"]), Frame(m["path"], int(m["line"]), m["function"]))
    return list(found.values())


_NOT_TYPES = frozenset({"Message", "Arguments", "Traceback", "File", "Call", "Stack", "Node"})


def split_exception(text: str, *, lone: bool = False) -> tuple[str, str | None, str | None] | None:
    """``(type, message, type in parentheses)`` of an exception line, or None.

    ``lone=True`` asks for more: the line stands without a traceback above it. A line without a colon has the
    message ``""``.
    """
    m = (LONE_EXCEPTION if lone else EXCEPTION_LINE).match(text)
    if m is None:
        return None
    kind, message = m["type"], m["message"]
    if kind in _NOT_TYPES:
        return None
    half = len(kind) // 2
    if len(kind) > 10 and kind[:half] == kind[half:]:  # two ranks wrote over one another
        kind = kind[:half]
        body = (message or "").removeprefix(": ")
        message = body[: len(body) // 2] if body and body[: len(body) // 2] == body[len(body) // 2 :] else message
    if not lone:
        last = kind.rpartition(".")[2]
        if not (last[:1].isupper() or "." in kind or last.endswith(("error", "timeout"))):
            return None  # a lone word in small letters is anything but a type
        if message is not None and not m["sep"] and message:
            return None
    inner = m["inner"]
    return kind, message if message is not None else "", inner[1:-1] if inner else None


_ELISION = re.compile(r"^(?:\.\.\.<\d+ lines?>\.\.\.|\[Previous line repeated \d+ more times?\])$")


def is_source_text(text: str) -> bool:
    """False for carets and anchors under a source line, and for what stands for lines that are left out; no blanks around."""
    first = text[:1]
    if first in "~^-":  # in an empty text as well
        return bool(text.strip("~^- "))
    return first not in ".[" or _ELISION.match(text) is None


_BAR = re.compile(r"^\s*(?:\S.{0,60}?:\s+)?\d{1,3}%\|")


def is_bar(text: str) -> bool:
    """Whether the line is a progress bar's, set in or not."""
    return "%|" in text and _BAR.match(text) is not None


def ends_message(text: str) -> bool:
    """Whether this unindented line certainly belongs to something else than the message above it."""
    return _STOP.match(text) is not None or PROGRESS.search(text) is not None or SUCCESS.search(text) is not None


def trim_message(parts: Sequence[str]) -> str:
    """Message lines joined, without blank lines at either end."""
    return "\n".join(parts).strip("\n").rstrip()
