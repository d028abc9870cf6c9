"""Each row of DIALECTS.md's table has tests of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TEXT = "".join(path.read_text(encoding="utf-8") for path in sorted(HERE.glob("test_dialects_*.py")))


@pytest.mark.parametrize("row", range(1, 38))
def test_every_row_of_the_dialects_has_a_test(row: int) -> None:
    assert re.search(rf"def test_row_{row:02d}_", TEXT), f"no test is called test_row_{row:02d}_…"
