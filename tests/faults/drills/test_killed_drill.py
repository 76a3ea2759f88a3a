"""A drill that is killed at any journal write, its own or a pass's, goes on to its end, or is cleaned up.

Between two writes a step acts: it is killed just before a write, too, when it has acted and nothing says so yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import pytest

from tests.faults.drills.drill_kills import OWN, PARAMS, PASSES, Drills, GivenUp, drills_on_a_lab, evidence_of
from tests.faults.support.rounds import how_many
from tests.faults.support.stepping import STEPS, Run

#: Steps of a pass in which a drill is given up by default: fences, stops, commits, openings, redirections, topics and
#: connectors that are made or changed. With SWITCHBACK_ROUNDS=all: every step of every pass, these first.
SAMPLED = (
    ("run_unplanned_failover", "fence_source"),
    ("run_unplanned_failover", "open_target"),
    ("run_second_failback", "fence_returned_cluster"),
    ("run_second_failback", "start_flow_back"),
    ("run_planned_failover", "fence_producers"),
    ("run_planned_failover", "stop_mirror_maker"),
    ("run_planned_failover", "commit_groups"),
    ("run_planned_failover", "open_target"),
)
OWN_SAMPLED = ("clean_drill", "run_unplanned_failover", "prepare_drill", "open_procedure", "close_procedure")
#: Journal writes of a clean-up: what it will remove, what is left, the closing before the lease is freed.
JANITOR_SAMPLED = (3, 5, 8)
#: Steps whose act is several requests, and the request before which they are killed.
BETWEEN_REQUESTS = (
    ("prepare_drill", "connect.drill_connectors.DrillConnectors.create#2"),
    ("run_unplanned_failover", "connect.drill_connectors.DrillConnectors.change#2"),
    ("clean_drill", "connect.drill_connectors.DrillConnectors.delete#2"),
    ("clean_drill", "brokers.topics.ClusterTopics.delete_topics#2"),
)
#: A step makes fewer writes than this.
_MANY = 50


def whole_or(sample: tuple[Any, ...], everything: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a sample first, and after it everything else if all rounds are wanted."""
    rest = tuple(one for one in everything if one not in sample)
    return sample + (rest if how_many(1, _MANY) > 1 else ())


IN_PASSES = whole_or(
    SAMPLED, tuple((each, step) for each in PASSES for step in (*STEPS[PASSES[each]], "close_procedure"))
)
IN_OWN = whole_or(OWN_SAMPLED, (*OWN, *PASSES))


@pytest.fixture(scope="module")
def drills(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drills]:
    """Drills on a lab of their own."""
    yield from drills_on_a_lab(tmp_path_factory.mktemp("lab"), tmp_path_factory.mktemp("steps"))


def points() -> Iterator[dict[str, Any]]:
    """Yield where a step is killed: by default once, when it has acted and not written its outcome yet."""
    wanted = how_many(1, _MANY)
    if wanted == 1:
        yield {"kill_unwritten": "outcome"}
        return
    for n in islice(count(1), wanted):
        yield {"kill_at": n}
        yield {"kill_unwritten": n + 1}


def told(how: dict[str, Any]) -> str:
    """Return a point as text."""
    ((kind, write),) = how.items()
    return f"{'after' if kind == 'kill_at' else 'before'} write {write}"


def test_continued_after_every_kill(drills: Drills) -> None:
    """Every process of every step, its own and the passes', is killed once: the drill ends with its verdict."""
    run = Run(PARAMS, dag_id="failover_drill")
    tried: dict[str, int] = {}

    def killed(one: Run, step: str, where: str) -> str:
        found = drills.driver.killed_everywhere(one, step)
        tried[where] = len(found)
        print(f"{where}: killed {len(found)} times, then {one.ended[step]} {one.texts[step]}", flush=True)
        return one.ended[step]

    def passed(one: Run) -> str:
        where = one.run_id.rpartition("__")[2]
        for step in one.steps:
            assert killed(one, step, f"{where}: {step}") == "done", one.texts
        return "success" if killed(one, "close_procedure", f"{where}: close_procedure") == "done" else "failed"

    drills.driver.run_triggered = passed
    for step in (*run.steps, "close_procedure"):
        if step == "run_planned_failover":
            drills.start_clients(run)
        assert killed(run, step, step) == "done", run.texts
    evidence = evidence_of(drills, run)
    print(sum(tried.values()), "kills:", tried, flush=True)
    drill = evidence["drill"]
    assert {one["name"]: one["outcome"] for one in drill["passes"]} == dict.fromkeys(PASSES, "completed")
    for one in drill["passes"]:
        counted = one["integrity"]
        assert counted["written"] > 100 and counted["lost_unlisted"] == 0 == counted["positions_ahead"], one
    planned, back, _, again = (one["integrity"] for one in drill["passes"])
    assert planned["lost_listed"] == back["lost_listed"] == again["lost_listed"] == 0
    assert drill["untouched"]["held"] is True and drill["left_over"] == [] and drill["scope_refusals"] == []
    assert evidence["outcome"] == "completed" and drill["verdict"] in ("passed", "conditional"), drill["reasons"]
    assert drills.clean() == ("done", {})
    assert not drills.note(f"continued after {sum(tried.values())} kills", drills.differences())


def test_the_janitor_killed_after_every_write(drills: Drills) -> None:
    """Each clean-up after it goes on; the last one leaves nothing, closes the drill and frees its lease."""
    drills.given_up_in_pass("run_planned_failover", "redirect_clients", kill_unwritten="outcome")
    kills = [how for how in map(dict, _janitor_points()) if drills.clean(**how)[0] == "killed"]
    assert len(kills) > 5
    assert not drills.note(f"janitor killed {len(kills)} times", drills.problems(drill_is_made=False))


def _janitor_points() -> Iterator[dict[str, int]]:
    for n in range(1, 15):
        yield {"kill_at": n}
        yield {"kill_unwritten": n + 1}


@pytest.mark.parametrize("n", whole_or(JANITOR_SAMPLED, tuple(range(1, 12))))
def test_the_janitor_killed_once(drills: Drills, n: int) -> None:
    """The clean-up after it finds what a clean-up of the same drill has left."""
    drills.prepared(clients=False)
    drills.clean(kill_at=n)
    assert not drills.note(f"janitor killed after write {n}", drills.problems(drill_is_made=False))


def test_the_janitor_killed_before_every_request(drills: Drills) -> None:
    """Between stopping a connector, deleting its offsets, and deleting it; then topics, groups and ACL entries."""
    drills.given_up_in_pass("run_planned_failover", "open_target", kill_unwritten="outcome")
    places = [f"json_endpoint.JsonEndpoint.attempt#{n}" for n in range(1, 8)]
    places += ["brokers.acls.ClusterAcls.remove#1"]
    places += [f"brokers.topics.ClusterTopics.delete_topics#{n}" for n in (1, 2)]
    places += [f"brokers.groups.ClusterGroups.delete_groups#{n}" for n in (1, 2)]
    ended = {place: drills.clean(kill_before=place)[0] for place in places}
    assert ended == dict.fromkeys(places, "killed")
    assert not drills.note(f"janitor killed {len(places)} times", drills.problems(drill_is_made=False))


@pytest.mark.parametrize("step", IN_OWN)
def test_given_up_in_a_step_of_its_own(drills: Drills, step: str) -> None:
    """Whatever it has made is removed, and the drill is closed."""
    wrong = []
    for how in points():
        killed = drills.given_up_in_own(step, **how)
        wrong += drills.note(f"{step} {told(how) if killed else 'whole'}", drills.problems(drill_is_made=False))
        if not killed:
            break
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("step", "request_of_it"), BETWEEN_REQUESTS)
def test_given_up_between_two_requests(drills: Drills, step: str, request_of_it: str) -> None:
    """One cluster or connector is changed, and the other is not."""
    assert drills.given_up_in_own(step, kill_before=request_of_it)
    assert not drills.note(f"{step} before {request_of_it}", drills.problems())


@pytest.mark.parametrize(("a_pass", "step"), IN_PASSES)
def test_given_up_in_a_pass(drills: Drills, a_pass: str, step: str) -> None:
    """Its fence, its stop, its commits, its opening: all are removed with what they were set on."""
    wrong = []
    for how in points():
        killed = drills.given_up_in_pass(a_pass, step, **how)
        wrong += drills.note(f"{a_pass} {step} {told(how) if killed else 'whole'}", drills.problems())
        if not killed:
            break
    assert not wrong, "\n".join(wrong)


def test_given_up_with_its_clients_killed(drills: Drills) -> None:
    """They never say that they have ended: the clean-up waits for them only so long, and removes their group."""
    run = drills.prepared()
    drills.kill_clients()
    assert run.ended["prepare_drill"] == "done"
    assert not drills.note("clients killed", drills.problems())


def test_a_procedure_takes_precedence_over_a_drill_that_holds_its_fence(drills: Drills) -> None:
    """Its first step gets the clusters at once; the drill's next step refuses, and it is cleaned up afterwards."""
    run, live = drills.prepared(), Run({**PARAMS, "kind": None, "reason": "an incident"})

    def overtaken(passed: Run) -> str:
        assert drills.driver.forward(passed, until="fence_producers"), passed.texts
        assert drills.driver.step(live, "open_procedure") == "done", live.texts
        raise GivenUp(f"{drills.driver.step(passed, 'drain_consumers')}: {passed.texts['drain_consumers']}")

    drills.driver.run_triggered = overtaken
    with pytest.raises(GivenUp, match="refused: A procedure takes precedence over this drill"):
        drills.driver.step(run, "run_planned_failover")
    state, answers = drills.clean()
    assert state == "refused" and "takes precedence" in answers["message"]
    for step in ("return_to_source", "close_procedure"):
        drills.driver.step(live, step)
    assert not drills.note("overtaken", drills.problems())
