"""What to do with a log in which too much looks like a failure: read what is new, pass over what repeats.

The first blocks are read whatever they hold, and so are the last ones. In between a block is passed over when each of its lines
was read before: equal but for numbers and addresses, and with the same numbers where numbers mean something (``exit code 137``,
``HTTP Error 503``, ``Xid 79``). So a flood of warnings or of handled exceptions costs little, and the one line that differs is
read. What is passed over is measured, and :mod:`tbparse.answer` says nothing encouraging that it could refute.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Any

from tbparse.text.blocks import Block
from tbparse.text.lines import MAX_LINE_CHARS
from tbparse.text.prefilter import load_hyperscan
from tbparse.text.shapes import DIGITS

READ_FIRST = 1024 * 1024
"""So many bytes of blocks are read one by one, as nearly every log has fewer."""
READ_LAST = 2 * 1024 * 1024
"""So many bytes of blocks wait for the log's end, and are read then."""
MAX_SEEN = 200_000
"""So many different lines are remembered; then all are forgotten, and read anew."""
PLAIN_FIRST = 256 * 1024
"""So many bytes are searched for numbers by a plain pattern: hyperscan takes longer to compile it than most logs to search."""
MAX_CONTEXT = 400
"""So much of a line goes with a number that means something."""

_ADDRESS = re.compile(rb"(?:0x)?[0-9a-fA-F]*[0-9][0-9a-fA-F]{3}[0-9a-fA-F-]*")
# Numbers that mean something: exit codes, signals, errors by number.
_MEANT = (
    rb"(?:[Ee]rr(?:no|or)?|ERROR|[Cc]ode|[Ss]tatus|[Ss]ignal|SIG|Xid(?: \([^\n)]{0,24}\))?"
    rb"|[Ee]xited with|[Rr]eturned|[Ee]xit|rc|HTTP[^ \n]{0,6}|E[IJK])"
    rb"(?: is| was)?[^\w\n]{0,6}[0-9]"
)
_NUMBER = re.compile(rb"[0-9]+")


class Flood:
    """Takes blocks in the order of the log, and gives those to read in the same order."""

    def __init__(self) -> None:
        self._read = 0
        self._seen: set[int] = set()
        self._waiting: deque[Block] = deque()
        self._waiting_bytes = 0
        self.passed = 0
        """Bytes of blocks that were not read."""

    @cached_property
    def _meant(self) -> Callable[[bytes], Iterable[int]]:
        return _number_finder()  # only large logs need it

    def take(self, block: Block) -> Iterator[Block]:
        """What to read now that this block has come: itself, or nothing."""
        raw = block.raw
        new = self._new(raw)
        if self._read < READ_FIRST or new:
            self._read += len(raw)
            if len(self._seen) > MAX_SEEN:
                self._seen = self._keys(raw)
            self._seen |= new
            self._pass_over(0)
            yield block
            return
        self._waiting.append(block)
        self._waiting_bytes += len(raw)
        self._pass_over(READ_LAST)

    def finish(self) -> Iterator[Block]:
        """The blocks that waited for the log's end."""
        while self._waiting:
            yield self._waiting.popleft()
        self._waiting_bytes = 0

    def _pass_over(self, limit: int) -> None:
        """Let go of the blocks that waited longest, until no more than the limit, or one block, is left."""
        while self._waiting and self._waiting_bytes > limit and (limit == 0 or len(self._waiting) > 1):
            size = len(self._waiting.popleft().raw)
            self._waiting_bytes -= size
            self.passed += size

    def _new(self, raw: bytes) -> set[int]:
        """Keys of the lines that were not read before."""
        new = self._keys(raw) - self._seen
        if not new:
            return new
        # What is new may be so by an address or a hash alone: then it is remembered, and not new.
        known: set[int] = set()
        fresh = False
        for row, line in zip(raw.translate(None, DIGITS).split(b"\n"), raw.split(b"\n"), strict=True):
            key = hash(row)
            if key in new and key not in known:
                known.add(key)
                line = _ends(line)
                plain = key if len(line) == len(row) else hash(_ADDRESS.sub(b"#", line).translate(None, DIGITS))
                if plain not in self._seen:
                    known.add(plain)
                    fresh = True
        if fresh or new - known:
            return new | known
        if len(self._seen) < MAX_SEEN:
            self._seen |= known
        return set()

    def _keys(self, raw: bytes) -> set[int]:
        """What a block says, line by line, without what changes from one time to the next."""
        keys = set(map(hash, raw.translate(None, DIGITS).split(b"\n")))
        for at in self._meant(raw):
            number = _NUMBER.match(raw, at)
            if number is not None:
                start, end = raw.rfind(b"\n", 0, at) + 1, raw.find(b"\n", at)
                line = raw[start : end if end >= 0 else len(raw)]
                keys.add(hash((line[:MAX_CONTEXT].translate(None, DIGITS), number.group())))
        return keys


def _ends(line: bytes) -> bytes:
    """What is read of a line: of a very long one its head and its tail."""
    return line if len(line) <= MAX_LINE_CHARS else line[: MAX_LINE_CHARS // 2] + line[-MAX_LINE_CHARS // 2 :]


def _number_finder() -> Callable[[bytes], Iterable[int]]:
    """Finds where the numbers that mean something begin."""
    pattern = re.compile(_MEANT)
    left, scratch = PLAIN_FIRST, None

    def find(raw: bytes) -> Iterable[int]:
        nonlocal left, scratch
        left -= len(raw)
        hyperscan = load_hyperscan() if left < 0 else None
        if hyperscan is None:
            return [m.end() - 1 for m in pattern.finditer(raw)]
        if scratch is None:
            scratch = hyperscan.Scratch(_database(hyperscan))  # of its own: logs of one job are read side by side
        found: set[int] = set()
        on_match = lambda _id, _from, to, _flags, _context: found.add(to - 1)  # noqa: E731
        _database(hyperscan).scan(raw, match_event_handler=on_match, scratch=scratch)
        return sorted(found)

    return find


@lru_cache(maxsize=1)
def _database(hyperscan: Any) -> Any:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(expressions=[_MEANT], ids=[0], elements=1, flags=[0])
    return database
