"""The parts of round trips that need no lab: who goes where, what is written, what the check is given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.checker import CheckResult, Finding, RoundTripCheck, Trip
from lab.checker.ledger import Topic
from lab.checker.records import Held
from lab.checker.round_trip.observed import FAILBACK, PLANNED, UNPLANNED
from lab.rehearsal import round_trip as failback_rehearsal
from lab.rehearsal.planned import Rehearsal
from lab.rehearsal.round_trip import Leaving, Returning, RoundTrips, rehearse_round_trips
from lab.rehearsal.unplanned import Accident
from lab.workload import GroundTruth
from lab.workload import more_records as going_on
from lab.workload.ground_truth import ABORTED, COMMITTED, TopicTruth
from lab.workload.topic_shapes import SHAPES, Draft

ORDERS = ("orders", 0)


class Paper:
    """A lab that answers what it is."""

    def __init__(self, folder: Path, policy: str) -> None:
        self.root, self.archive, self.policy = folder, folder / "archive", policy

    def load(self) -> SimpleNamespace:
        """Its record: of its two flows one runs at a time."""
        return SimpleNamespace(layout=SimpleNamespace(always=False))

    def status(self) -> dict[str, Any]:
        """What is asked of it here."""
        accounts = {"admin": {}, "producer": {"who": "producer"}, "consumer": {}}
        return {
            "clusters": {alias: {"client_properties": accounts} for alias in ("primary", "standby")},
            "policy": self.policy,
            "evidence": str(self.root),
        }


class Shelf:
    """A reader of two clusters that hold one log each."""

    logs: dict[str, list[Held]] = {}

    def __init__(self, alias: str, status: Any) -> None:
        self._alias = alias

    def partitions(self) -> dict[str, int]:
        """Its topics."""
        return {"orders": 1, "another": 3}

    def groups(self) -> list[str]:
        """Its groups."""
        return ["billing"]

    def positions(self, groups: list[str]) -> dict[str, dict[Any, int]]:
        """Where they stand: the cluster's name tells them apart."""
        return {group: {ORDERS: len(self._alias)} for group in groups}

    def ends(self, places: list[Any]) -> dict[Any, int]:
        """Where the logs end."""
        return {place: len(self.logs[self._alias]) for place in places}

    def read(self, places: list[Any], isolation: str, keyed: Any) -> dict[Any, list[Held]]:
        """Whole logs."""
        return {place: list(self.logs[self._alias]) for place in places}


Make = Callable[..., RoundTrips]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Round trips in which nothing real happens; `done` keeps what did."""

    def one(policy: str = "identity", code: int = 0) -> RoundTrips:
        monkeypatch.setattr("lab.rehearsal.planned.Lab", lambda state: Paper(state, policy))
        monkeypatch.setattr(failback_rehearsal, "ClusterReader", Shelf)
        made = RoundTrips(tmp_path, tmp_path / "rehearsal", 5)
        made.ledger.topics["orders"] = Topic(1)
        made.done, made.trips = [], []  # type: ignore[attr-defined]
        for name in (
            "start_clients start_load stop move_groups make_topic await_copies bring_source_back kill_source "
            "await_rest pause_replication await_samples restart_mirror_maker"
        ).split():
            monkeypatch.setattr(made, name, lambda *_, name=name: made.done.append(name))
        for name in ("write_more", "leave_transactions_open"):
            monkeypatch.setattr(made, name, lambda count, name=name: made.done.append(f"{name} {count}"))
        monkeypatch.setattr(made, "settle", lambda: made.done.append(f"settle {made.target}") or [])
        monkeypatch.setattr(
            made,
            "run",
            lambda approver, reason, seconds, **params: (
                made.done.append((made.dag_id, made.source, made.target, params)) or code
            ),
        )
        monkeypatch.setattr(made, "evidence", lambda: (tmp_path, {"outcome": "completed" if code == 0 else "refused"}))
        monkeypatch.setattr(made, "_check_trip", lambda trip, writes: made.trips.append(trip) or CheckResult())
        return made

    return one


@pytest.fixture(autouse=True)
def shelves() -> None:
    """Both clusters hold something."""
    Shelf.logs = {"primary": [Held(0, 1, 0, False), Held(1, 2, 0, False)], "standby": [Held(0, 1, 0, False)]}


def runs(made: RoundTrips) -> list[Any]:
    """The procedures that were run."""
    return [entry for entry in made.done if isinstance(entry, tuple)]  # type: ignore[attr-defined]


def trips(made: RoundTrips) -> list[Trip]:
    """What the check was given."""
    return made.trips  # type: ignore[attr-defined]


def test_clients_go_over_and_return(make: Make) -> None:
    """Each procedure is given where clients are and where they go; each change begins a period."""
    made = make()
    made.leave(Leaving())
    made.come_back()
    made.leave(Leaving(standby=True))
    assert runs(made) == [
        (PLANNED, "primary", "standby", {}),
        (FAILBACK, "standby", "primary", {}),
        (PLANNED, "primary", "standby", {"start_reverse_replication": True}),
    ]
    assert [period.cluster for period in made.ledger.periods] == ["primary", "standby", "primary", "standby"]
    found = [(trip.number, trip.source, trip.target, trip.flows_on) for trip in trips(made)]
    assert found == [(0, "primary", "standby", False), (1, "standby", "primary", True), (2, "primary", "standby", True)]


def test_the_judge_is_given_what_was_there_before(make: Make) -> None:
    """Positions on the target, and in a failback the returned cluster's logs, before anything was changed."""
    made = make()
    made.leave(Leaving())
    made.come_back(Returning("recreate", {"orders": "replay"}))
    there, back = trips(made)
    assert (there.before, back.before) == ({"billing": {ORDERS: 7}}, {"billing": {ORDERS: 7}})
    assert (there.returned, back.returned) == ({}, {ORDERS: Shelf.logs["primary"]})
    assert (back.mode, back.decisions, back.flows_on) == ("recreate", {"orders": "replay"}, True)
    assert runs(made)[1][3] == {"mode": "recreate", "stranded": {"orders": "replay"}}


def test_a_source_that_dies_is_brought_back_before_anybody_judges(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """What had arrived when it was dead is kept, and when it died."""
    made = make()
    made.died_at = 77
    monkeypatch.setattr(made, "suffer", lambda accident: made.done.append("died"))
    made.leave(Leaving(Accident()))
    (trip,) = trips(made)
    assert (trip.dag_id, trip.lost, trip.died_at, trip.mirrored_until) == (UNPLANNED, True, 77, {ORDERS: 1})
    order = [entry[0] if isinstance(entry, tuple) else entry for entry in made.done]
    assert (
        order.index("died") < order.index(UNPLANNED) < order.index("settle standby") < order.index("bring_source_back")
    )


def test_records_of_every_kind_are_stranded_while_replication_stands(make: Make) -> None:
    """Some are mirrored before, some in no committed transaction; the source dies before replication goes on."""
    made = make()
    made.leave(Leaving(Accident(after=0.0, kill_mirror_maker=True), more=3, stranded=9))
    wanted = [
        "start_load",
        "write_more 3",
        "restart_mirror_maker",
        "await_samples",
        "pause_replication",
        "write_more 9",
        "leave_transactions_open 9",
        "kill_source",
        "await_rest",
    ]
    assert [entry for entry in made.done if entry in wanted] == wanted
    assert trips(made)[0].crashed


def test_a_run_that_does_not_complete_is_a_finding(make: Make) -> None:
    """Nobody checks it, and clients are where they were, also by the ledger."""
    made = make(code=1)
    verdict = made.leave(Leaving())
    assert [finding.check for finding in verdict.findings] == ["run"] and "refused" in verdict.findings[0].text
    assert (trips(made), made.source, made.number) == ([], "primary", 0)


def test_a_planned_rehearsal_is_judged_by_what_its_workload_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its only change of sides; groups at rest must still stand on the source where they were placed."""
    monkeypatch.setattr("lab.rehearsal.planned.Lab", lambda state: Paper(state, "default"))
    made = Rehearsal(tmp_path, tmp_path / "rehearsal", 5)
    made._client_groups = ["readers"]
    for group in ("billing", "readers"):
        made.truth.place(group, *ORDERS, 3)
    check = made.checker_for({"procedure_id": "p"}, "approver")
    assert isinstance(check, RoundTripCheck)
    trip, periods = check.trip, check.ledger.periods
    found = (trip.number, trip.dag_id, trip.folder.name, trip.approver, trip.crashed)
    assert found == (0, PLANNED, "p", "approver", False)
    assert trip.placed == {"billing": {ORDERS: 3}} and trip.before == {}
    assert [period.cluster for period in periods] == ["primary", "standby"]
    assert (check.names.policy, made.remote("orders")) == ("default", "primary.orders")


def test_trips_end_with_the_first_one_that_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients are nobody knows where; what was counted until then is told."""
    found = iter([CheckResult(figures={"records": 1}), CheckResult([Finding("missing", "one")], {"records": 2})])  # type: ignore[arg-type]
    ended: list[str] = []
    monkeypatch.setattr("lab.rehearsal.planned.Lab", lambda state: Paper(state, "identity"))
    for name in ("leave", "come_back"):
        monkeypatch.setattr(RoundTrips, name, lambda self, how, writes: next(found))
    monkeypatch.setattr(RoundTrips, "seed_topics", lambda self: None)
    monkeypatch.setattr(RoundTrips, "stop", lambda self: ended.append("stopped"))
    verdict = rehearse_round_trips(tmp_path, tmp_path / "r", 1, 0, [(Leaving(), Returning())] * 2)
    assert (len(verdict.findings), verdict.figures["records"], ended) == (1, 3, ["stopped"])


def test_load_in_another_period_has_numbers_of_its_own(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two loads on the same topics would else write the same records; it writes where clients are."""
    made = make()
    made.load = type("Old", (), {"topics": {"load": 2}})()
    asked: list[Any] = []
    monkeypatch.setattr(
        failback_rehearsal,
        "Load",
        lambda status, folder, rate, seed, topics, cluster, first: asked.append((folder.name, topics, cluster, first)),
    )
    monkeypatch.setattr(Rehearsal, "start_load", lambda self, seconds: None)
    RoundTrips.start_load(made)
    assert asked == []
    made.source = "standby"
    RoundTrips.start_load(made)
    assert asked == [("load-5-1", {"load": 2}, "standby", 2)]


def test_ways_of_leaving_are_drawn_from_a_number() -> None:
    """Eight numbers give every combination of accident, repeats, standby and kinds of stranded records."""
    drawn = [Leaving.drawn(number) for number in range(8)]
    assert drawn == [Leaving.drawn(number) for number in range(8)]
    assert {(one.accident is None, one.crashed, one.standby or bool(one.stranded)) for one in drawn} == {
        (a, b, c) for a in (True, False) for b in (True, False) for c in (True, False)
    }


@pytest.mark.parametrize(
    ("how", "params"),
    [
        (Returning(), {}),
        (Returning("recreate"), {"mode": "recreate"}),
        (Returning(stranded={".*": "discard"}), {"mode": "append", "stranded": {".*": "discard"}}),
    ],
)
def test_params_of_a_failback(how: Returning, params: dict[str, Any]) -> None:
    """What is not asked for is left to the procedure."""
    assert how.params == params


# Records of clients that go on.


class Pen:
    """Acknowledges whatever it is given."""

    def __init__(self, properties: Any, truth: TopicTruth) -> None:
        self.truth = truth

    def write(self, portions: list[list[Draft]]) -> None:
        """Not in a transaction."""
        self._take([draft for portion in portions for draft in portion], COMMITTED)

    def write_in_transactions(self, rng: Any, drafts: list[Draft]) -> None:
        """In committed ones."""
        self._take(drafts, COMMITTED)

    def leave_open(self, drafts: list[Draft], seconds: float) -> None:
        """In one that nobody ends."""
        self._take(drafts, ABORTED)

    def _take(self, drafts: list[Draft], state: str) -> None:
        for draft in drafts:
            self.truth.records.setdefault(draft.partition, []).append((draft.id, state))  # type: ignore[arg-type]


def test_more_records_are_of_their_topics_kinds_and_share_no_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each portion has ids of its own, leaves out large and empty topics, and repeats no old record."""
    monkeypatch.setattr(going_on, "TopicWriter", Pen)
    truth = GroundTruth(
        1,
        "primary",
        {
            shape.kind: TopicTruth(
                shape.kind, shape.kind, shape.partitions, shape.compacted, shape.transactional, records={0: []}
            )
            for shape in SHAPES
        },
    )
    first, second = (going_on.write_more({}, truth, "standby", seed, 4) for seed in (1, 2))
    assert set(first.topics) == {shape.kind for shape in SHAPES} - {"large", "empty", "trimmed"}
    ids = [
        {name for topic in one.topics.values() for records in topic.records.values() for name, _ in records if name}
        for one in (first, second)
    ]
    assert ids[0] and not ids[0] & ids[1]
    assert {len(records) for records in first.topics["plain"].records.values()} == {4}
    assert truth.topics["plain"].records == {0: []}
    left = going_on.leave_transactions_open({}, truth, "primary", 3, 2, 10.0)
    assert set(left.topics) == {"transactional"}
    assert {state for records in left.topics["transactional"].records.values() for _, state in records} == {ABORTED}
