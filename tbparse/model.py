"""The answer: :class:`RootCause` and its parts, and the words they use.

Everything here is frozen, strict and free of I/O. The JSON form of :class:`RootCause`
(``tbparse explain --format json``, :meth:`RootCause.to_json`) is a contract: fields are only
added, never renamed, and ``schema`` says which edition it is. Its JSON Schema is published by
``tbparse schema`` and in the package as ``rootcause.schema.json``.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tbparse.terms import Category as Category
from tbparse.terms import Confidence as Confidence
from tbparse.terms import Origin as Origin
from tbparse.terms import Relation as Relation
from tbparse.terms import RetryAction as RetryAction
from tbparse.terms import Scalar as Scalar
from tbparse.terms import Verdict as Verdict
from tbparse.terms import signal_name as signal_name
from tbparse.terms import signal_number as signal_number

SCHEMA_VERSION = 1

_CONFIG = ConfigDict(frozen=True, strict=True, extra="forbid", populate_by_name=True)


class Site(BaseModel):
    """A place in somebody's source: ``line`` is 1-based, ``function`` and ``source`` as the log prints them."""

    model_config = _CONFIG

    path: str
    line: int | None = None
    function: str | None = None
    source: str | None = None


class Frame(Site):
    """One frame of the root traceback, with whose code it is."""

    origin: Origin


class ChainLink(BaseModel):
    """One exception on the way from the outermost to the root."""

    model_config = _CONFIG

    exception: str | None
    message: str | None = None
    relation: Relation


class Evidence(BaseModel):
    """A line of the log that the answer rests on.

    ``line`` is the 1-based line number and ``start``/``end`` the byte span (end exclusive) in the raw
    log; ``text`` is that line without prefixes and control sequences. ``source`` names the file when it
    is not the log that was asked about (a rank's own log, an error file).
    """

    model_config = _CONFIG

    line: int
    start: int
    end: int
    text: str
    source: str | None = None


class Secondary(BaseModel):
    """Another failure of the job: an effect of the root, or not its cause. ``line`` is where its last line is.

    ``kind``: ``same`` for the root's own failure found again (another rank's, another attempt's, a launcher's copy), ``effect`` of
    it, ``launcher`` for a wrapper or closing line, ``survived`` where the process went on, else ``other``. ``rule`` names it
    where a rule does. ``count`` and ``ranks`` are of failures that were too many to be listed one by one.
    """

    model_config = _CONFIG

    exception: str | None
    rank: int | None = None
    line: int | None = None
    kind: Literal["same", "effect", "launcher", "survived", "other"] | None = None
    rule: str | None = None
    count: int = 1
    ranks: tuple[int, ...] = ()


class Attempt(BaseModel):
    """What one attempt of the job failed with: ``number`` from 0, ``message`` its first line."""

    model_config = _CONFIG

    number: int
    exception: str | None = None
    message: str | None = None
    rank: int | None = None
    rule: str | None = None


class Retry(BaseModel):
    """What to do about it: ``delay_s`` in seconds before, and ``max`` times at most."""

    model_config = _CONFIG

    action: RetryAction = "stop"
    delay_s: float = 0.0
    max: int = 0


class RootCause(BaseModel):
    """Why the job died. See the module's docstring for the promise behind the JSON form.

    ``exception`` and ``message`` are the innermost exception as the log prints it (exception is None
    where none exists: a SIGKILL, a scheduler's kill, a usage error). ``site`` is the deepest frame of the
    user's code, ``entry`` the first one. ``frames`` is the root traceback without launcher frames,
    outermost first. ``notes`` says what the answer could not use (a rule that was skipped, text cut off), who did not arrive
    in a hang, and why a rerun is doubted. ``rank`` is where it began: in a hang the rank that did not arrive, where the log
    tells, though the message is one of those that waited. ``ranks`` are all that had this same failure; ``attempts`` what each
    attempt failed with, where there was more than one.
    """

    model_config = _CONFIG

    schema_: Literal[1] = Field(default=1, alias="schema")
    verdict: Verdict
    category: Category | None
    confidence: Confidence
    rule: str | None = None
    title: str | None = None
    exception: str | None = None
    message: str | None = None
    site: Site | None = None
    entry: Site | None = None
    frames: tuple[Frame, ...] = ()
    chain: tuple[ChainLink, ...] = ()
    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    attempt: int | None = None
    process: str | None = None
    signal: str | None = None
    exit_code: int | None = None
    evidence: tuple[Evidence, ...] = ()
    captures: dict[str, Scalar | tuple[Scalar, ...]] = Field(default_factory=dict)
    secondary: tuple[Secondary, ...] = ()
    advice: tuple[str, ...] = ()
    retry: Retry = Retry()
    fingerprint: str | None = None
    notes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    attempts: tuple[Attempt, ...] = ()

    @property
    def transient(self) -> bool:
        """True only when running the same again may well work."""
        return self.verdict == "transient"

    def to_json(self, *, indent: int | None = None) -> str:
        """The contract's JSON text; :meth:`from_json` gives an equal object back."""
        return self.model_dump_json(by_alias=True, indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> RootCause:
        """Read what :meth:`to_json` wrote. Raises ``pydantic.ValidationError`` on anything else."""
        return cls.model_validate_json(text)


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the contract."""
    schema = RootCause.model_json_schema(by_alias=True, mode="serialization")
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "RootCause"
    return schema


def not_transient(answer: RootCause, note: str) -> RootCause:
    """The same answer without its advice to run again, and with a note that says why."""
    return answer.model_copy(update={"verdict": "unknown", "retry": Retry(), "notes": (*answer.notes, note)})
