"""Files beside the commands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition

#: Kafka's tool for positions takes time with the square of the groups it is given.
_GROUPS_AT_ONCE = 50


def position_files(positions: Sequence[tuple[str, str, int, int]]) -> list[tuple[str, list[str], str]]:
    """Name, groups and content of each file for `--reset-offsets --from-file`.

    A file of one group has another shape than one of several; the last file takes two rather than one where it can.
    """
    groups = sorted({row[0] for row in positions})
    held = {group: list(rows) for group, rows in groupby(sorted(positions), key=lambda row: row[0])}
    cut = [groups[i : i + _GROUPS_AT_ONCE] for i in range(0, len(groups), _GROUPS_AT_ONCE)]
    found = []
    for number, part in enumerate(cut, 1):
        rows = [(row if len(part) > 1 else row[1:]) for group in part for row in held[group]]
        found.append(
            (f"positions-{number}.csv", part, "".join(",".join(_csv(value) for value in row) + "\n" for row in rows))
        )
    return found


def _csv(value: object) -> str:
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if re.search(r'[",\r\n]|^\s|\s$', text) else text


def offset_lines(ends: Mapping[TopicPartition, int]) -> str:
    """Offsets as kafka-get-offsets.sh prints them, sorted by byte."""
    return "".join(sorted(f"{tp.topic}:{tp.partition}:{offset}\n" for tp, offset in ends.items()))


def partition_patterns(partitions: Iterable[TopicPartition]) -> str:
    """Lines for `grep -f` that pick these partitions out of what kafka-get-offsets.sh prints."""
    return "".join(sorted(f"^{re.escape(tp.topic).replace(chr(92) + '-', '-')}:{tp.partition}:\n" for tp in partitions))


def seeds_json(alias: str, seeds: Mapping[TopicPartition, int | None]) -> str:
    """The body of `PATCH /connectors/NAME/offsets`."""
    rows: list[dict[str, Any]] = [
        {
            "partition": {"cluster": alias, "partition": tp.partition, "topic": tp.topic},
            "offset": None if last is None else {"offset": last},
        }
        for tp, last in sorted(seeds.items())
    ]
    return json.dumps({"offsets": rows}, indent=1) + "\n"
