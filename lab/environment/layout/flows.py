"""The layouts of a lab: clusters, flows, and which of these run in a new lab."""

from __future__ import annotations

from dataclasses import dataclass

from lab.errors import LabError

PAIR, ACTIVE_ACTIVE, AGGREGATION = "pair", "active-active", "aggregation"
#: The cluster that only the layout `aggregation` has.
THIRD = "third"
#: The option of `up` that chooses a layout.
OPTION = "--clusters"


@dataclass(frozen=True)
class LabFlow:
    """A flow of a lab; its Connect worker is the target's.

    Attributes:
        runs: whether the flow runs in a new lab; otherwise its connectors are STOPPED.
    """

    source: str
    target: str
    runs: bool


@dataclass(frozen=True)
class Layout:
    """The clusters of a lab, and its flows.

    Attributes:
        fenced: clusters that refuse all writes of the user `producer` until a procedure opens them.
    """

    aliases: tuple[str, ...]
    flows: tuple[LabFlow, ...]
    fenced: tuple[str, ...] = ()

    @property
    def always(self) -> bool:
        """Whether all flows run, also those that are opposite to each other."""
        return all(flow.runs for flow in self.flows)

    def sources_of(self, alias: str) -> tuple[str, ...]:
        """Return the clusters whose records flows bring to a cluster."""
        return tuple(flow.source for flow in self.flows if flow.target == alias)


def _both_ways(source: str, target: str, back: bool) -> tuple[LabFlow, LabFlow]:
    return LabFlow(source, target, runs=True), LabFlow(target, source, runs=back)


LAYOUTS = {
    PAIR: Layout(("primary", "standby"), _both_ways("primary", "standby", back=False), fenced=("standby",)),
    ACTIVE_ACTIVE: Layout(("primary", "standby"), _both_ways("primary", "standby", back=True)),
    AGGREGATION: Layout(
        ("primary", "standby", THIRD),
        (*_both_ways("primary", "standby", back=False), *_both_ways(THIRD, "standby", back=False)),
        fenced=("standby",),
    ),
}


def choose_policy(layout: str | None, policy: str | None) -> str | None:
    """Return the naming policy of a new lab: the requested one, `default` for layouts that need it, else None.

    Raises:
        LabError: the layout does not work with the requested policy.
    """
    if layout in (None, PAIR):
        return policy
    if policy == "identity":
        raise LabError(
            f"{OPTION} {layout} needs default naming, because the flows would mix records; leave --policy out"
        )
    return "default"


def refuse_combination(layout: str | None, **others: object) -> None:
    """Refuse a layout with several flows into one cluster, or that run both ways, together with another option.

    Args:
        layout: as requested for a new lab.
        others: other options of `up` by name, each true if something else than the default is requested.

    Raises:
        LabError: one of the other options is requested, too.
    """
    requested = [name.replace("_", " ") for name, value in others.items() if value]
    if layout not in (None, PAIR) and requested:
        raise LabError(f"{OPTION} {layout} exists without {', '.join(requested)} only; leave one of the two out")
