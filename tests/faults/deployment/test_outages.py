"""What is normal in production is survived: restarts and losses while a step is between its intent and its outcome.

SWITCHBACK_ROUNDS is the number of cases, or `all`; SWITCHBACK_SEED draws another sample; SWITCHBACK_CASES, such as
`open_target,fence_producers: broker`, leaves only cases whose names begin so.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

from lab.environment.state import Lab
from tests.faults.deployment.outages import OUTAGES, STEP_KILLED, Case, Ended, OutageTrips, all_run_again
from tests.faults.support.rounds import how_many
from tests.faults.support.stepping import FORWARD
from tests.support.rehearsals import SEED, kept_if_it_fails

#: Without the gate, which opens by itself.
STEPS = tuple(
    step
    for step in FORWARD[FORWARD.index("fence_producers") : FORWARD.index("open_target") + 1]
    if step != "review_translation"
)
BOTH = ("source", "target")
LEAST_COMPLETED = 0.8


def all_cases() -> list[Case]:
    """Return every step with every outage, sites in turn; at the last two steps also both sites at once.

    The worker is always one of the target's, which runs the flow. A broker of the target that is lost behind the fence
    stands first: it must never keep a procedure from completing.
    """
    cases = [Case("drain_consumers", "broker", ("target",))]
    for number, step in enumerate(STEPS):
        for turn, outage in enumerate((*OUTAGES, STEP_KILLED)):
            site = "target" if outage == "worker" else BOTH[(number + turn) % 2]
            cases.append(Case(step, outage, (site,)))
    twice = [Case(step, outage, BOTH) for step in ("commit_groups", "open_target") for outage in OUTAGES]
    wanted = tuple(os.environ.get("SWITCHBACK_CASES", ",".join(STEPS)).split(","))
    known = dict.fromkeys([*cases, *twice])
    unknown = [name for name in wanted if not any(str(case).startswith(name) for case in known)]
    assert not unknown, f"no case of SWITCHBACK_CASES begins so: {unknown}; a name is `commit_groups: broker of source`"
    return [case for case in known if str(case).startswith(wanted)]


def must_complete(case: Case) -> bool:
    """Whether a procedure must complete: only a broker of the target is lost, after the fence."""
    return case.outage == "broker" and case.sites == ("target",) and case.step != "fence_producers"


def sample_of(cases: list[Case], count: int) -> list[Case]:
    """Return the first case and others at random, by the seed."""
    others = random.Random(SEED).sample(cases[1:], min(count, len(cases)) - 1)
    return [cases[0], *sorted(others, key=cases.index)]


def test_every_step_outlasts_outages(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """At least four of five procedures complete, judged; the others return, name the cause, and clients work."""
    lab = Lab(fresh_lab("identity", airflow=False, profile="production"))
    cases = all_cases()
    made, told = OutageTrips(lab, tmp_path, rate=200, scale=0.05, groups=6), list[Ended]()
    with kept_if_it_fails(lab.root, tmp_path):
        try:
            made.start_always_on()
            made.seed_topics()
            for case in sample_of(cases, how_many(6, len(cases))):
                told.append(made.suffer_case(case))
                print(time.strftime("%T"), told[-1], told[-1].wrong or "", flush=True)
                all_run_again(lab)
        finally:
            made.close()
        print("\n".join(map(str, told)), flush=True)
        assert [text for ended in told for text in ended.wrong] == []
        assert [str(ended) for ended in told if must_complete(ended.case) and ended.outcome != "completed"] == []
        assert sum(ended.outcome == "completed" for ended in told) >= LEAST_COMPLETED * len(told)
