"""Topics that a change adds to a flow: what was written while they were excluded, and where copying begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.flow_filter import FlowFilter
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.re_replication.starts import EARLIEST, reset_of
from kafka_dr.domain.replication.change_plan import Interval
from kafka_dr.errors import NotReady, Refusal
from kafka_dr.procedure.run import Run

_NOTHING = "Nothing was changed."


def refuse_latest(procedure: Run, added: Iterable[str], mirrors: FlowFilter) -> None:
    """Refuse topics of which Connect stores no offset, if their connector begins such partitions at the log's end.

    Args:
        mirrors: which connector mirrors a topic after the change.

    Raises:
        NotReady: records of these topics would never be copied.
    """
    late = {name for name, config in mirrors.configs.items() if reset_of(config) != EARLIEST}
    topics = [topic for topic in added if late.intersection(mirrors.connectors_of(topic))]
    infos = procedure.systems.source.topics(topics) if topics else {}
    stored = procedure.mirror_maker(procedure.flow).offsets().of(procedure.flow.source) if topics else {}
    new = sorted(
        topic
        for topic, info in infos.items()
        if any(stored.get(TopicPartition(topic, number)) is None for number in info.partitions)
    )
    if new:
        raise NotReady(
            "The connector begins topics without an offset at their end",
            f"auto.offset.reset is not earliest in {first_few(sorted(late))}; added: {first_few(new)}",
            f"{_NOTHING} Records that these topics hold, and those that are written while the flow starts, would never"
            " be copied. Remove source.consumer.auto.offset.reset from the connector, whose default is earliest; then"
            " start a new run.",
        )


def excluded_intervals(procedure: Run, added: Iterable[str]) -> Iterator[Interval]:
    """Yield what was written to partitions while their topics were excluded.

    Raises:
        Refusal: the target has records of a topic that would be copied from its beginning, or lacks records that were
            copied by Connect's account.
    """
    naming, flow = procedure.naming, procedure.flow
    infos = procedure.systems.source.topics(added)
    partitions = [TopicPartition(name, number) for name, info in sorted(infos.items()) for number in info.partitions]
    stored = procedure.mirror_maker(flow).offsets().of(flow.source)
    starts, ends = procedure.systems.source.starts(partitions), procedure.systems.source.ends(partitions)
    remote = {tp: TopicPartition(naming.remote(flow.source, tp.topic), tp.partition) for tp in partitions}
    there = _existing_spans(procedure, remote.values())
    held = [str(remote[tp]) for tp in partitions if stored.get(tp) is None and there.get(remote[tp], (0, 0))[1] > 0]
    lacking = [
        str(remote[tp])
        for tp in partitions
        if (last := stored.get(tp)) is not None and last >= starts[tp] and there.get(remote[tp], (0, 0))[1] == 0
    ]
    if held or lacking:
        found = [f"with records, though none was copied: {first_few(held)}"] if held else []
        found += [f"without records, though some were copied: {first_few(lacking)}"] if lacking else []
        raise Refusal(
            f"Topics on {procedure.request.target} do not fit the offsets of the flow",
            "; ".join(found),
            f"{_NOTHING} Records would be copied twice, or be missing. Replicate these topics again with"
            " re_replicate_topics, or leave them out.",
        )
    for tp in partitions:
        if (last := stored.get(tp)) is not None and last + 1 < ends[tp]:
            yield Interval(tp.topic, tp.partition, last + 1, ends[tp], max(0, starts[tp] - last - 1))


def _existing_spans(procedure: Run, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    """Return log start and log end of those of the given target partitions that exist."""
    wanted = list(partitions)
    infos = procedure.systems.target.topics({tp.topic for tp in wanted})
    existing = [tp for tp in wanted if tp.topic in infos and tp.partition in infos[tp.topic].partitions]
    starts, ends = procedure.systems.target.starts(existing), procedure.systems.target.ends(existing)
    return {tp: (starts[tp], ends[tp]) for tp in existing}
