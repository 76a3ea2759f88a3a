"""The offset option of a flow: how its groups are to find their positions on the target, and what that means.

MirrorMaker 2's documents offer four options. A topology records which one was chosen, and why; this module compares
the record with the flow's set-up, and says what the option means for the next failover. `IdentityReplicationPolicy`
takes no alias from checkpoints topics: MirrorMaker 2 translates positions under every option.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kafka_dr.domain.plain_text import format_duration, table_cell

PAGE = "runbooks/offset_options.md"
#: Defaults of MirrorMaker 2's emit.checkpoints.interval.seconds and sync.group.offsets.interval.seconds.
_DEFAULT_SECONDS = 60.0
_INTERVALS = ("emit.checkpoints.interval.seconds", "sync.group.offsets.interval.seconds")
_SYNC = "sync.group.offsets.enabled"


class OffsetOption(StrEnum):
    """How groups are meant to find their positions on the target.

    ACCEPT_REPLICATION_ONLY: at MirrorMaker 2's own synced positions, whatever they lack. CUSTOM_POLICY: a custom
    replication policy class names the topics. PREFIX_IN_APPLICATION: the default policy names the topics, and the
    applications handle the prefix. TWO_DEPLOYMENTS: one deployment replicates records, another one positions.
    """

    ACCEPT_REPLICATION_ONLY = "accept_replication_only"
    CUSTOM_POLICY = "custom_policy"
    PREFIX_IN_APPLICATION = "prefix_in_application"
    TWO_DEPLOYMENTS = "two_deployments"


@dataclass(frozen=True)
class FlowSetUp:
    """What of a flow's set-up decides which option it has.

    Attributes:
        source, target: aliases.
        policy: of the topology's naming: `identity`, `default` or `template`.
        policy_class: the custom replication policy class that the topology names; None without one.
        example: name on the target of the source's topic `orders`.
        workers: Airflow connections of the Connect workers, that of the source connectors first; () in dedicated mode.
    """

    source: str
    target: str
    policy: str
    policy_class: str | None = None
    example: str = "orders"
    workers: tuple[str, ...] = ()

    @property
    def keeps_names(self) -> bool:
        """Whether topics have on the target the names that they have on the source."""
        return self.policy == "identity"

    @property
    def is_custom(self) -> bool:
        """Whether a custom replication policy class names the topics."""
        return self.policy == "template" or self.policy_class is not None


@dataclass(frozen=True)
class RecordedOption:
    """The option that a topology records for a flow; `date` and `person` of the decision may be missing."""

    option: OffsetOption
    reason: str
    date: str | None = None
    person: str | None = None


def configured_option(set_up: FlowSetUp) -> OffsetOption:
    """Return the option that a flow has by its set-up, whether anybody has recorded it or not."""
    if len(set_up.workers) > 1:
        return OffsetOption.TWO_DEPLOYMENTS
    if set_up.is_custom:
        return OffsetOption.CUSTOM_POLICY
    return OffsetOption.ACCEPT_REPLICATION_ONLY if set_up.keeps_names else OffsetOption.PREFIX_IN_APPLICATION


def option_problems(option: OffsetOption, set_up: FlowSetUp) -> Iterator[str]:
    """Yield a sentence for each reason why a flow of this set-up cannot have the option that is recorded for it."""
    if option is OffsetOption.CUSTOM_POLICY and not set_up.is_custom:
        yield (
            f"`naming` has the policy {set_up.policy} without `policy_class`, which is MirrorMaker 2's own class; name"
            " the custom class under `naming.policy_class`, or record another option"
        )
    if option is OffsetOption.PREFIX_IN_APPLICATION and set_up.keeps_names:
        yield (
            "under identity naming no topic has a prefix that an application could handle; set `naming.policy` to what"
            " MirrorMaker 2 uses, or record another option"
        )
    if option is OffsetOption.ACCEPT_REPLICATION_ONLY and (set_up.is_custom or not set_up.keeps_names):
        yield (
            f"topics are not named by IdentityReplicationPolicy: record {configured_option(set_up)}, or correct"
            " `naming`"
        )
    if option is OffsetOption.TWO_DEPLOYMENTS and len(set_up.workers) == 1:
        yield (
            "both connectors are in one Connect worker; name the worker of the other deployment as `connect` of"
            " `connectors.checkpoint`, or record another option"
        )


def running_differences(option: OffsetOption, checkpoint: Mapping[str, str] | None) -> Iterator[str]:
    """Yield a sentence for each way in which the running connectors contradict an option.

    Args:
        checkpoint: configuration of the checkpoint connector; None: the connector is missing or was not read.
    """
    if checkpoint is not None and option is OffsetOption.ACCEPT_REPLICATION_ONLY and not _syncs(checkpoint):
        yield (
            f"the checkpoint connector does not set {_SYNC}=true, so MirrorMaker 2 writes no group's position to the"
            " target: whoever moves clients without Switchback has no position to accept"
        )


def view_option(
    recorded: RecordedOption | None, set_up: FlowSetUp, checkpoint: Mapping[str, str] | None
) -> dict[str, Any]:
    """Return what plans and readiness documents say of a flow's offset option, as plain JSON data.

    Args:
        checkpoint: configuration of the checkpoint connector; None: the connector is missing or was not read.

    Returns:
        `option`, `recorded` (whether the topology states it), `reason`, `date`, `person`, `means` (sentences on the
        next failover), and `differs` (how what runs contradicts it, as sentences).
    """
    option = configured_option(set_up) if recorded is None else recorded.option
    return {
        "option": option.value,
        "recorded": recorded is not None,
        "reason": None if recorded is None else recorded.reason,
        "date": None if recorded is None else recorded.date,
        "person": None if recorded is None else recorded.person,
        "means": meaning_of(option, set_up, checkpoint),
        "differs": [] if recorded is None else list(running_differences(option, checkpoint)),
    }


def meaning_of(option: OffsetOption, set_up: FlowSetUp, checkpoint: Mapping[str, str] | None) -> str:
    """Return what an option means for the next failover from source to target, in one or two sentences."""
    return {
        OffsetOption.ACCEPT_REPLICATION_ONLY: _means_accepting,
        OffsetOption.CUSTOM_POLICY: _means_custom,
        OffsetOption.PREFIX_IN_APPLICATION: _means_prefix,
        OffsetOption.TWO_DEPLOYMENTS: _means_two,
    }[option](set_up, checkpoint)


def option_markdown(plan: Mapping[str, Any]) -> list[str]:
    """Return a plan's Markdown lines on the offset option; [] for a plan that states none, such as a drill's.

    Args:
        plan: its field `offset_option` is as of `view_option`.
    """
    view = plan.get("offset_option")
    if not view:
        return []
    means = table_cell(view["means"])
    if view["recorded"]:
        decided = ", ".join(table_cell(part) for part in (view["date"], view["person"]) if part)
        reason = f" Chosen because: {table_cell(view['reason'])}{f' ({decided})' if decided else ''}."
        lines = [f"**Offset option {view['option']}.** {means}{reason}"]
    else:
        lines = [
            f"**Offset option {view['option']}, by configuration: the topology records no choice** ({PAGE}). {means}"
        ]
    return [*lines, *(f"- **Differs:** {table_cell(text)}." for text in view["differs"]), ""]


def _means_accepting(set_up: FlowSetUp, checkpoint: Mapping[str, str] | None) -> str:
    own = "Switchback places each group by comparing records, whatever MirrorMaker 2 has synced."
    if checkpoint is None:
        return (
            f"{own} Whoever moves clients without Switchback accepts MirrorMaker 2's positions, which lie behind by the"
            " time of two syncs and more, so consumers must be idempotent."
        )
    if not _syncs(checkpoint):
        return (
            f"{own} Whoever moves clients without Switchback finds no position on {set_up.target}: each group begins"
            " where its auto.offset.reset says."
        )
    return (
        f"{own} Whoever moves clients without Switchback accepts MirrorMaker 2's positions: these are up to"
        f" {format_duration(sum(_seconds(checkpoint, key) for key in _INTERVALS))} old and reach back to an offset"
        " sync, so consumers must be idempotent."
    )


def _means_custom(set_up: FlowSetUp, _: Mapping[str, str] | None) -> str:
    names = "keep their names" if set_up.keeps_names else f"change their names, such as orders to {set_up.example}"
    name = set_up.policy_class or "a custom class"
    return (
        f"Topics {names}, because {name} names them as `naming` in the topology says. The class must be installed on"
        " the Connect workers of both directions: without it neither the flow nor the flow back starts."
    )


def _means_prefix(set_up: FlowSetUp, _: Mapping[str, str] | None) -> str:
    return (
        f"On {set_up.target}, records from before the move are in {set_up.example}, and records from after it in"
        " orders. Each consumer must subscribe to both names when clients are redirected: one that only drops the"
        " prefix skips what it had not read."
    )


def _means_two(set_up: FlowSetUp, _: Mapping[str, str] | None) -> str:
    if not set_up.workers:
        return (
            "The stop hook must stop and count the processes of both deployments: Switchback knows of none that the"
            " hook does not count."
        )
    sources, checkpoints = set_up.workers[0], set_up.workers[-1]
    return (
        f"MirrorMaker 2 is stopped and resumed in two Connect clusters: source connectors by {sources}, the checkpoint"
        f" connector by {checkpoints}. Both must answer before clients are stopped."
    )


def _syncs(checkpoint: Mapping[str, str]) -> bool:
    return checkpoint.get(_SYNC, "false").strip().lower() == "true"


def _seconds(checkpoint: Mapping[str, str], key: str) -> float:
    try:
        return float(checkpoint.get(key, _DEFAULT_SECONDS))
    except ValueError:
        return _DEFAULT_SECONDS
