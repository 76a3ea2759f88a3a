"""The tree of the partitions that lag: why does the target lack their newest records, and which task has them?"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_dr.domain.diagnosis.tree import DiagnosisEnd, DiagnosisQuestion, DiagnosisTree, NothingFound, Reply


@dataclass(frozen=True)
class LaggingPartition:
    """One source partition of which records wait for their copies longer than the flow's limit, or do not move.

    Attributes:
        partition: such as `orders-3`.
        lag: how many records wait, and for how long, as text.
        task: the connector's task that copies it, such as `orders-source task 1`; "" if unknown.
        explained: whether a finding about its connector, its topic or a partition without leader explains the lag.
        lost: what the source's retention deleted before it was copied, as text; "" if nothing.
        readable: whether MirrorMaker 2's principal may read the topic on the source; None if ACL entries do not tell.
        moves: whether the target's log grew while it was watched.
        flow_moves: whether any partition's log on the target grew meanwhile.
        task_moves: whether another partition of the same task did.
    """

    partition: str
    lag: str = ""
    task: str = ""
    explained: bool = False
    lost: str = ""
    readable: bool | None = None
    moves: bool = False
    flow_moves: bool = False
    task_moves: bool = False


RECORDS_OVERTAKEN = DiagnosisEnd(
    "records_overtaken",
    "The source's retention deleted records before MirrorMaker 2 had copied them; it goes on with the oldest that are"
    " left.",
    "The target cannot get these records any more. Raise the retention on the source until the lag is gone.",
)
TOPIC_UNREADABLE = DiagnosisEnd(
    "topic_unreadable",
    "MirrorMaker 2's principal may describe the topic on the source, and not read it. It logs `Failure during poll`,"
    " and the task stays RUNNING.",
    "Give MirrorMaker 2's principal READ on the topic, on the source.",
)
FLOW_TOO_SLOW = DiagnosisEnd(
    "flow_too_slow",
    "Records are copied, and not as fast as they are written.",
    "Look at the task that has the partitions: raise `tasks.max` if one task has most of them; else the producer's"
    " `producer.override.batch.size` and `linger.ms`, the consumer's `source.consumer.fetch.min.bytes`, quotas and the"
    " network.",
)
PARTITION_STANDS = DiagnosisEnd(
    "partition_stands",
    "Nothing is copied from the partition, while its task copies others.",
    "Search the worker's log for the partition's name: a record that cannot be fetched or written holds it.",
)
TASK_STANDS = DiagnosisEnd(
    "task_stands",
    "A task is RUNNING and copies nothing, while other tasks copy.",
    "Search the worker's log for `Failure during poll`, then restart the task: POST /connectors/NAME/tasks/ID/restart.",
)
FLOW_STANDS = DiagnosisEnd(
    "flow_stands",
    "The source connector is RUNNING and copies nothing at all.",
    "Search the worker's log for `Failure during poll`: most often a login that the configuration only refers to is"
    " wrong by now, or MirrorMaker 2 cannot reach a broker of the source under the address that it advertises. Mend"
    " the cause, then restart the connector.",
)


def _ask_explained(partition: LaggingPartition) -> Reply:
    return Reply("yes" if partition.explained else "no", partition.lag)


def _ask_overtaken(partition: LaggingPartition) -> Reply:
    return Reply("yes", partition.lost) if partition.lost else Reply("no")


def _ask_readable(partition: LaggingPartition) -> Reply:
    return Reply("no" if partition.readable is False else "yes, or unknown")


def _ask_moves(partition: LaggingPartition) -> Reply:
    return Reply("yes" if partition.moves else "no", partition.task)


def _ask_others(partition: LaggingPartition) -> Reply:
    if partition.task_moves:
        return Reply("yes, of the same task")
    return Reply("yes, of other tasks" if partition.flow_moves else "no")


_MOVES = DiagnosisQuestion[LaggingPartition](
    "Did the target's log grow while it was watched?",
    _ask_moves,
    {
        "yes": FLOW_TOO_SLOW,
        "no": DiagnosisQuestion(
            "Did other partitions' logs grow there?",
            _ask_others,
            {
                "yes, of the same task": PARTITION_STANDS,
                "yes, of other tasks": TASK_STANDS,
                "no": FLOW_STANDS,
            },
        ),
    },
)

PARTITION_TREE = DiagnosisTree[LaggingPartition](
    "partitions",
    lambda partition: partition.partition,
    DiagnosisQuestion(
        "Did the source delete records that were not copied yet?",
        _ask_overtaken,
        {
            "yes": RECORDS_OVERTAKEN,
            "no": DiagnosisQuestion(
                "Does a finding about its connector, topic or leader, or about a circle, explain the lag?",
                _ask_explained,
                {
                    "yes": NothingFound("the other finding explains it"),
                    "no": DiagnosisQuestion(
                        "May MirrorMaker 2 read the topic on the source?",
                        _ask_readable,
                        {
                            "no": TOPIC_UNREADABLE,
                            # That it may not write to the target fails its task, which the connector's tree names.
                            "yes, or unknown": _MOVES,
                        },
                    ),
                },
            ),
        },
    ),
)
