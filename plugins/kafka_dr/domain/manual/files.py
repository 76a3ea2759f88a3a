"""Files that the manual commands read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition

#: Groups per file, because the run time of kafka-consumer-groups grows with the square of their number.
_GROUPS_AT_ONCE = 50
#: Source connector -> partition -> last replicated offset; None for the log start.
Seeds = Mapping[str, Mapping[TopicPartition, int | None]]


def position_files(positions: Sequence[tuple[str, str, int, int]]) -> list[tuple[str, list[str], str]]:
    """Return (name, groups, content) of each file for `kafka-consumer-groups --reset-offsets --from-file`.

    As the tool requires, each line begins with the group in a file of several groups, but not in a file of one group.

    Args:
        positions: rows of group, topic, partition, and position on the target.
    """
    groups = sorted({row[0] for row in positions})
    rows_by_group = {group: list(rows) for group, rows in groupby(sorted(positions), key=lambda row: row[0])}
    parts = [groups[i : i + _GROUPS_AT_ONCE] for i in range(0, len(groups), _GROUPS_AT_ONCE)]
    files = []
    for number, group_names in enumerate(parts, 1):
        rows = [(row if len(group_names) > 1 else row[1:]) for group in group_names for row in rows_by_group[group]]
        content = "".join(",".join(_csv(value) for value in row) + "\n" for row in rows)
        files.append((f"positions-{number}.csv", group_names, content))
    return files


def _csv(value: object) -> str:
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if re.search(r'[",\r\n]|^\s|\s$', text) else text


def offset_lines(ends: Mapping[TopicPartition, int]) -> str:
    """Return log ends as lines that kafka-get-offsets.sh would print, sorted as `sort` with LC_ALL=C sorts lines."""
    return "".join(sorted(f"{tp.topic}:{tp.partition}:{offset}\n" for tp, offset in ends.items()))


def partition_patterns(partitions: Iterable[TopicPartition]) -> str:
    """Return the content of a file for `grep -f` that selects these partitions in kafka-get-offsets.sh's output."""
    return "".join(sorted(f"^{re.escape(tp.topic).replace(chr(92) + '-', '-')}:{tp.partition}:\n" for tp in partitions))


def seed_files(alias: str, seeds: Seeds) -> list[tuple[str, str, str]]:
    """Return (name, connector, content) of the file for each source connector that is to be seeded.

    Args:
        alias: alias of the flow's source.
        seeds: by connector, the last replicated offset of each partition.
    """
    shares = [(connector, share) for connector, share in seeds.items() if share]
    names = [
        f"reverse_offsets-{n}.json" if len(seeds) > 1 else "reverse_offsets.json" for n in range(1, 1 + len(shares))
    ]
    return [(name, connector, seeds_json(alias, share)) for name, (connector, share) in zip(names, shares, strict=True)]


def seeds_json(alias: str, seeds: Mapping[TopicPartition, int | None]) -> str:
    """Return the body of `PATCH /connectors/NAME/offsets` that seeds a flow.

    Args:
        alias: alias of the flow's source.
        seeds: last replicated offset by partition; None lets the flow begin at the log start.
    """
    rows: list[dict[str, Any]] = [
        {
            "partition": {"cluster": alias, "partition": tp.partition, "topic": tp.topic},
            "offset": None if last is None else {"offset": last},
        }
        for tp, last in sorted(seeds.items())
    ]
    return json.dumps({"offsets": rows}, indent=1) + "\n"
