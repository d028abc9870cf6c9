"""Logs that hypothesis makes up, each with what the engine must say of it."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

import re
from dataclasses import dataclass

from hypothesis import strategies as st

CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"

_WORDS = st.text(
    alphabet=st.characters(categories=("Ll", "Lu", "Nd"), include_characters="_-é漢字ß🙂'\"()[]{}<>,;=+*/&%$!?"),
    min_size=1,
    max_size=12,
)
messages = (
    st.lists(_WORDS, min_size=1, max_size=6)
    .map(" ".join)
    .filter(lambda m: m.strip() == m and m.isprintable() and not re.search(r"\[\d+m", m))
)
"""One-line messages of words in several scripts, with the characters that markup, formats and shells care about."""
details = st.lists(messages.map(lambda m: f"  {m}"), max_size=3).map(lambda rows: "".join(f"\n{row}" for row in rows))
"""Further lines of a message, set in by blanks."""

types = st.sampled_from(
    [
        "ValueError",
        "TypeError",
        "KeyError",
        "mixlab.errors.ShapeMismatch",
        "pkg.BadBatch",
        "RuntimeError",
        "AssertionError",
        "data.reader.TornRecordError",
    ]
)
functions = st.sampled_from(["main", "step", "__init__", "<module>", "<lambda>", "Trainer.fit", "forward", "größe"])
_USER_FILES = st.sampled_from(
    ["/work/run/train.py", "train.py", "/home/ana/mein projekt/läufe.py", "C:\\jobs\\fit\\train.py", "./tools/fit.py"]
)
_LIBRARY_FILES = st.sampled_from([
    "/opt/venv/lib/python3.11/site-packages/torch/nn/functional.py",
    "/usr/lib/python3/dist-packages/numpy/core/fromnumeric.py",
    "C:\\Python311\\Lib\\site-packages\\flax\\linen\\module.py",
    "/usr/lib/python3.11/json/decoder.py",
])  # fmt: skip


@dataclass(frozen=True)
class MadeFrame:
    """A frame, and whether it is the user's."""

    path: str
    line: int
    function: str
    source: str | None
    user: bool

    def text(self, carets: bool) -> str:
        out = f'  File "{self.path}", line {self.line}, in {self.function}\n'
        if self.source is not None:
            out += f"    {self.source}\n"
            if carets:
                out += f"    {'~' * 4}{'^' * 6}\n"
        return out


@dataclass(frozen=True)
class MadeBlock:
    """One traceback as CPython prints it."""

    frames: tuple[MadeFrame, ...]
    exception: str
    message: str
    carets: bool

    @property
    def text(self) -> str:
        body = "".join(f.text(self.carets) for f in self.frames)
        return f"Traceback (most recent call last):\n{body}{self.exception}: {self.message}\n"

    @property
    def site(self) -> tuple[str, int, str] | None:
        found = [f for f in self.frames if f.user]
        return (found[-1].path, found[-1].line, found[-1].function) if found else None


@dataclass(frozen=True)
class MadeLog:
    """A log that ends in a failure: the blocks in the order in which they are printed, the root first."""

    blocks: tuple[MadeBlock, ...]
    separators: tuple[str, ...]

    @property
    def text(self) -> str:
        out = self.blocks[0].text
        for separator, block in zip(self.separators, self.blocks[1:], strict=True):
            out += separator + block.text
        return out

    @property
    def root(self) -> MadeBlock:
        return self.blocks[0]

    @property
    def chain(self) -> list[str]:
        """Types from the outermost to the root."""
        return [b.exception for b in reversed(self.blocks)]


_sources = st.sampled_from(
    [
        "loss.backward()",
        "x = f(a, b)  # why: 3",
        'raise ValueError("no Traceback here")',
        "for k, v in d.items():",
        "return self._step(batch)[0]",
        "assert x.shape == y.shape, 'nö'",
        'log.error("Traceback (most recent call last):")',
    ]
)
frames_of_user = st.builds(MadeFrame, _USER_FILES, st.integers(1, 5000), functions, st.none() | _sources, st.just(True))
frames_of_library = st.builds(MadeFrame, _LIBRARY_FILES, st.integers(1, 5000), functions, st.none() | _sources, st.just(False))


@st.composite
def blocks(draw: st.DrawFn) -> MadeBlock:
    """A traceback whose first frame is the user's."""
    first = draw(frames_of_user)
    rest = draw(st.lists(st.one_of(frames_of_user, frames_of_library), max_size=6))
    return MadeBlock((first, *rest), draw(types), draw(messages) + draw(details), draw(st.booleans()))


@st.composite
def logs(draw: st.DrawFn, max_blocks: int = 4) -> MadeLog:
    """A chain of causes, whose root is the first block that is printed."""
    made = draw(st.lists(blocks(), min_size=1, max_size=max_blocks))
    separators = [draw(st.sampled_from([CAUSE, CONTEXT])) for _ in made[1:]]
    return MadeLog(tuple(made), tuple(separators))


@st.composite
def groups(draw: st.DrawFn) -> tuple[str, list[MadeBlock]]:
    """An exception group of one to three leaves, as CPython 3.11 prints it, and its leaves in order."""
    leaves = draw(st.lists(blocks(), min_size=1, max_size=3))
    head = f'  + Exception Group Traceback (most recent call last):\n  |   File "/work/run/train.py", line 7, in <module>\n  |     run()\n  | ExceptionGroup: parts ({len(leaves)} sub-exception{"s" if len(leaves) > 1 else ""})\n'
    out = head
    for n, leaf in enumerate(leaves, 1):
        out += f"  {'+-' if n == 1 else '  '}+---------------- {n} ----------------\n"
        out += "".join(f"    | {line}\n" for line in leaf.text.splitlines())
    return out + "    +------------------------------------\n", leaves
