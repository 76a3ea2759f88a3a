"""The routing record in DNS: a shared name that leads to a cluster, and a TXT record with all other fields.

Invariants
1. An update names all records that were read as its prerequisites, so that it changes nothing if one has changed since.
2. To which cluster clients are led is decided by the shared name's own records, never by the TXT record beside them.
3. A redirect counts as done once no authoritative server that answers leads elsewhere.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import dns.update
from dns.rdtypes.ANY.TXT import TXT

from kafka_dr.concurrently import run_concurrently
from kafka_dr.config.routing import DnsRoutingSettings
from kafka_dr.domain.canonical_json import read_json
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.routing.dns_answers import ANSWER_TYPES, DnsAnswers, alias_of
from kafka_dr.domain.routing.dns_view import DnsServerView, DnsView, servers_lagging
from kafka_dr.errors import BadInput, Contradiction, HookUnavailable
from kafka_dr.hooks.redaction import one_line
from kafka_dr.hooks.site.dns_servers import NO_ANSWER, DnsLogin, DnsRecords, DnsServer, DnsServers, is_outdated
from kafka_dr.hooks.site.routing import ClientRoute, ClientRouting, Redirected, SeenRouting

#: Longest wait for one answer, and pause before all servers are asked again, in seconds.
_REQUEST_SECONDS, _LOOK_AGAIN_SECONDS = 3.0, 0.25
#: Most bytes in one string of a TXT record.
_TXT_STRING = 255
_TRIES = 3


@dataclass(frozen=True)
class _Basis:
    """The records of the shared name and of the routing record's name, each by type, as they were read."""

    shared: Mapping[str, DnsRecords]
    record: Mapping[str, DnsRecords]

    @property
    def answers(self) -> DnsAnswers:
        found = [(kind, value) for kind, one in self.shared.items() for value in one.values if kind in ANSWER_TYPES]
        return DnsAnswers.of(found)

    @property
    def ttl(self) -> int | None:
        return max((one.ttl for kind, one in self.shared.items() if kind in ANSWER_TYPES), default=None)


class DnsRouting(ClientRouting):
    """The routing record in DNS; updates are signed by a TSIG key, and conditional on what was read.

    Args:
        login: the zone's primary server and the key.
        settings: the shared name, and what it answers for each cluster.
    """

    def __init__(self, login: DnsLogin, settings: DnsRoutingSettings) -> None:
        self._settings, self._servers = settings, DnsServers(login, settings.zone)

    def __str__(self) -> str:
        return f"the DNS name {self._settings.name} and the TXT record of {self._settings.record_name}"

    def redirect(
        self, route: ClientRoute, timeout: float = 10.0, anchor: Mapping[str, Any] | None = None
    ) -> Redirected:
        """Lead the shared name to a cluster, and ask every authoritative server until none leads elsewhere.

        Raises:
            Contradiction: another program changed the records after they were read; nothing was written.
            HookUnavailable: as of `ClientRouting.redirect`; or after the timeout a server still leads elsewhere.
            ReadBackFailed: as of `ClientRouting.redirect`.
        """
        self._expected(route.cluster)
        try:
            done = super().redirect(route, timeout, anchor)
        except Contradiction:
            current = self.current(timeout)
            if not route.same_target(current):
                raise
            done = Redirected(False, "nothing was written: another process has just written this cluster", current)
        return replace(done, answered=f"{done.answered}; {self._await_servers(route.cluster, timeout)}")

    def look_around(self, timeout: float) -> tuple[DnsServerView, ...]:
        """Ask every authoritative server at once what the shared name answers.

        Raises:
            HookUnavailable: the primary server does not say which servers are authoritative.
        """
        servers = self._servers.all(min(timeout, _REQUEST_SECONDS))
        with run_concurrently() as start:
            views = [start(self._look_at, server, timeout) for server in servers]
        return tuple(view.result() for view in views)

    def view(self, timeout: float) -> DnsView:
        """Look at the shared name, and try whether the primary server would take an update of it.

        The update deletes and adds nothing that is not there already; so it changes neither a record nor the zone's
        serial number.
        """
        settings = self._settings
        view = DnsView(settings.name, settings.ttl_seconds)
        try:
            refused, leads_to = self._try_update(timeout)
            return replace(view, refused=refused, leads_to=leads_to, servers=self.look_around(timeout))
        except (HookUnavailable, BadInput) as error:
            return replace(view, refused=f"{error.reason}: {error.seen}")

    def _try_update(self, timeout: float) -> tuple[str, str | None]:
        """Return why the server did not take an update without effect ("" if it did), and where the name leads now."""
        for _ in range(_TRIES):
            basis = self._basis(timeout)
            update = self._conditional(basis)
            for name, kind, records in self._all(basis):
                if records is None:
                    update.delete(name, kind)
                else:
                    update.add(name, records.ttl, kind, *records.values)
            answer = self._servers.send(update, min(timeout, _REQUEST_SECONDS))
            if not is_outdated(answer):
                break
        refused = "" if answer == "NOERROR" else f"the primary server answered {answer}"
        self._document(basis)
        return refused, alias_of(basis.answers, self._settings.expected)

    def _expected(self, alias: str) -> DnsAnswers:
        expected = self._settings.expected.get(alias)
        if expected is None:
            raise BadInput(
                f"the topology does not state what {self._settings.name} answers for {alias}",
                f"answers are stated for {', '.join(sorted(self._settings.answers))}",
                "add the cluster to `answers` under `routing` in the topology; nothing was changed",
            )
        return expected

    def _read(self, timeout: float) -> SeenRouting:
        basis = self._basis(timeout)
        return SeenRouting(self._document(basis), basis)

    def _basis(self, timeout: float) -> _Basis:
        server, limit = self._servers.primary(), min(timeout, _REQUEST_SECONDS)
        shared = self._servers.look_up(server, self._settings.name, ["A", "AAAA"], limit)
        record = self._servers.look_up(server, self._settings.record_name, ["TXT"], limit)
        return _Basis({one.kind: one for one in shared}, {one.kind: one for one in record})

    def _document(self, basis: _Basis) -> dict[str, Any] | None:
        """Return the routing record of these records; None if the shared name has none."""
        if not basis.answers.records:
            return None
        alias = alias_of(basis.answers, self._settings.expected)
        if alias is None:
            raise self._unreadable(f"{self._settings.name} answers {basis.answers}, which is that of no cluster")
        stored = self._stored(basis)
        if stored.get("cluster") != alias:
            # Somebody led the name elsewhere without the TXT record beside it.
            return {"version": 0, **stored, "cluster": alias, "bootstrap_servers": self._settings.name}
        return stored

    def _stored(self, basis: _Basis) -> dict[str, Any]:
        """Return what the TXT record holds; {} without one."""
        if "TXT" not in basis.record:
            return {}
        texts = [_bytes_of(value) for value in basis.record["TXT"].values]
        try:
            (document,) = [read_json(text) for text in texts]
            return dict(document)
        except (TypeError, ValueError):
            raise self._unreadable(f"TXT of {self._settings.record_name}: {texts[0][:200]!r}") from None

    def _unreadable(self, seen: str) -> HookUnavailable:
        known = "; ".join(f"{alias}: {answers}" for alias, answers in sorted(self._settings.expected.items()))
        return HookUnavailable(
            "the routing record cannot be read",
            one_line(seen),
            f"lead {self._settings.name} to a cluster of the topology ({known}), or correct `answers` there; delete a"
            f" TXT record of {self._settings.record_name} that is not Switchback's",
        )

    def _write(self, seen: SeenRouting, document: dict[str, Any], timeout: float) -> str:
        """Send a conditional update; one without answer raises no error, as the read-back shows its effect."""
        basis: _Basis = seen.basis
        update, ttl = self._conditional(basis), self._settings.ttl_seconds
        expected = self._expected(document["cluster"])
        for kind in ANSWER_TYPES:
            if kind in basis.shared:
                update.delete(self._settings.name, kind)
        for kind in ANSWER_TYPES:
            if values := expected.values(kind):
                update.add(self._settings.name, ttl, kind, *values)
        update.replace(self._settings.record_name, ttl, _txt_of(document))
        answer = self._servers.send(update, min(timeout, _REQUEST_SECONDS))
        if is_outdated(answer):
            raise Contradiction(
                "the routing record was changed by another program while Switchback was writing it",
                f"{self._servers.primary()} answered {answer}; read before: {basis.answers}",
                f"find out who else changes {self}, and stop that; nothing was written. Then clear the step",
            )
        kept = "" if basis.ttl is None else f"; resolvers may keep the former answer for {basis.ttl} s"
        return f"{answer} from {self._servers.primary()}{'' if answer.startswith(NO_ANSWER) else kept}"

    def _conditional(self, basis: _Basis) -> dns.update.UpdateMessage:
        """Return a signed update that changes nothing unless all records are those of `basis`."""
        update = self._servers.new_update()
        for name, kind, records in self._all(basis):
            if records is None:
                update.absent(name, kind)
            else:
                update.present(name, kind, *records.values)
        return update

    def _all(self, basis: _Basis) -> Iterator[tuple[str, str, DnsRecords | None]]:
        """Yield name, type and records of everything that a redirect may change; None where there are none."""
        for kind in ANSWER_TYPES:
            yield self._settings.name, kind, basis.shared.get(kind)
        yield self._settings.record_name, "TXT", basis.record.get("TXT")

    def _look_at(self, server: DnsServer, timeout: float) -> DnsServerView:
        try:
            records = self._servers.look_up(server, self._settings.name, ["A", "AAAA"], min(timeout, _REQUEST_SECONDS))
        except HookUnavailable as error:
            return DnsServerView(str(server), problem=f"{NO_ANSWER}, {error.seen.removeprefix(f'{server}: ')}")
        basis = _Basis({one.kind: one for one in records}, {})
        serial = self._servers.serial(server, min(timeout, _REQUEST_SECONDS))
        return DnsServerView(str(server), basis.answers, basis.ttl, serial=serial)

    def _await_servers(self, alias: str, timeout: float) -> str:
        """Wait until no authoritative server leads elsewhere; return what they answer, as text."""
        expected, ends_at = self._expected(alias), time.monotonic() + timeout
        while late := servers_lagging(views := self.look_around(timeout), expected):
            if time.monotonic() >= ends_at:
                raise self._behind(late, expected)
            time.sleep(_LOOK_AGAIN_SECONDS)
        silent = [str(view) for view in views if view.answers is None]
        if len(silent) == len(views):
            raise HookUnavailable(
                f"no authoritative DNS server answers for {self._settings.name}",
                first_few(silent, separator="; "),
                "the primary server has the redirect; make the servers that clients' resolvers ask answer, then clear"
                " the step",
                may_pass=True,
            )
        named = f"; {first_few(silent, separator='; ')}" if silent else ""
        return f"{len(views) - len(silent)} of {len(views)} authoritative servers answer {expected}{named}"

    def _behind(self, late: list[DnsServerView], expected: DnsAnswers) -> HookUnavailable:
        primary = self._servers.serial(self._servers.primary(), _REQUEST_SECONDS)
        return HookUnavailable(
            "authoritative DNS servers lag behind the redirect",
            f"{first_few(late, separator='; ')}; expected: {expected} (serial {primary})",
            f"resolvers that ask these servers still lead clients elsewhere. Make these servers transfer the zone"
            f" {self._settings.zone}, or take them out of its NS records; then clear the step, which asks all of them"
            " again",
            may_pass=True,
        )


def _bytes_of(value: str) -> bytes:
    """Return the content of a TXT record's data, whose strings are joined."""
    rdata = dns.rdata.from_text(dns.rdataclass.IN, dns.rdatatype.TXT, value)
    return b"".join(getattr(rdata, "strings", ()))


def _txt_of(document: Mapping[str, Any]) -> TXT:
    content = json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
    strings = [content[at : at + _TXT_STRING] for at in range(0, len(content), _TXT_STRING)]
    return TXT(dns.rdataclass.IN, dns.rdatatype.TXT, strings)
