"""The labelled logs: where they are, and how they are read. Nothing is skipped: a missing corpus is an error."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"


@dataclass(frozen=True)
class Case:
    """One labelled log. ``label`` has the keys that the header of corpus/cases.yaml explains."""

    corpus: str
    folder: Path
    label: dict[str, Any]

    @property
    def id(self) -> str:
        return f"{self.corpus}/{self.label['id']}"

    @property
    def returncode(self) -> int | None:
        return self.label.get("returncode")

    @property
    def log_dir(self) -> Path | None:
        """The folder of the ranks' own logs, where the case has one."""
        name = self.label.get("log_dir")
        return self.folder / name if name else None

    def read(self) -> bytes:
        """The log, as it was captured."""
        path = self.folder / self.label["log"]
        if not path.is_file():
            raise FileNotFoundError(f"{path} is labelled but not there: restore it, or run fixtures/make.py --relabel")
        return path.read_bytes()


def _load(corpus: str, labels: Path, folder: Path) -> tuple[Case, ...]:
    if not labels.is_file() or not folder.is_dir():
        raise FileNotFoundError(f"{labels} and {folder}/ hold labelled logs that the tests need: restore them from the repository")
    data = YAML(typ="safe").load(labels.read_text(encoding="utf-8"))
    return tuple(Case(corpus, folder / c["id"], c) for c in data)


@lru_cache(maxsize=1)
def field_cases() -> tuple[Case, ...]:
    """Logs of real failing programs, and reports from the field."""
    return _load("corpus", FIXTURES / "corpus" / "cases.yaml", FIXTURES / "corpus" / "cases")


@lru_cache(maxsize=1)
def made_cases() -> tuple[Case, ...]:
    """Logs that fixtures/make.py produced by running programs under many interpreters and launchers."""
    return _load("made", FIXTURES / "cases.yaml", FIXTURES / "cases")


@lru_cache(maxsize=1)
def reported_cases() -> tuple[Case, ...]:
    """Logs that rebuild what people reported, of every launcher, library and scheduler."""
    folder = FIXTURES / "field"
    return tuple(c for path in sorted(folder.glob("cases-*.yaml")) for c in _load("field", path, folder / "cases"))


def all_cases() -> tuple[Case, ...]:
    """Every labelled log."""
    return (*field_cases(), *made_cases())


def some_cases(every: int) -> tuple[Case, ...]:
    """All field logs, and every n-th of the made ones: for properties that are too slow for all of them."""
    return (*field_cases(), *made_cases()[::every])


def healthy_logs() -> tuple[Path, ...]:
    """Logs of programs that ended well."""
    found = tuple(sorted((FIXTURES / "healthy").glob("*.log")))
    if not found:
        raise FileNotFoundError(f"{FIXTURES / 'healthy'} holds no logs: restore it from the repository")
    return found
