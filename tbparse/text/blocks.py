"""Which lines deserve a look: the log is cut into blocks around lines that could belong to a failure.

A small log is one block. A large one streams through: lines with a trigger (a text that some dialect or rule needs)
open a block, which takes in some lines before, and ends when enough lines have passed without a trigger. Only blocks
are decoded and kept, so memory does not grow with the log; where blocks begin and end depends on the lines alone,
never on how the bytes were fed.

What is quiet is never copied, decoded or split: the scanner says where triggers stand, and between them only line ends
are counted. The fed buffer may be used again afterwards.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from tbparse.text.lines import UTF8, Encoding, detect_encoding
from tbparse.text.newlines import WORTH_BYTES, count_newlines
from tbparse.text.prefilter import Scanner, Words, make_scanner

SMALL_LOG = 256 * 1024
"""A log up to this many bytes is read whole."""
LINES_BEFORE = 40
LINES_AFTER = 40
TAIL_LINES = 40
MAX_HISTORY_BYTES = 256 * 1024
MAX_BLOCK_BYTES = 1024 * 1024
CUT_SLACK = 64 * 1024
"""So far before its end a block that is too large is searched for the start of a traceback."""
MAX_LINE_BYTES = 1024 * 1024
"""A physical line longer than this is cut into pieces of this size (with the same line number)."""


class Block(NamedTuple):
    """Raw bytes of consecutive lines: ``offset`` of the first byte in the log, its 1-based line number ``first_no``."""

    raw: bytes
    offset: int
    first_no: int
    whole: bool = False
    """The block is the whole log."""


NO_WORDS = Words()


class Segmenter:
    """Cuts fed bytes into blocks. ``words`` are further triggers; ``everything=True`` turns the prefilter off.

    ``backend`` chooses how triggers are searched, see :func:`tbparse.text.prefilter.make_scanner`. A log up to ``small`` bytes
    is read whole.
    """

    def __init__(
        self, words: Words = NO_WORDS, *, everything: bool = False, backend: str = "auto", small: int | None = None
    ) -> None:
        self._small = SMALL_LOG if small is None else small
        self._everything = everything
        self._backend = backend
        self._words = words
        self._scanner: Scanner | None = None
        self._start = bytearray()
        self._started = False
        self.encoding: Encoding = UTF8
        self._carry = bytearray()  # the line that is not complete
        self._offset = 0  # of the first byte that is in no block and not passed over
        self._no = 1  # its line number
        self._open: list[bytes] | None = None
        self._open_bytes = 0
        self._open_offset = 0
        self._open_no = 1
        self._after_left = 0
        self._history = b""  # the last lines before _offset, since the last block
        self.total = 0
        self._skipped = 0
        self.cut_lines = 0

    def skip(self, size: int) -> None:
        """The log has so many bytes before what will be fed. Lines are counted from there on."""
        self._skipped = size

    def feed(self, data: bytes | bytearray) -> list[Block]:
        """Blocks that are complete after these bytes. They are not kept: a buffer may be filled anew for the next call."""
        self.total += len(data)
        if self._started:
            return self._advance(data, 0, len(data))
        self._start += data
        if len(self._start) <= self._small:
            return []
        start = self._start
        self._begin(start)
        return self._advance(start, self.encoding.bom, len(start))

    def finish(self) -> list[Block]:
        """The remaining blocks: the one still open, and the last lines of the log."""
        if not self._started:
            data = bytes(self._start)
            self._begin(data)
            body = data[self.encoding.bom :]
            return [Block(body, self._skipped + self.encoding.bom, 1, True)] if body else []
        out: list[Block] = []
        if self._carry:
            last, self._carry = self._carry, bytearray()
            self._lines(last, 0, len(last), out)
        if self._open is not None:
            self._close(out)
        elif self._history:
            size, ends = len(self._history), self._count(self._history, 0, len(self._history))
            out.append(Block(self._history, self._offset - size, self._no - ends))
        return out

    def _begin(self, head: bytes | bytearray) -> None:
        self.encoding = detect_encoding(bytes(head[:4]))
        self._started = True
        self._start = bytearray()
        self._offset = self._skipped + self.encoding.bom
        if not self._everything and self.encoding.unit == 1 and len(head) > self._small:
            self._scanner = make_scanner(self._words, backend=self._backend)

    def _advance(self, data: bytes | bytearray, start: int, end: int) -> list[Block]:
        out: list[Block] = []
        if self._carry and self.encoding.unit > 1:  # a portion may begin within a code unit
            data = self._carry + data[start:end]
            start, end, self._carry = 0, len(data), bytearray()
        cut = self._after_last_end(data, start, end)
        if self._carry:
            if cut == start:
                self._carry += memoryview(data)[start:end]
                self._split_long(out)
                return out
            middle = data.find(b"\n", start, end) + 1
            self._carry += memoryview(data)[start:middle]
            line, self._carry, start = self._carry, bytearray(), middle
            self._body(line, 0, len(line), out)
        if cut > start:
            self._body(data, start, cut, out)
        if cut < end:
            self._carry += memoryview(data)[cut:end]
            self._split_long(out)
        return out

    def _body(self, data: bytes | bytearray, start: int, end: int, out: list[Block]) -> None:
        """Whole lines; those that are too long in pieces."""
        for first, last in self._pieces(data, start, end):
            self._lines(data, first, last, out)

    def _pieces(self, data: bytes | bytearray, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Where to cut, so that each part has lines of tolerable length, or is a piece of one."""
        position = start
        while end - position > MAX_LINE_BYTES:
            after = self._after_last_end(data, position, position + MAX_LINE_BYTES + self.encoding.unit)
            if after > position:
                position = after
                continue
            if position > start:
                yield start, position
            yield position, position + MAX_LINE_BYTES
            self.cut_lines += 1
            position = start = position + MAX_LINE_BYTES
        if end > start:
            yield start, end

    def _after_last_end(self, data: bytes | bytearray, start: int, end: int) -> int:
        """Where the last line end between the two is over; ``start`` where none is."""
        unit, newline = self.encoding.unit, self.encoding.newline
        at = data.rfind(newline, start, end)
        while at != -1 and (at - start) % unit:
            at = data.rfind(newline, start, at + unit - 1)
        return start if at == -1 else at + unit

    def _count(self, data: bytes | bytearray, start: int, end: int) -> int:
        if self.encoding.unit == 1:
            return count_newlines(data, start, end, large=self.total > WORTH_BYTES)
        unit, newline = self.encoding.unit, self.encoding.newline
        ends, at = 0, data.find(newline, start, end)
        while at != -1:
            aligned = (at - start) % unit == 0
            ends += aligned
            at = data.find(newline, at + (unit if aligned else 1), end)
        return ends

    def _split_long(self, out: list[Block]) -> None:
        """Pieces of a line that has no end in sight, so that one endless line does not fill the memory."""
        while len(self._carry) > MAX_LINE_BYTES:
            self.cut_lines += 1
            piece = bytes(memoryview(self._carry)[:MAX_LINE_BYTES])
            del self._carry[:MAX_LINE_BYTES]
            self._lines(piece, 0, len(piece), out)

    def _lines(self, data: bytes | bytearray, start: int, end: int, out: list[Block]) -> None:
        """Run the block rules over whole lines (the very last one may lack its line end)."""
        base, self._offset = self._offset - start, self._offset + end - start
        if self._scanner is None:
            if self._open is None:
                self._begin_block(b"", base + start, self._no)
            self._no += self._count(data, start, end)
            self._extend(data, start, end, base, out)
            return
        hits = self._scanner.hits(data, start, end)
        position = counted = start
        i = 0
        while position < end:
            if self._open is None:
                line = max(position, data.rfind(b"\n", position, hits[i]) + 1) if i < len(hits) else end
                self._remember(data, position, line)
                position = line
                if line < end:
                    self._no += self._count(data, counted, line)
                    counted = line
                    before = self._history
                    self._begin_block(before, base + line - len(before), self._no - before.count(b"\n"))
                continue
            reach, lines = self._reach(data, position, end)
            beyond = bisect_left(hits, reach, i)
            if beyond > i:
                reach = self._line_end(data, hits[beyond - 1], end)
                i = beyond
                self._after_left = LINES_AFTER
            else:
                self._after_left -= lines
            self._extend(data, position, reach, base, out)
            position = reach
            if self._after_left <= 0:
                self._close(out)
        self._no += self._count(data, counted, end)

    def _line_end(self, data: bytes | bytearray, at: int, end: int) -> int:
        """Where the line that holds ``at`` is over."""
        unit, newline = self.encoding.unit, self.encoding.newline
        found = data.find(newline, at, end)
        while found != -1 and (found - at) % unit:
            found = data.find(newline, found + 1, end)
        return end if found == -1 else found + unit

    def _reach(self, data: bytes | bytearray, position: int, end: int) -> tuple[int, int]:
        """Where the lines that still belong to the open block are over, and how many there are."""
        done, wanted = 0, self._after_left
        find = data.find
        while done < wanted and position < end:
            position = find(b"\n", position, end) + 1 or end
            done += 1
        return position, done

    def _begin_block(self, before: bytes, offset: int, no: int) -> None:
        self._open = [before] if before else []
        self._open_bytes = len(before)
        self._open_offset, self._open_no = offset, no
        self._after_left = LINES_AFTER
        self._history = b""

    def _extend(self, data: bytes | bytearray, start: int, end: int, base: int, out: list[Block]) -> None:
        """Take lines into the open block; one that grows too large is passed on, and the next takes over where it ended."""
        while self._open is not None:
            room = MAX_BLOCK_BYTES - self._open_bytes
            # The room left is a whole number of code units: so are blocks and lines.
            cut = end if end - start <= room else self._line_end(data, start + max(0, room), end)
            self._open.append(bytes(memoryview(data)[start:cut]))
            self._open_bytes += cut - start
            if self._open_bytes > MAX_BLOCK_BYTES:
                self._cut(out)
            start = cut
            if start == end:
                return

    def _cut(self, out: list[Block]) -> None:
        """Pass on the block that grew too large, up to where its last traceback begins, which goes into the next one."""
        raw = b"".join(self._open or ())
        at = _last_header(raw) if self.encoding.unit == 1 else len(raw)
        out.append(Block(raw[:at], self._open_offset, self._open_no))
        left = self._after_left
        self._begin_block(raw[at:], self._open_offset + at, self._open_no + self._count(raw, 0, at))
        self._after_left = left

    def _close(self, out: list[Block]) -> None:
        """Pass the open block on."""
        raw = b"".join(self._open or ())
        if raw:
            out.append(Block(raw, self._open_offset, self._open_no))
        self._open, self._open_bytes = None, 0
        self._history = b""

    def _remember(self, data: bytes | bytearray, start: int, end: int) -> None:
        """Keep the last lines of a quiet stretch: what comes before a block, or ends the log."""
        low, kept = _last_lines(data, start, end, TAIL_LINES)
        if kept >= TAIL_LINES:
            recent = bytes(memoryview(data)[low:end])
        else:
            recent = self._history + bytes(memoryview(data)[start:end])
            recent = recent[_last_lines(recent, 0, len(recent), TAIL_LINES)[0] :]
        self._history = recent[-MAX_HISTORY_BYTES:]


def _last_lines(data: bytes | bytearray, start: int, end: int, count: int) -> tuple[int, int]:
    """Where the last ``count`` lines before ``end`` begin, and how many there are."""
    low, kept = end, 0
    while low > start and kept < count:
        low = data.rfind(b"\n", start, low - 1) + 1 or start
        kept += 1
    return low, kept


def _last_header(raw: bytes) -> int:
    """Where the line stands that opens the last traceback in the last part of a block, or its chain; else the block's end.

    What came before it is complete, with the lines after it that say whether the process went on.
    """
    low, end = len(raw) - CUT_SLACK, len(raw)
    while (at := raw.rfind(b"Traceback (most recent", max(1, low), end)) > 0:
        start = raw.rfind(b"\n", 0, at) + 1
        before = raw[max(0, start - 300) : start]
        if start > 0 and b"bove exception" not in before and b"handling of the" not in before:
            return start
        end = at
    return len(raw)
