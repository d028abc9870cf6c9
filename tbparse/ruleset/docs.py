"""The rules as pages: one a rule, an index by category, and the README's table.

``python -m tbparse.ruleset.docs`` writes ``docs/rules/`` and the table; a test compares them with the rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args

from tbparse.ruleset.match import default_retry
from tbparse.ruleset.pack import read_dir
from tbparse.ruleset.schema import Matcher, Rule
from tbparse.ruleset.store import rules_dir
from tbparse.terms import Category

MEANINGS: dict[str, str] = {
    "user-code": "the program's own logic, types, names",
    "config": "a wrong setting, argument, path, credential or environment",
    "dependency": "versions, imports, builds",
    "data": "the content of inputs",
    "gpu-memory": "the card's memory",
    "host-memory": "RAM, `/dev/shm`, the OOM killer",
    "gpu-hardware": "ECC, Xid, NVLink, a lost card",
    "gpu-software": "driver, CUDA, kernels, libraries on the card",
    "communication": "between ranks: collectives, stores, rendezvous, ports",
    "network": "to the outside: hubs, object stores, package indexes, DNS",
    "storage": "disks, quotas, file systems, damaged checkpoints",
    "scheduler": "preemption, time limits, node failure, eviction",
    "interrupted": "by a person or a signal from outside",
    "unknown": "the log alone does not tell whose matter it is",
}
BEGIN, END = "<!-- rules: begin -->", "<!-- rules: end -->"
_KIND = {"retry": "run again", "retry_elsewhere": "run again on another node", "retry_later": "run again later"}


def pages(rules: Mapping[str, Rule]) -> dict[str, str]:
    """Path below ``docs/rules`` and text of every page, the index too."""
    out = {"README.md": "\n".join(_index(rules)) + "\n"}
    for rule_id, rule in rules.items():
        out[f"{rule_id}.md"] = "\n".join(_page(rule_id, rule, rules)) + "\n"
    return out


def table(rules: Mapping[str, Rule]) -> str:
    """The README's table: categories, what they mean, how many rules, and how many of each verdict."""
    rows = ["| category | whose matter | rules | real | transient | unknown |", "|---|---|--:|--:|--:|--:|"]
    for category in get_args(Category):
        found = [r for r in rules.values() if r.category == category]
        if not found:
            continue
        counts = [sum(r.verdict == v for r in found) for v in ("real", "transient", "unknown")]
        link = f"[{category}](docs/rules/README.md#{category})"
        rows.append(f"| {link} | {MEANINGS[category]} | {len(found)} | {' | '.join(str(n) for n in counts)} |")
    counts = [sum(r.verdict == v for r in rules.values()) for v in ("real", "transient", "unknown")]
    rows.append(f"| **all** | | **{len(rules)}** | {' | '.join(f'**{n}**' for n in counts)} |")
    return "\n".join(rows)


def with_table(readme: str, rules: Mapping[str, Rule]) -> str:
    """The README with its table made anew. Raises ValueError where its marks are missing."""
    head, begin, rest = readme.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md has no {BEGIN} … {END}")
    return f"{head}{BEGIN}\n\n{table(rules)}\n\n{END}{tail}"


def _index(rules: Mapping[str, Rule]) -> Iterator[str]:
    yield "# Rules"
    yield ""
    yield f"{len(rules)} kinds of failure, by category. Made by `python -m tbparse.ruleset.docs` from `rules/`; do not edit."
    for category in get_args(Category):
        found = {i: r for i, r in rules.items() if r.category == category}
        if not found:
            continue
        yield from ("", f"## {category}", "", f"{MEANINGS[category][0].upper()}{MEANINGS[category][1:]}.", "")
        yield from ("| rule | what | verdict |", "|---|---|---|")
        for rule_id, rule in found.items():
            yield f"| [{rule_id}]({rule_id}.md) | {_cell(rule.title)} | {rule.verdict} |"


def _page(rule_id: str, rule: Rule, rules: Mapping[str, Rule]) -> Iterator[str]:
    yield from (f"# {_plain(rule.title)}", "", f"`{rule_id}` · {rule.category} · **{rule.verdict}**", "")
    yield _plain(" ".join(rule.summary.split()))
    if rule.symptom:
        yield from ("", "It is only ever an effect of another failure: it is the answer where nothing else is found.")
    if rule.qualifiers:
        yield from ("", "The verdict or the advice turns:", "")
        for q in rule.qualifiers:
            turned = [q.verdict or rule.verdict, *([q.category] if q.category else [])]
            yield f"- {_plain(q.because)}: {', '.join(turned)}"
            yield from (f"  - {_plain(a)}" for a in q.advice)
    yield from ("", "## What to do", "")
    yield from (f"{i}. {_plain(a)}" for i, a in enumerate(rule.advice, 1))
    yield from ("", _retry(rule), "", "## What it matches", "", "```yaml")
    for m in rule.match:
        yield from _matcher(m)
    yield "```"
    if rule.unless:
        yield from ("", "Unless:", "", "```yaml")
        for m in rule.unless:
            yield from _matcher(m)
        yield "```"
    if rule.over:
        yield from ("", f"Goes over {', '.join(_link(o, rule_id, rules) for o in rule.over)} where both match.")
    yield from ("", "## Examples")
    for example in rule.examples:
        verdict = f" → {example.verdict}" if example.verdict else ""
        yield from ("", f"{_plain(example.source)}{verdict}:", "", *_fenced(example.text))
    if rule.counter_examples:
        yield from ("", "## Not this")
        for counter in rule.counter_examples:
            wins = _link(counter.wins, rule_id, rules) if counter.wins else "nothing"
            yield from ("", f"{_plain(counter.why)} ({wins}):", "", *_fenced(counter.text))
    if rule.related:
        yield from ("", f"Related: {', '.join(_link(o, rule_id, rules) for o in rule.related)}.")
    if rule.references:
        yield from ("", "References:", "", *(f"- <{r}>" for r in rule.references))


def _retry(rule: Rule) -> str:
    retry = rule.retry or default_retry(rule.verdict)
    if retry.action == "stop":
        return "Retry: no."
    return f"Retry: {_KIND[retry.action]} after {retry.delay_s:g} s, at most {retry.max} times."


def _matcher(m: Matcher) -> Iterator[str]:
    for i, (key, value) in enumerate(m.model_dump(exclude_none=True).items()):
        shown = f"[{', '.join(map(str, value))}]" if isinstance(value, (list, tuple)) else "'" + str(value).replace("'", "''") + "'"
        yield f"{'- ' if i == 0 else '  '}{key}: {shown}"


def _fenced(text: str) -> list[str]:
    fence = "````" if "```" in text else "```"
    return [f"{fence}text", *text.rstrip("\n").split("\n"), fence]


def _link(name: str, here: str, rules: Mapping[str, Rule]) -> str:
    return f"[{name}](../{name}.md)" if name in rules else f"`{name}`"


def _plain(text: str) -> str:
    """Text of a rule in Markdown: what would read as HTML is escaped outside code spans."""
    parts = text.split("`")
    parts[::2] = [p.replace("<", "&lt;").replace("*", "\\*") for p in parts[::2]]
    parts[::2] = [re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", p) for p in parts[::2]]
    return "`".join(parts)


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|")


def main() -> None:
    """Write the pages and the table of a checkout."""
    root = rules_dir()
    rules = read_dir(root)
    docs, readme = root.parent / "docs" / "rules", root.parent / "README.md"
    wanted = pages(rules)
    for old in docs.rglob("*.md"):
        if old.relative_to(docs).as_posix() not in wanted:
            old.unlink()
    for name, text in wanted.items():
        path = docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    readme.write_text(with_table(readme.read_text(encoding="utf-8"), rules), encoding="utf-8")


def stale(root: Path) -> list[str]:
    """Pages of a checkout that do not say what its rules say."""
    rules = read_dir(root / "rules")
    docs = root / "docs" / "rules"
    wanted = pages(rules)
    have = {p.relative_to(docs).as_posix(): p.read_text(encoding="utf-8") for p in docs.rglob("*.md")}
    found = sorted(n for n in wanted.keys() | have.keys() if wanted.get(n) != have.get(n))
    readme = (root / "README.md").read_text(encoding="utf-8")
    return found + (["README.md"] if with_table(readme, rules) != readme else [])


if __name__ == "__main__":
    main()
