"""What doctor finds, and what it reports of each place where it looked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.blocker import Blocker


@dataclass(frozen=True)
class InstallationFinding:
    """One thing that is wrong with the installation.

    Attributes:
        check: name of the check, which is the heading on the page runbooks/doctor.md.
        about: what it is about, such as a connection.
        reason: what is wrong.
        seen: what was observed.
        next_step: what to do.
        may_pass: whether it may be gone after a restart of the system: only what stands for a while counts then.
    """

    check: str
    about: str
    reason: str
    seen: str
    next_step: str
    may_pass: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """Identifies the finding from look to look and from machine to machine, while figures in `seen` change."""
        return self.check, self.about, self.reason

    @property
    def page(self) -> str:
        """The heading that explains the finding."""
        return f"runbooks/doctor.md#{self.check}"


def finding_of(check: str, about: str, blocker: Blocker) -> InstallationFinding:
    """Return the finding of something that check_readiness checks, too."""
    return InstallationFinding(check, about, blocker.reason, blocker.seen, blocker.next_step)


def standing_findings(looks: Sequence[Sequence[InstallationFinding]]) -> list[InstallationFinding]:
    """Return the findings of the last look that count: those that cannot pass, and those that every look had."""
    *before, last = looks
    always = [{finding.key for finding in look} for look in before]
    return [finding for finding in last if not finding.may_pass or all(finding.key in keys for keys in always)]


@dataclass(frozen=True)
class ExaminedPlace:
    """What was seen from one machine.

    Attributes:
        place: `here`, or the queue of the task that looked.
        host: name of the machine.
        facts: versions that must be the same everywhere, by name.
        examined: what was examined, as `check about`.
        not_examined: what was not, each with the reason.
    """

    place: str
    host: str
    findings: tuple[InstallationFinding, ...]
    facts: Mapping[str, str] = field(default_factory=dict)
    examined: tuple[str, ...] = ()
    not_examined: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the place as JSON."""
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the place that `as_dict` has written."""
        findings = tuple(InstallationFinding(**finding) for finding in document["findings"])
        return cls(**{**document, "findings": findings, "examined": tuple(document["examined"])})

    def __str__(self) -> str:
        return self.host if self.place == "here" else f"{self.host} (queue {self.place})"


def differing_places(places: Sequence[ExaminedPlace]) -> list[InstallationFinding]:
    """Return a finding for each fact that is not the same on all machines."""
    findings = []
    for name in sorted({name for place in places for name in place.facts}):
        values = {str(place): place.facts.get(name, "unknown") for place in places}
        if len(set(values.values())) > 1:
            findings.append(
                InstallationFinding(
                    "versions",
                    name,
                    f"Machines have different versions of {name}",
                    "; ".join(f"{place}: {value}" for place, value in values.items()),
                    f"Install one version of {name} on every machine that runs a part of Airflow (runbooks/install.md,"
                    " Upgrade), and restart Airflow there.",
                )
            )
    return findings


def by_finding(places: Iterable[ExaminedPlace]) -> list[tuple[InstallationFinding, list[str]]]:
    """Return each finding once, with the machines from which it was seen."""
    seen: dict[tuple[str, str, str], tuple[InstallationFinding, list[str]]] = {}
    for place in places:
        for finding in place.findings:
            seen.setdefault(finding.key, (finding, []))[1].append(str(place))
    return list(seen.values())


def places_text(places: Sequence[str]) -> str:
    """Return machines as text."""
    return first_few(list(dict.fromkeys(places)))
