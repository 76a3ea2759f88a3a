"""Commit translated positions to groups without members on the target."""

from __future__ import annotations

from typing import Any

import pandas as pd

from kafka_dr.actions.groups.at_rest import active_groups
from kafka_dr.actions.offsets.client_topics import create_missing_topics, local_partitions
from kafka_dr.actions.offsets.commit import (
    ToCommit,
    changed_positions,
    commit_positions,
    held_positions,
    ledger_frame,
    snapshot_taken,
)
from kafka_dr.actions.offsets.review import require_reviewed
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import ReadBackFailed, Refusal
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import GroupsCommitted, PositionsToCommit, Receipt, SnapshotTaken
from kafka_dr.procedure.run import Run
from kafka_dr.steps.rechecked import RecheckedStep


class CommitGroups(RecheckedStep):
    """Commit the translated positions on the target, only to groups without members; read every position back."""

    def act(self, procedure: Run, context: Any) -> GroupsCommitted:
        """Save the groups' present positions on the target, create missing topics, commit, and read all back.

        A position that the group already has is not committed again. The run's file `ledger-*.parquet` has for each
        position the value before, the value to commit, the value read back, and the broker's error.
        """
        require_reviewed(procedure)
        to_commit = ToCommit(procedure)
        active = active_groups(procedure.systems.target, to_commit.groups)
        if active:
            raise Refusal(
                "Groups have members on the target",
                f"on {procedure.request.target}: {first_few(sorted(active))}",
                "The procedure returns to the source by itself. Positions of a group with members are never changed:"
                f" stop the consumers of these groups on {procedure.request.target}, then start a new run.",
            )
        before = held_positions(procedure, to_commit.groups)
        snapshot = self._snapshot(procedure, before)
        create_missing_topics(procedure)
        wanted = to_commit.rows(procedure.artifacts.load(snapshot))
        differing = changed_positions(wanted, before)
        record_fact(procedure.authority, self.task_id, PositionsToCommit(positions=len(differing), of=len(wanted)))
        procedure.authority.hold()
        errors = commit_positions(procedure, differing)
        ledger = ledger_frame(wanted, before, held_positions(procedure, to_commit.groups), errors)
        receipt = procedure.artifacts.save("ledger", ledger)
        # A position missing on the target compares as unknown (NA), and unknown counts as wrong.
        wrong = ledger[~ledger["read_back"].eq(ledger["wanted"]).fillna(False)]
        if len(wrong):
            raise ReadBackFailed(
                f"{len(wrong)} of {len(wanted)} positions on the target differ from the committed positions",
                f"on {procedure.request.target}: {wrong.head(5).to_dict('records')}",
                "The procedure returns to the source by itself. Read ledger-*.parquet in the run's evidence folder: the"
                f" column error has the refusals of the brokers of {procedure.request.target}. Without an error a"
                " broker accepted the position, and the column read_back has what the brokers answered later: another"
                " client committed, or a broker lost the position. Correct the cause, then start a new run.",
            )
        local = procedure.systems.target.ends(list(local_partitions(procedure)))
        return GroupsCommitted(
            groups=wanted["group"].nunique(),
            positions=len(wanted),
            committed=len(differing),
            snapshot=snapshot,
            ledger=receipt,
            local_ends=procedure.artifacts.save("local_ends", partitions_frame(local, "offset")),
        )

    def _snapshot(self, procedure: Run, positions: pd.DataFrame) -> Receipt:
        """Return the receipt of the file with the positions on the target before the first commit; save it once."""
        earlier = snapshot_taken(procedure)
        if earlier is not None:
            return earlier
        receipt = procedure.artifacts.save("snapshot", positions)
        record_fact(procedure.authority, self.task_id, SnapshotTaken(snapshot=receipt))
        return receipt
