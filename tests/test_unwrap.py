"""Which link of a chain is the root, and whose frame is blamed (tbparse/attribute/unwrap.py)."""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

import pytest
from making import made_rules, traceback
from scoring import chain_of, place

from tbparse import classify

CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"
INNER = traceback("OSError: inner words", ("/work/io.py", 1, "read"))
OUTER = traceback("pkg.Outer: outer words", ("/work/run.py", 2, "main"))


@pytest.mark.parametrize("separator", [CAUSE, CONTEXT])
def test_without_a_rule_the_innermost_is_the_root(separator: str) -> None:
    answer = classify(INNER + separator + OUTER, rules=made_rules())
    assert answer.exception == "OSError"


@pytest.mark.parametrize("separator", [CAUSE, CONTEXT])
def test_a_rule_that_knows_more_about_the_outer_one_makes_it_the_root(separator: str) -> None:
    rules = made_rules(a__outer={"match": {"message": "outer words"}})
    answer = classify(INNER + separator + OUTER, rules=rules)
    assert (answer.exception, answer.rule, place(answer.site)) == ("pkg.Outer", "a/outer", ("/work/run.py", 2, "main"))


def test_a_rule_for_the_inner_one_keeps_it_the_root() -> None:
    rules = made_rules(a__outer={"match": {"message": "outer words"}}, a__inner={"match": {"message": "inner words"}})
    assert classify(INNER + CONTEXT + OUTER, rules=rules).rule == "a/inner"


def test_a_generic_rule_for_the_inner_one_does_not() -> None:
    rules = made_rules(a__outer={"match": {"message": "outer words"}}, a__inner={"match": {"type": "OSError"}, "generic": True})
    assert classify(INNER + CONTEXT + OUTER, rules=rules).rule == "a/outer"


def test_a_rule_that_goes_over_the_inner_ones_makes_its_link_the_root() -> None:
    rules = made_rules(
        a__outer={"match": {"message": "outer words"}, "over": ["a/inner"]}, a__inner={"match": {"message": "inner words"}}
    )
    assert classify(INNER + CAUSE + OUTER, rules=rules).rule == "a/outer"


@pytest.mark.parametrize(
    "wrapper",
    [
        "subprocess.CalledProcessError: Command 'x' returned non-zero exit status 1.",
        "ray.exceptions.RayTaskError: x",
        "torch.multiprocessing.spawn.ProcessRaisedException: x",
    ],
)
def test_a_wrapper_is_never_the_root_of_a_chain_that_holds_more(wrapper: str) -> None:
    rules = made_rules(a__wrapper={"match": {"message": "x"}, "over": ["a/*"]})
    answer = classify(INNER + CAUSE + traceback(wrapper), rules=rules)
    assert answer.exception == "OSError"


def test_a_wrapper_innermost_gives_way_to_what_was_raised_about_it() -> None:
    wrapper = traceback(
        "subprocess.CalledProcessError: Command '['git']' returned non-zero exit status 128.", ("/work/git.py", 1, "call")
    )
    answer = classify(wrapper + CAUSE + OUTER, rules=made_rules())
    assert answer.exception == "pkg.Outer"


def test_the_frame_of_the_link_around_counts_where_the_root_has_none_of_the_users() -> None:
    library = traceback("OSError: inner words", ("/opt/venv/lib/python3.11/site-packages/kit/io.py", 1, "read"))
    answer = classify(library + CAUSE + OUTER, rules=made_rules())
    assert (answer.exception, place(answer.site)) == ("OSError", ("/work/run.py", 2, "main"))
    assert [f.path for f in answer.frames] == ["/opt/venv/lib/python3.11/site-packages/kit/io.py"]


def test_the_deepest_user_frame_is_the_site_and_the_first_is_the_entry(explain) -> None:
    answer = explain(
        traceback(
            "ValueError: x",
            ("/work/a.py", 1, "<module>"),
            ("/opt/venv/lib/python3.11/site-packages/kit/core.py", 2, "call"),
            ("/work/b.py", 3, "back"),
            ("/usr/lib/python3.11/json/decoder.py", 4, "decode"),
        )
    )
    assert place(answer.site) == ("/work/b.py", 3, "back")
    assert place(answer.entry) == ("/work/a.py", 1, "<module>")


def test_launcher_frames_are_left_out_of_the_frames(explain) -> None:
    answer = explain(
        traceback(
            "ValueError: x",
            ("<frozen runpy>", 198, "_run_module_as_main"),
            ("/opt/venv/lib/python3.11/site-packages/click/core.py", 1442, "__call__"),
            ("/work/a.py", 1, "main"),
        )
    )
    assert [f.path for f in answer.frames] == ["/work/a.py"]


def group(*leaves: str) -> str:
    out = f'  + Exception Group Traceback (most recent call last):\n  |   File "/work/run.py", line 2, in <module>\n  |     run()\n  | ExceptionGroup: parts ({len(leaves)} sub-exceptions)\n'
    for n, leaf in enumerate(leaves, 1):
        out += f"  {'+-' if n == 1 else '  '}+---------------- {n} ----------------\n" + "".join(
            f"    | {line}\n" for line in leaf.splitlines()
        )
    return out + "    +------------------------------------\n"


RESET = traceback("ConnectionResetError: [Errno 104] Connection reset by peer", ("/work/a.py", 3, "pull"))
BUG = traceback("KeyError: 'lr'", ("/work/b.py", 4, "read"))


def test_a_group_is_transient_only_if_every_leaf_is(explain) -> None:
    assert explain(group(RESET, RESET)).verdict == "transient"
    mixed = explain(group(RESET, BUG))
    assert (mixed.exception, mixed.verdict, place(mixed.site)) == ("KeyError", "real", ("/work/b.py", 4, "read"))


def test_a_task_that_was_cancelled_for_a_siblings_sake_is_no_root(explain) -> None:
    cancelled = traceback("asyncio.exceptions.CancelledError", ("/work/a.py", 3, "wait"))
    assert explain(group(cancelled, BUG)).exception == "KeyError"


@pytest.mark.parametrize(("message", "signal", "code", "rank"), [
    ("Command 'x' died with <Signals.SIGSEGV: 11>.", "SIGSEGV", None, None), ("Command 'x' returned non-zero exit status 3.", None, 3, None), ("Command 'x' returned non-zero exit status 139.", "SIGSEGV", None, None),
    ("Command 'x' died with unknown signal 64.", "signal 64", None, None),
])  # fmt: skip
def test_signals_and_exit_codes_are_read_out_of_a_launchers_message(
    message: str, signal: str | None, code: int | None, rank: int | None, explain
) -> None:
    answer = explain(traceback(f"subprocess.CalledProcessError: {message}", ("/work/run.py", 1, "main")))
    assert (answer.signal, answer.exit_code, answer.rank) == (signal, code, rank)


def test_the_chain_runs_from_the_outermost_to_the_root(explain) -> None:
    answer = explain(INNER + CAUSE + OUTER + CONTEXT + traceback("pkg.Last: words"))
    assert chain_of(answer) == [("pkg.Last", "context"), ("pkg.Outer", "cause"), ("OSError", "root")]
    assert [c.message for c in answer.chain] == ["words", "outer words", "inner words"]
