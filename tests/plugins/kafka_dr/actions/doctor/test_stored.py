"""What doctor finds of a store: what Switchback needs there, and nothing more; and what it leaves there."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest
from kafka_dr.actions.doctor import stored
from kafka_dr.domain.doctor.finding import InstallationFinding

from tests.support.stores.disturbing_proxy import Disturbance
from tests.support.stores.object_store import BUCKET, SECRET, disturbed, object_store


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, Any]]:
    """Options of a running S3 server."""
    with object_store() as options:
        yield options


@pytest.fixture
def uri() -> str:
    """A folder of the store that no other test uses."""
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"


def found(what: str, uri: str, options: dict[str, Any], looks: int = 1) -> list[InstallationFinding]:
    """What the last look of a machine finds."""
    site: Any = SimpleNamespace(host="worker-1", connections=SimpleNamespace(archive_options=lambda _: options))
    return [list(stored._remote(site, what, uri, "switchback_store")) for _ in range(looks)][-1]


def left(uri: str, options: dict[str, Any]) -> list[str]:
    """Names of the files in the store."""
    files, root = fsspec.core.url_to_fs(uri, skip_instance_cache=True, **options)
    return [path.removeprefix(f"{root}/") for path in files.find(root)]


@pytest.mark.parametrize("what", ["store", "archive"])
def test_a_store_that_allows_all_is_fine_and_nothing_is_left(what: str, uri: str, s3: dict[str, Any]) -> None:
    """However often it is looked at."""
    assert found(what, uri, s3, looks=2) == [] and left(uri, s3) == []


def test_a_store_that_keeps_what_it_has_is_fine(uri: str, s3: dict[str, Any]) -> None:
    """Switchback deletes nothing there; of a machine one file stays, however often it is looked at."""
    with disturbed(s3, Disturbance(refused=("DELETE",))) as options:
        assert found("store", uri, options, looks=3) == []
    assert left(uri, s3) == [".switchback-doctor-worker-1"]


def test_an_archive_that_keeps_what_it_has_is_named(uri: str, s3: dict[str, Any]) -> None:
    """The recorder deletes samples that are too old."""
    with disturbed(s3, Disturbance(refused=("DELETE",))) as options:
        (finding,) = found("archive", uri, options)
    assert "list and delete" in finding.next_step and "PermissionError" in finding.seen and not finding.may_pass


@pytest.mark.parametrize("method", ["PUT", "GET"])
def test_a_right_that_is_lacking_is_named_and_nothing_is_left(method: str, uri: str, s3: dict[str, Any]) -> None:
    """Without the login; a file that cannot be read back is removed all the same."""
    with disturbed(s3, Disturbance(refused=(method,))) as options:
        (finding,) = found("store", uri, options)
    assert "read, write and list" in finding.next_step and SECRET not in f"{finding}"
    assert left(uri, s3) == []


@contextmanager
def closed(folder: Path) -> Iterator[None]:
    """A folder that this user may not search; root may search every folder, and becomes nobody."""
    folder.mkdir(mode=0o000)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        folder.chmod(0o700)


def test_a_folder_below_one_that_this_user_may_not_search_is_named(tmp_path: Path) -> None:
    """As a folder that cannot be written, of evidence and of the journal alike."""
    url = f"sqlite:///{tmp_path}/closed/own/journal.db"
    connections = SimpleNamespace(journal_url=lambda _: url)
    settings = SimpleNamespace(journal=SimpleNamespace(connection="journal"))
    site: Any = SimpleNamespace(topology=settings, connections=connections, on_one_machine=True)
    with closed(tmp_path / "closed"):
        for look in (stored._folder(tmp_path / "closed" / "own", "evidence"), stored._journal(site)):
            (finding,) = list(look)
            assert "cannot be written by this user" in finding.reason and f"{tmp_path}/closed/own" in finding.seen
