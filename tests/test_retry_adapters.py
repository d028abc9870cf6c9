"""Other packages' retries, driven by the predicate: what they do with what it returns. The examples are those of docs/retry.md."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

import tbparse

DOCS = Path(__file__).resolve().parent.parent / "docs" / "retry.md"


def example(*words: str) -> dict[str, object]:
    """The names that the example of docs/retry.md with these words defines, after it ran."""
    blocks = re.findall(r"^```python\n(.*?)^```", DOCS.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    found = [b for b in blocks if all(w in b for w in words)]
    assert len(found) == 1, f"{words}: {len(found)} examples in {DOCS.name}"
    names: dict[str, object] = {"__name__": "example"}
    exec(compile(found[0], str(DOCS), "exec"), names)
    return names


def reset() -> Exception:
    return ConnectionResetError(104, "Connection reset by peer")


@pytest.mark.parametrize("words", [["retryable(", "decision.max"], ["def evaluate"], ["for attempt in"], ["def test_sft"]])
def test_the_examples_run(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    example(*words)


# stamina


@pytest.fixture
def stamina_waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pytest.importorskip("stamina", reason="stamina is not installed")
    waits: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", waits.append)
    return waits


def test_stamina_retries_what_is_transient_and_waits_as_advised(stamina_waits: list[float]) -> None:
    import stamina

    calls: list[int] = []

    @stamina.retry(on=tbparse.retryable, attempts=3, timeout=600)
    def work() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise reset()
        return "done"

    assert work() == "done"
    assert stamina_waits == [tbparse.retryable(reset()).delay_s] * 2


@pytest.mark.parametrize("error", [NameError("x"), RuntimeError("who knows")])
def test_stamina_runs_a_real_or_unknown_failure_once(stamina_waits: list[float], error: Exception) -> None:
    import stamina

    calls: list[int] = []

    @stamina.retry(on=tbparse.retryable, attempts=5)
    def work() -> None:
        calls.append(1)
        raise error

    with pytest.raises(type(error)):
        work()
    assert (calls, stamina_waits) == ([1], [])


def test_the_stamina_example_runs(stamina_waits: list[float]) -> None:
    example("import stamina")


# tenacity


def test_tenacity_takes_the_predicate_and_the_advised_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    tenacity = pytest.importorskip("tenacity", reason="tenacity is not installed")
    waits: list[float] = []
    calls: list[int] = []

    @tenacity.retry(
        retry=tenacity.retry_if_exception(tbparse.retryable), wait=tbparse.wait_advised, sleep=waits.append, reraise=True
    )
    def work(*errors: Exception) -> str:
        calls.append(1)
        if len(calls) <= len(errors):
            raise errors[len(calls) - 1]
        return "done"

    assert work(reset(), reset()) == "done"
    assert waits == [tbparse.retryable(reset()).delay_s] * 2
    calls.clear()
    with pytest.raises(NameError):
        work(NameError("x"), reset())
    assert calls == [1]


def test_tenacity_takes_transient_as_a_type(monkeypatch: pytest.MonkeyPatch) -> None:
    tenacity = pytest.importorskip("tenacity", reason="tenacity is not installed")
    calls: list[int] = []

    @tenacity.retry(retry=tenacity.retry_if_exception_type(tbparse.Transient), reraise=True)
    async def work() -> None:
        calls.append(1)
        raise reset() if len(calls) < 3 else ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        asyncio.run(work())
    assert calls == [1, 1, 1]


def test_the_tenacity_example_runs() -> None:
    pytest.importorskip("tenacity", reason="tenacity is not installed")
    example("from tenacity import")


# Ray, Lightning, transformers


@pytest.mark.live
def test_ray_retries_tasks_whose_failure_is_transient_and_no_other(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray", reason="ray is not installed")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        assert ray.get(example("import ray")["shard"].remote(2)) == 4  # type: ignore[attr-defined]

        @ray.remote(max_retries=3, retry_exceptions=[tbparse.Transient])
        def work(name: str, error: Exception, failures: int) -> int:
            with open(f"{tmp_path}/{name}", "a+") as file:
                file.write("x")
                file.flush()
                file.seek(0)
                runs = len(file.read())
            if runs <= failures:
                raise error
            return runs

        assert ray.get(work.remote("reset", reset(), 2)) == 3
        with pytest.raises(NameError) as info:
            ray.get(work.remote("bug", NameError("x"), 9))
        assert (tmp_path / "bug").read_text() == "x"
        assert not tbparse.retryable(info.value)
        with pytest.raises(ConnectionResetError) as gone:
            ray.get(work.options(max_retries=0).remote("gone", reset(), 9))
        assert tbparse.retryable(gone.value, profile="job")
        assert tbparse.retryable(gone.value).root_cause.exception == "ConnectionResetError"
    finally:
        ray.shutdown()


@pytest.mark.live
def test_lightning_goes_on_from_the_checkpoint_that_the_callback_wrote(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
    pl = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
    names = example("import lightning")
    errors: list[Exception] = []
    steps: list[int] = []

    class Model(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, index):
            steps.append(self.trainer.global_step)
            if self.trainer.global_step == 3 and errors:
                raise errors.pop()
            return self.layer(batch).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    data = torch.utils.data.DataLoader(torch.ones(6, 4), batch_size=1)
    options = {
        "max_epochs": 1, "accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
        "enable_model_summary": False, "default_root_dir": tmp_path,
    }  # fmt: skip
    retry = tbparse.retry(attempts=3, wait=0)
    fit = retry(names["fit"].__wrapped__)  # type: ignore[attr-defined]

    errors.append(reset())
    path = tmp_path / "last.ckpt"
    assert fit(Model(), data, path, **options).global_step == 6
    assert steps[:4] == [0, 1, 2, 3]
    assert steps[4] == 3, "the second attempt did not go on from the checkpoint"

    steps.clear()
    errors.append(NameError("x"))
    other = tmp_path / "bug.ckpt"
    with pytest.raises(NameError):
        fit(Model(), data, other, **options)
    assert steps == [0, 1, 2, 3]
    assert not other.exists()


@pytest.mark.live
def test_transformers_trainer_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="the extra `torch` is not installed")
    train = tbparse.retry(attempts=3, wait=0)(example("get_last_checkpoint")["train"].__wrapped__)  # type: ignore[attr-defined]
    errors: list[Exception] = [reset()]
    begun: list[int] = []

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)

        def forward(self, x=None, labels=None):
            y = self.layer(x)
            return {"loss": ((y - labels) ** 2).mean(), "logits": y}

    class Watch(transformers.TrainerCallback):
        def on_train_begin(self, args, state, control, **kwargs):
            begun.append(state.global_step)

        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == 3 and errors:
                raise errors.pop()

    def make_trainer():
        args = transformers.TrainingArguments(
            str(tmp_path), max_steps=4, save_steps=2, per_device_train_batch_size=1, report_to=[], use_cpu=True, disable_tqdm=True
        )
        rows = [{"x": torch.ones(2), "labels": torch.ones(1)}] * 8
        return transformers.Trainer(Model(), args, train_dataset=rows, callbacks=[Watch()])

    assert train(make_trainer).state.global_step == 4
    assert begun == [0, 2]
