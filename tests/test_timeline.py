"""``--timeline``: when what happened on which rank (tbparse/render/timeline.py)."""

from __future__ import annotations

import re
import subprocess
import sys

from corpora import FIXTURES
from jobs import LOCAL, PEER, WAITED, explained, of_rank, timed
from test_witnesses import closing, exit_table

from tbparse.records import Tags
from tbparse.render import renderer
from tbparse.render.report import Report
from tbparse.ruleset.match import RuleSet


def timeline(rules: RuleSet, console: str = "", logs: dict[str, tuple[Tags, str]] | None = None, width: int = 100) -> list[str]:
    """The rows below the timeline's title."""
    answer, job = explained(rules, console, logs)
    text = renderer("text")(Report(answer, job, timeline=True), width=width, colour=False)
    return text.partition("Timeline, from the first sign\n")[2].splitlines()


def rows(lines: list[str]) -> list[str]:
    return [re.sub(r" +", " ", x.strip()) for x in lines if not x.startswith(" " * 20)]


def test_without_being_asked_for_it_is_not_there(rules: RuleSet) -> None:
    answer, job = explained(rules, LOCAL)
    assert "Timeline" not in renderer("text")(Report(answer, job), width=80, colour=False)


def test_failures_stand_in_the_order_of_their_times_and_count_from_the_first(rules: RuleSet) -> None:
    logs = {
        "rank_0.log": (Tags(0), timed("2026-01-02 03:04:09,500", PEER)),
        "rank_2.log": (Tags(2), timed("2026-01-02 03:04:05,000", LOCAL)),
        "rank_1.log": (Tags(1), timed("2026-01-02 03:04:07,250", WAITED)),
    }
    got = rows(timeline(rules, "", logs))
    assert [x.split(":")[0] for x in got] == ["+0.0 s rank 2 KeyError", "+2.2 s rank 1 RuntimeError", "+4.5 s rank 0 RuntimeError"]
    assert got[0].endswith("← the cause")


def test_neighbours_that_say_the_same_are_one_row(rules: RuleSet) -> None:
    log = of_rank(4, LOCAL) + "".join(of_rank(r, PEER.replace("4242", str(4000 + r))) for r in (0, 1, 2, 3, 5))
    got = rows(timeline(rules, log))
    assert [x.split(":")[0] for x in got[1:]] == ["rank 4 KeyError", "ranks 0-3, 5 RuntimeError"]


def test_a_log_without_times_is_shown_in_its_order_and_says_so(rules: RuleSet) -> None:
    got = rows(timeline(rules, of_rank(2, LOCAL) + of_rank(0, PEER)))
    assert got[0] == "No line has a time: this is the order of the log."
    assert [x.split(":")[0] for x in got[1:]] == ["rank 2 KeyError", "rank 0 RuntimeError"]


def test_a_time_that_stands_above_a_traceback_only_says_not_before(rules: RuleSet) -> None:
    log = timed("2026-01-02 03:04:05,000", "ERROR:root:boom") + timed("2026-01-02 03:04:07,000", "step 3 loss 1.0") + LOCAL
    got = rows(timeline(rules, log))
    assert got[-1].startswith("≥ 0.0 s KeyError")


def test_ends_of_workers_are_told_as_the_launcher_saw_them(rules: RuleSet) -> None:
    log = timed("2026-01-02 03:04:05,000", LOCAL) + closing(12) + exit_table((0, 1, 10), (1, -15, 12), named=0)
    got = rows(timeline(rules, log))
    assert "+2.0 s rank 1 ended by SIGTERM" in got
    assert "+2.0 s rank 0 ended with code 1" in got
    assert not any("received by PID" in x for x in got)


def test_a_failure_without_a_time_came_before_the_launcher_saw_its_ranks_end(rules: RuleSet) -> None:
    console = of_rank(1, LOCAL) + exit_table((0, 1, 10), (1, 1, 12), named=0)
    logs = {"1/stderr.log": (Tags(1), LOCAL), "0/stderr.log": (Tags(0), PEER)}
    got = [x for x in rows(timeline(rules, console, logs)) if "rank" in x]
    assert got[0] == "≤ 0.0 s rank 1 KeyError: 'labels' ← the cause"
    assert sum("KeyError" in x for x in got) == 1


def test_who_did_not_arrive_stands_above(rules: RuleSet) -> None:
    log = "".join(of_rank(r, WAITED) for r in (0, 1)) + closing(12) + exit_table((0, 1, 10), (1, 1, 11), (2, -15, 12), named=0)
    got = rows(timeline(rules, log))
    assert got[0].startswith("Rank 2 was still running when the launcher ended it")
    assert any(x.endswith("← the message") for x in got)


def test_clocks_that_differ_are_said_and_corrected(rules: RuleSet) -> None:
    def host(name: str, hour: str, text: str) -> tuple[Tags, str]:
        return Tags(host=name), "".join(f"2026-01-02 {hour}:00:{n:02},000 step {n} loss 1.0\n" for n in range(1, 9)) + text

    logs = {
        "n1.log": host("n1", "03", timed("2026-01-02 03:00:20,000", PEER)),
        "n2.log": host("n2", "04", timed("2026-01-02 04:00:12,000", LOCAL)),
    }
    got = rows(timeline(rules, "", logs))
    assert got[0].startswith("Clocks differ: against n1, n2 3600 s ahead")
    assert [x.split(":")[0] for x in got[-2:]] == ["+0.0 s KeyError", "+8.0 s RuntimeError"]


def test_a_thousand_ranks_stay_a_screenful(rules: RuleSet) -> None:
    log = of_rank(7, LOCAL) + "".join(of_rank(r, PEER.replace("4242", str(10_000 + r))) for r in range(300) if r != 7)
    assert len(timeline(rules, log)) < 20


def test_log_text_in_it_is_made_printable_and_fits(rules: RuleSet) -> None:
    got = timeline(rules, LOCAL.replace("labels", "\x1b[31m[red]" + "x" * 500), width=60)
    assert all(len(line) <= 60 for line in got)
    assert "\x1b" not in "".join(got)


def test_the_command_line_shows_it() -> None:
    log = FIXTURES / "cases" / "ranks2-raises-store" / "log.txt"
    command = [sys.executable, "-m", "tbparse", "explain", "--timeline", str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Timeline, from the first sign" in done.stdout
    assert re.search(r"rank 1 +KeyError: 'validation' ← the cause", done.stdout)
