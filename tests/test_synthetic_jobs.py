"""Made-up jobs of many ranks, whose right answer is known: who began it, with what, and whether running it again may help."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from synthetic.jobs import Job, make

from tbparse.engine import Explainer
from tbparse.logs.folder import JobFolder, find_jobs
from tbparse.logs.reader import read_job
from tbparse.model import RootCause
from tbparse.ruleset.match import RuleSet

LEAST_RIGHT = 0.98


def answer_of(job: Job, folder: Path, rules: RuleSet) -> RootCause:
    explainer = Explainer(rules=rules)
    if not job.files:
        explainer.feed(job.console.encode())
        return explainer.finish()
    (found,) = find_jobs(job.write(folder))
    read_job(explainer, found)
    return explainer.finish()


def wrong(job: Job, answer: RootCause) -> str | None:
    right = answer.exception == job.cause.exception and answer.verdict in job.cause.verdicts and answer.rank in job.ranks_right
    return None if right else f"{job.told}: {answer.exception} {answer.verdict} on rank {answer.rank} by {answer.rule}"


def check(seeds: range, most: int, folder: Path, rules: RuleSet) -> None:
    found: list[str] = []
    for seed in seeds:
        job = make(seed, most=most)
        answer = answer_of(job, folder / str(seed), rules)
        assert answer.verdict != "transient", f"{job.told}: a real failure was called transient, by {answer.rule}"
        if (said := wrong(job, answer)) is not None:
            found.append(said)
    assert len(found) <= (1 - LEAST_RIGHT) * len(seeds), "\n".join(found)


def test_the_rank_that_began_it_is_found_in_jobs_of_every_shape(tmp_path: Path, rules: RuleSet) -> None:
    check(range(60), 48, tmp_path, rules)


@pytest.mark.slow
def test_the_rank_that_began_it_is_found_in_larger_jobs(tmp_path: Path, rules: RuleSet) -> None:
    check(range(3000, 3100), 256, tmp_path, rules)


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_the_rank_that_began_it_is_found_in_two_thousand_jobs(part: int, tmp_path: Path, rules: RuleSet) -> None:
    check(range(part * 250, (part + 1) * 250), 1024, tmp_path, rules)


def test_the_generator_makes_the_same_job_of_the_same_seed() -> None:
    for seed in range(8):
        a, b = make(seed, most=32), make(seed, most=32)
        assert (a.console, a.files, a.culprit.rank) == (b.console, b.files, b.culprit.rank)


@pytest.mark.parametrize("seed", [s for s in range(40) if make(s, most=24).files][:10])
def test_the_order_of_files_changes_nothing(seed: int, tmp_path: Path, rules: RuleSet) -> None:
    (found,) = find_jobs(make(seed, most=24).write(tmp_path))
    answers = []
    for turn in range(3):
        logs = list(found.logs)
        random.Random(turn).shuffle(logs)
        explainer = Explainer(rules=rules)
        read_job(explainer, JobFolder(tmp_path, logs))
        answers.append(explainer.finish().model_copy(update={"secondary": (), "notes": ()}))
    assert answers[0] == answers[1] == answers[2]
