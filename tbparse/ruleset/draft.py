"""The draft of a rule from a failure that a log shows: a matcher, its pattern, the log as the first example.

What differs from run to run (numbers, addresses, paths, quoted names) is loosened in the pattern; what only a person
knows (why it happens, what to do) is marked :data:`OPEN`, and ``tbparse rules check`` asks for it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

OPEN = "TODO"
MODELINE = "# yaml-language-server: $schema=../rule.schema.json\n"
EXAMPLE_LINES = 40
PATTERN_CHARS = 160
MIN_FIXED = 6
"""Fewer fixed characters than this say nothing: the pattern is left out."""

AREAS = {
    "user-code": "python", "config": "config", "dependency": "dependency", "data": "data", "gpu-memory": "gpu-memory",
    "host-memory": "host-memory", "gpu-hardware": "gpu-hardware", "gpu-software": "gpu-software",
    "communication": "communication", "network": "network", "storage": "storage", "scheduler": "scheduler",
    "interrupted": "interrupted", "unknown": "python",
}  # fmt: skip
"""The area of a new rule, by its category, where nobody names one."""

_LOOSE = re.compile(
    r"""(?P<mail>\b[\w.+-]+@[\w-]+\.[\w.-]*\w)|(?P<hex>0x[0-9a-fA-F]+)|(?P<single>'[^'\n]*')|(?P<double>"[^"\n]*")|(?P<back>`[^`\n]*`)"""
    r"""|(?P<path>(?<![\w.])(?:[A-Za-z]:\\|/)[^\s'",:;)]+)|(?P<id>\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b)|(?P<number>\d[\d.,]*\d|\d)"""
)
_BY = {
    "mail": r"\S+@\S+", "hex": r"0x[0-9a-fA-F]+", "single": r"'[^']*'", "double": r'"[^"]*"', "back": r"`[^`]*`", "path": r"\S+",
    "id": r"[0-9a-f]+", "number": r"\d[\d.,]*",
}  # fmt: skip
_HOME = re.compile(r"(/(?:home|Users)/)[\w.-]+")
_MAIL = re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.-]*\w")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(slots=True)
class Draft:
    """What is known of a new rule. ``matcher`` and ``example`` come from the log, the rest from who writes it."""

    rule_id: str
    matcher: dict[str, Any]
    example: str
    title: str
    name: str
    category: str
    verdict: str
    fatal: bool = False
    returncode: int | None = None
    source: str = f"{OPEN}: which program and version printed it; real or synthetic"
    summary: str = f"{OPEN}: what happens in the machine when this is printed"
    advice: list[str] = field(default_factory=lambda: [f"{OPEN}: first the check that tells the cases apart, then the cure"])

    def data(self) -> dict[str, Any]:
        """The rule as data, in the order in which rules are written."""
        example: dict[str, Any] = {"source": self.source, "text": self.example}
        if self.returncode is not None:
            example["returncode"] = self.returncode
        out: dict[str, Any] = {
            "title": self.title, "summary": self.summary, "category": self.category, "verdict": self.verdict,
        }  # fmt: skip
        if self.fatal:
            out["fatal"] = True
        return out | {"match": [self.matcher], "advice": self.advice, "examples": [example]}

    def yaml(self) -> str:
        """The rule file."""
        from ruamel.yaml import YAML
        from ruamel.yaml.scalarstring import LiteralScalarString, SingleQuotedScalarString

        data = self.data()
        data["match"] = [
            {k: SingleQuotedScalarString(v) if k in ("message", "line") else v for k, v in m.items()} for m in data["match"]
        ]
        data["examples"] = [{**e, "text": LiteralScalarString(e["text"])} for e in data["examples"]]
        yaml = YAML()
        yaml.width = 10_000
        yaml.indent(mapping=2, sequence=4, offset=2)
        out = io.StringIO()
        yaml.dump(data, out)
        return MODELINE + out.getvalue()


def pattern_of(text: str) -> str | None:
    """A pattern that the text's first line matches, and the same line of another run; None where too little is fixed."""
    line = text.strip().split("\n", 1)[0][:PATTERN_CHARS]
    parts: list[str] = []
    fixed = 0
    at = 0
    for m in _LOOSE.finditer(line):
        parts.append(_escaped(line[at : m.start()]))
        fixed += m.start() - at
        parts.append(_BY[m.lastgroup or "number"])
        at = m.end()
    parts.append(_escaped(line[at:]))
    fixed += len(line) - at
    return "".join(parts).strip() if fixed >= MIN_FIXED else None


def _escaped(text: str) -> str:
    """The text as a pattern; only what a pattern would read otherwise is escaped."""
    return re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", text)


def name_of(exception: str | None, text: str) -> str:
    """A rule's name out of the message's words, else out of the exception's name."""
    head = _LOOSE.sub(" ", text.split("\n", 1)[0].lower())
    words = [w for w in re.findall(r"[a-z][a-z0-9]+", head) if w not in _EMPTY_WORDS][:4]
    if len(words) < 2 and exception:
        words = re.findall(r"[a-z0-9]+|[A-Z]+(?![a-z])|[A-Z][a-z0-9]+", exception.rpartition(".")[2])
    return "-".join(words).lower()[:48].strip("-") or "new-rule"


_EMPTY_WORDS = frozenset({
    "a", "an", "and", "are", "at", "be", "by", "for", "from", "has", "have", "in", "is", "it", "its", "no",
    "of", "on", "or", "that", "the", "this", "to", "was", "were", "with",
})  # fmt: skip


def example_of(lines: Sequence[str]) -> str:
    """The log's lines as an example: without colours, names of home folders and mail addresses; long ones cut in their middle."""
    kept = list(lines)
    if len(kept) > EXAMPLE_LINES:
        kept = kept[:1] + kept[-(EXAMPLE_LINES - 1) :]
    return "\n".join(scrubbed(_ANSI.sub("", x).rstrip("\r").expandtabs()) for x in kept).rstrip() + "\n"


def scrubbed(text: str) -> str:
    """The text without names of home folders and mail addresses."""
    return _MAIL.sub("user@example.org", _HOME.sub(r"\1user", text))


def title_of(exception: str | None, text: str) -> str:
    """A title for the failure: its first line without what differs from run to run."""
    line = " ".join(_LOOSE.sub("…", text.strip().split("\n", 1)[0]).split())
    name = exception.rpartition(".")[2] if exception else ""
    title = f"{name}: {line}" if name and line else name or line
    return title if len(title) <= 90 else f"{title[:89].rstrip()}…"
