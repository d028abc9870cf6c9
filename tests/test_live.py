"""Real launchers, run here and now: what they print today is read right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tbparse import classify

pytestmark = pytest.mark.live
pytest.importorskip("torch", reason="the extra `torch` is not installed")
pytest.importorskip("accelerate", reason="the extra `torch` is not installed")

CASCADE = """
import torch, torch.distributed as dist

def main():
    dist.init_process_group("gloo")
    x = torch.ones(4)
    if dist.get_rank() == 1:
        raise KeyError("label")  # site
    dist.all_reduce(x)

main()
"""


def _launch(tmp_path: Path, source: str, *launcher: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "train.py"
    script.write_text(source)
    return subprocess.run([*launcher, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=240)


def _line(source: str) -> int:
    return next(n for n, text in enumerate(source.splitlines(), 1) if text.endswith("# site"))


def test_accelerate_hides_the_cause_behind_calledprocesserror(tmp_path: Path) -> None:
    source = 'raise ValueError("the real cause")  # site\n'
    done = _launch(tmp_path, source, sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "1")
    answer = classify(done.stderr, returncode=done.returncode)
    assert done.returncode != 0
    assert (answer.exception, answer.message) == ("ValueError", "the real cause")
    assert answer.site is not None
    assert answer.site.line == _line(source)
    assert [x.relation for x in answer.chain] == ["launcher", "root"]


def test_torchrun_the_rank_that_raised_is_named_and_not_its_victim(tmp_path: Path) -> None:
    done = _launch(tmp_path, CASCADE, sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    answer = classify(done.stderr, returncode=done.returncode)
    assert (answer.exception, answer.message, answer.rank, answer.verdict) == ("KeyError", "'label'", 1, "real")
    assert answer.site is not None
    assert (answer.site.line, answer.site.function) == (_line(CASCADE), "main")


def test_a_live_exception_with_the_childs_output_is_read_like_its_text(tmp_path: Path) -> None:
    source = "import missing_package_of_nobody  # site\n"
    script = tmp_path / "train.py"
    script.write_text(source)
    with pytest.raises(subprocess.CalledProcessError) as info:
        subprocess.run([sys.executable, str(script)], check=True, capture_output=True)
    answer = classify(info.value)
    assert (answer.exception, answer.category, answer.transient) == ("ModuleNotFoundError", "dependency", False)
