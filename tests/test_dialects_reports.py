"""Ways of printing a failure that reports from the field showed: workers' tracebacks in notebooks, editors' links, other launchers."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

import json

import pytest
from scoring import chain_of, place

WORKER = 'Traceback (most recent call last):\n  File "/work/data/rows.py", line 14, in __getitem__\n    return self.t["lbl"]\nKeyError: \'lbl\'\n'
CELL = """---------------------------------------------------------------------------
KeyError                                  Traceback (most recent call last)
Cell In[12], line 4
      2     n = 0
----> 4     for x, y in loader:
      5         n += 1

File /opt/conda/lib/python3.11/site-packages/torch/_utils.py:733, in ExceptionWrapper.reraise(self)
--> 733 raise exception

"""


def test_a_notebook_whose_loader_failed_names_the_workers_line(explain) -> None:
    """The cell's exception only hands on what the worker raised; its traceback is printed as CPython does."""
    answer = explain(f"{CELL}KeyError: Caught KeyError in DataLoader worker process 0.\nOriginal {WORKER}")
    assert answer.message == "'lbl'"
    assert place(answer.site) == ("/work/data/rows.py", 14, "__getitem__")
    assert place(answer.entry) == ("Cell In[12]", 4, "<module>")


def test_a_notebook_whose_pool_failed_names_the_workers_line(explain) -> None:
    """Between the two, the cell's traceback and the worker's are one chain."""
    head = "RemoteTraceback                           Traceback (most recent call last)\nRemoteTraceback: \n"
    cause = "\nThe above exception was the direct cause of the following exception:\n\n"
    answer = explain(f'{head}"""\n{WORKER}"""\n{cause}{CELL[76:]}KeyError: \'lbl\'\n')
    assert place(answer.site) == ("/work/data/rows.py", 14, "__getitem__")
    assert chain_of(answer)[0][0] == "KeyError"


def test_a_later_cells_traceback_is_no_part_of_a_message(explain) -> None:
    """What follows after a blank line, from a script that the next cell started, is another failure."""
    answer = explain(f"{CELL}KeyError: 'first'\n\n{WORKER}")
    assert answer.message == "'first'"
    assert len(answer.secondary) == 1


@pytest.mark.parametrize(
    ("head", "arrow"),
    [
        (
            "[d:\\work\\a.ipynb](file:///D:/work/a.ipynb) Cell 16 line 7",
            "----> [7](vscode-notebook-cell:/d%3A/work/a.ipynb#X2?line=6) fit(x)",
        ),
        (
            "d:\\work\\a.ipynb Cell 16 in <cell line: 7>()",
            "----> <a href='vscode-notebook-cell:/d%3A/work/a.ipynb#X2?line=6'>7</a> fit(x)",
        ),
    ],
    ids=["markdown", "anchors"],
)
def test_cells_that_an_editor_named_by_their_notebook(head: str, arrow: str, explain) -> None:
    answer = explain(
        f"ValueError                                Traceback (most recent call last)\n{head}\n{arrow}\n\nValueError: empty batch\n"
    )
    assert place(answer.site) == ("d:\\work\\a.ipynb", 7, "<module>")


@pytest.mark.parametrize(
    "head",
    [
        "py4j.protocol.Py4JJavaError: An error occurred while calling o52.collect.\n"
        ": org.apache.spark.SparkException: Job aborted: org.apache.spark.api.python.PythonException: ",
        "pyspark.errors.PythonException: 'KeyError: lbl', from /work/data/rows.py, line 14. Full traceback below:\n",
    ],
    ids=["py4j", "below"],
)
def test_sparks_message_holds_the_python_workers_traceback(head: str, explain) -> None:
    """Java's frames after it are no part of the worker's message."""
    outer = 'Traceback (most recent call last):\n  File "/work/job.py", line 30, in <module>\n    rows.collect()\n'
    answer = explain(f"{outer}{head}{WORKER}\n\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:642)\n")
    assert (answer.exception, answer.message) == ("KeyError", "'lbl'")
    assert place(answer.site) == ("/work/data/rows.py", 14, "__getitem__")
    assert place(answer.entry) == ("/work/job.py", 30, "<module>")


@pytest.mark.parametrize(
    ("text", "rank", "signal"),
    [
        ("Container rank 1 status failed cmd ['python', '-u', 'run.py'] code -11 log log/workerlog.1 \n", 1, "SIGSEGV"),
        ('DEBUG\tevents\tPod: ml.simple-worker-0 exited with code 137\t{"type": "Normal"}\n', None, "SIGKILL"),
    ],
    ids=["paddle", "kubeflow"],
)
def test_ends_of_workers_that_other_launchers_tell(text: str, rank: int | None, signal: str, explain) -> None:
    answer = explain(f"step 10 loss 2.0\n{text}")
    assert answer.verdict == "unknown"
    assert (answer.rank, answer.signal) == (rank, signal)


def test_a_communication_error_after_anothers_logged_error_is_not_retried(explain) -> None:
    """What a server logged just before its client lost it may be the cause: running again may end alike."""
    logged = (
        "ERROR 05-02 21:36:34 [core.py:459] rpc failed\nERROR 05-02 21:36:34 [core.py:459] Traceback (most recent call last):\n"
        + "".join(
            f"ERROR 05-02 21:36:34 [core.py:459] {line}\n"
            for line in (
                '  File "/work/serve.py", line 106, in init',
                "    raise RuntimeError(text)",
                "RuntimeError: group already initialized",
            )
        )
    )
    lost = (
        'Traceback (most recent call last):\n  File "/work/train.py", line 58, in <module>\n    trainer = make()\n'
        "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)\n"
    )
    assert explain(lost).verdict == "transient"
    assert explain(logged + lost).verdict == "unknown"


@pytest.mark.parametrize("field", ["jsonPayload", "fields", "record"])
def test_text_one_level_down_in_json_lines(field: str, explain) -> None:
    """Google Cloud's agents wrap each line of standard error in an object of their own."""
    lines = ["step 4", *WORKER.splitlines()]
    log = "".join(json.dumps({field: {"message": f"{line}\n"}, "severity": "ERROR"}) + "\n" for line in lines)
    answer = explain(log)
    assert (answer.exception, answer.message) == ("KeyError", "'lbl'")
    assert place(answer.site) == ("/work/data/rows.py", 14, "__getitem__")


def test_inductors_compile_worker_is_quoted_in_the_message(explain) -> None:
    outer = 'Traceback (most recent call last):\n  File "/work/train.py", line 55, in main\n    loss = model(x)\n'
    head = "torch._inductor.exc.InductorError: SubprocException: An exception occurred in a subprocess:\n\nName=triton_red_3\n"
    worker = (
        'Traceback (most recent call last):\n  File "/opt/v/lib/python3.12/site-packages/triton/compiler/compiler.py", line 300, in compile\n'
        "    module = src.make_ir(options)\nOSError: [Errno 28] No space left on device: '/tmp/x.ttir'\n"
    )
    answer = explain(outer + head + worker)
    assert (answer.exception, answer.category) == ("OSError", "storage")
    assert place(answer.site) == ("/work/train.py", 55, "main")


def test_what_failed_while_a_context_manager_cleaned_up_is_not_the_cause(explain) -> None:
    """No rule knows the first error, and one knows the second; the second only came because of the first."""
    first = 'Traceback (most recent call last):\n  File "/work/quant.py", line 71, in quantize\n    raise RuntimeError(text)\nRuntimeError: calibration set is empty\n'
    second = (
        'Traceback (most recent call last):\n  File "/work/export.py", line 30, in main\n    with tempfile.TemporaryDirectory() as tmp:\n'
        '  File "/usr/lib/python3.12/tempfile.py", line 950, in __exit__\n    self.cleanup()\n'
        "PermissionError: [Errno 13] Permission denied: '/tmp/a/m.onnx'\n"
    )
    answer = explain(f"{first}\nDuring handling of the above exception, another exception occurred:\n\n{second}")
    assert answer.message == "calibration set is empty"
    assert place(answer.site) == ("/work/quant.py", 71, "quantize")
