"""Whose frame is it, by its path (tbparse/attribute/origin.py; the kinds are those of FACTS.md)."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

import pytest
from making import traceback
from scoring import place

from tbparse import PathSettings, classify
from tbparse.attribute.origin import mark_frames, origin_of
from tbparse.records import Frame, Link

LIBRARY = [
    "/opt/venv/lib/python3.11/site-packages/transformers/trainer.py",
    "/usr/lib/python3/dist-packages/numpy/core/fromnumeric.py",
    "/usr/local/lib/python3.10/dist-packages/torch/nn/functional.py",
    "/home/u/miniconda3/envs/ml/lib/python3.10/site-packages/torch/nn/functional.py",
    "/home/u/.pyenv/versions/3.11.7/lib/python3.11/site-packages/attr/_make.py",
    "/home/u/.local/lib/python3.11/site-packages/einops/layers.py",
    "/opt/conda/lib/python3.8/site-packages/apex-0.1-py3.8-linux-x86_64.egg/apex/amp.py",
    "C:\\Python311\\Lib\\site-packages\\pandas\\core\\frame.py",
    "C:\\Users\\Ana\\AppData\\Local\\Programs\\Python\\Python311\\lib\\site-packages\\x\\y.py",
    "/home/u/.pex/installed_wheels/abc/einops-0.7-py3-none-any.whl/einops/layers.py",
    "/build/bazel-out/k8/bin/train.runfiles/rules_python~~pip~pip_311_numpy/site-packages/numpy/core.py",
    "/build/train.runfiles/pip_deps_einops/einops/layers.py",
    "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py",
    "/databricks/python/lib/python3.10/site-packages/mlflow/tracking.py",
    "/databricks/spark/python/pyspark/sql/utils.py",
    "/tmp/torchinductor_ana/ab/cabc.py",
    "<eval_with_key>.12",
    "<__array_function__ internals>",
    "<decorator-gen-3>",
    "src/fastpack.pyx",
    "/work/venv/lib/python3.11/site-packages/trl/trainer/sft_trainer.py",
]
STDLIB = [
    "/usr/lib/python3.11/json/decoder.py",
    "/usr/lib64/python3.9/socket.py",
    "/home/u/miniconda3/envs/ml/lib/python3.10/ssl.py",
    "/home/u/.pyenv/versions/3.13.1/lib/python3.13/pathlib/_local.py",
    "/root/.local/share/uv/python/cpython-3.12.4-linux-x86_64-gnu/lib/python3.12/asyncio/runners.py",
    "C:\\Python311\\Lib\\json\\decoder.py",
    "C:\\Users\\Ana\\AppData\\Local\\Programs\\Python\\Python311\\Lib\\socket.py",
    "/usr/lib/python3.11/lib-dynload/_ssl.cpython-311-x86_64-linux-gnu.so",
    "/usr/lib/python311.zip/os.py",
    "<frozen importlib._bootstrap>",
    "<frozen os>",
]
USER = [
    "/work/train.py",
    "train.py",
    "./tools/fit.py",
    "C:\\jobs\\fit.py",
    "/home/ana/mein projekt/läufe.py",
    "<string>",
    "<stdin>",
    "<ipython-input-3-0a1b2c3d>",
    "Cell In[3]",
    "<command-1234567890>",
    "/tmp/ipykernel_4242/1234567890.py",
    "/root/.cache/huggingface/modules/transformers_modules/acme/net/modeling_net.py",
    "/work/torch/my_losses.py",
    "/work/transformers/train.py",
    "/work/python3/train.py",
    "/work/library/python/train.py",
    "/work/site_packages_demo/train.py",
    "/code/accelerate_demo/launch.py",
    "/work/lightning_runs/call.py",
]
LAUNCHER = [
    "/usr/lib/python3.8/runpy.py",
    "<frozen runpy>",
    "/opt/venv/bin/torchrun",
    "/opt/venv/bin/accelerate",
    "/opt/venv/lib/python3.11/site-packages/torch/distributed/run.py",
    "/opt/venv/lib/python3.11/site-packages/torch/distributed/launcher/api.py",
    "/opt/venv/lib/python3.11/site-packages/torch/distributed/elastic/multiprocessing/errors/__init__.py",
    "/opt/venv/lib/python3.11/site-packages/torch/multiprocessing/spawn.py",
    "/opt/venv/lib/python3.11/site-packages/accelerate/commands/launch.py",
    "/opt/venv/lib/python3.11/site-packages/deepspeed/launcher/launch.py",
    "/opt/venv/lib/python3.11/site-packages/pytorch_lightning/trainer/call.py",
    "/opt/venv/lib/python3.11/site-packages/hydra/_internal/utils.py",
    "/opt/venv/lib/python3.11/site-packages/click/core.py",
    "/opt/venv/lib/python3.11/site-packages/fire/core.py",
    "/opt/venv/lib/python3.11/site-packages/_pytest/runner.py",
    "/opt/venv/lib/python3.11/site-packages/ray/_private/worker.py",
    "/opt/venv/lib/python3.11/site-packages/submitit/core/submission.py",
    "/usr/lib/python3.11/multiprocessing/pool.py",
    "/usr/lib/python3.11/concurrent/futures/thread.py",
    "/usr/lib/python3.11/threading.py",
    "C:\\Python311\\Lib\\site-packages\\accelerate\\commands\\launch.py",
    "C:\\venv\\Scripts\\accelerate.exe\\__main__.py",
    "/opt/venv/lib/python3.11/site-packages/torch/_dynamo/eval_frame.py",
]
CASES = [(p, o) for paths, o in ((LIBRARY, "library"), (STDLIB, "stdlib"), (USER, "user"), (LAUNCHER, "launcher")) for p in paths]


@pytest.mark.parametrize(("path", "origin"), CASES)
def test_whose_frame_a_path_is(path: str, origin: str) -> None:
    assert origin_of(path)[0] == origin


@pytest.mark.parametrize("path", LAUNCHER)
def test_a_launchers_frame_is_plumbing(path: str) -> None:
    assert origin_of(path)[1]


@pytest.mark.parametrize("path", [
    "/src/pytorch/torch/nn/functional.py", "/home/u/transformers/src/transformers/trainer.py", "/work/Megatron-LM/megatron/core/layers.py", "/opt/DeepSpeed/deepspeed/runtime/engine.py",
    "/workspace/vllm/vllm/engine/core.py", "/home/u/trl/trl/trainer/sft_trainer.py", "/code/transformers-main/src/transformers/trainer.py",
])  # fmt: skip
def test_a_checkout_of_a_known_library_is_a_library(path: str) -> None:
    assert origin_of(path)[0] == "library"


def test_a_checkout_ranks_below_the_users_own_file(explain) -> None:
    answer = explain(traceback("ValueError: x", ("/work/run.py", 5, "main"), ("/work/trl/trl/trainer/sft_trainer.py", 90, "train")))
    assert place(answer.site) == ("/work/run.py", 5, "main")


def test_the_callers_settings_settle_what_a_path_cannot(rules) -> None:
    text = traceback("ValueError: x", ("/work/run.py", 5, "main"), ("/work/vendor/kit/core.py", 9, "go"))
    assert place(classify(text, rules=rules).site) == ("/work/vendor/kit/core.py", 9, "go")
    settings = PathSettings(library_paths=("/work/vendor",))
    assert place(classify(text, rules=rules, paths=settings).site) == ("/work/run.py", 5, "main")
    text = traceback("ValueError: x", ("/opt/venv/lib/python3.11/site-packages/ours/core.py", 9, "go"))
    assert classify(text, rules=rules).site is None
    assert place(classify(text, rules=rules, paths=PathSettings(user_paths=("ours",))).site) == (
        "/opt/venv/lib/python3.11/site-packages/ours/core.py",
        9,
        "go",
    )


def test_the_users_list_is_asked_first() -> None:
    settings = PathSettings(user_paths=("/work/vendor/mine",), library_paths=("/work/vendor",))
    assert origin_of("/work/vendor/mine/a.py", settings)[0] == "user"
    assert origin_of("/work/vendor/kit/a.py", settings)[0] == "library"
    assert origin_of("/work/vendored/a.py", settings)[0] == "user"


def origins(*frames: tuple[str, str]) -> list[str]:
    link = Link("X", "y", [Frame(path, 1, function) for path, function in frames])
    mark_frames([link])
    return [f.origin for f in link.frames]


def test_a_string_is_a_program_of_the_users_or_a_stub_of_a_librarys() -> None:
    spawn = "/usr/lib/python3.11/multiprocessing/spawn.py"
    assert origins(("<string>", "<module>"), ("<string>", "f")) == ["user", "user"]
    assert origins(("<string>", "<module>"), (spawn, "spawn_main"))[0] == "launcher"
    assert origins(("/work/a.py", "<module>"), ("<string>", "__init__")) == ["user", "library"]


def test_the_frames_of_pyinstaller_are_bare_relative_paths() -> None:
    found = origins(
        ("fit.py", "<module>"),
        ("PyInstaller/loader/pyimod02_importers.py", "exec_module"),
        ("torch/jit/_script.py", "<module>"),
        ("inspect.py", "findsource"),
    )
    assert found == ["user", "library", "library", "stdlib"]


@pytest.mark.parametrize("path", ["", "/", "\\", "?", "<>", "a" * 5000, "/x/" * 2000, "\ud800.py", "C:", "site-packages"])
def test_any_path_has_an_origin(path: str) -> None:
    assert origin_of(path)[0] in ("user", "library", "stdlib", "launcher")
