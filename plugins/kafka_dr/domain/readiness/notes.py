"""Notes to the approver on facts that readiness checks cannot prove."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_dr.domain.access.verdict import access_notes
from kafka_dr.domain.clients.inventory import missing_state, staying_unknown
from kafka_dr.domain.drill.names import DRILL
from kafka_dr.domain.fencing.old_flow import why_not_harmless
from kafka_dr.domain.logins.login_view import login_notes
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.alike_connectors import isolation_of
from kafka_dr.domain.readiness.blocker import MOST_LISTED
from kafka_dr.domain.readiness.client_rights import users_of_other_logins
from kafka_dr.domain.readiness.observation import Observation
from kafka_dr.domain.readiness.owners import owner_notes
from kafka_dr.domain.readiness.readiness import BYTE_ARRAY_CONVERTER, CONVERTERS
from kafka_dr.domain.routing.dns_readiness import dns_notes
from kafka_dr.vocabulary import EXEMPT_TOPIC

_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000


def list_notes(observation: Observation) -> list[str]:
    """Return a sentence for each fact that no check can prove or that the approver must weigh; [] if there is none."""
    return [note for source in NOTES for note in source(observation)]


def _isolation_note(o: Observation) -> Iterator[str]:
    config = o.flow.source_config
    if isolation_of(config) == "read_uncommitted":
        yield (
            "MirrorMaker 2 reads with isolation level read_uncommitted: records of aborted transactions are visible"
            " records on the target, like any other record."
        )


def _fence_notes(o: Observation) -> Iterator[str]:
    if o.has_fence_hook:
        yield "The fence hook is asked to keep clients from the source, besides the ACL entries of the fence."
    elif not o.source.rules.authorizer:
        yield (
            "The source has no authorizer: nothing proves that clients stay away from the source after the drain"
            " hook has answered."
        )
    if not o.source.rules.authorizer or o.source.rules.allow_everyone:
        yield "The source accepts clients that no ACL names: whether they have rights on the target is unknown."
    if (o.source.rules.authorizer or o.source.rules.rights_elsewhere) and not o.has_probe:
        yield "No probe principal is configured: no refused write proves the fence, only ACLs and stable log ends."
    if o.source.users is None or o.target.users is None:
        yield "SCRAM users could not be listed: whether every client can authenticate on the target is unknown."
    if o.source.quotas is None or o.target.quotas is None:
        yield "Client quotas could not be listed: whether the target slows clients down more is unknown."


def _coverage_notes(o: Observation) -> Iterator[str]:
    ignored = sorted(g for g in o.source.groups if g not in o.groups)
    if ignored:
        yield (
            "Groups that do not move (excluded by the flow's filter, or without a position on its topics):"
            f" {first_few(ignored, MOST_LISTED)}."
        )
    others = sorted(t for t in o.source.topics if t not in o.scope and not _is_own(t))
    if others:
        yield (f"Topics that the flow does not replicate, and that are not fenced: {first_few(others, MOST_LISTED)}.")


def _client_notes(o: Observation) -> Iterator[str]:
    unknown = staying_unknown(o.clients)
    if unknown:
        yield (
            "Groups with members that stay when they are stopped, and whose session timeout could not be read: if it"
            f" exceeds the wait of drain_consumers, the run returns to the source: {first_few(unknown, MOST_LISTED)}."
        )
    for application, topics in sorted(missing_state(o.clients).items()):
        yield (
            f"The Kafka Streams application {application} does not find its whole state on the target. Topics that it"
            f" made and that are not there under their own names: {first_few(topics, MOST_LISTED)}."
        )


def _is_own(topic: str) -> bool:
    """Whether a topic is Kafka's, or Switchback's own, or a drill's."""
    return topic.startswith("__") or topic == EXEMPT_TOPIC or DRILL in topic


def _tombstone_note(o: Observation) -> Iterator[str]:
    configs = {topic: o.source.topics[topic].configs for topic in o.scope}
    compacted = [t for t, config in configs.items() if "compact" in config.get("cleanup.policy", "delete")]
    early = sorted(t for t in compacted if int(configs[t].get("delete.retention.ms", _DAY_MS)) < _HOUR_MS)
    if early:
        yield (
            "Compacted topics that keep tombstones for less than one hour (delete.retention.ms): where MirrorMaker 2"
            " was further behind than that, a deletion may never have reached the target, and Switchback cannot detect"
            " such a deletion:"
            f" {first_few(early, MOST_LISTED)}."
        )


def _stop_note(o: Observation) -> Iterator[str]:
    config = o.flow.source_config
    if "source.admin.default.api.timeout.ms" not in config:
        yield (
            "The source connector does not set source.admin.default.api.timeout.ms: if the source does not answer,"
            " stopping the connector takes up to a minute."
        )


def _converter_note(o: Observation) -> Iterator[str]:
    config = o.flow.source_config
    missing = [key for key in CONVERTERS if key not in config and o.flow.stated.get(key) == BYTE_ARRAY_CONVERTER]
    if config and missing:
        yield (
            f"{', '.join(missing)}: the connector uses the worker's setting, which is taken from the topology and could"
            " not be checked."
        )


def _dedicated_note(o: Observation) -> Iterator[str]:
    if o.flow.dedicated:
        yield (
            "MirrorMaker 2 runs in dedicated mode: its settings are taken from the topology and could not be"
            " checked; if the topology states no topics.exclude, the default of Kafka 4.0 is assumed. Switchback can"
            " stop MirrorMaker 2, but only a person can start MirrorMaker 2 again."
        )


def _owner_notes(o: Observation) -> Iterator[str]:
    yield from owner_notes(o.owners)


def _old_flow_note(o: Observation) -> Iterator[str]:
    problem = None if o.writers is None else why_not_harmless(o.target.rules, o.target.alias, o.writers)
    if problem is not None:
        yield problem


def _key_notes(o: Observation) -> Iterator[str]:
    if o.unsigned_journal:
        yield (
            "Nothing signs approvals, closings and anchors, because the topology names no public key under `journal`:"
            " whoever can write to the journal's database and to the topics __switchback_journal can forge all three."
        )
    if o.unsigned_samples:
        yield (
            "The recorder does not sign its samples, because the topology names no public key under `recorder`: if the"
            " source is lost, whoever can write to the archive can move groups past unread records."
        )


def _login_notes(o: Observation) -> Iterator[str]:
    yield from login_notes([*o.cluster_logins.values(), *o.other_logins], o.cluster_logins, users_of_other_logins(o))


NOTES = (
    _isolation_note,
    _fence_notes,
    _coverage_notes,
    _client_notes,
    _tombstone_note,
    _stop_note,
    _converter_note,
    _dedicated_note,
    _owner_notes,
    _old_flow_note,
    _key_notes,
    access_notes,
    _login_notes,
    dns_notes,
)
