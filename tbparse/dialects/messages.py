"""Where messages end: what belongs to an exception's message, and what a program or a launcher printed below it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from tbparse.records import Frame, Link

RESUMES = re.compile(
    r"^(?:Set TORCH|from user code:|Exception raised from|frame #\d|Additional|BufferAssignment|Compile with|Hint|hint|NOTE|Note|You can |For more|"
    r"The above operation|CUDA kernel errors|For debugging|-- Process \d|Traceback of|Last error|nccl\w+:|Cannot |Please|Device-side|Device:|Instructions|"
    r"C\+\+ (?:Traceback|Call Stacks)|Error Message Summary|-{20,}$|\w+Error: ?$|Out of memory error on GPU|\[Hint|If you |This |Make sure|Checkout|Try |To |The exit codes|The actor |The error|See |Parameter indices|Diagnostics|Original|\(|Failed to |\d+ successful|\[\["
    r"|(?:Cannot access|Access to) |(?:Repository|Revision|Entry|Bucket|Job) Not Found|Bad request|\d{3} Forbidden|Invalid username|Incorrect usage:|Example usage:"
    r"|STDOUT:|STDERR:|Got:|Current mode|Workaround|Operation: |Arguments received|Call arguments|Sharding propagation|Full pipeline schedule|Fix these issues"
    r"|Failed validating|On instance|Importing the |We have compiled|and make sure|Where `|Available |Either |Developer debug|User code|Received:|Expected:)"
)
# Their messages are paragraphs, each a text of its own: the hub's answer, a dataset's files, a layer's error.
PARAGRAPHS = re.compile(
    r"\(Request ID: |^An error occurred while generating the dataset|^Exception encountered when calling |^Error when deserializing"
)
_RANK_CLOSES = re.compile(r"\n? \(RANK (?P<rank>\d{1,6})\)$")

_SINGLE = frozenset(
    {
        "KeyError", "IndexError", "ZeroDivisionError", "NameError", "UnboundLocalError", "AttributeError", "ModuleNotFoundError", "RecursionError",
        "FileNotFoundError", "FileExistsError", "PermissionError", "IsADirectoryError", "NotADirectoryError", "UnicodeDecodeError", "OverflowError",
        "KeyboardInterrupt", "StopIteration", "MemoryError",
    }
)  # fmt: skip
_LITERAL_RAISE = re.compile(
    r"^raise (?P<name>[A-Za-z_][\w.]*)(?:\((?:(?P<f>[rbfu]*)(?:'(?P<one>[^'\\]*)'|\"(?P<two>[^\"\\]*)\")|)\))?(?: from \w+)?$"
)
_BY_PYTHON = re.compile(
    r"""^(?:'.*'|".*")$|^\[(?:Errno|WinError) \d+\] |has no attribute '\w+'$|index out of range$|by zero$|^(?:global )?name '\w+' is not defined"""
    r"""|referenced before assignment$|not associated with a value$|^No module named |^maximum recursion depth exceeded"""
)
_CHILD_ENDED = re.compile(r"(?:returned non-zero exit status -?\d+|died with (?:<Signals\.\w+: \d+>|unknown signal \d+))\.$")


def message_ends(kind: str, message: str, frames: Sequence[Frame]) -> Literal["", "margin", "line"]:
    """Where a message must end: with its first ``line``, before the next text at the ``margin``, or ``""`` where nothing tells.

    The raising line shows all of it, or Python itself wrote it.
    """
    source = frames[-1].source if frames else None
    name = kind.rpartition(".")[2]
    if name == "CalledProcessError":
        return "line" if _CHILD_ENDED.search(message) is not None else ""  # what stands below are notes
    if source is not None and source.startswith("raise "):
        literal = _LITERAL_RAISE.match(source)  # `raise value` hands on whatever was caught
        if literal is None or literal["name"].rpartition(".")[2] != name:
            return ""
        said = literal["one"] or literal["two"] or ""
        if "f" in (literal["f"] or "") and "{" in said:
            tail = said.rpartition("}")[2]  # what is filled in may have lines of its own, but not behind the text's end
            return "line" if tail.strip() and message.endswith(tail.rstrip()) else ""
        return "line" if message == said.rstrip() else "margin"
    if name not in _SINGLE:
        return ""
    return "line" if _BY_PYTHON.search(message) is not None else "margin"


_SHOWN = re.compile(
    r"^raise [\w.]+\((?P<f>[rbfu]*)(?P<quote>[\"'])(?P<said>(?:[^\"'\\]|\\.|(?!(?P=quote))[\"'])*)(?P=quote)(?:,.*)?\)(?: from \w+)?$"
)
_FIELD = re.compile(r"\{[^{}]*\}")
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\\\": "\\", '\\"': '"', "\\'": "'"}
_MAX_SHOWN = 80


def lines_shown(message: str, frames: Sequence[Frame], below: Sequence[str]) -> int:
    """How many of the lines below an exception line are its message, where the raising line shows the text of all of them; else 0.

    ``raise E(f"{n} rows\\n\\nsee conf")`` tells that two more lines belong to it, whatever they look like.
    """
    source = frames[-1].source if frames else None
    if source is None or "\\n" not in source or (found := _SHOWN.match(source)) is None:
        return 0
    said, filled = found["said"], "f" in found["f"]
    if "r" in found["f"] or "\\n" not in said:
        return 0
    rows = [_pieces(row, filled) for row in said.split("\\n")]
    count = len(rows) - 1
    while count and rows[count] == [""]:
        count -= 1  # line ends at the text's end are not printed as lines of their own
    if not 0 < count <= min(_MAX_SHOWN, len(below)):
        return 0
    return count if all(map(_fits, rows, [message, *below[:count]])) else 0


def _pieces(row: str, filled: bool) -> list[str]:
    """A line of a literal as the texts around its fields."""
    pieces = _FIELD.split(row) if filled else [row]
    pieces = [re.sub(r"\\.", lambda m: _ESCAPES.get(m[0], m[0]), x) for x in pieces]
    return [x.replace("{{", "{").replace("}}", "}") for x in pieces] if filled else pieces


def _fits(pieces: Sequence[str], line: str) -> bool:
    """Whether a line holds these texts one after the other, from its start to its end.

    Blanks at its end are not printed, and of those at its start a prefix may have taken one.
    """
    if line[:1] == " " == pieces[0][:1]:
        line, pieces = line.lstrip(" "), [pieces[0].lstrip(" "), *pieces[1:]]
    last = pieces[-1].rstrip()
    if len(pieces) == 1:
        return line == last
    if not line.startswith(pieces[0].rstrip()) or not line.endswith(last):
        return False
    at = len(pieces[0].rstrip())
    for piece in pieces[1:-1]:
        at = line.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return at <= len(line) - len(last)


def take_rank(links: Sequence[Link]) -> None:
    """The rank that a quoted traceback ends with goes from the message to its link."""
    for link in links:
        closing = _RANK_CLOSES.search(link.message or "")
        if closing is not None:
            link.message, link.rank = (link.message or "")[: closing.start()], int(closing["rank"])


def give_back(parts: list[str], nested: list[Link], j: int) -> int:
    """Before another traceback, loose lines are most likely the next process's: take them off the message again."""
    if nested:
        return j
    while len(parts) > 1 and parts[0].strip() and parts[-1] and parts[-1][0] not in " \t" and not RESUMES.match(parts[-1]):
        if parts[-2].rstrip().endswith((":", ",", "(", "[", "{")):
            break
        parts.pop()
        j -= 1
    return j
