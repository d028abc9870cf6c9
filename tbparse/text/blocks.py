"""Which lines deserve a look: the log is cut into blocks around lines that could belong to a failure.

A small log is one block. A large one streams through: lines with a trigger (a text that some dialect or rule needs)
open a block, which takes in some lines before, and ends when enough lines have passed without a trigger. Only blocks
are decoded and kept, so memory does not grow with the log; where blocks begin and end depends on the lines alone,
never on how the bytes were fed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tbparse.text.lines import UTF8, Encoding, detect_encoding
from tbparse.text.prefilter import Scanner, make_scanner

SMALL_LOG = 256 * 1024
"""A log up to this many bytes is read whole."""
LINES_BEFORE = 40
LINES_AFTER = 40
TAIL_LINES = 40
MAX_HISTORY_BYTES = 256 * 1024
MAX_BLOCK_BYTES = 2 * 1024 * 1024
MAX_LINE_BYTES = 1024 * 1024
"""A physical line longer than this is cut into pieces of this size (with the same line number)."""


class Block(NamedTuple):
    """Raw bytes of consecutive lines: ``offset`` of the first byte in the log, its 1-based line number ``first_no``."""

    raw: bytes
    offset: int
    first_no: int
    whole: bool = False
    """The block is the whole log."""


class Segmenter:
    """Cuts fed bytes into blocks. ``extra`` are further triggers; ``everything=True`` turns the prefilter off.

    ``backend`` chooses how triggers are searched, see :func:`tbparse.text.prefilter.make_scanner`.
    """

    def __init__(self, extra: Sequence[str] = (), *, everything: bool = False, backend: str = "auto") -> None:
        self._everything = everything
        self._backend = backend
        self._extra = tuple(extra)
        self._scanner: Scanner | None = None
        self._start = bytearray()
        self._started = False
        self.encoding: Encoding = UTF8
        self._carry = b""
        self._offset = 0  # of the first byte of _carry
        self._no = 1  # line number of the first byte of _carry
        self._open: list[bytes] = []
        self._open_bytes = 0
        self._open_offset = 0
        self._open_no = 1
        self._after_left = 0
        self._history: list[tuple[int, int, bytes]] = []  # (offset, line number, raw line) of lines outside blocks
        self.total = 0
        self.cut_lines = 0

    def feed(self, data: bytes) -> list[Block]:
        """Blocks that are complete after these bytes."""
        self.total += len(data)
        if not self._started:
            self._start += data
            if len(self._start) <= SMALL_LOG:
                return []
            data = bytes(self._start)
            self._begin(data)
            data = data[self.encoding.bom :]
        return self._advance(data)

    def finish(self) -> list[Block]:
        """The remaining blocks: the one still open, and the last lines of the log."""
        if not self._started:
            data = bytes(self._start)
            self._begin(data)
            body = data[self.encoding.bom :]
            return [Block(body, self.encoding.bom, 1, True)] if body else []
        out: list[Block] = []
        if self._carry:
            last, self._carry = self._carry, b""
            out += self._lines(last, self._offset, self._no)
        if self._open:
            out.append(self._close())
        elif self._history:
            offset, no, _ = self._history[0]
            out.append(Block(b"".join(raw for _, _, raw in self._history), offset, no))
        return out

    @property
    def last_no(self) -> int:
        """Line number that the next byte would belong to."""
        return self._no

    def _begin(self, head: bytes) -> None:
        self.encoding = detect_encoding(head[:4])
        self._started = True
        self._start = bytearray()
        self._offset = self.encoding.bom
        if not self._everything and self.encoding.unit == 1 and len(head) > SMALL_LOG:
            self._scanner = make_scanner(self._extra, backend=self._backend)

    def _advance(self, data: bytes) -> list[Block]:
        buffer = self._carry + data if self._carry else data
        cut = self._last_newline(buffer)
        if cut == 0:
            self._carry = buffer
            return self._split_long()
        body, self._carry = buffer[:cut], buffer[cut:]
        offset, no = self._offset, self._no
        self._offset += cut
        self._no += self._count(body)
        out: list[Block] = []
        for piece in self._pieces(body):
            out += self._lines(piece, offset, no)
            offset += len(piece)
            no += self._count(piece)
        return out + self._split_long()

    def _pieces(self, body: bytes) -> list[bytes]:
        """The body, with lines that are too long cut where :meth:`_split_long` would have cut them."""
        if len(body) <= MAX_LINE_BYTES or self.encoding.unit > 1:
            return [body]
        pieces: list[bytes] = []
        start = position = 0
        while position < len(body):
            end = body.find(b"\n", position)
            end = len(body) - 1 if end < 0 else end
            if end - position > MAX_LINE_BYTES:
                if position > start:
                    pieces.append(body[start:position])
                while end - position > MAX_LINE_BYTES:
                    pieces.append(body[position : position + MAX_LINE_BYTES])
                    position += MAX_LINE_BYTES
                    self.cut_lines += 1
                start = position
            position = end + 1
        pieces.append(body[start:])
        return pieces

    def _last_newline(self, buffer: bytes) -> int:
        """Length of the part that ends with the last line end."""
        unit, newline = self.encoding.unit, self.encoding.newline
        at = buffer.rfind(newline)
        while at != -1 and at % unit:
            at = buffer.rfind(newline, 0, at)
        return 0 if at == -1 else at + unit

    def _count(self, body: bytes) -> int:
        if self.encoding.unit == 1:
            return body.count(b"\n")
        return sum(1 for _ in _aligned(body, self.encoding))

    def _split_long(self) -> list[Block]:
        """Pieces of a line that has no end in sight, so that one endless line does not fill the memory."""
        out: list[Block] = []
        while len(self._carry) > MAX_LINE_BYTES:
            self.cut_lines += 1
            piece, self._carry = self._carry[:MAX_LINE_BYTES], self._carry[MAX_LINE_BYTES:]
            out += self._lines(piece, self._offset, self._no)
            self._offset += len(piece)
        return out

    def _lines(self, body: bytes, offset: int, no: int) -> list[Block]:
        """Run the block rules over whole lines (the very last one may lack its line end)."""
        out: list[Block] = []
        position, size = 0, len(body)
        hit = self._next_hit(body, 0)
        while position < size:
            if self._open:
                line_end = self._line_end(body, hit) if hit < size else size
                # Dense hits are the common case inside a block: the next line is asked before forty are counted.
                near = hit < size and hit < self._line_end(body, position)
                quiet_end, quiet_lines = (line_end, 0) if near else self._skip(body, position, self._after_left)
                if near or hit < quiet_end:
                    self._extend(body[position:line_end])
                    no += self._count(body[position:line_end])
                    position, self._after_left = line_end, LINES_AFTER
                    hit = self._next_hit(body, position)
                    if self._open_bytes > MAX_BLOCK_BYTES:
                        out.append(self._close())
                else:
                    self._extend(body[position:quiet_end])
                    no += self._count(body[position:quiet_end])
                    position = quiet_end
                    self._after_left -= quiet_lines
                    if self._after_left <= 0:
                        out.append(self._close())
            elif hit >= size:
                self._remember(body, position, size, offset, no)
                break
            else:
                start = self._line_start(body, hit, position)
                if start > position:
                    self._remember(body, position, start, offset, no)
                    no += self._count(body[position:start])
                before = self._history[-LINES_BEFORE:]
                self._history = []
                self._open_offset, self._open_no = (before[0][0], before[0][1]) if before else (offset + start, no)
                self._extend(b"".join(raw for _, _, raw in before))
                self._after_left = LINES_AFTER
                position = start
                self._extend(b"")
                self._mark_open()
        return out

    def _mark_open(self) -> None:
        if not self._open:
            self._open.append(b"")

    def _next_hit(self, body: bytes, position: int) -> int:
        if self._scanner is None or position >= len(body):
            return position
        if position == 0:
            self._scanner.load(body)
        return self._scanner.next_hit(position)

    def _line_end(self, body: bytes, at: int) -> int:
        if self.encoding.unit > 1:
            unit, newline = self.encoding.unit, self.encoding.newline
            end = body.find(newline, max(0, at - unit + 1))
            while end != -1 and end % unit:
                end = body.find(newline, end + 1)
            return len(body) if end == -1 else end + unit
        end = body.find(b"\n", at)
        return len(body) if end < 0 else end + 1

    def _line_start(self, body: bytes, at: int, low: int) -> int:
        if self.encoding.unit > 1:
            return at
        return max(low, body.rfind(b"\n", low, at) + 1)

    def _skip(self, body: bytes, position: int, count: int) -> tuple[int, int]:
        """Where ``count`` more lines end, and how many there were."""
        done = 0
        while done < count and position < len(body):
            position = self._line_end(body, position)
            done += 1
        return position, done

    def _extend(self, raw: bytes) -> None:
        if raw:
            self._open.append(raw)
            self._open_bytes += len(raw)

    def _close(self) -> Block:
        block = Block(b"".join(self._open), self._open_offset, self._open_no)
        self._open, self._open_bytes = [], 0
        self._history = []
        return block

    def _remember(self, body: bytes, start: int, end: int, offset: int, no: int) -> None:
        """Keep the last lines of a quiet stretch: what comes before a block, or ends the log."""
        low = end
        kept = 0
        while low > start and kept < TAIL_LINES:
            previous = body.rfind(b"\n", start, low - 1)
            low = start if previous < 0 else previous + 1
            kept += 1
        first_no = no + body.count(b"\n", start, low)
        rows: list[tuple[int, int, bytes]] = []
        position = low
        while position < end:
            stop = body.find(b"\n", position, end)
            stop = end if stop < 0 else stop + 1
            rows.append((offset + position, first_no, body[position:stop]))
            position = stop
            first_no += 1
        self._history = (self._history + rows)[-TAIL_LINES:]
        spare = sum(len(raw) for _, _, raw in self._history) - MAX_HISTORY_BYTES
        while spare > 0:  # whole lines go first, then the head of the oldest that is left
            first_offset, first_line, raw = self._history[0]
            if len(raw) <= spare and len(self._history) > 1:
                del self._history[0]
            else:
                self._history[0] = (first_offset + spare, first_line, raw[spare:])
            spare -= min(spare, len(raw))


def _aligned(body: bytes, encoding: Encoding) -> list[int]:
    """Ends of lines (past the line end) of wide text."""
    ends, at = [], body.find(encoding.newline)
    while at != -1:
        if at % encoding.unit == 0:
            ends.append(at + encoding.unit)
            at = body.find(encoding.newline, at + encoding.unit)
        else:
            at = body.find(encoding.newline, at + 1)
    return ends
