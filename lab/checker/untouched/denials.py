"""Requests that brokers' authorizers have denied, by their logs: who was denied what, and when."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from lab.checker.findings import Finding
from lab.checker.untouched.samples import DRILL

_LINE = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]\d{3}) .*Principal = (?P<principal>\S+) is Denied"
    r" operation = (?P<operation>\S+) from host = \S+ on resource = (?P<resource>\S+) for request = (?P<request>\S+)"
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]\d{3}")


class Denial(NamedTuple):
    """One denied request, as a broker's or controller's log has it."""

    at: datetime
    log: str
    principal: str
    operation: str
    resource: str
    request: str

    def __str__(self) -> str:
        return f"{self.principal} {self.operation} {self.resource} by {self.request} in {self.log} at {self.at}"


def read_denials(folder: Path, names: Iterable[str]) -> tuple[list[Denial], list[str]]:
    """Return every denied request, and a text for each log that has no line: its authorizer may have written none.

    Args:
        folder: folder of the logs.
        names: names of brokers' and controllers' processes.
    """
    denials, empty = [], []
    for name in names:
        # The newest file has no number; the rolled ones count upwards from the last.
        files = [*sorted(folder.glob(f"{name}.log.*"), reverse=True), folder / f"{name}.log"]
        lines = [line for path in files for line in path.read_text(errors="replace").splitlines()]
        denials += list(_denials_of(name, lines))
        if not any(_TIME.match(line) for line in lines):
            empty.append(f"the log of {name} is empty")
        if len(files) > 2:
            empty.append(f"the log of {name} was rolled more than once: its first lines may be gone")
    return denials, empty


def _denials_of(name: str, lines: Iterable[str]) -> Iterator[Denial]:
    for line in lines:
        if found := _LINE.match(line):
            at = datetime.fromisoformat(found["at"].replace(",", ".")).astimezone()
            yield Denial(at, name, found["principal"], found["operation"], found["resource"], found["request"])


def denial_findings(denials: Sequence[Denial], drill_principal: str, clusters: Iterable[str]) -> list[Finding]:
    """Return a finding for each denied request of production, and each cluster whose log shows no fence.

    Args:
        drill_principal: of the drill's clients, such as `User:switchback-drill`.
        clusters: aliases on which the drill's fence must have denied its producer: without it the logs prove nothing.
    """
    foreign = [one for one in denials if one.principal != drill_principal or DRILL not in one.resource]
    silent = [alias for alias in clusters if not any(_is_fenced_write(one, drill_principal, alias) for one in denials)]
    texts = [f"a request of production was denied: {one}" for one in foreign]
    texts += [f"no broker of {alias} has logged a write of the drill that its fence denied" for alias in silent]
    return [Finding("untouched", text) for text in texts]


def _is_fenced_write(denial: Denial, principal: str, alias: str) -> bool:
    is_there = denial.log == f"broker-{alias}" or denial.log.startswith(f"broker-{alias}-")
    return is_there and (denial.principal, denial.operation) == (principal, "WRITE") and DRILL in denial.resource
