"""What a rule is: the shape of ``rules/<area>/<rule>.yaml``, and of a site file that overrides rules.

One rule a file; its path without ``.yaml`` is its id. A rule is data: nothing in it is run, and its
patterns are searched with a time limit. ``docs/writing-rules.md`` explains each key with an example.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler, field_validator, model_validator

from tbparse.model import Retry
from tbparse.ruleset.patterns import PatternError, check_pattern, group_names
from tbparse.terms import Category, Scalar

RuleVerdict = Literal["transient", "real", "unknown"]
Stability = Literal["experimental", "test", "stable"]
CaptureType = Literal["bytes", "seconds", "int", "float", "text", "list"]
KindName = Literal["traceback", "fault", "native", "launcher", "usage", "exit", "scheduler", "kernel", "line"]


def _listed(value: object) -> object:
    """A single value stands for a list of one."""
    return value if value is None or isinstance(value, (list, tuple)) else [value]


class _OrOne:
    """In the JSON Schema, too, a single value stands for a list of one."""

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        listed = handler(core)
        return {"anyOf": [listed["items"], listed]}


Names = Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1, strict=False), _OrOne()]
Numbers = Annotated[tuple[int, ...], BeforeValidator(_listed), Field(min_length=1, strict=False), _OrOne()]
Kinds = Annotated[tuple[KindName, ...], BeforeValidator(_listed), Field(min_length=1, strict=False), _OrOne()]
Texts = Annotated[tuple[str, ...], BeforeValidator(_listed), Field(strict=False), _OrOne()]

_CONFIG = ConfigDict(frozen=True, extra="forbid")


class Matcher(BaseModel):
    """One way to recognise the failure: every key that is given must hold.

    ``type``: exception names. ``KeyError`` matches any type whose last part is KeyError; ``torch.OutOfMemoryError``
    matches that name as printed, with or without its package. ``message``: a pattern searched in the whole
    message (for failures without an exception: in their text). ``frame``: a pattern searched in
    ``path:line in function`` of each frame of that exception. ``chain``: types of which one stands elsewhere in
    the same chain. ``line``: a pattern searched in single lines around the failure. ``kind``, ``launcher``,
    ``exit_code``, ``signal``: what the dialect, the log or the caller says of the failure.
    """

    model_config = _CONFIG

    type: Names | None = None
    message: str | None = None
    frame: str | None = None
    chain: Names | None = None
    line: str | None = None
    kind: Kinds | None = None
    launcher: Names | None = None
    exit_code: Numbers | None = None
    signal: Names | None = None

    @field_validator("message", "frame", "line")
    @classmethod
    def _pattern(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                check_pattern(value)
            except PatternError as e:
                raise ValueError(str(e)) from None
        return value

    @model_validator(mode="after")
    def _not_empty(self) -> Matcher:
        if not any(v is not None for v in self.__dict__.values()):
            raise ValueError("an empty matcher matches everything: give at least one key, such as `type` or `message`")
        return self

    def groups(self) -> set[str]:
        """Names of the capture groups of its patterns."""
        return {g for p in (self.message, self.frame, self.line) if p for g in group_names(p)}


Matchers = Annotated[tuple[Matcher, ...], BeforeValidator(_listed), Field(strict=False), _OrOne()]


class Qualifier(BaseModel):
    """What turns the verdict: the first of a rule's qualifiers whose ``when`` holds is used."""

    model_config = _CONFIG

    when: Matchers = Field(min_length=1)
    verdict: RuleVerdict | None = None
    category: Category | None = None
    because: str
    advice: Texts = ()
    retry: Retry | None = None


class Example(BaseModel):
    """A log, or a piece of one, that the rule must win under the full rule set. ``source`` says where it is from."""

    model_config = _CONFIG

    text: str = Field(min_length=1)
    source: str
    verdict: RuleVerdict | None = None
    category: Category | None = None
    returncode: int | None = None
    captures: dict[str, Scalar | list[Scalar]] = Field(default_factory=dict)


class CounterExample(BaseModel):
    """A log that looks like the rule's and is not. ``wins`` is the rule that must win, null for none or clean."""

    model_config = _CONFIG

    text: str = Field(min_length=1)
    wins: str | None
    why: str
    returncode: int | None = None


class Rule(BaseModel):
    """One kind of failure. ``match`` holds when any of its matchers holds and none of ``unless`` does.

    ``symptom: true`` marks what is always another failure's effect; such a rule decides only when nothing
    else was found. ``fatal: true`` (for matchers of lines alone) means that such a line ends a job by itself.
    ``over`` names rules (or ``area/*``) that lose to this one whenever both match. ``generic: true`` marks a
    rule that names a type and no more: any other rule on the same chain is preferred.
    """

    model_config = _CONFIG

    title: str = Field(min_length=4, max_length=90)
    summary: str = Field(min_length=20)
    category: Category
    verdict: RuleVerdict
    stability: Stability = "test"
    symptom: bool = False
    fatal: bool = False
    generic: bool = False
    match: Matchers = Field(min_length=1)
    unless: Matchers = ()
    over: Names | None = None
    captures: dict[str, CaptureType] = Field(default_factory=dict)
    qualifiers: tuple[Qualifier, ...] = Field(default=(), strict=False)
    advice: Texts = Field(min_length=1)
    retry: Retry | None = None
    references: Texts = ()
    related: Texts = ()
    signatures: Texts = ()
    examples: tuple[Example, ...] = Field(min_length=1, strict=False)
    counter_examples: tuple[CounterExample, ...] = Field(default=(), strict=False)

    @model_validator(mode="after")
    def _consistent(self) -> Rule:
        known: set[str] = set()
        for m in (*self.match, *(w for q in self.qualifiers for w in q.when)):
            known |= m.groups()
        unknown = sorted(set(self.captures) - known)
        if unknown:
            raise ValueError(f"captures names {unknown}, but no pattern has a group (?P<{unknown[0]}>...)")
        untyped = sorted({g for m in self.match for g in m.groups()} - set(self.captures))
        if untyped:
            raise ValueError(f"groups {untyped} have no type: add them to captures (bytes, seconds, int, float, text)")
        if self.fatal and not any(m.line is not None for m in self.match):
            raise ValueError("fatal is for rules that match a line; failures of other kinds are fatal by themselves")
        if self.verdict == "transient" and self.retry is not None and self.retry.action == "stop":
            raise ValueError("a transient rule whose retry.action is stop contradicts itself")
        return self


class Override(BaseModel):
    """What a site file or a profile changes of a rule."""

    model_config = _CONFIG

    verdict: RuleVerdict | None = None
    category: Category | None = None
    advice: Texts | None = None
    retry: Retry | None = None


class Filter(BaseModel):
    """What a site knows to be harmless: ``rules`` (ids or ``area/*``) do not match where any of ``unless`` holds."""

    model_config = _CONFIG

    rules: Names
    unless: Matchers = Field(min_length=1)
    because: str


class SiteFile(BaseModel):
    """Changes to a rule set: ``disable`` rules, ``override`` parts of them, ``filters``. Keys are ids or ``area/*``.

    ``extends`` names what the file changes: ``builtin``, folders or site files beside it, installed packs. Left out,
    it changes what is loaded before it; an empty list starts from nothing.
    """

    model_config = _CONFIG

    summary: str = ""
    extends: Texts | None = None
    disable: Texts = ()
    override: dict[str, Override] = Field(default_factory=dict)
    filters: tuple[Filter, ...] = Field(default=(), strict=False)
