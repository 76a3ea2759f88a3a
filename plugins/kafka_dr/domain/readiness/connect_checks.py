"""Readiness checks of what a flow's Connect worker can do, and of settings that the topology states beside it."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_dr.domain.kafka_model.kafka_version import kafka_version
from kafka_dr.domain.mirror_maker.patterns import INTERNAL_BEFORE_4_0, PATTERN_KEYS, list_items
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.blocker import MOST_LISTED, Blocker, worker_too_old
from kafka_dr.domain.readiness.observation import FlowView, Observation


def versions_suffice(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker for each Connect worker that cannot set offsets, and one if an unknown version leaves doubt.

    The reverse flow's worker is asked, too, because its offsets are set while clients are fenced. A worker is judged by
    what it answers: a vendor's version, such as `7.5.1-ccs`, is not Kafka's. Only which topics MirrorMaker 2 takes for
    internal ones depends on the version alone.
    """
    for flow in _in_connect(o):
        for worker in [worker for worker in flow.workers if not worker.sets_offsets]:
            yield worker_too_old(f"{flow.source}->{flow.target}", worker.version)
    doubtful = sorted(topic for topic in o.scope if topic.endswith(INTERNAL_BEFORE_4_0))
    if doubtful and not o.flow.dedicated and kafka_version(o.flow.worker.version) is None:
        yield Blocker(
            "versions_suffice",
            "Whether MirrorMaker 2 replicates some topics depends on its Kafka version, which is unknown",
            f"version {o.flow.worker.version or 'unknown'} of the Connect worker of {o.flow.source}->{o.flow.target};"
            f" topics {first_few(doubtful, MOST_LISTED)}",
            "State `topics.exclude` on the source connector, with patterns for these topics: before Kafka 4.0"
            " MirrorMaker 2 replicates no topic whose name ends in .internal or -internal, from 4.0 on it does.",
        )


def reverse_flow_usable(o: Observation) -> Iterator[Blocker]:
    """Yield blockers for a reverse flow in dedicated mode that cannot be seeded, or that its hook does not start.

    One that runs is not touched; both directions run only where they have topics of their own.
    """
    flow = o.reverse
    if flow is not None and flow.dedicated and not any(connector.runs for connector in flow.source_connectors):
        yield from hook_blockers(f"{flow.source}->{flow.target}", flow.worker.sets_offsets, flow.offsets_problem)


def hook_blockers(flow: str, starts: bool, offsets_problem: str) -> Iterator[Blocker]:
    """Yield why a flow in dedicated mode cannot be seeded and started.

    Args:
        flow: `source->target`.
        starts: whether its stop hook says that it starts processes.
        offsets_problem: why its offsets cannot be set; "" if they can.
    """
    if not starts:
        yield Blocker(
            "reverse_flow_usable",
            f"MirrorMaker 2 of {flow} runs in dedicated mode, and its stop hook does not start it",
            'the stop hook\'s answer to GET /state lacks `"starts": true`',
            "Let the stop hook serve POST /start, too, or run the connectors of this flow in a Connect worker, and name"
            " the worker as `connect` of the flow in the topology.",
        )
    if offsets_problem:
        yield Blocker(
            "reverse_flow_usable",
            f"Offsets of MirrorMaker 2 of {flow} cannot be set",
            offsets_problem,
            "Correct `offset.storage.topic` and `group.id` under `mirror_maker` of this flow in the topology, so that"
            " they are those of its processes.",
        )


def stated_settings_agree(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker for each setting that has another value in the topology than in a running connector.

    The topology's value is used while the Connect worker does not answer, when nobody can compare any more.
    """
    for flow in _in_connect(o):
        several = len(flow.source_connectors) > 1
        for connector in flow.connectors:
            for key, stated in sorted(flow.stated.items()):
                if several and PATTERN_KEYS.get(key) == "topic":
                    continue
                actual = connector.config.get(key, stated)
                if _normal(key, actual) != _normal(key, stated):
                    yield Blocker(
                        "stated_settings_agree",
                        f"{connector.name} and the topology state different values of {key}",
                        f"connector {actual!r}, `mirror_maker` of {flow.source}->{flow.target} {stated!r}",
                        f"Correct {key} in the connector or under `mirror_maker` of the flow in the topology, or remove"
                        " it there.",
                    )


def _in_connect(o: Observation) -> list[FlowView]:
    return [flow for flow in (o.flow, o.reverse) if flow is not None and not flow.dedicated]


def _normal(key: str, value: str) -> object:
    if key in PATTERN_KEYS:
        return list_items(value)
    return value.strip().lower() if value.strip().lower() in ("true", "false") else value.strip()
