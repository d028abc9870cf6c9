"""Whose frame is it: the user's, a library's, Python's own, or a launcher's plumbing.

Known by the path alone wherever it can be; ``user_paths`` and ``library_paths`` settle what it cannot (a
``pip --target`` folder, an editable checkout).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from tbparse.records import Frame, Link
from tbparse.terms import Origin


class PathSettings(NamedTuple):
    """Path prefixes or fragments that settle whose code is under them. The user's list is asked first."""

    user_paths: tuple[str, ...] = ()
    library_paths: tuple[str, ...] = ()


NO_SETTINGS = PathSettings()

_LIBRARY = re.compile(
    r"(?:^|/)(?:site-packages|dist-packages|installed_wheels|node_modules)/|\.egg/|\.egg-link|\.whl/|pyspark\.zip/|py4j-[\w.-]+\.zip/"
    r"|runfiles/(?:rules_python[~+]|pip_|[\w.+~-]*pip[~_+])|/databricks/(?:python\d?|spark|python_shell)/|\.pex/|/PyInstaller/|/(?:torch|vllm)inductor_|/torchinductor_|/__autograph_generated_file"
    r"|^(?:/__w/|/pytorch/|\.\./)?(?:aten|c10|torch/csrc)/|(?:^|/)(?:_?pytest|pluggy|xdist)/",
    re.IGNORECASE,
)
_STDLIB = re.compile(
    r"/lib(?:64)?/python\d(?:\.\d+)?t?/|/lib-dynload/|python\d{2,3}\.zip/|/Python(?:\d{2,3}|\d\.\d+)/lib/|/(?:ana|mini)conda\d?/(?:envs/[^/]+/)?lib/(?!site-packages)|/envs/[^/]+/lib/(?!python|site-packages)[\w/]+\.py$|/usr/lib/pypy",
    re.IGNORECASE,
)
_PSEUDO_USER = re.compile(
    r"^(?:<string>|<stdin>|<ipython-input-[^>]*>|<command-[^>]*>.*|<console>|<input>|<exec>|(?:Cell |Input )?In ?\[.*|<unknown>)$"
)
_NOTEBOOK_FILE = re.compile(r"/ipykernel_\d+/|\.ipynb$|/ipython-input-")
_REMOTE_CODE = re.compile(r"(?:^|/)(?:transformers_modules|datasets_modules|diffusers_modules|working_dir_files)/")

# Launchers and plumbing: fragments of paths, with what comes before them left open.
_LAUNCHER = re.compile(
    r"""(?:
      (?:^|/)runpy\.py$ | ^<frozen\ runpy>$
    | torch/distributed/(?:run|launch|__main__)\.py$ | torch/distributed/(?:launcher|elastic)/
    | torch/multiprocessing/spawn\.py$
    | accelerate/commands/ | accelerate/launchers\.py$ | accelerate/utils/launch\.py$
    | deepspeed/launcher/ | deepspeed/(?:run|__main__)\.py$
    | (?:pytorch_lightning|lightning(?:/pytorch)?|lightning/fabric|lightning_fabric)/(?:trainer/call|strategies/launchers/.*|fabric/.*launchers/.*|cli)\.py$
    | (?:pytorch_lightning|lightning)/.*launchers/
    | hydra/(?:main|_internal/.*)\.py$ | hydra/core/utils\.py$ | hydra/_internal/
    | (?:^|/)(?:click|typer|fire|absl|cyclopts|jsonargparse|tyro)/
    | _pytest/ | pluggy/ | xdist/ | (?:^|/)unittest/
    | ray/_private/ | ray/_raylet | ray/train/_internal/ | ray/util/tracing/
    | submitit/ | celery/ | billiard/ | kombu/
    | dask/(?:threaded|local|multiprocessing)\.py$ | distributed/(?:worker|nanny|scheduler|process)\.py$
    | joblib/ | loky/
    | (?:^|/)multiprocess(?:ing)?/(?:process|pool|spawn|popen_\w+|context|forkserver|managers)\.py$
    | (?:^|/)threading\.py$ | concurrent/futures/
    | torch/_dynamo/(?:eval_frame|external_utils)\.py$ | torch/utils/_contextlib\.py$
    | trl/cli | trl/commands | tbparse/launching/
    | (?:^|/)(?:bin|Scripts)/(?:torchrun|accelerate(?:-launch)?|deepspeed|ray|trl|pytest|py\.test|horovodrun|colossalai|composer|axolotl|llamafactory-cli|lightning|jupyter[\w-]*|ipython\d?|celery|dask[\w-]*|streamlit|uvicorn|gunicorn|fairseq[\w-]*|vllm|mlflow|wandb)(?:-script\.py|\.exe(?:/__main__\.py)?|\.py)?$
    | /[\w-]+\.exe/__main__\.py$
    )""",
    re.VERBOSE,
)
_MODULE_CALL = re.compile(r"torch/nn/modules/module\.py$")

# Checkouts of well-known libraries: `transformers/src/transformers/…`, `Megatron-LM/megatron/…`.
_CHECKOUT = re.compile(
    r"(?:^|(?<=/))(?=(?P<top>[\w.-]{1,80})/(?:src/|python/)?(?P<package>torch|transformers|accelerate|trl|peft|datasets|diffusers|deepspeed|megatron|vllm|lightning|pytorch_lightning|ray|triton|xformers|"
    r"bitsandbytes|flash_attn|jax|flax|tensorflow|keras|torchvision|torchaudio|timm|detectron2|fairseq|fairseq_cli|colossalai|huggingface_hub|tokenizers|safetensors|optimum|apex|sglang|llamafactory|axolotl|nemo|mmcv|mmengine)/)"
)
_STDLIB_NAMES = frozenset(sys.stdlib_module_names)


@lru_cache(maxsize=16384)
def origin_of(path: str, settings: PathSettings = NO_SETTINGS) -> tuple[Origin, bool]:
    """Origin of a frame's path, and whether it is plumbing that is never blamed."""
    p = path.replace("\\", "/")
    for fragment in settings.user_paths:
        if _lies_in(p, fragment):
            return "user", False
    for fragment in settings.library_paths:
        if _lies_in(p, fragment):
            return "library", False
    if p.startswith(("<", "Cell In", "Input In", "In [")):
        if _PSEUDO_USER.match(p):
            return "user", False
        if p == "<frozen runpy>":
            return "launcher", True
        return ("stdlib", False) if p.startswith("<frozen") else ("library", False)
    if _NOTEBOOK_FILE.search(p) or _REMOTE_CODE.search(p):
        return "user", False
    library = _LIBRARY.search(p) is not None
    stdlib = not library and _STDLIB.search(p) is not None
    if (library or stdlib or _is_script(p)) and _LAUNCHER.search(p):
        return "launcher", True
    if library:
        return "library", _MODULE_CALL.search(p) is not None
    if stdlib:
        return "stdlib", False
    if p.endswith((".pyx", ".pxi", ".pxd", ".so", ".pyd")):
        return "library", False
    if any(_is_checkout(m["top"], m["package"], p) for m in _CHECKOUT.finditer(p)):
        return ("launcher", True) if _LAUNCHER.search(p) else ("library", False)
    return "user", False


def _lies_in(path: str, folder: str) -> bool:
    """Whether ``folder``, a path from its start or a few whole parts of one, holds ``path`` or is it."""
    parts = folder.strip("/")
    return bool(parts) and (path == folder or path.startswith(f"{folder.rstrip('/')}/") or f"/{parts}/" in path)


def _is_script(p: str) -> bool:
    return "/bin/" in p or "/Scripts/" in p or ".exe/" in p or p.startswith("<")


def _is_checkout(top: str, package: str, path: str) -> bool:
    """The folder above carries the project's own name: ``transformers/src/transformers``, ``pytorch/torch``."""
    a, b = re.sub(r"[^a-z0-9]", "", top.lower()), re.sub(r"[^a-z0-9]", "", package.lower())
    known = {
        "pytorch": "torch",
        "megatronlm": "megatron",
        "lightning": "pytorchlightning",
        "pytorchlightning": "lightning",
        "flashattention": "flashattn",
        "fairseq": "fairseqcli",
    }
    named = (
        a == b
        or known.get(a) == b
        or a.startswith(f"{b}v")
        or a in (f"{b}main", f"{b}master", f"{b}dev")
        or re.fullmatch(rf"{re.escape(b)}\d+", a) is not None
    )
    return named and f"/{package}/" in path


def mark_frames(links: Sequence[Link], settings: PathSettings = NO_SETTINGS) -> None:
    """Set ``origin`` and ``plumbing`` of every frame of a failure's links, in place."""
    every = [x for link in links for x in link.frames]
    frozen = any("PyInstaller" in x.path for x in every) or (len(every) > 1 and all(map(_bare, every)))
    for link in links:
        for leaf in link.leaves:
            mark_frames(leaf, settings)
        frames = link.frames
        scripted = any(x.path == "<string>" and x.function == "<module>" for x in frames)
        for i, frame in enumerate(frames):
            frame.origin, frame.plumbing = origin_of(frame.path, settings)
            if frame.hint_user and frame.origin == "user":
                continue
            if i < STUB_DEPTH and frame.source is not None and frame.source.startswith("sys.exit(") and _STUB.search(frame.path):
                frame.origin, frame.plumbing = "launcher", True
                continue
            if frame.origin == "user" and _compiled(frame):
                frame.origin = "library"
            elif frame.path == "<string>":
                _mark_string(frames, i, scripted)
            elif frozen and frame.origin == "user":
                _mark_frozen(frame)
    if every and not any(x.origin == "user" and not x.plumbing for x in every):
        # Who runs nothing but a checkout works on it: then its frames are theirs.
        for frame in every:
            if frame.origin == "library" and not frame.plumbing and _of_checkout(frame.path):
                frame.origin = "user"


# What pip makes of an entry point: a file without an ending beside the interpreter, which ends with `sys.exit(main())`.
STUB_DEPTH = 3
"""Above an entry point stand at most a launcher's frames."""
_STUB = re.compile(r"/bin/[\w-]+$")


def _bare(frame: Frame) -> bool:
    """A frame as a frozen program prints it: a relative path, and no source."""
    return frame.source is None and frame.path[:1] not in "/\\<" and frame.path[1:2] != ":" and frame.path.endswith(".py")


def _of_checkout(path: str) -> bool:
    p = path.replace("\\", "/")
    return p.endswith(".py") and not p.startswith("<") and _LIBRARY.search(p) is None and _CHECKOUT.search(p) is not None


def _compiled(frame: Frame) -> bool:
    """Cython prints relative paths and dotted functions that begin with the module: ``pydantic/main.py`` in ``pydantic.main.…``."""
    if not frame.function or "." not in frame.function or frame.path.startswith(("/", "\\")):
        return False
    return frame.function.startswith(frame.path.replace("\\", "/").rpartition(".")[0].replace("/", ".") + ".")


def _mark_string(frames: Sequence[Frame], i: int, scripted: bool) -> None:
    """``<string>`` is a ``-c`` program, an ``exec`` of the user's, a spawn stub, or a generated ``__init__``."""
    frame = frames[i]
    before = frames[i - 1] if i else None
    after = frames[i + 1] if i + 1 < len(frames) else None
    if (
        frame.function == "<module>"
        and after is not None
        and re.search(r"multiprocess(?:ing)?[/\\](?:spawn|resource_tracker|forkserver)\.py$", after.path)
    ):
        frame.origin, frame.plumbing = "launcher", True
    elif before is not None and before.origin in ("library", "stdlib") and before.path != "<string>":
        frame.origin = "library"  # generated and run by a library
    elif not scripted and frame.function is not None and frame.function.startswith("__") and frame.function.endswith("__"):
        frame.origin = "library"


def _mark_frozen(frame: Frame) -> None:
    """PyInstaller prints bare relative paths: folders are packages, a lone file is the script or a stdlib module."""
    p = frame.path.replace("\\", "/")
    if "/" in p:
        frame.origin = "stdlib" if p.split("/")[0] in _STDLIB_NAMES else "library"
    elif p.removesuffix(".py") in _STDLIB_NAMES:
        frame.origin = "stdlib"
