"""Every kind of client of the source: what the move does with it, and what its owner must do.

Each kind has a heading on the page runbooks/kinds_of_clients.md, under the kind's name.
"""

from __future__ import annotations

from dataclasses import dataclass

MOVED, LEFT, UNSEEN = "moved", "not moved", "cannot be seen"


@dataclass(frozen=True)
class ClientKind:
    """One kind of client.

    Attributes:
        name: heading of the kind on the page of all kinds.
        fate: `MOVED`, `LEFT` (its owner moves it) or `UNSEEN` (nothing that was read tells whether such clients exist).
        happens: what the move does with these clients, as sentences.
        owner: what the clients' owner must do, as sentences.
        listed: whether the plan names these clients in its section on clients; groups that move as they are, are named
            with their forecast instead.
    """

    name: str
    fate: str
    happens: str
    owner: str
    listed: bool = True


_START = "Stop the consumers when the run asks for it, and start them on the target after redirect_clients."
_NO_POSITIONS = "No position of these groups is translated or committed on the target."

CLASSIC = ClientKind(
    "Classic consumer groups",
    MOVED,
    "Each position is translated, committed on the target and read back.",
    _START,
    listed=False,
)
CONSUMER = ClientKind(
    "Consumer groups of the newer protocol",
    MOVED,
    "Each position is translated, committed on the target and read back. The group is of the classic type there until"
    " a member joins it with group.protocol=consumer.",
    _START,
    listed=False,
)
NEVER_ACTIVE = ClientKind(
    "Groups that were never active",
    MOVED,
    "Only an admin client, or a consumer that assigns its own partitions, has committed positions. They move like those"
    " of every other group.",
    "A consumer that assigns its own partitions joins no group, so that drain_consumers cannot see it: stop it before"
    " the run asks for it.",
)
STREAMS = ClientKind(
    "Kafka Streams applications",
    MOVED,
    "The application's group moves like a consumer group. Changelog and repartition topics that the flow mirrors under"
    " their own names are there for the application; all others are not: it creates them empty. Under the replication"
    " policy `default` all of them have another name on the target, so that the application's state starts empty.",
    "Keep application.id. Stop all instances, and delete their local state (state.dir) before they start on the"
    " target: it belongs to offsets of the source's changelogs. Where the changelogs are not there under their own"
    " names, decide beforehand how the state is built again.",
)
STREAMS_GROUPS = ClientKind(
    "Streams groups of the newer protocol",
    LEFT,
    f"{_NO_POSITIONS} The Kafka client of Switchback lists no such group.",
    "Before the run, stop the application, wait until its sessions have timed out, and start it with"
    " group.protocol=classic: then it moves like other applications. Or set its positions on the target by"
    " kafka-consumer-groups.sh --reset-offsets before its first start there. Delete its local state in both cases.",
)
SHARE = ClientKind(
    "Share groups",
    LEFT,
    "A share group has no position, but a start offset and records in delivery, which no client can translate.",
    "Stop the group's consumers on the source. On the target set the start by kafka-share-groups.sh --reset-offsets"
    " --to-datetime, at a time before the oldest record that was not acknowledged: records after it are delivered"
    " again.",
)
SINKS = ClientKind(
    "Sinks of Kafka Connect",
    LEFT,
    f"{_NO_POSITIONS} MirrorMaker 2's default filter leaves out groups called connect-*, which belong to sink"
    " connectors.",
    "Stop the connector on the source's Connect. Create it on the target's Connect with initial_state STOPPED, set its"
    " offsets by PATCH /connectors/NAME/offsets, and resume it.",
)
MOVED_SINKS = ClientKind(
    "Sinks of Kafka Connect that the flow selects",
    MOVED,
    "The group filter of the flow selects the sink's group, whose positions move like those of a consumer group.",
    "Stop the connector on the source's Connect when the run asks for it. Create it under the same name on the target's"
    " Connect, and start it there after redirect_clients.",
)
WORKERS = ClientKind(
    "Workers of Kafka Connect",
    LEFT,
    "The group holds no position: by it the workers share the connectors out. Connectors, their offsets and states are"
    " in topics that the workers name.",
    "Run workers with the same connectors on the target. Source connectors continue where they were only if their"
    " offsets are set by PATCH /connectors/NAME/offsets.",
)
SCHEMA_REGISTRIES = ClientKind(
    "Schema registries",
    LEFT,
    "The registry's group holds no position. A topic with schemas that the flow mirrors is copied and fenced like every"
    " other topic; under the replication policy `default` it has another name on the target.",
    "Mirror the topic with the schemas. Stop the registry on the source before the fence, because it cannot write"
    " behind it, and start it on the target after open_target, with the topic's name there: schema ids stay as they"
    " are.",
)
MIRROR_MAKER = ClientKind(
    "MirrorMaker 2",
    LEFT,
    "The flow's connectors join no group. They stay on their worker: the run stops them, and seeds those of the"
    " opposite flow.",
    "Nothing. MirrorMaker 2's flows to other clusters stay with the source: give the target such flows of its own.",
)
STAYING = ClientKind(
    "Members that stay when they are stopped",
    MOVED,
    "A static member, and a member of a Kafka Streams application, does not leave its group when it is stopped: it"
    " stays until its session has timed out, and drain_consumers waits for that. A session timeout beyond that wait"
    " ends the run before the fence.",
    "Where the session timeout is named as unknown, compare session.timeout.ms of the consumers with the wait of"
    " drain_consumers, before you approve.",
)
TRANSACTIONAL = ClientKind(
    "Transactional producers",
    MOVED,
    "They are fenced like all producers. A transaction that is open then is waited for, or aborted if the plan says so."
    " The target knows none of these transactional ids until their producers start there.",
    "Let the applications end their transactions when the run asks them to stop, and start them on the target with the"
    " same transactional.id.",
)
LEFT_OUT = ClientKind(
    "Groups that the flow's filter leaves out",
    LEFT,
    f"{_NO_POSITIONS} The filter `groups` and `groups.exclude` of the checkpoint connector does not select them.",
    "Where such a group must continue on the target, correct the filter before you approve, and start a new run.",
)
NO_POSITION = ClientKind(
    "Groups without a position on the flow's topics",
    LEFT,
    "The move has nothing to do for them: they read topics that do not move, or have committed nothing.",
    "A consumer that reads a topic of the plan and commits nothing starts on the target by its auto.offset.reset.",
)
OTHER = ClientKind(
    "Groups of other protocols",
    LEFT,
    f"{_NO_POSITIONS} The group's members use a protocol of their own, which is named beside the group.",
    "Ask the owner of the program what it keeps on the source, and move that by the program's own means.",
)
WITHOUT_GROUP = ClientKind(
    "Consumers without a group",
    UNSEEN,
    "A consumer that assigns its own partitions and commits nothing leaves no trace that a Kafka client can read. The"
    " fence does not keep it from reading.",
    "Such programs keep their positions themselves, as Flink and Spark do in checkpoints: stop them, and give them"
    " positions of the target by the command translate_positions.",
)
WITHOUT_ENTRY = ClientKind(
    "Principals that write and hold no ACL entry",
    UNSEEN,
    "Kafka does not tell which principal wrote a record.",
    "Compare the authorizer's log of the source with the principals of the fence before you approve.",
)
NOT_RECORDED = ClientKind(
    "Clients that the recorder does not record",
    UNSEEN,
    "The flight recorder stores the groups that the flow selects and nothing else: share groups, Streams groups of the"
    " newer protocol, sinks, workers, static members and transactional producers of the source are unknown.",
    "Read on the page of all kinds what becomes of each, and look for your clients there.",
)

KINDS = (
    CLASSIC,
    CONSUMER,
    NEVER_ACTIVE,
    STREAMS,
    STREAMS_GROUPS,
    SHARE,
    SINKS,
    MOVED_SINKS,
    WORKERS,
    SCHEMA_REGISTRIES,
    MIRROR_MAKER,
    STAYING,
    TRANSACTIONAL,
    LEFT_OUT,
    NO_POSITION,
    OTHER,
    WITHOUT_GROUP,
    WITHOUT_ENTRY,
    NOT_RECORDED,
)
