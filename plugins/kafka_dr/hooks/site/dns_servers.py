"""Asks the authoritative servers of a DNS zone, and sends signed updates to its primary server.

Questions are not signed: a server may show other records to whoever has the key. All goes over TCP, where a lost packet
is no silence.
"""

from __future__ import annotations

import base64
import binascii
import errno
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.query
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.tsig
import dns.update

from kafka_dr.errors import BadInput, HookUnavailable
from kafka_dr.hooks.redaction import one_line

DNS_PORT = 53
DEFAULT_ALGORITHM = "hmac-sha256"
_ANSWERED = (dns.rcode.NOERROR, dns.rcode.NXDOMAIN)
#: Answers to an update whose prerequisites do not hold.
_OUTDATED = (dns.rcode.YXDOMAIN, dns.rcode.NXDOMAIN, dns.rcode.YXRRSET, dns.rcode.NXRRSET)
#: Errors of a connection that was never made.
_NOT_SENT = (errno.ECONNREFUSED, errno.ENETUNREACH, errno.EHOSTUNREACH)
#: How the text of `DnsServers.send` begins if no answer came.
NO_ANSWER = "no answer"
_ADVICE = (
    "make the server answer, correct the connection, or let the server's operators allow this key to update the shared"
    " name and the name of the routing record"
)


@dataclass(frozen=True)
class DnsLogin:
    """Where a zone is updated, and by which key.

    Attributes:
        server: host of the zone's primary server, which takes updates.
        key_name: name of the TSIG key that signs updates.
        secret: the key in base64.
        servers: the zone's authoritative servers, each `HOST` or `HOST:PORT`; (): the hosts of the zone's NS records.
    """

    server: str
    port: int
    key_name: str
    secret: str = field(repr=False)
    algorithm: str = DEFAULT_ALGORITHM
    servers: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """Return where updates go and answers are read, as text without the secret."""
        place = f"dns://{self.server}:{self.port}"
        return f"{place}, servers {', '.join(self.servers)}" if self.servers else place


@dataclass(frozen=True)
class DnsServer:
    """One authoritative server: its name as stated, and an address of it."""

    name: str
    address: str
    port: int

    def __str__(self) -> str:
        where = f"{self.address}:{self.port}" if self.port != DNS_PORT else self.address
        return where if self.name == self.address else f"{self.name} ({where})"


@dataclass(frozen=True)
class DnsRecords:
    """All records of one type and one name.

    Attributes:
        values: each record's data, as in a zone file.
        ttl: in seconds.
    """

    kind: str
    values: tuple[str, ...]
    ttl: int


class DnsServers:
    """The authoritative servers of one zone."""

    def __init__(self, login: DnsLogin, zone: str) -> None:
        self.login, self.zone = login, zone

    def primary(self) -> DnsServer:
        """Return the server that takes updates; HookUnavailable if its host name does not resolve."""
        return _addresses_of(self.login.server, self.login.port)[0]

    def all(self, timeout: float) -> list[DnsServer]:
        """Return every authoritative server: those of the connection, else those of the zone's NS records.

        A server whose host name does not resolve has its name as address, so that it is named as not answering.
        """
        stated = [_host_and_port(server, self.login.port) for server in self.login.servers]
        if not stated:
            names = self.look_up(self.primary(), self.zone, ["NS"], timeout)
            stated = [(name, self.login.port) for records in names for name in records.values]
        return [server for host, port in sorted(stated) for server in self._resolved(host, port, timeout)]

    def _resolved(self, host: str, port: int, timeout: float) -> list[DnsServer]:
        """Return a server's addresses: by the zone itself for a name of the zone, else by this machine's resolver."""
        if host.endswith("."):
            records = self.look_up(self.primary(), host, ["A", "AAAA"], timeout) if self._is_own(host) else []
            if own := [DnsServer(host, value, port) for one in records for value in one.values]:
                return own
        try:
            return _addresses_of(host, port)
        except HookUnavailable:
            return [DnsServer(host, host, port)]

    def _is_own(self, host: str) -> bool:
        return dns.name.from_text(host).is_subdomain(dns.name.from_text(self.zone))

    def look_up(self, server: DnsServer, name: str, kinds: Iterable[str], timeout: float) -> list[DnsRecords]:
        """Return the records of a name as one server has them, those of another name left out; [] if it has none.

        Raises:
            HookUnavailable: no answer, an error, or an answer of a server that is not authoritative for the zone.
        """
        records: dict[str, DnsRecords] = {}
        for kind in kinds:
            answer = self._ask(server, dns.message.make_query(name, kind, flags=dns.flags.Flag(0)), timeout)
            if answer.rcode() not in _ANSWERED:
                raise _no_answer(server, dns.rcode.to_text(answer.rcode()))
            if not answer.flags & dns.flags.AA:
                raise _no_answer(server, f"it is not authoritative for {self.zone}")
            for rrset in answer.answer:
                if rrset.name == dns.name.from_text(name):
                    found = dns.rdatatype.to_text(rrset.rdtype)
                    records[found] = DnsRecords(found, tuple(sorted(one.to_text() for one in rrset)), rrset.ttl)
        return list(records.values())

    def serial(self, server: DnsServer, timeout: float) -> int | None:
        """Return the serial number of the zone as one server has it; None if it does not answer."""
        try:
            (soa,) = [one for one in self.look_up(server, self.zone, ["SOA"], timeout) if one.kind == "SOA"]
        except (HookUnavailable, ValueError):
            return None
        return int(soa.values[0].split()[2])

    def new_update(self) -> dns.update.UpdateMessage:
        """Return an empty update of the zone, signed by the connection's key.

        Raises:
            BadInput: the connection's key cannot be used; the message does not show the secret.
        """
        try:
            secret = base64.b64decode(self.login.secret, validate=True)
            key = dns.tsig.Key(self.login.key_name, secret, self.login.algorithm)
            dns.tsig.HMACTSig(key.secret, key.algorithm)  # type: ignore[no-untyped-call]  # knows the algorithm, or not
        except (binascii.Error, ValueError, NotImplementedError, dns.exception.DNSException):
            raise BadInput(
                "the TSIG key of the DNS server cannot be used",
                f"key {self.login.key_name}, algorithm {self.login.algorithm}; the secret is not shown",
                "put the key's name into the connection's login, its secret in base64 into the password, and its"
                ' algorithm as "algorithm" into the extra',
            ) from None
        return dns.update.UpdateMessage(self.zone, keyring=key)

    def send(self, update: dns.update.UpdateMessage, timeout: float) -> str:
        """Send an update to the primary server; return its answer as text.

        Returns:
            `NOERROR`, or the name of the prerequisite's failure such as `NXRRSET`, under which nothing was changed. A
            text that begins with `no answer`: the update may have been applied.

        Raises:
            HookUnavailable: the server was not reached, or refused the key or the update; nothing was changed.
        """
        server = self.primary()
        try:
            rcode = self._ask(server, update, timeout).rcode()
        except _Silent as silence:
            return f"{NO_ANSWER}: {silence.seen}"
        if rcode != dns.rcode.NOERROR and rcode not in _OUTDATED:
            raise HookUnavailable(
                "the DNS server refused the update", f"{dns.rcode.to_text(rcode)} from {server}", _ADVICE
            )
        return dns.rcode.to_text(rcode)

    def _ask(self, server: DnsServer, message: dns.message.Message, timeout: float) -> dns.message.Message:
        try:
            return dns.query.tcp(message, server.address, timeout, server.port)
        except dns.tsig.PeerError as error:
            raise HookUnavailable(
                "the DNS server refused the TSIG key", f"{_told(error)} (key {self.login.key_name}, {server})", _ADVICE
            ) from None
        except (OSError, EOFError, ValueError, dns.exception.DNSException) as error:
            kind = HookUnavailable if getattr(error, "errno", None) in _NOT_SENT else _Silent
            raise kind("a DNS server gave no usable answer", f"{server}: {_told(error)}", _ADVICE) from None


class _Silent(HookUnavailable):
    """No usable answer came, but the request may have arrived."""


def is_outdated(answer: str) -> bool:
    """Whether an answer of `send` says that the prerequisites of the update do not hold."""
    return answer in {dns.rcode.to_text(rcode) for rcode in _OUTDATED}


def _no_answer(server: DnsServer, why: str) -> HookUnavailable:
    return HookUnavailable("a DNS server gave no usable answer", f"{server}: {why}", _ADVICE)


def _told(error: BaseException) -> str:
    return one_line(f"{type(error).__name__}: {error}")


def _host_and_port(stated: str, port: int) -> tuple[str, int]:
    """Return host and port of `HOST`, `HOST:PORT`, an IPv6 address or `[IPv6]:PORT`."""
    bare = stated.count(":") > 1 and "[" not in stated
    host, _, number = ("", "", "") if bare else stated.rpartition(":")
    if bare or not host or not number.isdigit():
        return stated.strip("[]"), port
    return host.strip("[]"), int(number)


def _addresses_of(host: str, port: int) -> list[DnsServer]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except (OSError, UnicodeError) as error:
        raise HookUnavailable(
            "the host of a DNS server cannot be resolved", f"{host}: {_told(error)}", _ADVICE
        ) from None
    return [DnsServer(host, address, port) for address in sorted({str(one[4][0]) for one in found})]
