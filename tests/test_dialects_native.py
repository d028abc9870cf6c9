"""Ends without a Python exception: rows 14 to 16 and 32 to 34 of the dialects."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

import pytest
from scoring import place

from tbparse import classify

FAULT = """Fatal Python error: %s

Thread 0x00007f1b2a7fc700 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait
  File "/opt/venv/lib/python3.11/site-packages/tqdm/_monitor.py", line 60 in run

Current thread 0x00007f1b4c9b1740 (most recent call first):
  File "/opt/venv/lib/python3.11/site-packages/fastpack/core.py", line 12 in pack
  File "/work/data.py", line 44 in collate
  File "/work/train.py", line 90 in <module>

Extension modules: numpy._core._multiarray_umath, torch._C (total: 41)
Segmentation fault (core dumped)
"""


@pytest.mark.parametrize(("what", "signal"), [("Segmentation fault", "SIGSEGV"), ("Aborted", "SIGABRT"), ("Bus error", "SIGBUS")])
@pytest.mark.parametrize("before", ["", "step 3: loss=2.1\n", "Loading shards: 100%|███| 3/3 [00:01<00:00]\n", "warnings.warn(\n"])
def test_row_14_faulthandler_prints_the_most_recent_frame_first(what: str, signal: str, before: str, explain) -> None:
    answer = explain(before + FAULT % what, returncode=-11)
    assert (answer.exception, answer.message, answer.signal) == (None, what, signal)
    assert place(answer.site) == ("/work/data.py", 44, "collate")
    assert place(answer.entry) == ("/work/train.py", 90, "<module>")
    assert [f.function for f in answer.frames] == ["<module>", "collate", "pack"]


def test_row_14_a_watchdogs_dump_is_not_the_end(explain) -> None:
    dump = 'Timeout (0:00:30)!\nThread 0x00007f1b (most recent call first):\n  File "/work/data.py", line 44 in read\n'
    fatal = 'Traceback (most recent call last):\n  File "/work/train.py", line 9, in <module>\n    f()\nKeyError: 1\n'
    assert explain(dump + fatal).exception == "KeyError"
    assert explain(dump + "step 1: loss=1\nstep 2: loss=2\n", returncode=0).verdict == "clean"


@pytest.mark.parametrize(("returncode", "signal", "code"), [
    (-9, "SIGKILL", None), (137, "SIGKILL", None), (-11, "SIGSEGV", None), (139, "SIGSEGV", None), (-6, "SIGABRT", None), (143, "SIGTERM", None), (130, "SIGINT", None),
    (3221225477, "SIGSEGV", None), (-1073741819, "SIGSEGV", None), (1, None, 1), (2, None, 2), (75, None, 75), (255, None, 255),
])  # fmt: skip
def test_row_15_the_return_code_is_the_evidence(returncode: int, signal: str | None, code: int | None, explain) -> None:
    answer = explain("step 1: loss=2\nstep 2: loss=1\n", returncode=returncode)
    assert (answer.exception, answer.signal, answer.exit_code) == (None, signal, code)
    assert answer.verdict != "clean"


@pytest.mark.parametrize(("line", "signal"), [
    ("Killed", "SIGKILL"), ("Segmentation fault (core dumped)", "SIGSEGV"), ("Aborted (core dumped)", "SIGABRT"), ("Bus error", "SIGBUS"), ("run.sh: line 3: 12345 Killed                  python train.py", "SIGKILL"),
    ("run.sh: line 3: 12345 Segmentation fault      (core dumped) python train.py", "SIGSEGV"), ("zsh: killed     python train.py", "SIGKILL"), ("[1]+  Killed                  python train.py", "SIGKILL"),
])  # fmt: skip
def test_row_15_what_the_shell_says(line: str, signal: str, explain) -> None:
    answer = explain(f"step 1: loss=2\n{line}\n")
    assert (answer.exception, answer.signal) == (None, signal)


@pytest.mark.parametrize(
    "text",
    ["the pool was Killed by mistake", "Killed 3 stale workers", "Aborted transactions: 0", "no Segmentation fault so far"],
)
def test_row_15_a_sentence_is_no_signal(text: str, explain) -> None:
    assert explain(f"step 1: loss=2\n{text}\nstep 2: loss=1\n").verdict == "clean"


@pytest.mark.parametrize(("text", "part", "code"), [
    ("usage: train.py [-h] --lr LR\ntrain.py: error: the following arguments are required: --lr\n", "the following arguments are required: --lr", 2),
    ("Usage: fit [OPTIONS]\nTry 'fit --help' for help.\n\nError: No such option: --lrr\n", "No such option: --lrr", 2),
    ("Usage: fit [OPTIONS]\nTry 'fit --help' for help.\n╭─ Error ─────────────────────────╮\n│ No such option: --lrr           │\n╰─────────────────────────────────╯\n", "No such option: --lrr", 2),
    ("python: can't open file '/work/nope.py': [Errno 2] No such file or directory\n", "can't open file '/work/nope.py'", 2),
    ("/usr/bin/python3: No module named trainer\n", "No module named trainer", 1),
    ("bash: torchrun: command not found\n", "torchrun: command not found", 127),
    ("run.sh: line 4: ./fit: Permission denied\n", "Permission denied", 126),
])  # fmt: skip
def test_row_16_exits_without_a_traceback(text: str, part: str, code: int, explain) -> None:
    answer = explain("reading the environment\n" + text)
    assert (answer.exception, answer.verdict) == (None, "real")
    assert part in answer.message
    assert answer.exit_code == code
    assert answer.category in ("config", "dependency")


def test_row_16_the_text_of_a_system_exit_is_found_by_the_return_code(explain) -> None:
    answer = explain("reading the configuration\nno optimizer is set: choose one of adam, sgd\n", returncode=1)
    assert (answer.exception, answer.message, answer.exit_code) == (None, "no optimizer is set: choose one of adam, sgd", 1)


def test_row_16_nothing_at_all(explain) -> None:
    answer = explain("", returncode=3)
    assert (answer.verdict, answer.exception, answer.exit_code) == ("unknown", None, 3)


OOM_STEP = "slurmstepd: error: Detected 1 oom_kill event in StepId=81.0. Some of the step tasks have been OOM Killed."


@pytest.mark.parametrize(("line", "category", "verdicts"), [
    ("slurmstepd: error: *** STEP 81.0 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***", "scheduler", {"real", "unknown", "transient"}),
    ("slurmstepd: error: *** JOB 81 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO PREEMPTION ***", "scheduler", {"transient"}),
    ("slurmstepd: error: *** JOB 81 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***", "scheduler", {"transient"}),
    (OOM_STEP, "host-memory", {"real", "unknown"}),
    ("[ 912.1] Out of memory: Killed process 4242 (python) total-vm:90000000kB, anon-rss:64000000kB, file-rss:0kB, shmem-rss:0kB", "host-memory", {"real", "unknown"}),
    ("[ 912.1] NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=python, GPU has fallen off the bus.", "gpu-hardware", {"transient", "unknown", "real"}),
    ("The node was low on resource: memory. Threshold quantity: 100Mi, available: 60Mi.", None, {"transient", "unknown", "real"}),
    ("    Reason:       OOMKilled", "host-memory", {"real", "unknown"}),
])  # fmt: skip
@pytest.mark.parametrize("bar", ["", " 42%|████▏     | 42/100 [00:10<00:14,  4.1it/s]"])
def test_row_32_schedulers_kernel_and_pods(line: str, category: str | None, verdicts: set[str], bar: str, explain) -> None:
    """The line may stand behind a progress bar on the same physical line."""
    answer = explain(f"step 1: loss=2\n{bar}{line}\n", returncode=1)
    assert answer.exception is None
    assert answer.verdict in verdicts
    assert category is None or answer.category == category
    assert line.strip()[-40:] in answer.message + " ".join(e.text for e in answer.evidence)


def test_row_32_srun_says_which_task_was_killed(explain) -> None:
    answer = explain(f"{OOM_STEP}\nsrun: error: n3: task 5: Out Of Memory\n", returncode=1)
    assert (answer.category, answer.signal) == ("host-memory", "SIGKILL")


@pytest.mark.parametrize(("text", "exception", "part"), [
    ("terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n", "std::bad_alloc", "std::bad_alloc"),
    ("terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: an illegal memory access was encountered\nException raised from c10_cuda_check_implementation at ../c10/cuda/CUDAException.cpp:44 (most recent call first):\nframe #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96\n", "c10::Error", "illegal memory access"),
    ("libc++abi: terminating due to uncaught exception of type std::runtime_error: no device\n", "std::runtime_error", "no device"),
    ("corrupted double-linked list\n", None, "corrupted double-linked list"),
    ("free(): invalid pointer\n", None, "free(): invalid pointer"),
    ("*** stack smashing detected ***: terminated\n", None, "stack smashing detected"),
    ("thread '<unnamed>' panicked at src/tokenizer.rs:41:10:\ncalled `Option::unwrap()` on a `None` value\n", None, "panicked at src/tokenizer.rs:41:10"),
])  # fmt: skip
def test_row_33_native_ends(text: str, exception: str | None, part: str, explain) -> None:
    answer = explain("step 1: loss=2\n" + text + "Aborted (core dumped)\n", returncode=134)
    assert answer.exception == exception
    assert part in answer.message
    assert answer.signal == "SIGABRT"


def test_row_33_a_watchdog_says_its_rank(explain) -> None:
    answer = explain(
        "[rank3]:[E1130 18:04:40.217000 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=412, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n",
        returncode=1,
    )
    assert (answer.rank, answer.category) == (3, "communication")
    assert "Watchdog caught collective operation timeout" in answer.message


def test_row_33_sixty_lines_of_broken_pipes_after_the_cause(explain) -> None:
    cause = 'Traceback (most recent call last):\n  File "/work/train.py", line 9, in step\n    loss.backward()\nRuntimeError: shape mismatch in the loss\n'
    pipes = "".join(
        f"[W1130 18:04:4{n % 10}.2 TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=4): Broken pipe\nException raised from sendBytes at ../torch/csrc/distributed/c10d/Utils.hpp:653 (most recent call first):\n"
        + "".join(f"frame #{k}: <unknown function> + 0x{k:x} (0x7f in /opt/venv/lib/libtorch_cpu.so)\n" for k in range(18))
        for n in range(3)
    )
    answer = explain(cause + pipes, returncode=1)
    assert (answer.exception, answer.message, place(answer.site)) == (
        "RuntimeError",
        "shape mismatch in the loss",
        ("/work/train.py", 9, "step"),
    )


def test_row_34_tensorflow(explain) -> None:
    answer = explain(
        "2026-01-02 03:04:05.678901: W tensorflow/core/framework/op_kernel.cc:1828] OP_REQUIRES failed at matmul_op_impl.h:617 : INVALID_ARGUMENT: Matrix size-incompatible: In[0]: [4,8], In[1]: [16,2]\n"
        'Traceback (most recent call last):\n  File "/work/fit.py", line 12, in <module>\n    model.fit(x)\n  File "/opt/venv/lib/python3.11/site-packages/keras/src/utils/traceback_utils.py", line 122, in error_handler\n    raise e.with_traceback(filtered_tb) from None\n'
        "tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error:\n\nDetected at node sequential/dense/MatMul defined at (most recent call last):\n"
        '  File "/work/fit.py", line 5, in build\n\nMatrix size-incompatible: In[0]: [4,8], In[1]: [16,2]\n\t [[{{node sequential/dense/MatMul}}]] [Op:__inference_one_step_on_iterator_812]\n'
    )
    assert answer.exception == "tensorflow.python.framework.errors_impl.InvalidArgumentError"
    assert place(answer.site) == ("/work/fit.py", 12, "<module>"), "frames of the graph's definition are part of the message"
    assert answer.message.startswith("Graph execution error:")
    assert "Matrix size-incompatible" in answer.message


def test_row_34_jax(explain) -> None:
    answer = explain(
        'Traceback (most recent call last):\n  File "/work/fit.py", line 40, in <module>\n    state = step(state, batch)\njaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 34359738368 bytes.\n'
        "--------------------\nFor simplicity, JAX has removed its internal frames from the traceback of the following exception. Set JAX_TRACEBACK_FILTERING=off to include these.\n"
    )
    assert (answer.exception, answer.category) == ("jaxlib.xla_extension.XlaRuntimeError", "gpu-memory")
    assert place(answer.site) == ("/work/fit.py", 40, "<module>")
    assert "JAX has removed" not in answer.message


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("[1.0] blk_update_request: I/O error, dev sda, sector 12", "unknown"),
        ("slurmstepd: error: could not reach the job's directory", "unknown"),
        ("[1.0] pcieport 0000:00:01.0: AER: Corrected error received: 0000:01:00.0", "clean"),
        ("[1.0] mce: [Hardware Error]: Machine check events logged", "clean"),
    ],
)
def test_a_log_that_ends_with_a_complaint_of_the_node_that_no_rule_knows_is_not_clean(line: str, verdict: str) -> None:
    answer = classify(f"step 1 loss 2.1\nstep 2 loss 2.0\n{line}\n")
    assert (answer.verdict, answer.rule) == (verdict, None)
    assert [e.line for e in answer.evidence] == ([3] if verdict == "unknown" else [])
    for ended in (f"step 1 loss 2.1\n{line}\nstep 2 loss 2.0\nstep 3 loss 1.9\n", f"step 2 loss 2.0\nTraining finished.\n{line}\n"):
        assert classify(ended).verdict == "clean"
