"""Files and folders of one user: their modes under any umask, and what is refused."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from kafka_dr.errors import NotReady
from kafka_dr.hooks.private_files import private_file, private_folder, refuse_open

from tests.file_modes import PRIVATE, mode_of, modes_in, umask


@pytest.mark.parametrize("mask", [0, 0o022, 0o077, 0o177])
def test_folders_and_files_are_private_under_any_umask(mask: int, tmp_path: Path) -> None:
    """Folders above them too, and a file that a library writes, renames and writes again."""
    with umask(mask):
        folder = private_folder(tmp_path / "a" / "b")
        pd.DataFrame({"n": [1]}).to_parquet(private_file(folder / "aside"))
        (folder / "aside").replace(folder / "kept")
        private_file(folder / "kept").write_text("2")
    assert modes_in(tmp_path / "a") == PRIVATE and (folder / "kept").read_text() == "2"


def test_an_existing_folder_keeps_its_mode_and_an_existing_file_does_not(tmp_path: Path) -> None:
    """A folder of the user's may be open on purpose; what is written into it is not."""
    (tmp_path / "shared").mkdir(mode=0o755)
    (tmp_path / "shared").chmod(0o755)
    (tmp_path / "shared" / "old").touch(0o644)
    private_file(private_folder(tmp_path / "shared") / "old")
    assert (mode_of(tmp_path / "shared"), mode_of(tmp_path / "shared" / "old")) == (0o755, 0o600)


def test_every_mode_that_lets_others_in_is_refused_and_no_other(tmp_path: Path) -> None:
    """All 512 modes; the refusal names path and mode, and its commands mend it."""
    (folder := tmp_path / "ev idence").mkdir()
    for mode in range(0o1000):
        folder.chmod(mode)
        if mode & 0o077 == 0:
            refuse_open([folder, tmp_path / "missing"])
            continue
        with pytest.raises(NotReady) as refused:
            refuse_open([folder])
        assert refused.value.seen == f"{folder} has mode {mode:o}"
        assert f"chmod 700 {shlex.quote(str(folder))}" in refused.value.next_step


def test_the_commands_of_a_refusal_mend_it(tmp_path: Path) -> None:
    """Of a folder and a file at once."""
    (folder := tmp_path / "it's evidence").mkdir(mode=0o755)
    (file := tmp_path / "journal.db").touch(0o640)
    with pytest.raises(NotReady) as refused:
        refuse_open([folder, file])
    commands = refused.value.next_step.partition("run: ")[2].rpartition("; then")[0]
    subprocess.run(["sh", "-c", commands], check=True)
    refuse_open([folder, file])
    assert (mode_of(folder), mode_of(file)) == (0o700, 0o600)


def test_a_link_is_judged_by_what_it_leads_to(tmp_path: Path) -> None:
    """A link has no mode of its own."""
    (tmp_path / "disk").mkdir(mode=0o700)
    (tmp_path / "evidence").symlink_to(tmp_path / "disk")
    refuse_open([tmp_path / "evidence"])
    (tmp_path / "disk").chmod(0o711)
    with pytest.raises(NotReady):
        refuse_open([tmp_path / "evidence"])
