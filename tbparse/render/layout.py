"""Rows of styled text, wrapped to a width; plain when piped, coloured by rich in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tbparse.render.safe import printable

Span = tuple[str, str]
"""A piece of text, and its style in rich's words (``""`` for none)."""
LABEL = 9
"""Cells before the text: two blanks and the label."""
WIDEST = 110
"""Longer lines than this are hard to read, however wide the terminal is."""
NARROWEST = 40


def cells(text: str) -> int:
    """How many terminal cells a text takes."""
    # The usual texts, and the ellipsis that is put into them, need no table of widths.
    if text.replace("…", "").isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, width: int) -> str:
    """The head of a text that fits ``width`` cells, with an ellipsis where something is missing."""
    if cells(text) <= width:
        return text
    return f"{_head(text, width - 1).rstrip()}…"


def _head(text: str, width: int) -> str:
    """As much of the start as fits ``width`` cells; never empty."""
    if text.isascii():
        return text[: max(1, width)]
    taken, used = 0, 0
    for char in text:
        used += cells(char)
        if used > width and taken:
            break
        taken += 1
    return text[:taken]


def wrap(text: str, width: int) -> list[str]:
    """A line in rows of at most ``width`` cells, broken at blanks where there are any. Blanks inside a row stay."""
    rows: list[str] = []
    rest = text.rstrip()
    while cells(rest) > width:
        head = _head(rest, width)
        if rest[len(head) : len(head) + 1] != " ":
            blank = head.rfind(" ")
            # A blank far to the left would leave most of the row empty: break the long word instead.
            if blank > len(head) // 3 and head[:blank].strip():
                head = head[:blank]
        rows.append(head.rstrip())
        rest = rest[len(head) :].lstrip(" ")
    if rest or not rows:
        rows.append(rest)
    return rows


def short_path(path: str, width: int) -> str:
    """A path in at most ``width`` cells, or as near as its last part allows: folders in the middle go first."""
    path = printable(path)
    if cells(path) <= width:
        return path
    separator = "\\" if "\\" in path and "/" not in path else "/"
    parts = path.split(separator)
    head = separator.join(parts[:2]) if path.startswith(separator) else parts[0]
    for first in range(2, len(parts)):
        short = separator.join([head, "…", *parts[first:]])
        if cells(short) <= width:
            return short
    return f"…{separator}{parts[-1]}"


class Sheet:
    """An answer under construction: rows of spans. Everything put on it is made printable first."""

    def __init__(self, width: int) -> None:
        self.width = max(NARROWEST, min(width, WIDEST))
        self.rows: list[list[Span]] = []

    @property
    def room(self) -> int:
        """Cells beside the labels."""
        return self.width - LABEL

    def row(self, *spans: Span) -> None:
        """One row as it is."""
        self.rows.append([(printable(text), style) for text, style in spans])

    def blank(self) -> None:
        """An empty row, never two."""
        if self.rows and self.rows[-1]:
            self.rows.append([])

    def text(self, text: str, style: str = "", *, indent: int = 0, first: str = "") -> None:
        """Wrapped text; ``first`` stands before its first row, inside the indent."""
        for i, line in enumerate(wrap(printable(text), self.width - indent)):
            lead = f"{first if i == 0 else '':<{indent}}"
            self.rows.append([(lead, ""), (line, style)])

    def item(self, label: str, lines: Iterable[Span | Sequence[Span]]) -> None:
        """Lines beside a label. A single span is wrapped; a sequence of spans is one row as it is."""
        for line in lines:
            if isinstance(line, tuple) and len(line) == 2 and isinstance(line[0], str):
                pieces: list[list[Span]] = [[(part, str(line[1]))] for part in wrap(printable(line[0]), self.room)]
            else:
                pieces = [[(printable(str(t)), str(s)) for t, s in line]]
            for piece in pieces:
                self.rows.append([(f"  {label:<{LABEL - 2}}", "dim"), *piece])
                label = ""

    def plain(self) -> str:
        """The rows as text, without trailing blanks."""
        return "".join("".join(text for text, _ in row).rstrip() + "\n" for row in self.rows)

    def coloured(self) -> str:
        """The rows with a terminal's colours."""
        import io

        from rich.console import Console
        from rich.text import Text

        # Only the eight colours that every terminal has, and that its theme makes readable.
        out = io.StringIO()
        console = Console(
            file=out, force_terminal=True, color_system="standard", no_color=False, width=10_000, legacy_windows=False
        )
        for row in self.rows:
            line = Text()
            for text, style in row:
                line.append(text, style or None)
            line.rstrip()
            console.print(line, soft_wrap=True, markup=False, highlight=False, emoji=False)
        return out.getvalue()

    def written(self, colour: bool) -> str:
        """The rows, coloured or plain."""
        return self.coloured() if colour else self.plain()
