"""``import tbparse`` and ``classify``: lazy, pure, total (tbparse/__init__.py, attribute/live.py)."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

import builtins
import socket
import subprocess
import sys

import pytest
from making import traceback
from scoring import place

import tbparse
from tbparse import Explainer, RootCause, classify

TEXT = traceback("KeyError: 'lr'", ("/work/train.py", 9, "step"))


def modules_after(code: str) -> set[str]:
    """Names in sys.modules after a program ran in a fresh interpreter."""
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(' '.join(sys.modules))"], capture_output=True, text=True, check=True
    )
    return set(run.stdout.split())


def test_the_import_loads_nothing_but_itself() -> None:
    loaded = modules_after("import tbparse") - modules_after("pass")
    assert {m for m in loaded if m.split(".")[0] not in ("tbparse", "__future__")} <= {
        "typing",
        "collections",
        "collections.abc",
        "functools",
        "logging",
    } | modules_after("import typing, logging")
    assert not {m.split(".")[0] for m in loaded} & {
        "pydantic",
        "torch",
        "regex",
        "rich",
        "typer",
        "ruamel",
        "accelerate",
        "hyperscan",
        "yaml",
    }


def test_the_function_loads_neither_torch_nor_accelerate() -> None:
    loaded = modules_after("import tbparse; tbparse.classify('KeyError: 1')")
    assert not {m.split(".")[0] for m in loaded} & {"torch", "accelerate", "numpy", "typer", "rich"}


def test_every_public_name_is_there_and_listed() -> None:
    for name in tbparse.__all__:
        assert getattr(tbparse, name) is not None
        assert name in dir(tbparse)
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        tbparse.nope  # noqa: B018
    assert tbparse.__version__.count(".") >= 1


def test_importing_a_part_of_the_package_does_not_hide_the_function() -> None:
    code = "import tbparse.engine, tbparse.model, tbparse.ruleset.match; import tbparse; assert callable(tbparse.classify)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_text_and_its_bytes_are_answered_alike() -> None:
    text = TEXT.replace("'lr'", "'größe 漢 🙂'")
    assert classify(text) == classify(text.encode()) == classify(bytearray(text.encode())) == classify(memoryview(text.encode()))


def test_a_lone_surrogate_in_a_text_is_an_answer() -> None:
    assert classify(TEXT + "\ud800 \udfff").exception == "KeyError"


@pytest.mark.parametrize("wrong", [None, 3, ["a"], object(), KeyError])
def test_what_is_neither_text_nor_bytes_nor_an_exception_is_a_type_error(wrong: object) -> None:
    with pytest.raises(TypeError):
        classify(wrong)


def raised(exc: BaseException) -> BaseException:
    try:
        raise exc
    except BaseException as e:
        return e


def test_a_live_exception_is_read_as_the_interpreter_would_print_it() -> None:
    answer = classify(raised(KeyError("lr")))
    assert (answer.exception, answer.message) == ("KeyError", "'lr'")
    assert answer.site.path == __file__
    assert answer.site.function == "raised"


def test_a_live_chain() -> None:
    def run() -> None:
        try:
            raise OSError("inner")
        except OSError as e:
            raise ValueError("outer") from e

    with pytest.raises(ValueError, match="outer") as caught:
        run()
    answer = classify(caught.value)
    assert answer.exception == "OSError"
    assert [(c.exception, c.relation) for c in answer.chain] == [("ValueError", "cause"), ("OSError", "root")]


@pytest.mark.parametrize("kind", [bytes, str])
def test_the_output_that_a_calledprocesserror_carries_is_read_first(kind: type) -> None:
    stderr = TEXT if kind is str else TEXT.encode()
    answer = classify(raised(subprocess.CalledProcessError(1, ["python", "train.py"], stderr=stderr)))
    assert (answer.exception, place(answer.site)) == ("KeyError", ("/work/train.py", 9, "step"))
    assert (answer.chain[0].exception, answer.chain[0].relation) == ("subprocess.CalledProcessError", "launcher")


def test_output_is_read_where_there_is_no_stderr() -> None:
    assert classify(raised(subprocess.CalledProcessError(1, "x", output=TEXT))).exception == "KeyError"
    assert classify(raised(subprocess.TimeoutExpired("x", 3, output=TEXT.encode()))).exception is not None


def test_without_output_the_cause_is_said_to_be_hidden() -> None:
    answer = classify(raised(subprocess.CalledProcessError(1, "x")))
    assert answer.exception == "subprocess.CalledProcessError"
    assert answer.verdict == "unknown"


def test_output_of_an_exception_further_down_the_chain_is_read() -> None:
    outer = RuntimeError("the sweep failed")
    outer.__cause__ = raised(subprocess.CalledProcessError(1, "x", stderr=TEXT))
    assert classify(raised(outer)).exception == "KeyError"


def test_causes_that_go_round_in_a_circle() -> None:
    a, b = raised(ValueError("a")), raised(TypeError("b"))
    a.__cause__, b.__cause__ = b, a
    assert classify(a).exception in ("ValueError", "TypeError")
    a.__cause__ = a
    assert classify(a).exception == "ValueError"


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class StrangeError(Exception):
    stderr = 5
    output = object()


class EvilError(Exception):
    @property
    def stderr(self) -> str:
        raise KeyError("evil")


@pytest.mark.parametrize(
    "exc",
    [
        UnprintableError(),
        StrangeError("x"),
        EvilError("x"),
        Exception(),
        Exception("\ud800"),
        Exception("a\0b\x1b[31m"),
        KeyError(KeyError),
        SystemExit(3),
        KeyboardInterrupt(),
        StopIteration(),
        OSError(2, "No such file", "x"),
        Exception("x" * 1_000_000),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        SyntaxError("bad", ("f.py", 3, 1, "x = (", 3, 2)),
    ],
    ids=lambda e: type(e).__name__,
)
def test_any_live_exception_has_an_answer(exc: BaseException) -> None:
    answer = classify(raised(exc))
    assert isinstance(answer, RootCause)
    assert answer.verdict != "clean"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with Python 3.11")
def test_a_live_group() -> None:
    answer = classify(raised(builtins.ExceptionGroup("parts", [ValueError("one"), KeyError("two")])))
    assert answer.exception == "ValueError"
    assert [s.exception for s in answer.secondary] == ["KeyError"]


def test_a_very_deep_live_chain() -> None:
    exc: BaseException = ValueError("the first")
    for n in range(300):
        outer = RuntimeError(f"link {n}")
        outer.__cause__ = exc
        exc = outer
    assert classify(exc).exception in ("ValueError", "RuntimeError")


def test_classify_opens_nothing_and_reads_no_environment(monkeypatch: pytest.MonkeyPatch, rules) -> None:
    classify(TEXT, rules=rules, returncode=1)

    def refuse(*args: object, **kw: object) -> object:
        raise AssertionError("opened")

    monkeypatch.setattr(builtins, "open", refuse)
    monkeypatch.setattr("io.open", refuse)
    monkeypatch.setattr("os.open", refuse)
    monkeypatch.setattr("os.getenv", refuse)
    monkeypatch.setattr("time.time", refuse)
    monkeypatch.setattr(socket, "socket", refuse)
    assert classify(TEXT, rules=rules, returncode=1).exception == "KeyError"


def test_an_explainer_is_asked_once_and_two_do_not_mix(rules) -> None:
    one, two = Explainer(rules=rules), Explainer(rules=rules)
    one.feed(TEXT.encode()[:40])
    two.feed(b"all is well\n")
    one.feed(TEXT.encode()[40:])
    assert one.finish().exception == "KeyError"
    assert two.finish().verdict == "clean"
    assert [c.root.link.exception for c in one.candidates] == ["KeyError"]


def test_two_logs_of_a_job_are_joined(rules) -> None:
    """A rank's own log has the cause, the console only the wrapper."""
    console, rank = Explainer(rules=rules), Explainer(rules=rules, source="rank1.log")
    console.feed(
        traceback(
            "subprocess.CalledProcessError: Command 'x' returned non-zero exit status 1.",
            ("/opt/venv/bin/accelerate", 8, "<module>"),
        ).encode()
    )
    rank.feed(TEXT.encode())
    console.join(rank)
    answer = console.finish(1)
    assert answer.exception == "KeyError"
    assert {e.source for e in answer.evidence} == {"rank1.log"}


def test_the_profile_says_what_the_log_cannot() -> None:
    oom = traceback(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.25 GiB is free. Including non-PyTorch memory, this process has 75.88 GiB memory in use."
    )
    assert classify(oom).verdict == "real"
    assert classify(oom, profile="tests").verdict == "transient"
    with pytest.raises(tbparse.UsageError):
        classify(oom, profile="night")
