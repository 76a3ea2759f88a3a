"""How much the clocks of other machines differ from this machine's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kafka_dr.domain.doctor.finding import InstallationFinding
from kafka_dr.domain.plain_text import format_duration

#: Airflow's servers and tasks accept each other's tokens as long as their clocks differ by no more, unless
#: [api_auth] jwt_leeway says otherwise.
LARGEST_SECONDS = 10.0


@dataclass(frozen=True)
class ClockReading:
    """One reading of another machine's clock.

    Attributes:
        ahead: seconds by which it is ahead of this machine's clock.
        doubt: by how much that may be wrong, in seconds: the time that the answer took, and its resolution.
    """

    ahead: float
    doubt: float

    @property
    def least(self) -> float:
        """The least difference that the reading proves, whichever clock is ahead."""
        return max(0.0, abs(self.ahead) - self.doubt)


def clock_findings(readings: Mapping[str, ClockReading], host: str) -> Iterator[InstallationFinding]:
    """Yield a finding about each clock that differs too much; one about this machine's if all others agree on that.

    Args:
        readings: whose clock -> reading.
        host: name of this machine.
    """
    wrong = {name: reading for name, reading in sorted(readings.items()) if reading.least > LARGEST_SECONDS}
    sides = {reading.ahead > 0 for reading in wrong.values()}
    if len(readings) > 1 and len(wrong) == len(readings) and len(sides) == 1:
        word = "behind" if sides.pop() else "ahead"
        yield _finding(host, f"The clock of this machine, {host}, is {word} of the others", _shown(wrong))
        return
    for name, reading in wrong.items():
        yield _finding(name, f"The clock of {name} differs from this machine's", _shown({name: reading}))


def _finding(about: str, reason: str, seen: str) -> InstallationFinding:
    return InstallationFinding(
        "clocks",
        about,
        reason,
        f"{seen} (at most {format_duration(LARGEST_SECONDS)} may it differ: Airflow refuses the tokens of machines"
        " whose clocks differ by more)",
        "Run a time service such as chrony on this machine and on the others, and let it set the clocks.",
    )


def _shown(readings: Mapping[str, ClockReading]) -> str:
    return ", ".join(
        f"{name} is {format_duration(round(abs(reading.ahead)))} {'ahead' if reading.ahead > 0 else 'behind'}"
        for name, reading in readings.items()
    )
