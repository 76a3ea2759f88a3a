"""The trees of settings by which offset syncs, checkpoints and group positions stay away, or topics loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafka_dr.domain.diagnosis.tree import DiagnosisEnd, DiagnosisQuestion, DiagnosisTree, NothingFound, Reply, Weight

_LOCATION, _LAG, _SYNCS = "offset-syncs.topic.location", "offset.lag.max", "emit.offset-syncs.enabled"
_CHECKPOINTS, _CHECKPOINT_SECONDS = "emit.checkpoints.enabled", "emit.checkpoints.interval.seconds"
_GROUP_SYNC = "sync.group.offsets.enabled"
#: MirrorMaker 2's default of offset.lag.max is 100; beyond this many records a group at the end reads many again.
MOST_OFFSET_LAG = 1_000


@dataclass(frozen=True)
class FlowSettings:
    """The configurations of a flow's connectors.

    Attributes:
        flow: such as `east->west`.
        sources: source connector -> its configuration.
        checkpoint: the checkpoint connector's configuration; {} if it does not exist.
        disagreements: values of alias, replication policy or separator that differ from the topology, as text.
        circle: what shows that records can go in a circle; "" if nothing does.
        repeated: topics whose name repeats an alias, as if they had been mirrored there and back.
    """

    flow: str
    sources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    checkpoint: Mapping[str, str] = field(default_factory=dict)
    disagreements: Sequence[str] = ()
    circle: str = ""
    repeated: Sequence[str] = ()


NAMING_DIFFERS = DiagnosisEnd(
    "naming_differs",
    "A connector and the topology state different aliases, or another replication policy or separator: MirrorMaker 2"
    " then reads and writes topics of other names than Switchback, and than its other connectors.",
    "Correct the connector or the topology. A cluster has the same alias in every flow.",
)
OFFSET_SYNCS_APART = DiagnosisEnd(
    "offset_syncs_apart",
    "Source and checkpoint connector state different places of the offset syncs: the checkpoint connector reads a topic"
    " to which nothing is written, and translates no position.",
    "Set `offset-syncs.topic.location` to the same value in both; `target` survives the loss of the source.",
)
OFFSET_SYNCS_OFF = DiagnosisEnd(
    "offset_syncs_off",
    "The source connector writes no offset syncs (`emit.offset-syncs.enabled=false`): no position can be translated.",
    "Set `emit.offset-syncs.enabled=true`.",
)
OFFSET_LAG_LARGE = DiagnosisEnd(
    "offset_lag_large",
    "`offset.lag.max` is so large that groups read many records again after a move by MirrorMaker 2's checkpoints.",
    "Set `offset.lag.max` to 100 or less.",
)
CHECKPOINTS_OFF = DiagnosisEnd(
    "checkpoints_off",
    "The checkpoint connector writes no checkpoints: their interval is negative, or they are disabled, which newer"
    " workers refuse.",
    "Set `emit.checkpoints.enabled=true` and `emit.checkpoints.interval.seconds=60`.",
)
GROUP_SYNC_OFF = DiagnosisEnd(
    "group_sync_off",
    "MirrorMaker 2 writes no group positions to the target (`sync.group.offsets.enabled` is false, its default), so"
    " groups do not appear there.",
    "Nothing if Switchback moves the groups, which needs no group sync. Otherwise set it to true.",
    Weight.CHOICE,
)
RECORDS_IN_A_CIRCLE = DiagnosisEnd(
    "records_in_a_circle",
    "Both directions run on topics of one name: records are copied there and back without end.",
    "Stop one flow at once (PUT /connectors/NAME/stop). Topics that both sides wrote to have repeats from now on.",
)
ALIASES_REPEAT = DiagnosisEnd(
    "aliases_repeat",
    "Topics carry an alias twice in their name: two flows call one cluster by different aliases, or separators differ,"
    " and topics multiply.",
    "Stop the flows, give each cluster one alias in every connector, and delete the topics that were multiplied.",
)


def _ask_naming(settings: FlowSettings) -> Reply:
    return Reply("no", "; ".join(settings.disagreements)) if settings.disagreements else Reply("yes")


def _ask_place(settings: FlowSettings) -> Reply:
    places = {name: config.get(_LOCATION, "source") for name, config in settings.sources.items()}
    if settings.checkpoint:
        places["checkpoint connector"] = settings.checkpoint.get(_LOCATION, "source")
    same = len(set(places.values())) <= 1
    return Reply("yes") if same else Reply("no", ", ".join(f"{name}: {place}" for name, place in places.items()))


def _ask_syncs(settings: FlowSettings) -> Reply:
    silent = [name for name, config in settings.sources.items() if _is_false(config.get(_SYNCS))]
    return Reply("no", ", ".join(silent)) if silent else Reply("yes")


def _ask_lag(settings: FlowSettings) -> Reply:
    large = {name: lag for name, config in settings.sources.items() if (lag := _number(config, _LAG)) > MOST_OFFSET_LAG}
    return Reply("no", ", ".join(f"{name}: {lag:g}" for name, lag in large.items())) if large else Reply("yes")


def _ask_checkpoints(settings: FlowSettings) -> Reply:
    config = settings.checkpoint
    off = _is_false(config.get(_CHECKPOINTS)) or _number(config, _CHECKPOINT_SECONDS, 60.0) < 0
    return Reply("no" if off else "yes")


def _ask_group_sync(settings: FlowSettings) -> Reply:
    on = settings.checkpoint.get(_GROUP_SYNC, "false").strip().lower() == "true"
    return Reply("yes" if on or not settings.checkpoint else "no")


def _ask_circle(settings: FlowSettings) -> Reply:
    return Reply("yes", settings.circle) if settings.circle else Reply("no")


def _ask_repeated(settings: FlowSettings) -> Reply:
    return Reply("yes", ", ".join(settings.repeated[:5])) if settings.repeated else Reply("no")


def _is_false(value: str | None) -> bool:
    return value is not None and value.strip().lower() == "false"


def _number(config: Mapping[str, str], key: str, default: float = 0.0) -> float:
    try:
        return float(config.get(key, default))
    except ValueError:
        return default


def _name_of(settings: FlowSettings) -> str:
    return settings.flow


NAMING_TREE = DiagnosisTree[FlowSettings](
    "naming",
    _name_of,
    DiagnosisQuestion(
        "Do connectors and topology agree on aliases and naming?",
        _ask_naming,
        {"no": NAMING_DIFFERS, "yes": NothingFound("naming is in order")},
    ),
)
LOOP_TREE = DiagnosisTree[FlowSettings](
    "loops",
    _name_of,
    DiagnosisQuestion(
        "Do both directions run on topics of one name?",
        _ask_circle,
        {
            "yes": RECORDS_IN_A_CIRCLE,
            "no": DiagnosisQuestion(
                "Does a topic's name repeat an alias?",
                _ask_repeated,
                {"yes": ALIASES_REPEAT, "no": NothingFound("no loop was seen")},
            ),
        },
    ),
)
# MirrorMaker 2 accepts no place of the offset syncs where they are off: so that is asked first.
OFFSET_SYNC_TREE = DiagnosisTree[FlowSettings](
    "offset_sync_settings",
    _name_of,
    DiagnosisQuestion(
        "Does the source connector write offset syncs?",
        _ask_syncs,
        {
            "no": OFFSET_SYNCS_OFF,
            "yes": DiagnosisQuestion(
                "Do source and checkpoint connector state one place of the offset syncs?",
                _ask_place,
                {
                    "no": OFFSET_SYNCS_APART,
                    "yes": DiagnosisQuestion(
                        "Are they written often enough?",
                        _ask_lag,
                        {"no": OFFSET_LAG_LARGE, "yes": NothingFound("offset syncs are in order")},
                    ),
                },
            ),
        },
    ),
)
CHECKPOINT_TREE = DiagnosisTree[FlowSettings](
    "checkpoint_settings",
    _name_of,
    DiagnosisQuestion(
        "Does the checkpoint connector write checkpoints?",
        _ask_checkpoints,
        {
            "no": CHECKPOINTS_OFF,
            "yes": DiagnosisQuestion(
                "Does it write group positions to the target?",
                _ask_group_sync,
                {"no": GROUP_SYNC_OFF, "yes": NothingFound("the settings are in order")},
            ),
        },
    ),
)
