"""The pipeline: bytes → lines → failures → attribution → rule → answer.

:class:`Explainer` is the one engine behind ``classify()``, the launcher and the command line: feed it any number of
times, then finish. It holds only blocks that could matter, so a log of any size fits.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from tbparse.answer import answer_values
from tbparse.attribute.cascade import Candidate, Tier
from tbparse.attribute.decide import attribute
from tbparse.attribute.job import Job
from tbparse.attribute.origin import NO_SETTINGS, PathSettings, mark_frames
from tbparse.attribute.survived import mark_survived
from tbparse.attribute.unwrap import exit_facts
from tbparse.dialects import read_page
from tbparse.dialects.base import Page
from tbparse.records import NO_TAGS, Failure, RankExit, Tags, merge_tags
from tbparse.ruleset.match import RuleSet, builtin_rules
from tbparse.text.blocks import Block, Segmenter
from tbparse.text.flood import Flood
from tbparse.text.pages import read_block
from tbparse.text.portions import portions
from tbparse.text.prefilter import Words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, BinaryIO

    from tbparse.model import RootCause
    from tbparse.records import Link


class Explainer:
    """Feed a log's bytes as they come, then :meth:`finish`. ``source`` names the log where several are read for one job.

    ``bases`` tells what exception types derive from (nearest first, by the name that is printed), where the caller knows.
    """

    def __init__(
        self,
        *,
        rules: RuleSet | None = None,
        profile: str = "job",
        paths: PathSettings = NO_SETTINGS,
        prefilter: bool = True,
        backend: str = "auto",
        source: str | None = None,
        tags: Tags | None = None,
        bases: Mapping[str, tuple[str, ...]] | None = None,
        small: int | None = None,
    ) -> None:
        self.rules = rules if rules is not None else builtin_rules(profile)
        self._paths = paths
        self._source = source
        self._tags = tags
        everything = not prefilter
        self._segmenter = Segmenter(line_words(self.rules), everything=everything, backend=backend, small=small)
        self._flood = None if everything else Flood()
        self._bases = bases
        self.job = Job(tags=tags or NO_TAGS, source=source)

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take more bytes of the log, in any portions. Nothing of them is kept: a buffer may be filled anew."""
        for block in self._segmenter.feed(data if isinstance(data, (bytes, bytearray)) else bytes(data)):
            self._take(block)

    def skip(self, size: int) -> None:
        """Say, before the first bytes are fed, that the log has ``size`` bytes before them that nobody read.

        The answer's byte spans are those of the whole log, and its lines are counted from there on. It says that only the end was
        read, and neither ``transient`` nor ``clean``: what was not read could refute either.
        """
        self._segmenter.skip(size)
        self.job.skipped = size

    def read(self, file: BinaryIO) -> int:
        """Feed all that a binary file holds, through one buffer; how many bytes that were. Raises what reading raises."""
        total = 0
        for data in portions(file):
            self.feed(data)
            total += len(data)
        return total

    def finish(self, returncode: int | None = None) -> RootCause:
        """The answer. ``returncode`` is that of the command whose output was fed, as a shell or ``subprocess`` gives it."""
        from tbparse.model import RootCause

        return RootCause.model_validate(self.values(returncode))

    def values(self, returncode: int | None = None) -> dict[str, Any]:
        """What :meth:`finish` answers, as plain values by the names of the answer's fields; the model is not loaded for them."""
        self.drain()
        decision = attribute(self.job, self.rules, returncode)
        self.job.decision = decision
        return answer_values(self.job, decision, self.rules, returncode)

    def drain(self) -> None:
        """Read what is still held back; called by :meth:`finish`, and before several logs are joined."""
        for block in self._segmenter.finish():
            self._take(block)
        if self._flood is not None:
            for block in self._flood.finish():
                self._read(block)
            if self._flood.passed:
                self.job.passed += self._flood.passed
                self.job.notes.append(
                    f"{self._flood.passed / 1e6:.1f} MB that repeat earlier lines, but for numbers, were passed over"
                )
                self._flood.passed = 0
        if self.job.skipped:
            read, whole = self._segmenter.total, self.job.skipped + self._segmenter.total
            self.job.notes.append(
                f"only the last {read / 1e6:.1f} MB of {whole / 1e6:,.1f} MB were read, and lines are counted from there: the cause"
                " may stand before"
            )
        if self._segmenter.cut_lines:
            self.job.notes.append("a line of more than a megabyte was read in pieces")

    def join(self, other: Explainer) -> None:
        """Take over what another explainer found in another log of the same job (a rank's own log)."""
        other.drain()
        self.job.merge(other.job)

    def take(self, failure: Failure) -> None:
        """Take a failure that no text tells of; :meth:`drain` comes first."""
        self._prepare(failure)
        self.job.failures.append(failure)

    @property
    def candidates(self) -> Sequence[Candidate]:
        """Every failure found, with its tier and why it won or lost; after :meth:`finish`."""
        return self.job.decision.candidates if self.job.decision else ()

    def _take(self, block: Block) -> None:
        if self._flood is None or block.whole:
            self._read(block)
            return
        for chosen in self._flood.take(block):
            self._read(chosen)

    def _read(self, block: Block) -> None:
        for stream in read_block(block, self._segmenter.encoding):
            page = Page(stream.lines, stream.levels)
            failures = read_page(page)
            mark_survived(page, failures)
            for failure in failures:
                self._prepare(failure)
            for fact in page.exits:
                self._place(fact)
            self.job.add(failures, page.exits, page)

    def _prepare(self, failure: Failure) -> None:
        mark_frames(failure.links, self._paths)
        exit_facts(failure)
        self._adopt(failure)
        if self._bases:
            _name_bases(failure.links, self._bases)

    def _adopt(self, failure: Failure) -> None:
        failure.source = self._source
        if self._tags is not None:
            failure.tags = merge_tags(failure.tags, self._tags)

    def _place(self, fact: RankExit) -> None:
        if self._tags is not None and fact.host is None:
            fact.host = self._tags.host


def classify(
    text: str | bytes | BaseException,
    *,
    returncode: int | None = None,
    rules: RuleSet | None = None,
    profile: str = "job",
    paths: PathSettings = NO_SETTINGS,
) -> RootCause:
    """Why a job died, from what it printed (text or bytes) or from the live exception.

    Pure and total: never raises on log content, opens no file, reads neither clock nor environment. A live
    exception is read as the interpreter would print it, together with the output that it carries
    (``stderr``, ``output``, ``stdout``, torch elastic's ``failures``) and the bases of its types; a ``root_cause``
    that a capture left on it is believed. Anything else than text, bytes and an exception is a :class:`TypeError`.
    """
    if isinstance(text, BaseException):
        from tbparse.live import classify_live

        return classify_live(text, returncode=returncode, rules=rules, profile=profile, paths=paths)
    explainer = Explainer(rules=rules, profile=profile, paths=paths)
    if isinstance(text, str):
        explainer.feed(text.encode("utf-8", "surrogatepass" if _has_surrogates(text) else "strict"))
    else:
        try:
            explainer.feed(text if isinstance(text, bytes) else bytes(memoryview(text)))
        except TypeError:
            raise TypeError(f"classify() takes the log as str or bytes, or an exception, not {type(text).__name__}") from None
    return explainer.finish(returncode)


@lru_cache(maxsize=16)
def line_words(rules: RuleSet) -> Words:
    """The literals of every pattern that rules search single lines with."""
    exact: set[str] = set()
    caseless: set[str] = set()
    for rule in rules.rules:
        for m in (*rule.match, *rule.unless, *(when for q in rule.qualifiers for when in q["when"])):
            if "line" in m:
                (caseless if m.get("line_caseless") else exact).update(m.get("line_literals") or ())
    return Words(tuple(sorted(exact)), tuple(sorted(caseless)))


def _name_bases(links: Sequence[Link], bases: Mapping[str, tuple[str, ...]]) -> None:
    for link in links:
        link.bases = bases.get(link.exception or "", ())
        for leaf in link.leaves:
            _name_bases(leaf, bases)


def _has_surrogates(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text)


__all__ = ["Explainer", "Tier", "classify"]
