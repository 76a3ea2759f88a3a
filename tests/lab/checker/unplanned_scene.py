"""An unplanned failover on made-up clusters."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lab.checker import evidence_file as told
from lab.checker.client_history import ClientLogs
from lab.checker.findings import CheckResult
from lab.checker.ledger import Ledger, Names, Topic
from lab.checker.records import Held
from lab.checker.round_trip.observed import UNPLANNED, Trip
from lab.checker.translation_file import translation_digest
from lab.checker.unplanned_check import UnplannedCheck
from lab.checker.unplanned_observed import UnplannedObserved
from lab.workload.ground_truth import Acknowledgement, TruthRecord
from tests.lab.checker.round_trips import (
    ALIASES,
    MOMENT,
    Cluster,
    digest,
    evidence_of,
    position_row,
    sealed,
    with_achieved,
)
from tests.lab.checker.round_trips import loss_row as row

AT = ("orders", 0)
DIED = 1_000_000_000


def log(contents: str, first: int = 0) -> list[tuple[int, int]]:
    """Return a log in which every letter is one record and `_` an offset that no reader gets."""
    return [(first + offset, digest(letter)) for offset, letter in enumerate(contents) if letter != "_"]


def claim(
    position: int,
    target_position: int | None,
    bound: int | None = 0,
    kind: str = "NEAREST",
    group: str = "billing",
    **more: Any,
) -> dict[str, Any]:
    """Return one row of the file of positions; exact where its bound is 0."""
    told_of = {"class": kind, "bound": bound, "exact": bound == 0 and target_position is not None}
    told_of |= {"position_at": DIED - 5000, "mirror_maker_position": 0, "mirror_maker_rereads": target_position}
    return position_row(group, AT, position, "orders", target_position, **told_of | more)


@dataclass
class Scene:
    """An unplanned failover of one partition, right in every respect until a test spoils it; a letter is a record."""

    folder: Path
    source: str = "abcdef"
    target: str = "abcd"  # what was mirrored
    told: set[int] | None = None  # offsets that were acknowledged; all by default
    written: str = ""  # by clients on the target after it was opened
    committed: dict[str, int] = field(default_factory=lambda: {"billing": 2})
    rows: list[dict[str, Any]] = field(default_factory=lambda: [claim(2, 2)])
    loss: list[dict[str, Any]] = field(default_factory=lambda: [row(4, 6)])
    there: dict[str, int] | None = None  # committed on the target; the file's positions by default
    policy: str = "identity"
    kind: str = "plain"
    clients: ClientLogs = field(default_factory=ClientLogs)
    loads: list[Acknowledgement] = field(default_factory=list)
    change: Callable[[dict[str, Any]], None] = lambda evidence: None
    spoil: Callable[[dict[str, Any]], None] = lambda evidence: None
    more: dict[str, Any] = field(default_factory=dict)
    refusing: set[str] = field(default_factory=set)

    @property
    def remote(self) -> str:
        """The mirrored topic's name."""
        return "orders" if self.policy == "identity" else "primary.orders"

    def ledger(self) -> Ledger:
        """What clients were told."""
        records = [
            TruthRecord(offset, content, f"id-{offset}", 0, False, 0)
            for offset, content in log(self.source)
            if self.told is None or offset in self.told
        ]
        ledger = Ledger("primary", Names(ALIASES, self.policy))
        ledger.topics["orders"] = Topic(1, self.kind == "compacted")
        ledger.periods[0].records[AT] = {record.offset: record for record in records}
        ledger.take_loads(self.loads, {})
        ledger.turn("standby", 0)
        for period in ledger.periods:
            period.clients = self.clients
        return ledger

    def clusters(self) -> dict[str, Cluster]:
        """Both clusters as they are now."""
        filed = {row["group"]: row["target_position"] for row in self.rows if row["target_position"] is not None}
        positions = filed if self.there is None else self.there
        local = {} if self.policy == "identity" else {AT: 0}
        logs = {(self.remote, 0): log(self.target), AT: log(self.written)}
        if self.policy == "identity":
            logs = {AT: log(self.target + self.written)}
        clusters = {alias: Cluster() for alias in ALIASES}
        for alias, place, rows in (("primary", AT, log(self.source)), *(("standby", *one) for one in logs.items())):
            clusters[alias].logs[place] = [Held(offset, content, 0, False) for offset, content in rows]
            clusters[alias].log_ends[place] = max((offset + 1 for offset, _ in rows), default=0)
        clusters["standby"].committed = {
            group: {(self.remote, 0): position, **local} for group, position in positions.items()
        }
        clusters["standby"].refusing = self.refusing
        return clusters

    def evidence(self) -> dict[str, Any]:
        """Evidence that agrees with the file of positions and with itself, then changed and sealed, then spoilt."""
        for one in self.rows:
            one["target_topic"] = self.remote
        pq.write_table(pa.Table.from_pylist(self.rows), self.folder / "positions.parquet")
        plan = {"loss": self.loss, "größe": "für alle", "unproven": []}
        bounds = [one["bound"] for one in self.rows if one["target_position"] is not None]
        steps = {step: {} for step in told.LOST_STEPS}
        rows, written = len(self.rows), sha256((self.folder / "positions.parquet").read_bytes()).hexdigest()
        steps["translate_offsets"] = {
            "digest": translation_digest(self.rows),
            "positions": rows,
            "exact": sum(one["exact"] for one in self.rows),
            "translation": {"file": "positions.parquet", "rows": rows, "sha256": written},
        }
        steps["review_translation"] = {"asked": True}
        known = [one["mirror_maker_rereads"] for one in self.rows if one["mirror_maker_rereads"] is not None]
        bound = None if None in bounds else max(bounds, default=None)
        translated = translation_digest(self.rows)
        evidence = evidence_of(
            (UNPLANNED, *ALIASES),
            plan,
            steps,
            fenced_at=None,
            cut_off=[],
            loss=self.loss,
            approvals=[approval("approve_data_loss", sealed(plan)), approval("review_translation", translated)],
            boundary=[{"topic": self.remote, "partition": 0, "offset": len(self.target)}],
            classes=Counter(one["class"] for one in self.rows),
            rereads={"bound": bound, "mirror_maker": max(known, default=None)},
        )
        self.change(evidence)
        evidence = with_achieved(evidence)
        evidence["digest"] = sealed(evidence)
        self.spoil(evidence)
        return json.loads(json.dumps(evidence))

    def check(self) -> UnplannedCheck:
        """The check before this scene."""
        placed = {group: {AT: position} for group, position in self.committed.items()}
        facts = {"placed": placed, "died_at": DIED, "approver": "approver", **self.more}
        trip = Trip(0, UNPLANNED, *ALIASES, self.evidence(), self.folder, **facts)
        clusters = self.clusters()
        return UnplannedCheck(UnplannedObserved(self.ledger(), trip, {}, lambda alias, _: clusters[alias]))

    def verdict(self, writes: bool = False) -> CheckResult:
        """What the check says."""
        return self.check().check(writes)

    def checks(self) -> set[str]:
        """Names of the checks that found something."""
        return {finding.check for finding in self.verdict().findings}


def approval(gate: str, digest: str, by: str = "approver") -> dict[str, Any]:
    """Return one approval as the evidence tells it."""
    return {"step": gate, "gate": gate, "by": by, "at": MOMENT, "digest": digest}


def acked(letter: str, offset: int, at: int = DIED - 1000) -> Acknowledgement:
    """Return what a load producer was told."""
    return Acknowledgement("orders", 0, offset, digest(letter), f"load-{letter}", at)
