"""Attempts of a task: none touches another's files, and those that do not count are nobody's."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka_dr_spark.export.place import ExportPlace
from kafka_dr_spark.export.store import ExportStore, NotStored

from tests.file_modes import PRIVATE, modes_in, umask


def test_two_attempts_at_once_write_to_names_of_their_own(tmp_path: Path) -> None:
    """Whichever Spark accepts, its files are whole; those of the other are deleted from the driver's folder."""
    (tmp_path / "stranded").mkdir()
    place = ExportPlace(str(tmp_path))
    with place.attempt() as one, place.attempt() as other:
        assert one.folder == other.folder == tmp_path and one.attempt != other.attempt
        names = [f"orders-0-{files.attempt}.parquet" for files in (one, other)]
        for name in names:
            (tmp_path / "stranded" / name).write_bytes(b"whole")
    place.keep_only([("stranded", names[1])])
    assert [path.name for path in (tmp_path / "stranded").iterdir()] == [names[1]]


@pytest.mark.parametrize("taken", [True, False])
def test_what_goes_to_a_store_is_private_on_the_way_and_then_gone(
    taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the executor's own disk, in Spark's folder, also if the store does not take it; the driver's is not used."""
    own = tmp_path / "executor"
    own.mkdir(mode=0o700)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{own},/other")
    uri = f"file://{tmp_path}/store/run" if taken else f"nosuch://{tmp_path}"
    place = ExportPlace("/driver", store=ExportStore(uri, {}))
    with umask(0), place.attempt() as files:
        assert files.folder.parent == own and modes_in(own)["folders"] == {0o700}
        (files.folder / "older" / "orders-0-a.parquet").write_bytes(b"whole")
        if taken:
            files.store_all()
        else:
            with pytest.raises(NotStored, match="failed: ValueError"):
                files.store_all()
    assert not list(own.iterdir())
    if taken:
        assert (tmp_path / "store/run/older/orders-0-a.parquet").read_bytes() == b"whole"
        assert modes_in(tmp_path / "store") == PRIVATE
