"""Line ends are counted alike with NumPy and without (tbparse/text/newlines.py)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tbparse.text import newlines
from tbparse.text.blocks import Segmenter
from tbparse.text.newlines import count_newlines


@pytest.fixture(params=["numpy", "without numpy"])
def counted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "numpy":
        pytest.importorskip("numpy")
    else:
        monkeypatch.setitem(sys.modules, "numpy", None)
    newlines._numpy.cache_clear()
    yield
    newlines._numpy.cache_clear()


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_any_stretch_is_counted_as_bytes_count_does(kind: type[bytes] | type[bytearray]) -> None:
    data = kind(b"a\nbc\n\n\xff\r\n" * 9000)
    for start, end in ((0, len(data)), (1, len(data) - 1), (12_345, 61_000), (700, 700), (5, 9)):
        assert count_newlines(data, start, end, large=True) == data.count(b"\n", start, end)


@pytest.mark.usefixtures("counted")
def test_line_numbers_of_a_large_log_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tbparse.text.blocks.WORTH_BYTES", 1 << 20)
    segmenter, quiet = Segmenter(), b"step 12 loss 0.5\n" * 40_000
    blocks = [b for _ in range(4) for b in segmenter.feed(quiet)] + segmenter.feed(b"ValueError: x\n") + segmenter.finish()
    found = next(b for b in blocks if b"ValueError" in b.raw)
    assert found.first_no + found.raw[: found.raw.index(b"ValueError")].count(b"\n") == 160_001


def test_numpy_is_not_loaded_for_a_small_log() -> None:
    code = "import sys, tbparse; tbparse.classify('x' * 70 + '\\n' * 400_000); sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
