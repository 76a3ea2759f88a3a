"""Leave out recorded offsets of topics that were recreated: such an offset belongs to another log."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from kafka_dr.actions.loss.last_known_state import LastKnown
from kafka_dr.domain.plain_text import first_few
from kafka_dr.procedure.run import Run


def recreated_since_sample(procedure: Run, last_known: LastKnown) -> set[str]:
    """Return source topics that were recreated on source or target after the flight recorder's last sample.

    Recorded offsets of such a topic belong to another log.
    """
    target_topics = procedure.systems.target.topics(sorted({name for name, _, _ in last_known.topics.values()}))
    recorded_ids = (
        last_known.recorded.partitions[["topic", "topic_id", "target_topic_id"]]
        .drop_duplicates()
        .itertuples(index=False)
    )
    return {
        topic
        for topic, on_source, on_target in recorded_ids
        if topic in last_known.topics
        and (
            _differ(on_source, last_known.topics[topic][2])
            or _differ(on_target, getattr(target_topics.get(last_known.topics[topic][0]), "topic_id", None))
        )
    }


def without_other_logs(procedure: Run, last_known: LastKnown) -> LastKnown:
    """Return the last known state without offsets of old logs of recreated topics; `missing` names these topics.

    If a topic was recreated after the last sample, all its recorded offsets are left out. If the copy of a topic was
    recreated while the flight recorder ran, later samples describe the new copy, and only Connect's offsets are left
    out.
    """
    recreated = recreated_since_sample(procedure, last_known)
    doubtful = recreated | copied_anew(last_known)
    if not doubtful:
        return last_known

    def without_recreated(rows: pd.DataFrame) -> pd.DataFrame:
        return rows[~rows["topic"].isin(recreated)].reset_index(drop=True)

    recorded = last_known.recorded
    partitions = recorded.partitions.assign(
        replicated=recorded.partitions["replicated"].mask(recorded.partitions["topic"].isin(doubtful))
    )
    return replace(
        last_known,
        recorded=replace(
            recorded,
            partitions=partitions,
            floors=without_recreated(recorded.floors),
            pairs=without_recreated(recorded.pairs),
        ),
        syncs=without_recreated(last_known.syncs),
        replicated={tp: offset for tp, offset in last_known.replicated.items() if tp.topic not in doubtful},
        missing=(
            *last_known.missing,
            (
                f"{len(doubtful)} topics were recreated on the source or the target after they were recorded:"
                f" {first_few(sorted(doubtful))}"
            ),
        ),
    )


def copied_anew(last_known: LastKnown) -> set[str]:
    """Return source topics whose copy on the target was recreated while the flight recorder ran.

    Records that had been mirrored to the old copy may be missing on the target.
    """
    return {*last_known.recorded.recreated} & {*last_known.topics}


def _differ(first: str | None, second: str | None) -> bool:
    return first is not None and second is not None and first != second
