"""The tree of the topics: why is a topic of the source not on the target, or not the same there?"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_dr.domain.diagnosis.tree import DiagnosisEnd, DiagnosisQuestion, DiagnosisTree, NothingFound, Reply, Weight


@dataclass(frozen=True)
class TopicFacts:
    """One topic of the source that is neither internal nor one of heartbeats.

    Attributes:
        remote: its name on the target.
        selected: whether a source connector's topic filter selects it.
        filter_text: `topics` and `topics.exclude` of the source connectors.
        expected: why the topic is meant to be replicated although no filter selects it; "" if nothing says so.
        connector_works: whether a source connector that mirrors it has no finding of its own.
        partitions: number of partitions on the source.
        remote_partitions: likewise on the target; None: the target has no such topic.
        describable, creatable: whether MirrorMaker 2's principal may describe it on the source, or create it on the
            target; None if ACL entries do not tell.
        impossible: why the target cannot have a topic of that name; "" if it can.
        refreshes: whether MirrorMaker 2 looks for new topics.
        refresh_seconds: how often it does.
        older: whether a record of the topic is older than that, and than the time it takes to create a topic.
        taken: what shows that another client writes to the target's topic; "" if nothing.
        emptied: whether Connect counts records as copied although the target's log never had one.
    """

    name: str
    remote: str
    partitions: int = 1
    remote_partitions: int | None = None
    selected: bool = True
    filter_text: str = ""
    expected: str = ""
    connector_works: bool = True
    describable: bool | None = None
    creatable: bool | None = None
    impossible: str = ""
    refreshes: bool = True
    refresh_seconds: float = 600.0
    older: bool = False
    taken: str = ""
    emptied: bool = False


TOPIC_EXCLUDED = DiagnosisEnd(
    "topic_excluded",
    "No topic filter of a source connector selects the topic, although it was meant to be replicated.",
    "Correct `topics` and `topics.exclude` of the source connector: each item is a Java regular expression that must"
    " match the whole name, so `orders.` does not match `orders-eu`. If the topic is to be left out, remove what says"
    " otherwise from the topology.",
)
TOPIC_LEFT_OUT = DiagnosisEnd(
    "topic_left_out",
    "No topic filter of a source connector selects the topic, and nothing says that it is meant to be replicated.",
    "If it is meant to be, correct `topics` and `topics.exclude` of the source connector.",
    Weight.CHOICE,
)
TOPIC_HIDDEN = DiagnosisEnd(
    "topic_hidden",
    "MirrorMaker 2's principal may not see the topic on the source: the filter selects it, and brokers leave it out of"
    " what they list. No error is logged.",
    "Give MirrorMaker 2's principal READ and DESCRIBE on the topic, on the source.",
)
TOPIC_NAME_IMPOSSIBLE = DiagnosisEnd(
    "topic_name_impossible",
    "The target cannot have a topic of the mirrored name.",
    "Rename one of the topics that collide, or leave this one out of `topics`. MirrorMaker 2 tries again every time.",
)
TOPIC_CREATION_DENIED = DiagnosisEnd(
    "topic_creation_denied",
    "MirrorMaker 2's principal may not create the topic on the target.",
    "Give MirrorMaker 2's principal CREATE on the topic or on the cluster, on the target; or create the topic with as"
    " many partitions as the source's.",
)
TOPIC_REFRESH_OFF = DiagnosisEnd(
    "topic_refresh_off",
    "MirrorMaker 2 does not look for new topics: `refresh.topics.enabled` is false, or the interval is 0 or less.",
    "Set `refresh.topics.enabled=true`, or restart the source connector after each new topic.",
)
TOPIC_NOT_CREATED = DiagnosisEnd(
    "topic_not_created",
    "The target lacks the topic although the filter selects it, no missing right was seen, and MirrorMaker 2 has looked"
    " for new topics since.",
    "Search the worker's log for the topic's name: a quota, a policy of the target for new topics, or too few brokers"
    " for `replication.factor` refuses it.",
)
TOPIC_AWAITED = DiagnosisEnd(
    "topic_awaited",
    "The topic may be new: MirrorMaker 2 looks for topics only every `refresh.topics.interval.seconds`.",
    "Look again after that time.",
    Weight.PASSING,
)
PARTITIONS_DIFFER = DiagnosisEnd(
    "partitions_differ",
    "The topic has another number of partitions on the target than on the source.",
    "If the source has more: MirrorMaker 2 adds them at its next refresh, unless it may not alter the target's topic."
    " If the target has more, somebody else made or changed the target's topic: add partitions on the source.",
)
TOPIC_NAME_TAKEN = DiagnosisEnd(
    "topic_name_taken",
    "A topic of the mirrored name exists on the target, and its newest record is not one of the source's: another"
    " client writes to it there. Its older records are not looked at.",
    "Find out which client writes to it on the target, and stop it. If the name is another application's there, leave"
    " the topic out of `topics`; else run re_replicate_topics for it.",
)
COPIES_GONE = DiagnosisEnd(
    "copies_gone",
    "Connect counts records as copied, and the target's log never had one: the target's topic was deleted and made"
    " again. MirrorMaker 2 copies only newer records.",
    "Run re_replicate_topics for the topic.",
)


def _ask_selected(topic: TopicFacts) -> Reply:
    return Reply("yes") if topic.selected else Reply("no", topic.filter_text)


def _ask_expected(topic: TopicFacts) -> Reply:
    return Reply("yes", topic.expected) if topic.expected else Reply("nothing says so")


def _ask_connector(topic: TopicFacts) -> Reply:
    return Reply("yes" if topic.connector_works else "no")


def _ask_there(topic: TopicFacts) -> Reply:
    return Reply("no", f"{topic.remote} is missing") if topic.remote_partitions is None else Reply("yes")


def _ask_describable(topic: TopicFacts) -> Reply:
    return Reply("no" if topic.describable is False else "yes, or unknown")


def _ask_possible(topic: TopicFacts) -> Reply:
    return Reply("no", topic.impossible) if topic.impossible else Reply("yes")


def _ask_creatable(topic: TopicFacts) -> Reply:
    return Reply("no" if topic.creatable is False else "yes, or unknown")


def _ask_refreshed(topic: TopicFacts) -> Reply:
    if not topic.refreshes:
        return Reply("it never looks")
    seen = f"refresh.topics.interval.seconds is {topic.refresh_seconds:g}"
    return Reply("yes", seen) if topic.older else Reply("perhaps not yet", seen)


def _ask_partitions(topic: TopicFacts) -> Reply:
    if topic.partitions == topic.remote_partitions:
        return Reply("yes")
    return Reply("no", f"{topic.name}: {topic.partitions} on the source, {topic.remote_partitions} on the target")


def _ask_writer(topic: TopicFacts) -> Reply:
    return Reply("another writer's", topic.taken) if topic.taken else Reply("MirrorMaker 2's, or none")


def _ask_emptied(topic: TopicFacts) -> Reply:
    return Reply("no" if topic.emptied else "yes")


_MISSING = DiagnosisQuestion[TopicFacts](
    "May MirrorMaker 2 see it on the source?",
    _ask_describable,
    {
        "no": TOPIC_HIDDEN,
        "yes, or unknown": DiagnosisQuestion(
            "Can the target have a topic of that name?",
            _ask_possible,
            {
                "no": TOPIC_NAME_IMPOSSIBLE,
                "yes": DiagnosisQuestion(
                    "May MirrorMaker 2 create it on the target?",
                    _ask_creatable,
                    {
                        "no": TOPIC_CREATION_DENIED,
                        "yes, or unknown": DiagnosisQuestion(
                            "Has MirrorMaker 2 looked for new topics since?",
                            _ask_refreshed,
                            {
                                "it never looks": TOPIC_REFRESH_OFF,
                                "yes": TOPIC_NOT_CREATED,
                                "perhaps not yet": TOPIC_AWAITED,
                            },
                        ),
                    },
                ),
            },
        ),
    },
)
_THERE = DiagnosisQuestion[TopicFacts](
    "Whose records has the target's topic?",
    _ask_writer,
    {
        "another writer's": TOPIC_NAME_TAKEN,
        "MirrorMaker 2's, or none": DiagnosisQuestion(
            "Has it the same number of partitions?",
            _ask_partitions,
            {
                "no": PARTITIONS_DIFFER,
                "yes": DiagnosisQuestion(
                    "Are the copies there that Connect counts?",
                    _ask_emptied,
                    {"no": COPIES_GONE, "yes": NothingFound("the topic is in order")},
                ),
            },
        ),
    },
)

TOPIC_TREE = DiagnosisTree[TopicFacts](
    "topics",
    lambda topic: topic.name,
    DiagnosisQuestion(
        "Does a source connector's topic filter select the topic?",
        _ask_selected,
        {
            "no": DiagnosisQuestion(
                "Is it meant to be replicated?",
                _ask_expected,
                {"yes": TOPIC_EXCLUDED, "nothing says so": TOPIC_LEFT_OUT},
            ),
            "yes": DiagnosisQuestion(
                "Does the connector that mirrors it work?",
                _ask_connector,
                {
                    "no": NothingFound("the connector has a finding"),
                    "yes": DiagnosisQuestion("Does the target have it?", _ask_there, {"no": _MISSING, "yes": _THERE}),
                },
            ),
        },
    ),
)
