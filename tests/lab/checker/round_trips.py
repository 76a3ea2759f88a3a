"""Two made-up clusters between which clients change sides; all is right until a test spoils it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from kafka_dr.domain.evidence.achieved import achieved_of

from lab.checker import evidence_file as told
from lab.checker.findings import CheckResult
from lab.checker.ledger import Ledger, Log, Names, Place, Topic
from lab.checker.records import Held
from lab.checker.round_trip.check import RoundTripCheck
from lab.checker.round_trip.observed import FAILBACK, PLANNED, UNPLANNED, RoundTripObserved, Trip
from lab.checker.translation_file import COLUMNS
from lab.workload.ground_truth import ABORTED, COMMITTED, Acknowledgement, TruthRecord, content_digest, key_digest

ALIASES = ("primary", "standby")
MOMENT = "2026-11-21T00:00:00+00:00"
HOUR = 3_600_000
STEPS = {PLANNED: told.PLANNED_STEPS, UNPLANNED: told.LOST_STEPS, FAILBACK: told.FAILBACK_STEPS}
LISTED = "topic partition offset key value header_names header_values".split()
LISTED_TYPES = [pa.string(), pa.int32(), pa.int64(), pa.binary(), pa.binary(), pa.list_(pa.string())]
LISTING = pa.schema(list(zip(LISTED, [*LISTED_TYPES, pa.list_(pa.binary())], strict=True)))


def digest(letter: str, key: str | None = None) -> int:
    """The content of the record that a letter stands for."""
    return content_digest(key and key.encode(), letter.encode(), [("id", letter.encode())])


def write_listing(folder: Path, records: Iterable[tuple[int, str, str | None]]) -> None:
    """Write a list of stranded records: offset, letter and key of each."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        ("orders", 0, offset, key and key.encode(), letter.encode(), ["id"], [letter.encode()])
        for offset, letter, key in records
    ]
    listed = pa.Table.from_pylist([dict(zip(LISTED, row, strict=True)) for row in rows], LISTING)
    pq.write_table(listed, folder / "orders-0.parquet")


def event(kind: str, cluster: str, at: int, **fields: Any) -> str:
    """Return one line of a client's log."""
    read = {"client": "c", "topic": "orders", "partition": 0, "group": "readers"}
    return json.dumps({"event": kind, "cluster": cluster, "at": at, **read, **fields}) + "\n"


def position_row(group: str, place: Place, position: int, there: str, at: int | None, **more: Any) -> dict[str, Any]:
    """Return a row of the file of positions, exact unless ``more`` says otherwise."""
    row = (group, *place, position, 0, there, at, "CONTENT", True, 0, "made up", None)
    return dict(zip(COLUMNS, row, strict=True)) | more


def evidence_of(
    trip: tuple[str, str, str], plan: Any, steps: Mapping[str, Mapping[str, Any]], **fields: Any
) -> dict[str, Any]:
    """Return evidence of a completed procedure, source and target, not sealed yet; what it achieved, by the product."""
    dag_id, source, target = trip
    told_of_steps = [
        {"id": step, "state": "done", "started_at": MOMENT, "ended_at": MOMENT, "figures": figures}
        for step, figures in steps.items()
    ]
    whole = {"procedure_id": f"{dag_id}-1", "dag_id": dag_id, "source": source, "target": target, "reason": "test"}
    whole |= {"outcome": "completed", "plan": plan, "plan_digest": sealed(plan), "steps": told_of_steps}
    whole |= {"repeats": {}, "positions": "positions.parquet", "stranded": None, "previous_digest": None}
    whole |= {"closed_at": MOMENT, "problems": [], "warnings": [], "objectives": None, "drill": None}
    seconds = {"own": 1.0, "drain": 0, "people": 1, "whole": 2.0}
    return with_achieved(whole | {"seconds": seconds | {"downtime": 2.0 * (dag_id == UNPLANNED)}} | fields)


def with_achieved(evidence: dict[str, Any]) -> dict[str, Any]:
    """Return evidence with what the product says that it achieved."""
    return evidence | {"achieved": achieved_of(evidence)}


def loss_row(
    from_offset: int, certain_to: int | None = None, possible_to: int | None = None, topic: str = "orders"
) -> dict[str, Any]:
    """Return one row of loss."""
    ends = {"from_offset": from_offset, "certain_to": certain_to, "possible_to": possible_to}
    return {"topic": topic, "partition": 0, **ends}


class Cluster:
    """A cluster that is a few dictionaries."""

    def __init__(self) -> None:
        self.logs: dict[Place, list[Held]] = {}
        self.committed: dict[str, dict[Place, int]] = {}
        self.log_starts: dict[Place, int] = {}
        self.log_ends: dict[Place, int] = {}
        self.refusing: set[str] = set()
        self.uncommitted: set[tuple[Place, int]] = set()

    def append(self, place: Place, held: Held) -> int:
        """Add a record to a log; its offset."""
        offset = self.end(place)
        self.logs.setdefault(place, []).append(held._replace(offset=offset))
        self.log_ends[place] = offset + 1
        return offset

    def end(self, place: Place) -> int:
        """Where a log ends."""
        return self.log_ends.get(place, 0)

    def groups(self) -> list[str]:
        """All groups."""
        return sorted(self.committed)

    def partitions(self) -> dict[str, int]:
        """Topics with their partition counts."""
        return {topic: 1 for topic, _ in self.logs}

    def starts(self, places: Iterable[Place]) -> dict[Place, int]:
        """Where logs begin."""
        return {place: self.log_starts.get(place, 0) for place in places}

    def ends(self, places: Iterable[Place]) -> dict[Place, int]:
        """Where logs end."""
        return {place: self.end(place) for place in places}

    def read(self, places: Iterable[Place], isolation: str, keyed: Iterable[str] = ()) -> dict[Place, list[Held]]:
        """Whole logs."""
        return {
            place: [
                one
                for one in self.logs[place]
                if isolation == "read_uncommitted" or (place, one.offset) not in self.uncommitted
            ]
            for place in places
        }

    def positions(self, groups: Iterable[str]) -> dict[str, dict[Place, int]]:
        """Committed positions."""
        return {group: dict(self.committed.get(group, {})) for group in groups}

    def try_writes(self, topics: Iterable[str]) -> dict[str, str]:
        """Which writes are refused."""
        return {topic: "TOPIC_AUTHORIZATION_FAILED" if topic in self.refusing else "" for topic in topics}


class Story:
    """One topic of one partition on two clusters, its clients, and everything that a right product does."""

    def __init__(self, folder: Path, policy: str = "identity", topic: Topic = Topic(1)) -> None:
        self.folder, self.names = folder, Names(ALIASES, policy)
        self.ledger = Ledger("primary", self.names)
        self.ledger.topics["orders"] = topic
        self.clusters = {alias: Cluster() for alias in ALIASES}
        self.copied: dict[Log, int] = {}
        self.letters: dict[int, tuple[str, str | None]] = {}
        self.at = HOUR
        self.trip: Trip | None = None
        self._returned: dict[Place, list[Held]] = {}
        for log in self.local_logs():
            for alias, place in (log, self.names.counterpart(log)):
                self.clusters[alias].logs.setdefault(place, [])

    # -- clients and replication -----------------------------------------------------------------------------------

    @property
    def now(self) -> str:
        """Where clients are."""
        return self.ledger.now.cluster

    @property
    def other(self) -> str:
        """Where they are not."""
        return self.names.other(self.now)

    def local_logs(self) -> list[Log]:
        """The logs to which clients write on either cluster."""
        return [(alias, ("orders", 0)) for alias in ALIASES]

    def write(self, letters: str, state: str = COMMITTED, keys: str | None = None, cluster: str | None = None) -> None:
        """Clients write a record for each letter."""
        cluster = cluster or self.now
        period = next(one for one in reversed(self.ledger.periods) if one.cluster == cluster)
        for number, letter in enumerate(letters):
            key = keys[number] if keys else None
            self.letters[digest(letter, key)] = (letter, key)
            held = Held(0, digest(letter, key), key_digest(key.encode()) if key else 0, False)
            offset = self.clusters[cluster].append(("orders", 0), held)
            period.records["orders", 0][offset] = TruthRecord(
                offset, held.digest, f"id-{letter}", held.key, False, 0, state
            )
            period.acknowledged[("orders", 0), offset] = Acknowledgement(
                "orders", 0, offset, held.digest, f"id-{letter}", self.at
            )
            if state == ABORTED:
                self.clusters[cluster].uncommitted.add((("orders", 0), offset))

    def mirror(self, source: str, records: int | None = None) -> None:
        """The flow from a cluster copies what it has not copied, or only so many records of it."""
        log = (source, ("orders", 0))
        there, place = self.names.counterpart(log)
        waiting = [one for one in self.clusters[source].logs["orders", 0] if one.offset >= self.copied.get(log, 0)]
        for held in waiting[:records]:
            self.clusters[there].append(place, held)
            self.copied[log] = held.offset + 1

    def seed(self, source: str) -> None:
        """Have the flow from a cluster copy only what is written there from now on."""
        if self.names.policy == "identity":
            self.copied[source, ("orders", 0)] = self.clusters[source].end(("orders", 0))

    def place(self, group: str, position: int, topic: str = "orders", alias: str | None = None) -> None:
        """A group's position where clients are."""
        self.clusters[alias or self.now].committed.setdefault(group, {})[topic, 0] = position

    def position(self, group: str, alias: str, topic: str = "orders") -> int:
        """Where a group stands."""
        return self.clusters[alias].committed[group][topic, 0]

    # -- changes of sides --------------------------------------------------------------------------------------------

    def fail_over(
        self, dag_id: str = PLANNED, mirrored: int | None = None, flows_on: bool = False, **trip: Any
    ) -> None:
        """Move the clients; of a lost source only so many records more are mirrored."""
        source, target = self.now, self.other
        self.mirror(source, mirrored)
        self._turn(dag_id, source, target, **trip)
        self.seed(target)
        if flows_on:
            self.flow_on()

    def flow_on(self) -> None:
        """What clients write now is mirrored to where they were."""
        self.trip.flows_on = True
        self.mirror(self.now)

    def come_back(self) -> None:
        """The old source can be read again."""
        self._returned = {place: list(held) for place, held in self.clusters[self.other].logs.items()}

    def fail_back(
        self, mode: str = "append", export: str | None = None, decisions: Mapping[str, str] | None = None
    ) -> None:
        """Return the clients to where they were; `export` lists other letters than the right ones."""
        source, target = self.now, self.other
        self.come_back()
        stranded = self._stranded(source, target)
        if mode == "recreate":
            mirrored = [self.names.counterpart((source, ("orders", 0)))[1]]
            for place in list(self.clusters[target].logs) if self.names.policy == "identity" else mirrored:
                self.clusters[target].logs[place], self.clusters[target].log_ends[place] = [], 0
            self.copied[source, ("orders", 0)] = 0
        for held in stranded if (decisions or {}).get("orders") == "replay" else []:
            self.replay(held)
        self.fail_over(FAILBACK, mode=mode, decisions=decisions or {}, returned=self._returned)
        self._export(stranded if export is None else self._returned_of(export))

    def replay(self, held: Held) -> None:
        """Write a stranded record to where clients are, with a header that says where it comes from."""
        origin = f"{self.other}/orders/0/{held.offset}"
        self.clusters[self.now].append(
            ("orders", 0), Held(0, content_digest(None, origin.encode()), held.key, False, origin, held.digest)
        )

    def _stranded(self, source: str, target: str) -> list[Held]:
        copies = Counter(
            one.digest for one in self.clusters[source].logs[self.names.counterpart((target, ("orders", 0)))[1]]
        )
        left = []
        for held in self.clusters[target].logs["orders", 0]:
            if copies[held.digest] > 0:
                copies[held.digest] -= 1
            elif (("orders", 0), held.offset) not in self.clusters[target].uncommitted:
                left.append(held)
        return left

    def _turn(self, dag_id: str, source: str, target: str, **trip: Any) -> None:
        number, self.at = len(self.ledger.periods) - 1, self.at + HOUR
        before = {group: dict(held) for group, held in self.clusters[target].committed.items()}
        for group, held in self.clusters[source].committed.items():
            for place, position in held.items():
                there = self.names.counterpart((source, place))[1]
                self.clusters[target].committed.setdefault(group, {})[there] = self._translated(source, place, position)
                self.clusters[target].committed[group].setdefault(("orders", 0), 0)
        self.ledger.turn(target, self.at)
        folder = self.folder / f"trip-{number}"
        folder.mkdir(exist_ok=True)
        until = dict(self.clusters[target].log_ends.items()) if dag_id == UNPLANNED else {}
        died_at = self.at if dag_id == UNPLANNED else None
        known = {"before": before, "mirrored_until": until, "died_at": died_at, **trip}
        self.trip = Trip(number, dag_id, source, target, {}, folder, **known)
        self.trip.evidence = self._evidence(dag_id, source, target, folder)

    def _translated(self, source: str, place: Place, position: int) -> int:
        there = self.names.counterpart((source, place))
        target = self.clusters[there[0]].logs[there[1]]
        unread = [one.digest for one in self.clusters[source].logs[place] if one.offset >= position]
        return min(
            (
                max(one.offset for one in target if one.digest == content)
                for content in unread
                if any(one.digest == content for one in target)
            ),
            default=self.clusters[there[0]].end(there[1]),
        )

    def _evidence(self, dag_id: str, source: str, target: str, folder: Path) -> dict[str, Any]:
        pq.write_table(pa.Table.from_pylist(self._rows(source, target)), folder / "positions.parquet")
        ends = {
            alias: [{"topic": t, "partition": n, "offset": cluster.end((t, n))} for t, n in cluster.logs]
            for alias, cluster in self.clusters.items()
        }
        plan = {"unproven": []}
        loss = [loss_row(self.copied.get((source, ("orders", 0)), 0))]
        evidence = evidence_of(
            (dag_id, source, target),
            plan,
            {step: {} for step in STEPS[dag_id]},
            approvals=[{"step": "approve_data_loss", "by": "approver", "digest": sealed(plan)}],
            fenced_at=MOMENT,
            cut_off=ends[source],
            boundary=ends[target],
            classes={"CONTENT": sum(map(len, self.clusters[source].committed.values()))},
            rereads={"bound": 0, "mirror_maker": 0},
            loss=loss if dag_id == UNPLANNED else [],
        )
        return evidence | {"digest": sealed(evidence)}

    def _rows(self, source: str, target: str) -> list[dict[str, Any]]:
        rows = []
        for group, held in self.clusters[source].committed.items():
            for place, position in held.items():
                there = self.names.counterpart((source, place))[1]
                at = self.clusters[target].committed[group][there]
                rows.append(position_row(group, place, position, there[0], at))
        return rows or [dict.fromkeys(COLUMNS)]

    def call_uncommitted(self, *offsets: int) -> None:
        """Let the export say that no transaction committed these."""
        folder = self.trip.folder / "find" / "uncommitted"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(
            pa.table({"topic": ["orders"] * len(offsets), "partition": [0] * len(offsets), "offset": list(offsets)}),
            folder / "orders-0.parquet",
        )

    def export_older(self, letters: str) -> None:
        """Let the export hold records that the other cluster has no more."""
        self._export(self._returned_of(letters), "older")

    def _returned_of(self, letters: str) -> list[Held]:
        contents = {digest(letter) for letter in letters}
        return [held for held in self._returned["orders", 0] if held.digest in contents]

    def _export(self, listed: list[Held], kind: str = "stranded") -> None:
        write_listing(self.trip.folder / "find" / kind, [(one.offset, *self.letters[one.digest]) for one in listed])
        self.trip.evidence["stranded"] = "find"

    # -- the check ---------------------------------------------------------------------------------------------------

    def check(self, writes: bool = False) -> CheckResult:
        """What the check says of the last change of sides."""
        return RoundTripCheck(
            RoundTripObserved(self.ledger, self.trip, {}, lambda alias, _: self.clusters[alias])
        ).check(writes)

    def amend(self, **fields: Any) -> None:
        """Change the evidence, and seal it anew."""
        evidence = {**self.trip.evidence, **fields}
        del evidence["digest"]
        evidence = evidence if "achieved" in fields else with_achieved(evidence)
        self.trip.evidence = evidence | {"digest": sealed(evidence)}

    def passes(self) -> CheckResult:
        """The same of one that must be right."""
        verdict = self.check()
        assert verdict.passed, verdict.lines()
        return verdict

    def checks(self) -> set[str]:
        """Names of the checks that found something."""
        return {finding.check for finding in self.check().findings}


def sealed(value: Any) -> str:
    """A digest as the contract defines it."""
    return sha256(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()


Spoil = Callable[[Story], object]
