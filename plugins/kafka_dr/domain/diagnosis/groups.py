"""The tree of the groups: topics replicate, and a group's positions do not."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_dr.domain.diagnosis.tree import DiagnosisEnd, DiagnosisQuestion, DiagnosisTree, NothingFound, Reply, Weight


@dataclass(frozen=True)
class GroupPlace:
    """One position of a group on a source partition that the flow mirrors.

    Attributes:
        partition: such as `orders-3`.
        position: on the source.
        selected: whether the checkpoint connector's group filter selects the group.
        filter_text: `groups` and `groups.exclude`.
        expected: why the group's positions are meant to be replicated although the filter leaves it out; "" if nothing
            says so.
        connector_works: whether the checkpoint connector has no finding of its own.
        topic_selected: whether the checkpoint connector's own topic filter selects the topic.
        describable: whether MirrorMaker 2's principal may describe the group on the source; None if unknown.
        mirrored: whether the target has a record of the partition.
        oldest_sync: source offset of the oldest offset sync of the partition; None without one.
        other_syncs: whether the offset-syncs topic has syncs of other partitions.
        checkpoint: target position in the newest checkpoint; None without one.
        due: target position that a checkpoint should have by the newest offset sync at or below the position; None if
            unknown.
        waited: whether MirrorMaker 2 had the time to write a checkpoint after that sync and position were read.
        wait_text: how long it may take.
        synced: whether MirrorMaker 2 writes group positions to the target (`sync.group.offsets.enabled`).
        members: members of the group on the target.
        writable: whether MirrorMaker 2's principal may commit the group's position on the target (READ on the group and
            on the topic); None if unknown.
        target_position: on the target; None without one.
        sync_waited: whether MirrorMaker 2 had the time to write the position.
        sync_wait_text: how long it may take.
    """

    group: str
    partition: str
    position: int
    selected: bool = True
    filter_text: str = ""
    expected: str = ""
    connector_works: bool = True
    topic_selected: bool = True
    describable: bool | None = None
    mirrored: bool = True
    oldest_sync: int | None = 0
    other_syncs: bool = True
    checkpoint: int | None = 0
    due: int | None = None
    waited: bool = False
    wait_text: str = ""
    synced: bool = False
    members: tuple[str, ...] = ()
    writable: bool | None = None
    target_position: int | None = None
    sync_waited: bool = False
    sync_wait_text: str = ""


GROUP_EXCLUDED = DiagnosisEnd(
    "group_excluded",
    "The checkpoint connector's group filter leaves the group out, although its positions were meant to be replicated.",
    "Correct `groups` and `groups.exclude` of the checkpoint connector.",
)
GROUP_LEFT_OUT = DiagnosisEnd(
    "group_left_out",
    "The checkpoint connector's group filter leaves the group out, and nothing says that it is meant to be replicated.",
    "If it is meant to be, correct `groups` and `groups.exclude` of the checkpoint connector.",
    Weight.CHOICE,
)
GROUP_TOPIC_EXCLUDED = DiagnosisEnd(
    "group_topic_excluded",
    "The checkpoint connector has a topic filter of its own, which leaves the topic out although it is mirrored.",
    "Give the checkpoint connector the same `topics` and `topics.exclude` as the source connector.",
)
GROUP_HIDDEN = DiagnosisEnd(
    "group_hidden",
    "MirrorMaker 2's principal may not describe the group on the source, so it never sees the group.",
    "Give MirrorMaker 2's principal READ on the group, on the source.",
)
OFFSET_SYNCS_GONE = DiagnosisEnd(
    "offset_syncs_gone",
    "The offset-syncs topic has no sync of the partition, although its records are mirrored: the topic was deleted or"
    " its records have gone, so no position can be translated.",
    "Write a record to the partition, which causes a new sync; positions below it stay untranslated. Switchback"
    " translates them by comparing records.",
)
POSITION_BEFORE_SYNCS = DiagnosisEnd(
    "position_before_syncs",
    "The group's position is below the oldest offset sync that is left: MirrorMaker 2 translates it only when the group"
    " has passed that sync.",
    "Let the group read on, or set `min.compaction.lag.ms` on the offset-syncs topic so that syncs stay longer."
    " Switchback translates such positions by comparing records.",
    Weight.PASSING,
)
CHECKPOINT_AWAITED = DiagnosisEnd(
    "checkpoint_awaited",
    "There is no checkpoint of the group yet, or an older one: MirrorMaker 2 looks for groups, and writes checkpoints,"
    " only from time to time.",
    "Look again after `refresh.groups.interval.seconds` and `emit.checkpoints.interval.seconds`.",
    Weight.PASSING,
)
CHECKPOINT_STANDS = DiagnosisEnd(
    "checkpoint_stands",
    "The checkpoint connector is RUNNING, and does not write a checkpoint for which there is an offset sync.",
    "Search the worker's log for the checkpoint connector's name, then restart it. It takes offset syncs from memory:"
    " a change of their topic counts only after a restart.",
)
GROUP_ACTIVE_ON_TARGET = DiagnosisEnd(
    "group_active_on_target",
    "The group has members on the target, where MirrorMaker 2 writes positions only to groups without members.",
    "Stop the consumers on the target, or accept that they have positions of their own.",
)
GROUP_NOT_WRITABLE = DiagnosisEnd(
    "group_not_writable",
    "MirrorMaker 2's principal may not commit positions of the group on the target. The failure is only logged.",
    "Give MirrorMaker 2's principal READ on the group and on the topic, on the target.",
)
GROUP_SYNC_AWAITED = DiagnosisEnd(
    "group_sync_awaited",
    "The target's position of the group is behind the checkpoint: MirrorMaker 2 writes positions only every"
    " `sync.group.offsets.interval.seconds`.",
    "Look again after that time.",
    Weight.PASSING,
)
GROUP_SYNC_STANDS = DiagnosisEnd(
    "group_sync_stands",
    "A checkpoint of the group exists, group sync is on, and the target has no position as far as the checkpoint.",
    "Search the worker's log for `Unable to sync offsets for consumer group`, then restart the checkpoint connector.",
)


def _ask_selected(place: GroupPlace) -> Reply:
    return Reply("yes") if place.selected else Reply("no", place.filter_text)


def _ask_expected(place: GroupPlace) -> Reply:
    return Reply("yes", place.expected) if place.expected else Reply("nothing says so")


def _ask_connector(place: GroupPlace) -> Reply:
    return Reply("yes" if place.connector_works else "no")


def _ask_topic(place: GroupPlace) -> Reply:
    return Reply("yes" if place.topic_selected else "no", f"{place.group} on {place.partition}")


def _ask_mirrored(place: GroupPlace) -> Reply:
    return Reply("yes" if place.mirrored else "no")


def _ask_describable(place: GroupPlace) -> Reply:
    return Reply("no" if place.describable is False else "yes, or unknown")


def _ask_checkpoint(place: GroupPlace) -> Reply:
    if place.checkpoint is None:
        return Reply("there is none")
    if place.due is not None and place.checkpoint < place.due:
        return Reply("it is behind", f"checkpoint {place.checkpoint}, by the offset syncs {place.due}")
    return Reply("yes")


def _ask_syncs(place: GroupPlace) -> Reply:
    if place.oldest_sync is None:
        return Reply("there is none", "other partitions have some" if place.other_syncs else "no partition has one")
    if place.position < place.oldest_sync:
        return Reply("the oldest is above", f"position {place.position}, oldest sync {place.oldest_sync}")
    return Reply("yes")


def _ask_waited(place: GroupPlace) -> Reply:
    return Reply("yes" if place.waited else "not yet", place.wait_text)


def _ask_group_sync(place: GroupPlace) -> Reply:
    return Reply("yes" if place.synced else "no")


def _ask_members(place: GroupPlace) -> Reply:
    return Reply("yes", ", ".join(place.members[:3])) if place.members else Reply("no")


def _ask_writable(place: GroupPlace) -> Reply:
    return Reply("no" if place.writable is False else "yes, or unknown")


def _ask_target_position(place: GroupPlace) -> Reply:
    if place.checkpoint is None or (place.target_position or -1) >= place.checkpoint:
        return Reply("yes")
    seen = f"checkpoint {place.checkpoint}, position on the target {place.target_position}; {place.sync_wait_text}"
    return Reply("no", seen) if place.sync_waited else Reply("not yet", seen)


_WAITED = DiagnosisQuestion[GroupPlace](
    "Had MirrorMaker 2 the time to write it?",
    _ask_waited,
    {"not yet": CHECKPOINT_AWAITED, "yes": CHECKPOINT_STANDS},
)
_SYNCED = DiagnosisQuestion[GroupPlace](
    "Does MirrorMaker 2 write group positions to the target?",
    _ask_group_sync,
    {
        "no": NothingFound("a checkpoint is all that was asked for"),
        "yes": DiagnosisQuestion(
            "Has the target the position?",
            _ask_target_position,
            {
                "yes": NothingFound("the group is in order"),
                "not yet": DiagnosisQuestion(
                    "Has the group members on the target?",
                    _ask_members,
                    {"yes": GROUP_ACTIVE_ON_TARGET, "no": GROUP_SYNC_AWAITED},
                ),
                "no": DiagnosisQuestion(
                    "Has the group members on the target?",
                    _ask_members,
                    {
                        "yes": GROUP_ACTIVE_ON_TARGET,
                        "no": DiagnosisQuestion(
                            "May MirrorMaker 2 commit for the group there?",
                            _ask_writable,
                            {"no": GROUP_NOT_WRITABLE, "yes, or unknown": GROUP_SYNC_STANDS},
                        ),
                    },
                ),
            },
        ),
    },
)
_CHECKPOINT = DiagnosisQuestion[GroupPlace](
    "Is there a checkpoint, as far as the offset syncs tell?",
    _ask_checkpoint,
    {
        "there is none": DiagnosisQuestion(
            "Is there an offset sync at or below the position?",
            _ask_syncs,
            {"there is none": OFFSET_SYNCS_GONE, "the oldest is above": POSITION_BEFORE_SYNCS, "yes": _WAITED},
        ),
        "it is behind": _WAITED,
        "yes": _SYNCED,
    },
)

GROUP_TREE = DiagnosisTree[GroupPlace](
    "groups",
    lambda place: place.group,
    DiagnosisQuestion(
        "Does the checkpoint connector's group filter select the group?",
        _ask_selected,
        {
            "no": DiagnosisQuestion(
                "Is it meant to be replicated?",
                _ask_expected,
                {"yes": GROUP_EXCLUDED, "nothing says so": GROUP_LEFT_OUT},
            ),
            "yes": DiagnosisQuestion(
                "Does the checkpoint connector work?",
                _ask_connector,
                {
                    "no": NothingFound("the connector has a finding"),
                    "yes": DiagnosisQuestion(
                        "Does its own topic filter select the topic?",
                        _ask_topic,
                        {
                            "no": GROUP_TOPIC_EXCLUDED,
                            "yes": DiagnosisQuestion(
                                "May MirrorMaker 2 describe the group on the source?",
                                _ask_describable,
                                {
                                    "no": GROUP_HIDDEN,
                                    "yes, or unknown": DiagnosisQuestion(
                                        "Has the target a record of the partition?",
                                        _ask_mirrored,
                                        {
                                            "no": NothingFound("there is nothing to translate to"),
                                            "yes": _CHECKPOINT,
                                        },
                                    ),
                                },
                            ),
                        },
                    ),
                },
            ),
        },
    ),
)
