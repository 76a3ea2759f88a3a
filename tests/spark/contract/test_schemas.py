"""The contract: shapes are checked, and the error names column and discrepancy."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from kafka_dr_spark.contract import input as sources
from kafka_dr_spark.contract.digests import input_digest, partition_digest, translation_digest
from kafka_dr_spark.contract.schemas import (
    ContractBroken,
    arrow_schema,
    check_columns,
    check_fields,
    check_values,
    load_schema,
)
from kafka_dr_spark.translation.case import Limits

from tests.spark.mock_clusters import bounds_row, write_input


def test_a_missing_column_is_named() -> None:
    """A frame without a column is refused by that column's name."""
    with pytest.raises(ContractBroken, match="positions: column position is missing"):
        check_columns("positions", arrow_schema("positions").remove(3))


def test_a_wrong_type_is_named() -> None:
    """A frame with a column of another type is refused with both types."""
    schema = arrow_schema("syncs").set(2, pa.field("upstream", pa.string()))
    with pytest.raises(ContractBroken, match="syncs: column upstream must be int64, is string"):
        check_columns("syncs", schema)


def test_more_columns_and_other_string_types_are_allowed() -> None:
    """A caller may add columns, and encode strings as it likes."""
    schema = arrow_schema("syncs").append(pa.field("more", pa.int8()))
    check_columns("syncs", schema.set(0, pa.field("topic", pa.dictionary(pa.int32(), pa.string()))))


def test_nulls_and_unknown_words_are_named() -> None:
    """A null where none may be, and a policy that does not exist, are refused."""
    row = {"group": "g", "topic": "t", "partition": 0, "position": 1, "position_at": 1, "policy": "latest"}
    with pytest.raises(ContractBroken, match="column policy holds 'latest'; allowed: earliest, fail, boundary"):
        check_values("positions", pa.Table.from_pylist([row]))
    with pytest.raises(ContractBroken, match="column group holds 1 nulls"):
        check_values("positions", pa.Table.from_pylist([{**row, "group": None, "policy": "fail"}]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"isolation": "serializable"}, "isolation must be one of"),
        ({"source_readable": "yes"}, "source_readable must be bool, is str"),
        ({"content_limit": True}, "content_limit must be int, is bool"),
        ({"content_limit": -1}, "content_limit must be at least 0, is -1"),
    ],
)
def test_wrong_job_fields_are_named(change: dict, message: str) -> None:
    """A wrong field of job.json is refused by name."""
    with pytest.raises(ContractBroken, match=message):
        check_fields("job", {"isolation": "read_committed", "source_readable": True, **change})


def test_every_schema_can_be_loaded() -> None:
    """Each schema names itself, and explains each column or field."""
    for name in (
        "positions syncs bounds translation job summary returned stranded_summary stranded_figures segments "
        "syncs_back kept"
    ).split():
        schema = load_schema(name)
        assert schema["name"] == name
        assert all(one["meaning"] for one in schema.get("columns", schema.get("fields")))


def test_input_is_measured_without_spark(tmp_path: Path) -> None:
    """Rows, lowest and highest position of each partition are known before a session starts."""
    folder = write_input(
        tmp_path / "in", [("a", "t", 0, 5), ("b", "t", 0, 9), ("a", "t", 1, 3)], [], [bounds_row("t", 0, 10, 10)]
    )
    extents = sources.measure_positions(sources.tagged_rows(folder))
    assert extents == {("t", 0): sources.Extent(2, 5, 9), ("t", 1): sources.Extent(1, 3, 3)}
    bounds = sources.load_bounds(folder, True)
    assert sources.records_at_most(extents["t", 0], bounds["t", 0], Limits()) == 5
    assert sources.records_at_most(extents["t", 1], None, Limits()) == 0


def test_bounds_must_be_known_and_single(tmp_path: Path) -> None:
    """Two rows for a partition, or unknown source bounds of a readable source, are refused."""
    twice = write_input(tmp_path / "twice", [], [], [bounds_row("t", 0, 10, 10)] * 2)
    with pytest.raises(
        ContractBroken, match="bounds: 2 rows for 1 partitions; each partition must have exactly one row"
    ):
        sources.load_bounds(twice, True)
    unknown = write_input(tmp_path / "unknown", [], [], [bounds_row("t", 0, 10, 10) | {"cut_off": None}])
    with pytest.raises(ContractBroken, match="must be given if the source is readable"):
        sources.load_bounds(unknown, True)
    assert sources.load_bounds(unknown, False)["t", 0].cut_off is None


def test_missing_and_broken_files_are_named(tmp_path: Path) -> None:
    """What is not there, or not what its name says, is refused by its name."""
    with pytest.raises(ContractBroken, match="job.json: missing"):
        sources.load_limits(tmp_path, None, None)
    (tmp_path / "job.json").write_text("{")
    with pytest.raises(ContractBroken, match="job.json: not JSON"):
        sources.load_limits(tmp_path, None, None)
    (tmp_path / "bounds.parquet").write_text("no parquet")
    with pytest.raises(ContractBroken, match="bounds.parquet: not readable"):
        sources.load_bounds(tmp_path, True)


def test_arguments_override_the_job(tmp_path: Path) -> None:
    """A limit on the command line counts more than the one in job.json."""
    folder = write_input(tmp_path, [], [], [], content_limit=5)
    assert sources.load_limits(folder, None, 77).content_limit == 5
    assert sources.load_limits(folder, 9, 77).content_limit == 9
    assert sources.load_limits(folder, 9, 77).rows_per_read == 77


def test_partitions_are_spread_evenly() -> None:
    """The heaviest partitions go to different tasks, and the same input is always spread alike."""
    weights = {("t", n): weight for n, weight in enumerate([100, 1, 1, 99, 50, 49])}
    tasks = sources.spread_partitions(weights, 3)
    loads = [sum(weights[key] for key, task in tasks.items() if task == one) for one in range(3)]
    assert max(loads) - min(loads) <= 2
    assert sources.spread_partitions(dict(reversed(weights.items())), 3) == tasks


def test_the_digest_is_that_of_canonical_json() -> None:
    """The digest can be computed from the rows by hand, as the schema says."""
    row = dict.fromkeys(arrow_schema("translation").names) | {"group": "g\u00e9", "topic": "t", "partition": 0}
    row |= {"position": 1, "position_at": 2, "class": "END", "exact": True, "bound": 0, "evidence": "e"}
    row |= {"target_topic": "t", "target_position": 3}
    line = '[["g\u00e9","t",0,1,2,"t",3,"END",true,0,"e",null]]'
    wanted = hashlib.sha256(line.encode()).hexdigest()
    assert partition_digest(pa.Table.from_pylist([row], schema=arrow_schema("translation"))) == wanted
    whole = hashlib.sha256(f'[["t",0,"{wanted}"],["t",2,"x"]]'.encode()).hexdigest()
    assert translation_digest([("t", 2, "x"), ("t", 0, wanted)]) == whole


def test_the_input_digest_sees_files_and_limits(tmp_path: Path) -> None:
    """Another byte in any file, or another limit, is another input; where it lies is not."""
    first = write_input(tmp_path / "a", [("g", "t", 0, 5)], [], [])
    second = write_input(tmp_path / "b", [("g", "t", 0, 5)], [], [])
    assert input_digest(first, {"content_limit": 1}) == input_digest(second, {"content_limit": 1})
    assert input_digest(first, {"content_limit": 1}) != input_digest(first, {"content_limit": 2})
    third = write_input(tmp_path / "c", [("g", "t", 0, 6)], [], [])
    assert input_digest(first, {}) != input_digest(third, {})


def test_an_input_is_waited_for_until_its_last_file_is_there(tmp_path: Path) -> None:
    """Its folder may not be there yet either."""
    folder = tmp_path / "in"
    late = threading.Timer(0.2, lambda: (folder.mkdir(), (folder / "job.json").write_text("{}")))
    late.start()
    sources.await_input(folder, 5)
    assert (folder / "job.json").exists()
    late.join()


def test_an_input_that_will_not_come_is_not_waited_for(tmp_path: Path) -> None:
    """Its writer says so; without a word, the time ends."""
    with pytest.raises(ContractBroken, match="job.json: still missing in .* after 0.1 s"):
        sources.await_input(tmp_path, 0.1)
    (tmp_path / "failed").touch()
    with pytest.raises(ContractBroken, match="could not be written"):
        sources.await_input(tmp_path, 60)
