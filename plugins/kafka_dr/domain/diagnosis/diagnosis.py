"""All trees in the order in which they are asked, and the diagnosis that they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka_dr.domain.diagnosis.clusters import CLUSTER_TREE
from kafka_dr.domain.diagnosis.connectors import CONNECTOR_TREE
from kafka_dr.domain.diagnosis.groups import GROUP_TREE
from kafka_dr.domain.diagnosis.internal_topics import INTERNAL_TOPIC_TREE
from kafka_dr.domain.diagnosis.partitions import PARTITION_TREE
from kafka_dr.domain.diagnosis.settings import CHECKPOINT_TREE, LOOP_TREE, NAMING_TREE, OFFSET_SYNC_TREE
from kafka_dr.domain.diagnosis.topics import TOPIC_TREE
from kafka_dr.domain.diagnosis.tree import DiagnosisEnd, DiagnosisFinding, DiagnosisTree, Weight, ends_below, find_ends
from kafka_dr.domain.diagnosis.workers import WORKER_TREE

#: What lies below comes first: a cluster that does not answer leaves nothing to ask about topics.
TREES: tuple[DiagnosisTree[Any], ...] = (
    CLUSTER_TREE,
    WORKER_TREE,
    CONNECTOR_TREE,
    NAMING_TREE,
    LOOP_TREE,
    TOPIC_TREE,
    PARTITION_TREE,
    OFFSET_SYNC_TREE,
    INTERNAL_TOPIC_TREE,
    CHECKPOINT_TREE,
    GROUP_TREE,
)
#: What no tree asks: something could not be read, although the systems behind it answered.
CANNOT_READ = DiagnosisEnd(
    "cannot_read",
    "Something could not be read, so that a part of the trees was not asked: what is wrong there is unknown.",
    "Mend what the message names, or wait until it has passed, and start a new run.",
)


@dataclass(frozen=True)
class Situation:
    """What was read of a flow.

    Attributes:
        facts: id of a tree -> its subjects; a tree without an entry could not be asked.
        unread: id of a tree -> why it could not be asked.
        failures: what could not be read although every cluster and worker answered, as text.
    """

    facts: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    failures: Sequence[str] = ()


@dataclass(frozen=True)
class Diagnosis:
    """What the trees found.

    Attributes:
        findings: faults, and what will pass by itself, in the order of the trees.
        choices: what is so on purpose, and may explain what somebody misses.
        asked: id of a tree -> number of its subjects.
        not_asked: id of a tree -> why it could not be asked.
    """

    findings: tuple[DiagnosisFinding, ...]
    choices: tuple[DiagnosisFinding, ...]
    asked: Mapping[str, int]
    not_asked: Mapping[str, str]


def diagnose_flow(situation: Situation) -> Diagnosis:
    """Ask every tree whose facts were read, and return what was found."""
    found = [
        finding for tree in TREES if tree.id in situation.facts for finding in find_ends(tree, situation.facts[tree.id])
    ]
    if situation.failures:
        found.append(DiagnosisFinding(CANNOT_READ, tuple(situation.unread) or ("flow",), tuple(situation.failures)))
    return Diagnosis(
        findings=tuple(finding for finding in found if finding.end.weight is not Weight.CHOICE),
        choices=tuple(finding for finding in found if finding.end.weight is Weight.CHOICE),
        asked={tree.id: len(situation.facts[tree.id]) for tree in TREES if tree.id in situation.facts},
        not_asked={
            tree.id: situation.unread.get(tree.id, "it was not read")
            for tree in TREES
            if tree.id not in situation.facts
        },
    )


def list_ends() -> list[DiagnosisEnd]:
    """Return all ends, each once, in the order of the trees."""
    return [*dict.fromkeys(end for tree in TREES for end in ends_below(tree.root)), CANNOT_READ]
