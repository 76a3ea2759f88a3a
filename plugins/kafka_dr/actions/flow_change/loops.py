"""Refuse a flow whose topics the running reverse flow mirrors, too: records would go in a circle."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_dr.actions.scope.flow_scope import names_separate_directions
from kafka_dr.domain.mirror_maker.pattern_overlap import NameSet, common_name
from kafka_dr.domain.mirror_maker.patterns import pattern_list, topic_filter_of
from kafka_dr.errors import Refusal
from kafka_dr.procedure.run import Run

#: Names that MirrorMaker 2 never mirrors under their own name.
_NEVER = r"__.*,\..*,mm2.*internal,.*checkpoints.internal,.*heartbeats"


def refuse_common_names(procedure: Run, configs: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse if a flow with these source connectors and the running reverse flow could mirror one topic.

    Topics that do not exist yet count, too. Nothing is refused where each direction has topics of its own, and where
    the reverse flow is STOPPED.

    Args:
        configs: source connector -> its configuration after the change.

    Raises:
        Refusal: names a topic, which may not exist yet, that both flows would mirror.
        BadInput: it cannot be decided whether there is one.
    """
    flow = procedure.reverse_flow
    if flow is None or flow.connect is None or names_separate_directions(procedure):
        return
    worker = procedure.mirror_maker(flow)
    for status in worker.not_stopped():
        back = _names_of(worker.config(status.name))
        for name, config in configs.items():
            if (topic := common_name(_names_of(config), back)) is not None:
                raise Refusal(
                    "Records would be copied in a circle",
                    f"{name} and {status.name} would both mirror a topic called {topic}; {status}",
                    f"The configuration is unchanged, or goes back. Stop {status.name}, or take such names out of one"
                    " of both directions; then start a new run.",
                )


def _names_of(config: Mapping[str, str]) -> NameSet:
    mirrors = topic_filter_of(config)
    return NameSet(mirrors.include, (mirrors.exclude, pattern_list(_NEVER, "topic")))
