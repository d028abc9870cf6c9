"""Real launchers, run here and now: what they print today is read right."""

from __future__ import annotations

import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from tbparse import RootCause, classify, retryable

pytestmark = pytest.mark.live
torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
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


# Live exceptions of torch, and the text that they print


def _text(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def _same(error: BaseException, profile: str = "job") -> RootCause:
    """The answer for the exception, which is the one for its text."""
    live, text = classify(error, profile=profile), classify(_text(error), profile=profile)
    assert (live.verdict, live.category, live.rule) == (text.verdict, text.category, text.rule)
    return live


@pytest.mark.parametrize(
    "message", ["CUDA out of memory. Tried to allocate 2.00 GiB.", "CUDA out of memory", "CUDA error: out of memory"]
)
def test_an_out_of_memory_of_torch_built_by_hand(message: str) -> None:
    kinds = {torch.OutOfMemoryError, getattr(torch, "AcceleratorError", torch.OutOfMemoryError)}
    for kind in kinds if "error" in message else {torch.OutOfMemoryError}:
        with pytest.raises(kind) as info:
            raise kind(message)
        assert _same(info.value, "tests").transient
        assert not _same(info.value, "job").transient
        assert retryable(kind(message), profile="tests")


class Shards(torch.utils.data.Dataset):
    def __init__(self, error: Exception) -> None:
        self.error = error

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        raise self.error


@pytest.mark.parametrize(
    ("error", "transient"), [(ConnectionResetError(104, "Connection reset by peer"), True), (KeyError("label"), False)]
)
def test_what_a_dataloaders_worker_raised(error: Exception, transient: bool) -> None:
    with pytest.raises(Exception) as info:  # noqa: PT011 - torch rebuilds the type
        list(torch.utils.data.DataLoader(Shards(error), num_workers=1))
    answer = _same(info.value)
    assert answer.transient == transient
    assert answer.exception == type(error).__name__


def _spawned(rank: int, bug: bool) -> None:
    raise KeyError("label") if bug else ConnectionResetError(104, "Connection reset by peer")


@pytest.mark.parametrize("bug", [True, False])
def test_what_a_spawned_process_raised(bug: bool) -> None:
    with pytest.raises(torch.multiprocessing.ProcessRaisedException) as info:
        torch.multiprocessing.spawn(_spawned, (bug,), nprocs=1)
    assert _same(info.value).transient != bug


RANKS = """
import sys
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    if sys.argv[1] == "bug":
        raise NameError("name 'x' is not defined")
    raise ConnectionResetError(104, "Connection reset by peer")

main()
"""


@pytest.mark.parametrize("kind", ["bug", "reset"])
def test_childfailederror_of_a_real_torchrun(tmp_path: Path, kind: str) -> None:
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main

    script = tmp_path / "train.py"
    script.write_text(RANKS)
    with pytest.raises(ChildFailedError) as info:
        main(["--standalone", "--nproc-per-node", "1", str(script), kind])
    answer = _same(info.value)
    assert (answer.exception, answer.transient) == (("NameError", False) if kind == "bug" else ("ConnectionResetError", True))
    assert answer.rank == 0
