"""How an answer is held against a label, and when two answers are the same."""

from __future__ import annotations

from typing import Any

from tbparse.model import RootCause, Site

GROUPS = ("exception", "frame", "verdict", "rank")
"""Field groups that are tested one by one."""


def squeeze(text: str | None) -> str:
    """Text with every run of blanks as one blank; nothing is the empty text."""
    return " ".join(text.split()) if text else ""


def wrong_fields(label: dict[str, Any], answer: RootCause, group: str) -> list[str]:
    """What is wrong in one group of an answer, a line each; an empty list when it is right."""
    checks = {"exception": _exception, "frame": _frame, "verdict": _verdict, "rank": _rank}
    unscored = set(label.get("unscored", ()))
    return [text for field, text in checks[group](label, answer) if field not in unscored]


def _exception(label: dict[str, Any], answer: RootCause) -> list[tuple[str, str]]:
    accept = label.get("accept", {})
    out = []
    types = [label["exception"], *accept.get("exception", ())]
    if answer.exception not in types:
        out.append(("exception", f"exception {answer.exception!r}, expected {_either(types)}"))
    if label["exception"] is None and label.get("signal"):
        return out  # a bare signal has no message of its own
    got = squeeze(answer.message)
    if got in [squeeze(m) for m in accept.get("message", ())]:
        return out
    part = label.get("message_contains")
    if part is not None:
        if squeeze(part) not in got:
            out.append(("message", f"message {got!r}, expected to contain {part!r}"))
    elif got != squeeze(label.get("message")):
        out.append(("message", f"message {got!r}, expected {label.get('message')!r}"))
    return out


def _frame(label: dict[str, Any], answer: RootCause) -> list[tuple[str, str]]:
    accept = label.get("accept", {})
    fallback = [label["frame_fallback"]] if label["frame"] is None and label.get("frame_fallback") else []
    sites = [label["frame"], *accept.get("frame", ()), *fallback]
    out = []
    if not any(_stands_at(answer.site, want) for want in sites):
        out.append(("frame", f"site {answer.site}, expected {_either(sites)}"))
    if not label.get("main_frame"):
        return out  # not every label says where the program began
    entries = [label["main_frame"], *accept.get("main_frame", ()), *fallback]
    if not any(_stands_at(answer.entry, want) for want in entries):
        out.append(("main_frame", f"entry {answer.entry}, expected {_either(entries)}"))
    return out


def _stands_at(site: Site | None, want: dict[str, Any] | None) -> bool:
    if want is None or site is None:
        return want is site
    path = site.path.replace("\\", "/")
    end = want["path_endswith"]
    if "/" not in end and "lib/python" in path:
        return False  # a module of Python's own with the same name as the user's file
    placed = path == end or path.endswith(f"/{end}")
    return placed and site.line == want["line"] and want["function"] in (None, site.function)


def _verdict(label: dict[str, Any], answer: RootCause) -> list[tuple[str, str]]:
    accept = label.get("accept", {})
    out = []
    for field, got in (("verdict", answer.verdict), ("category", answer.category)):
        wants = [label[field], *accept.get(field, ())]
        if got not in wants:
            out.append((field, f"{field} {got!r} by {answer.rule}, expected {_either(wants)}"))
    return out


def _rank(label: dict[str, Any], answer: RootCause) -> list[tuple[str, str]]:
    wants = [label["origin_rank"], *label.get("accept", {}).get("origin_rank", ())]
    return [] if answer.rank in wants else [("origin_rank", f"rank {answer.rank}, expected {_either(wants)}")]


def _either(wants: list[Any]) -> str:
    return " or ".join(repr(w) for w in wants)


def same(answer: RootCause) -> dict[str, Any]:
    """What must not change when only the clothes of a log do: all of the answer but its places, ranks and wording."""
    site = answer.site
    return {
        "verdict": answer.verdict,
        "category": answer.category,
        "rule": answer.rule,
        "exception": answer.exception,
        "message": squeeze(answer.message),
        "site": (site.path, site.line, site.function) if site else None,
        "chain": [link.exception for link in answer.chain],
    }


def place(site: Site | None) -> tuple[str, int | None, str | None] | None:
    """Path, line and function of a site."""
    return (site.path, site.line, site.function) if site else None


def chain_of(answer: RootCause) -> list[tuple[str | None, str]]:
    """Types and relations of the chain, outermost first."""
    return [(link.exception, link.relation) for link in answer.chain]
