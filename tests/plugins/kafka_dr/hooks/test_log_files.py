"""The newest lines of a log are read, from its end backwards, however long the log is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kafka_dr.hooks import log_files
from kafka_dr.hooks.log_files import newest_lines

SECONDS = 60.0


def numbered(first: int, last: int) -> str:
    """Lines of eight bytes with these numbers."""
    return "".join(f"{n:07}\n" for n in range(first, last))


def numbers(lines: list[str]) -> list[int]:
    """The numbers of these lines, sorted."""
    return sorted(map(int, lines))


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 100 bytes, so that lines are cut."""
    monkeypatch.setattr(log_files, "_BLOCK", 100)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("count", [0, 1, 12, 13, 1_000])
@pytest.mark.parametrize("end", ["", "0999999"])
def test_every_line_once(tmp_path: Path, count: int, end: str) -> None:
    """Also where a block cuts a line, and a last line without its end."""
    file = tmp_path / "a.log"
    file.write_text(numbered(0, count) + end)
    assert numbers(list(newest_lines(str(file), SECONDS))) == [*range(count), *([int(end)] if end else [])]


@pytest.mark.usefixtures("small_blocks")
def test_a_large_log_is_read_from_its_end_only(tmp_path: Path) -> None:
    """So many bytes, whole lines, the newest ones; nothing before them is touched."""
    file = tmp_path / "a.log"
    file.write_text(numbered(0, 10_000))
    found = numbers(list(newest_lines(str(file), SECONDS, 1_000)))
    assert found[-1] == 9_999 and found == list(range(found[0], 10_000)) and 120 <= len(found) <= 125


def test_a_sparse_log_of_terabytes_is_read_at_once(tmp_path: Path) -> None:
    """Its size does not matter."""
    file = tmp_path / "a.log"
    with file.open("wb") as opened:
        opened.truncate(2 * 1024**4)
        opened.seek(0, os.SEEK_END)
        opened.write(b"\n" + numbered(0, 10).encode())
    assert numbers([one for one in newest_lines(str(file), SECONDS, 5_000_000) if "\0" not in one]) == list(range(10))


def test_the_newest_of_the_rotated_files_is_read_first(tmp_path: Path) -> None:
    """The limit holds for all files of one log together."""
    for age, (name, first) in enumerate([("k.log", 200), ("k.log.1", 100), ("k.log.2", 0)]):
        (tmp_path / name).write_text(numbered(first, first + 100))
        os.utime(tmp_path / name, (1_000_000 - age, 1_000_000 - age))
    (tmp_path / "k.log.folder").mkdir()
    whole = str(tmp_path / "k.log*")
    assert numbers(list(newest_lines(whole, SECONDS))) == list(range(300))
    assert numbers(list(newest_lines(whole, SECONDS, 1_200))) == list(range(151, 300))
    assert numbers(list(newest_lines(str(tmp_path / "k.log"), SECONDS))) == list(range(200, 300))


@pytest.mark.usefixtures("small_blocks")
def test_the_newest_block_is_read_when_the_time_is_over(tmp_path: Path) -> None:
    """And no other."""
    file = tmp_path / "a.log"
    file.write_text(numbered(0, 1_000))
    found = numbers(list(newest_lines(str(file), 0.0)))
    assert 10 <= len(found) <= 12 and found[-1] == 999


@pytest.mark.usefixtures("small_blocks")
def test_an_endless_line_is_dropped(tmp_path: Path) -> None:
    """It takes no memory beyond a block or two; the lines around it are read."""
    file = tmp_path / "a.log"
    file.write_text(numbered(0, 5) + "x" * 5_000 + "\n" + numbered(5, 10))
    found = list(newest_lines(str(file), SECONDS))
    assert numbers([one for one in found if "x" not in one]) == list(range(10))
    assert max(map(len, found)) <= 200


def test_bytes_that_are_no_text_are_read(tmp_path: Path) -> None:
    """As the signs that stand for them."""
    (tmp_path / "a.log").write_bytes(b"\xff\xfe ok\r\n")
    assert list(newest_lines(str(tmp_path / "a.log"), SECONDS)) == ["\ufffd\ufffd ok\r"]


@pytest.mark.parametrize("named", ["missing.log", "missing*", "folder", "[", "**x"])
def test_a_log_without_a_file_is_an_error(tmp_path: Path, named: str) -> None:
    """A folder is no log, and no pipe is opened, which would wait for its writer."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in (named, "pipe"):
        with pytest.raises(FileNotFoundError):
            list(newest_lines(str(tmp_path / name), SECONDS))


def test_a_path_may_look_like_a_glob(tmp_path: Path) -> None:
    """The file of exactly that name is read."""
    (tmp_path / "a[1].log").write_text(numbered(0, 1))
    assert numbers(list(newest_lines(str(tmp_path / "a[1].log"), SECONDS))) == [0]
