"""Run the checks of an examination side by side, each by itself and again until what it finds stands."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from typing import NamedTuple

from kafka_dr.concurrently import run_in_background
from kafka_dr.domain.doctor.finding import InstallationFinding, standing_findings
from kafka_dr.errors import SwitchbackError, SystemUnavailable
from kafka_dr.hooks.redaction import one_line

_AT_ONCE = 8
#: A check that has not ended by then is given up, in seconds beside the time for which findings must stand.
LIMIT_SECONDS = 420.0
_PAUSE_SECONDS, _WAIT_SECONDS = 5.0, 1.0


class Unit(NamedTuple):
    """One check of one thing.

    Attributes:
        check: heading on the page runbooks/doctor.md.
        about: what is looked at, such as a connection.
        look: returns what is wrong; it may raise a SwitchbackError.
        needs: names of units without whose success there is nothing to look at.
        after: names of units that have to end first, whatever they find.
    """

    check: str
    about: str
    look: Callable[[], Iterable[InstallationFinding]]
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Check and thing."""
        return f"{self.check} {self.about}".strip()


class Examined(NamedTuple):
    """How the units ended: findings by name of the unit, and why others were not looked at."""

    findings: dict[str, list[InstallationFinding]]
    skipped: dict[str, str]


def run_units(units: Sequence[Unit], stands_seconds: float, say: Callable[[str], object]) -> Examined:
    """Run each unit as soon as those that it needs have ended, some at once; return what each has found.

    Args:
        stands_seconds: how long a finding that may pass has to stand before it counts.
        say: takes a line of progress.
    """
    known, pending, ended = {unit.name for unit in units}, list(units), Examined({}, {})
    running: dict[Future[list[InstallationFinding]], tuple[Unit, float]] = {}
    while pending or running:
        done = ended.findings.keys() | ended.skipped.keys()
        for unit in [unit for unit in pending if {*unit.needs, *unit.after} & known <= done]:
            if why := _why_not(unit, ended):
                ended.skipped[unit.name] = why
                say(f"not looked at: {unit.name} ({why})")
            elif len(running) < _AT_ONCE:
                future = run_in_background(partial(look_until_it_stands, unit, stands_seconds, say))
                running[future] = unit, time.monotonic()
            else:
                continue
            pending.remove(unit)
        _collect(running, ended, LIMIT_SECONDS + stands_seconds, say)
    return ended


def _why_not(unit: Unit, ended: Examined) -> str:
    failed = [name for name in unit.needs if ended.findings.get(name) or name in ended.skipped]
    return f"because of {failed[0]}" if failed else ""


def _collect(
    running: dict[Future[list[InstallationFinding]], tuple[Unit, float]],
    ended: Examined,
    limit: float,
    say: Callable[[str], object],
) -> None:
    """Wait until a unit has ended, or a moment has passed; move the units that have ended, and those that hang."""
    wait(running, _WAIT_SECONDS, FIRST_COMPLETED)
    for future, (unit, began) in list(running.items()):
        seconds = time.monotonic() - began
        if future.done() or seconds > limit:
            found = future.result() if future.done() else [_hung(unit, limit)]
            ended.findings[unit.name] = found
            del running[future]
            outcome = f"{len(found)} found" if found else "fine"
            say(f"{outcome}: {unit.name} ({seconds:.1f} s)")


def look_until_it_stands(
    unit: Unit, stands_seconds: float, say: Callable[[str], object] = str
) -> list[InstallationFinding]:
    """Look again while something is found that may pass, for `stands_seconds`; return what counts then."""
    ends_at, looks = time.monotonic() + stands_seconds, [_tried(unit)]
    while any(finding.may_pass for finding in standing_findings(looks)) and time.monotonic() < ends_at:
        if len(looks) == 1:
            say(f"looking again for {stands_seconds:.0f} s: {unit.name}")
        time.sleep(min(_PAUSE_SECONDS, max(0.1, ends_at - time.monotonic())))
        looks.append(_tried(unit))
    return standing_findings(looks)


def _tried(unit: Unit) -> list[InstallationFinding]:
    try:
        return list(unit.look())
    except SwitchbackError as error:
        return [from_error(unit.check, unit.about, error)]
    except Exception as error:  # noqa: BLE001 (one check that fails must not end the others)
        return [
            InstallationFinding(
                unit.check,
                unit.about,
                f"{unit.name} could not be examined",
                one_line(f"{type(error).__name__}: {error}"),
                "Correct what the error names. If it names nothing that you know, report it as a defect of Switchback.",
                may_pass=True,
            )
        ]


def from_error(check: str, about: str, error: SwitchbackError) -> InstallationFinding:
    """Return the finding of an error that a check has met."""
    may_pass = isinstance(error, SystemUnavailable) and error.may_pass
    reason = error.reason[:1].upper() + error.reason[1:]
    return InstallationFinding(check, about, reason, error.seen, error.next_step, may_pass)


def _hung(unit: Unit, limit: float) -> InstallationFinding:
    return InstallationFinding(
        unit.check,
        unit.about,
        f"{unit.name} did not end in time",
        f"no result after {limit:.0f} s",
        "Find out what does not answer, such as a server behind a firewall that drops packets; then look again.",
    )
