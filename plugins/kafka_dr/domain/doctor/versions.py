"""Versions that Switchback supports, as README.md (Supported) states them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kafka_dr.domain.doctor.finding import InstallationFinding

#: Program -> lowest version, and the first that is too new (None: none is).
SUPPORTED: Mapping[str, tuple[tuple[int, ...], tuple[int, ...] | None]] = {
    "Airflow": ((3, 1), (3, 4)),
    "Python": ((3, 11), None),
    "Java": ((17,), None),
    "Spark": ((4, 2), (4, 3)),
    "PostgreSQL": ((10,), None),
}


def version_findings(program: str, about: str, version: str) -> Iterator[InstallationFinding]:
    """Yield a finding if a program's version is not supported, or cannot be read.

    Args:
        program: a name in `SUPPORTED`.
        about: where the version was seen.
        version: as the program states it.
    """
    lowest, too_new = SUPPORTED[program]
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[: len(lowest)])
    if not numbers or numbers < lowest or (too_new is not None and numbers >= too_new):
        allowed = f"{_text(lowest)} or newer" + (f", before {_text(too_new)}" if too_new else "")
        yield InstallationFinding(
            "versions",
            about,
            f"{program} has a version that Switchback does not support",
            f"{about}: {version or 'unknown'}",
            f"Install {program} {allowed}: README.md, Supported.",
        )


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
