"""Fields of labelled cases that the engine gets wrong today, each a strict xfail: what becomes right must leave."""

from __future__ import annotations

KNOWN_WRONG: dict[tuple[str, str], str] = {
    # `name: q7XwLdWorkerDict_0:3`: only the name that the user's framework gave the actor holds the rank.
    ("corpus/field-py-ray-actordied-boost-thread", "rank"): "the rank stands only in an actor's name",
    # A project's own exception about a reward server; its type says nothing, only its sentence does.
    ("corpus/field-py-exceptiongroup-two-subs", "verdict"): "no rule knows that a user's own exception is about a network",
    # Label: torch's sentence around it; engine: `inspect`'s sentence inside it. Both are about the same missing source.
    ("corpus/field-py-pyinstaller-frozen", "exception"): "the inner link's message is given, the label has the outer one's",
    # gloo aborts in C++; the Python frame of the victim's own traceback is not tied to it.
    ("made/torchrun-mismatch", "frame"): "an abort in C++ has no entry",
    # A remote task's frames stand in a worker's log record; the caller's are in another traceback, of which nothing says so.
    ("made/celery-task", "frame"): "entry is the worker's, not the caller's",
    ("made/ray-train", "frame"): "entry is the worker's, not the driver's",
}
"""``(case id, field group)`` → why it is wrong."""

HEALTHY_BUT_BLAMED: dict[tuple[str, int | None], str] = {}
"""``(log, return code)`` → why a healthy log is not answered clean."""

WRONG_BEHIND_PREFIXES: dict[str, str] = {
    # Whether the blank behind `[1,0]<stderr>:` is the launcher's or the text's own is not decided for a block as a whole.
    "made/pytest-long": "mpirun's prefix takes one blank of the text's own indentation",
}
"""case id → why it is answered differently behind a prefix."""
