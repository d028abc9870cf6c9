"""A child's own report: it changes nothing about the child, and leaves nothing to guess."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tbparse
from tbparse.launching.report import child_report, read_report
from tbparse.launching.report_env import FOLDER, HOOK

SOURCES = {
    "plain": "def f():\n    raise ValueError('the real cause')\nf()\n",
    "cause": "try:\n    int('x')\nexcept ValueError as e:\n    raise RuntimeError('outer') from e\n",
    "context": "try:\n    int('x')\nexcept ValueError:\n    raise RuntimeError('outer')\n",
    "suppressed": "try:\n    int('x')\nexcept ValueError:\n    raise RuntimeError('outer') from None\n",
    "syntax": "def f(:\n",
    "replaced": "import sys\nsys.excepthook = lambda *a: print('mine', a[1], file=sys.stderr)\nraise ValueError('hooked')\n",
    "chained": "import sys\nold = sys.excepthook\nsys.excepthook = lambda *a: old(*a)\nraise ValueError('hooked')\n",
    "delegated": (
        "import sys\nsys.excepthook = lambda *a: (print('mine', file=sys.stderr), sys.__excepthook__(*a))\n"
        "raise ValueError('delegated')\n"
    ),
    "unprintable": "class Odd(Exception):\n    def __str__(self): raise KeyError\nraise Odd()\n",
    "recursion": "def f(): f()\nf()\n",
    "surrogate": "raise ValueError('\\udcff \\x00 é')\n",
    # What is no uncaught exception:
    "exit 3": "import sys; sys.exit(3)\n",
    "exit 0": "import sys\ntry:\n    1/0\nexcept ZeroDivisionError: sys.exit(0)\n",
    "_exit": "import os; os._exit(4)\n",
    "interrupt": "raise KeyboardInterrupt\n",
    "abort": "import os; os.abort()\n",
    "hook called": "import sys\ntry:\n    1/0\nexcept ZeroDivisionError: sys.excepthook(*sys.exc_info())\n",
    "thread": "import threading\ndef f(): 1/0\nt = threading.Thread(target=f); t.start(); t.join()\n",
    "console": "import code; code.InteractiveInterpreter().runsource('1/0')\n",
}
EXPECTED = {
    "plain": [("ValueError", "the real cause", "root")],
    "cause": [("RuntimeError", "outer", "cause"), ("ValueError", "invalid literal for int() with base 10: 'x'", "root")],
    "context": [("RuntimeError", "outer", "context"), ("ValueError", "invalid literal for int() with base 10: 'x'", "root")],
    "suppressed": [("RuntimeError", "outer", "root")],
    "syntax": [("SyntaxError", "invalid syntax", "root")],
    "replaced": [("ValueError", "hooked", "root")],
    "chained": [("ValueError", "hooked", "root")],
    "delegated": [("ValueError", "delegated", "root")],
    "unprintable": [("Odd", "<exception str() failed>", "root")],
    "recursion": [("RecursionError", "maximum recursion depth exceeded", "root")],
    "surrogate": [("ValueError", "\udcff \x00 é", "root")],
}


def _pyenv() -> list[str]:
    """The oldest and the newest interpreter that the hook is for and that the machine has, and the one that runs the tests."""
    found = sorted(
        (tuple(int(x) for x in p.parent.parent.name.split(".")), str(p))
        for p in Path.home().glob(".pyenv/versions/3.*/bin/python")
        if p.parent.parent.name.replace(".", "").isdecimal()
    )
    usable = [p for v, p in found if v >= (3, 8)]
    return list(dict.fromkeys([*usable[:1], sys.executable, *usable[-1:]]))


@pytest.mark.parametrize("python", _pyenv())
@pytest.mark.parametrize("name", SOURCES)
def test_a_child_prints_and_exits_as_without_and_reports_what_ended_it(name, python, tmp_path):
    script = tmp_path / "child.py"
    script.write_text(SOURCES[name], encoding="utf-8")
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", FOLDER)}
    bare = subprocess.run([python, str(script)], env=env, capture_output=True, timeout=60)
    with child_report(env) as reports:
        done = subprocess.run([python, str(script)], env=reports.env, capture_output=True, timeout=60)
        found = reports.read()
    expected = [EXPECTED[name]] if name in EXPECTED else []
    assert (done.returncode, done.stdout, done.stderr) == (bare.returncode, bare.stdout, bare.stderr)
    assert [[(x.exception, x.message, x.relation) for x in r.links] for r in found] == expected
    assert not reports.folder.exists()


def _report(source: str, tmp_path: Path, **env: str) -> tuple[list[object], subprocess.CompletedProcess[str]]:
    script = tmp_path / "child.py"
    script.write_text(source)
    with child_report({**os.environ, **env}) as reports:
        done = subprocess.run([sys.executable, str(script)], env=reports.env, capture_output=True, text=True, timeout=60)
        return reports.read(), done


def test_a_report_tells_frames_process_and_rank(tmp_path):
    (report,), done = _report(SOURCES["plain"], tmp_path, RANK="3", LOCAL_RANK="1", TORCHELASTIC_RESTART_COUNT="2")
    assert (report.place.rank, report.place.local_rank, report.attempt) == (3, 1, 2)
    frames = report.links[0].frames
    assert [(x.line, x.function, x.source) for x in frames] == [
        (3, "<module>", "f()"),
        (2, "f", "raise ValueError('the real cause')"),
    ]
    assert report.text == done.stderr
    assert report.host == os.uname().nodename


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups and notes came with 3.11")
def test_groups_and_notes_are_in_the_report(tmp_path):
    source = "a = ValueError('a')\na.add_note('hint')\nraise ExceptionGroup('many', [a, KeyError('b')])\n"
    (report,), _ = _report(source, tmp_path)
    assert [(x.exception, x.message, x.relation) for x in report.links] == [
        ("ExceptionGroup", "many (2 sub-exceptions)", "group"),
        ("ValueError", "a\nhint", "root"),
    ]
    assert [x[-1].exception for x in report.links[0].leaves] == ["KeyError"]


def test_a_users_hook_set_later_does_not_hide_the_exception(tmp_path):
    """rich.traceback.install() replaces the hook and calls none before it."""
    pytest.importorskip("rich")
    source = "import rich.traceback\nrich.traceback.install()\nraise ValueError('behind rich')\n"
    (report,), done = _report(source, tmp_path)
    assert report.links[0].message == "behind rich"
    assert "╭" in done.stderr


def test_the_childs_own_sitecustomize_runs_and_its_path_is_its_own(tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "sitecustomize.py").write_text("import sys\nsys.mine = __file__\n")
    source = "import sys, sitecustomize\nprint(sys.mine == sitecustomize.__file__, sys.path[1])\n1/0\n"
    (report,), done = _report(source, tmp_path, PYTHONPATH=str(mine))
    assert done.stdout.split() == ["True", str(mine)]
    assert report.links[0].exception == "ZeroDivisionError"
    (mine / "sitecustomize.py").write_text("raise RuntimeError('broken')\n")
    (report,), done = _report("1/0\n", tmp_path, PYTHONPATH=str(mine))
    assert done.stderr.startswith("Error in sitecustomize; set PYTHONVERBOSE for traceback:\nRuntimeError: broken\n")


@pytest.mark.parametrize("flag", ["-E", "-I", "-S"])
def test_an_isolated_interpreter_is_left_alone(flag, tmp_path):
    with child_report() as reports:
        done = subprocess.run([sys.executable, flag, "-c", "1/0"], env=reports.env, capture_output=True, timeout=60)
        assert (done.returncode, reports.read()) == (1, [])


def test_an_old_interpreter_is_left_alone(tmp_path):
    old = next(iter(sorted(Path.home().glob(".pyenv/versions/2.7*/bin/python"))), None)
    if old is None:
        pytest.skip("no CPython 2.7 here")
    with child_report() as reports:
        done = subprocess.run([str(old), "-c", "1/0"], env=reports.env, capture_output=True, text=True, timeout=60)
        bare = subprocess.run([str(old), "-c", "1/0"], capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.returncode) == (bare.stderr, bare.returncode)


def test_elastics_error_file_is_written_once_and_by_the_worker_alone(tmp_path):
    wanted = tmp_path / "error.json"
    source = (
        "import os, subprocess, sys\n"
        "subprocess.call([sys.executable, '-c', 'raise KeyError(1)'])\n"  # inherits the name of the file
        "print(os.path.exists(os.environ['TORCHELASTIC_ERROR_FILE']))\n"
        "raise ValueError('the worker')\n"
    )
    reports, done = _report(source, tmp_path, TORCHELASTIC_ERROR_FILE=str(wanted))
    assert done.stdout == "False\n"
    assert len(reports) == 2
    body = json.loads(wanted.read_text())["message"]
    assert body["message"] == "ValueError: the worker"
    assert body["extraInfo"]["py_callstack"] == done.stderr.partition("KeyError: 1\n")[2]
    assert body["extraInfo"]["timestamp"].isdecimal()
    wanted.write_text("written by @record")
    _report(source, tmp_path, TORCHELASTIC_ERROR_FILE=str(wanted))
    assert wanted.read_text() == "written by @record"


def _explained(stderr: str, reports: list[bytes], returncode: int | None = 1) -> tbparse.RootCause:
    explainer = tbparse.Explainer()
    explainer.feed(stderr.encode())
    with child_report({}) as found:
        for n, raw in enumerate(reports):
            (found.folder / f"{n}.json").write_bytes(raw)
        found.apply(explainer)
    return explainer.finish(returncode)


@pytest.fixture
def raw(tmp_path) -> tuple[str, bytes]:
    """What a child printed, and its report's bytes."""
    script = tmp_path / "train.py"
    script.write_text("import json\njson.loads('{')\n")
    with child_report({**os.environ, "RANK": "5"}) as reports:
        done = subprocess.run([sys.executable, str(script)], env=reports.env, capture_output=True, text=True, timeout=60)
        (path,) = reports.folder.iterdir()
        return done.stderr, path.read_bytes()


def test_with_a_report_the_answer_is_sure_and_counts_the_failure_once(raw):
    printed, report = raw
    guessed, known = _explained(printed, []), _explained(printed, [report])
    assert known.confidence == "high"
    assert known.secondary == ()
    assert known.rank == 5
    same = ("exception", "message", "site", "entry", "frames", "verdict", "category", "rule", "evidence", "fingerprint")
    assert {k: getattr(known, k) for k in same} == {k: getattr(guessed, k) for k in same}


def test_a_report_is_enough_where_the_log_shows_nothing_or_a_mess(raw):
    printed, report = raw
    torn = "\n".join(a + b for a, b in zip(printed.splitlines(), reversed(printed.splitlines()), strict=True))
    for log in ("", "step 1\n", torn):
        answer = _explained(log, [report])
        assert (answer.exception, answer.confidence) == ("json.decoder.JSONDecodeError", "high")
        assert answer.site.line == 2
        assert answer.evidence


def test_a_job_that_ended_well_is_no_failure_whatever_was_reported(raw):
    assert _explained(raw[0], [raw[1]], returncode=0).verdict == "clean"
    assert _explained("", [raw[1]], returncode=0).verdict == "clean"


def test_a_launchers_table_that_quotes_the_report_is_no_second_failure(raw):
    printed, report = raw
    quoted = printed.rstrip("\n").replace("\n", "\n  ")
    table = (
        f"{'=' * 60}\ntrain.py FAILED\n{'-' * 60}\nFailures:\n  <NO_OTHER_FAILURES>\n{'-' * 60}\n"
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-01-01_00:00:00\n  host      : n1\n"
        "  rank      : 5 (local_rank: 1)\n  exitcode  : 1 (pid: 77)\n  error_file: /tmp/error.json\n"
        f"  traceback : {quoted}\n  \n{'=' * 60}\n"
    )
    answer = _explained(printed + table, [report])
    assert (answer.confidence, answer.secondary, answer.rank) == ("high", (), 5)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"format": 1}', b'{"links": [], "env": {}}', b"\xff\xfe"])
def test_a_damaged_report_is_left_out(damage, raw):
    answer = _explained(raw[0], [damage])
    assert answer.exception == "json.decoder.JSONDecodeError"
    assert answer.confidence != "low"


def test_whoever_asked_further_out_gets_the_reports_too(tmp_path):
    script = tmp_path / "child.py"
    script.write_text("1/0\n")
    with child_report() as outer:
        with child_report(outer.env) as inner:
            subprocess.run([sys.executable, str(script)], env=inner.env, stderr=subprocess.DEVNULL, timeout=60)
            assert len(inner.read()) == 1
            assert outer.read() == []
        assert [r.links[0].exception for r in outer.read()] == ["ZeroDivisionError"]
        assert inner.env["PYTHONPATH"].split(os.pathsep).count(HOOK) == 1


def test_a_process_pool_quotes_the_workers_traceback_and_the_report_reads_it(tmp_path):
    source = (
        "from concurrent.futures import ProcessPoolExecutor\n"
        "def work(n):\n    return {}[n]\n"
        "if __name__ == '__main__':\n    with ProcessPoolExecutor(1) as pool:\n        pool.submit(work, 7).result()\n"
    )
    (report,), _ = _report(source, tmp_path)
    assert report.links[-1].exception == "KeyError"
    assert report.links[-1].frames[-1].source == "return {}[n]"


def test_capture_asks_for_reports(tmp_path, capfd):
    script = tmp_path / "boom.py"
    script.write_text("import json\njson.loads('{')\n")
    before = dict(os.environ)
    with pytest.raises(subprocess.CalledProcessError) as e, tbparse.capture(report=True):
        subprocess.check_call([sys.executable, str(script)], env=dict(os.environ))
    assert e.value.root_cause.confidence == "high"
    assert e.value.root_cause.site.line == 2
    assert dict(os.environ) == before
    assert capfd.readouterr().err == e.value.stderr


def test_an_exception_of_another_child_is_not_this_ones(tmp_path, capfd):
    """The first child's failure was handled; the second said nothing of its own."""
    script = tmp_path / "boom.py"
    script.write_text("1/0\n")

    def block() -> None:
        with tbparse.capture(report=True):
            subprocess.call([sys.executable, str(script)])
            subprocess.check_call(["sh", "-c", "kill -9 $$"])

    with pytest.raises(subprocess.CalledProcessError) as e:
        block()
    assert e.value.root_cause.signal == "SIGKILL"
    assert e.value.root_cause.exception != "ZeroDivisionError"


def test_a_report_read_back_refuses_what_is_none():
    with pytest.raises((ValueError, KeyError, TypeError)):
        read_report(b'{"env": {}, "links": []}')


def test_the_hook_loads_next_to_nothing_into_a_child_that_does_well():
    source = "import sys; print(*sorted(sys.modules))"
    with child_report() as reports:
        loaded = [
            set(subprocess.run([sys.executable, "-c", source], env=env, capture_output=True, text=True, timeout=60).stdout.split())
            for env in (dict(os.environ), reports.env)
        ]
    assert loaded[1] - loaded[0] <= {"tbparse_child_report", "sitecustomize", "__future__", "atexit"}


def test_a_launchers_own_report_is_not_a_second_wrapper(raw):
    """torchrun's agent runs under the hook too, and prints its exception in its own way."""
    printed, report = raw
    name = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError"
    data = json.loads(report)
    data["links"][0].update(module=name.rpartition(".")[0], type="ChildFailedError", message="\n====\ntrain.py FAILED", leaves=[])
    data.update(pid=1, env={})
    wrapper = f'Traceback (most recent call last):\n  File "/x/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n{name}: \n'
    answer = _explained(printed + wrapper, [report, json.dumps(data).encode()])
    assert [x.exception for x in answer.chain] == [name, "json.decoder.JSONDecodeError"]
    assert (answer.confidence, answer.secondary) == ("high", ())
