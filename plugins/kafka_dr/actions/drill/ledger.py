"""The files in a drill's private folder by which its clients and its steps tell each other what happened."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from kafka_dr.config.drill_topology import ROUTING_FILE
from kafka_dr.hooks.private_files import private_file, private_folder
from kafka_dr.hooks.whole_file import write_whole

_ACKNOWLEDGED, _BEGUN, _STOP, _ENDED = "acknowledged", "clients-begun", "clients-stop", "clients-ended.json"
#: Closes off a line whose writer was killed: what the line has is no number then, and the next line is whole.
_TORN = b" torn\n"


class DrillLedger:
    """Numbers of acknowledged records, and the stop sign for the drill's clients.

    Args:
        folder: the drill's private folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def routing(self) -> Path:
        """The drill's routing record."""
        return self.folder / ROUTING_FILE

    def begin(self) -> None:
        """Create the folder."""
        private_folder(self.folder)

    def has_numbers_of(self, writer: str) -> bool:
        """Whether `put` has stored the numbers of a writer."""
        return (self.folder / f"{_ACKNOWLEDGED}.{writer}").exists()

    def put(self, writer: str, numbers: Iterable[int]) -> None:
        """Store all numbers of a writer at once."""
        write_whole(self.folder / f"{_ACKNOWLEDGED}.{writer}", "".join(f"{number}\n" for number in numbers), 0o600)

    def add(self, writer: str, numbers: Iterable[int]) -> None:
        """Add numbers of records that a cluster acknowledged; each writer has a file of its own."""
        path = self.folder / f"{_ACKNOWLEDGED}.{writer}"
        if not path.exists():
            private_file(path)
        lines = [f"{number}\n".encode() for number in numbers]
        with path.open("ab+") as file:
            file.write(b"".join([_TORN, *lines] if lines and _is_torn(file) else lines))

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of all acknowledged records."""
        for path in sorted(self.folder.glob(f"{_ACKNOWLEDGED}.*")):
            # A line without its end, or that `add` has closed off, belongs to a process that was killed while it wrote.
            *lines, _ = path.read_bytes().split(b"\n")
            yield from (int(line) for line in lines if line.isdigit())

    def ask_to_stop(self) -> None:
        """Ask the drill's clients to end."""
        if self.folder.exists() and not (self.folder / _STOP).exists():
            private_file(self.folder / _STOP)

    @property
    def must_stop(self) -> bool:
        """Whether the clients are asked to end."""
        return (self.folder / _STOP).exists()

    @property
    def has_begun(self) -> bool:
        """Whether the clients have begun."""
        return (self.folder / _BEGUN).exists()

    def say_begun(self) -> None:
        """State that the clients have begun."""
        (self.folder / _ENDED).unlink(missing_ok=True)
        private_file(self.folder / _BEGUN)

    def say_ended(self, figures: dict[str, int]) -> None:
        """State that the clients have ended, and what they did."""
        private_file(self.folder / _ENDED).write_text(json.dumps(figures), encoding="utf-8")

    def figures(self) -> dict[str, int] | None:
        """Return what the clients did; None while they have not ended."""
        path = self.folder / _ENDED
        return json.loads(path.read_text(encoding="utf-8") or "null") if path.exists() else None


def _is_torn(file: BinaryIO) -> bool:
    """Whether the last line of a file has no end."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 1))
    return size > 0 and file.read() != b"\n"
