"""An authoritative DNS server in this process: one zone, questions and signed updates over TCP."""

from __future__ import annotations

import base64
import socketserver
import threading
from collections.abc import Callable

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import dns.tsig
import dns.update

ZONE, NAME, RECORD = "site.example.", "kafka.site.example.", "_switchback.kafka.site.example."
KEY, SECRET = "switchback-key.", base64.b64encode(b"a key of these tests alone").decode()
#: What a shared name may have: name and type -> TTL and data.
Records = dict[tuple[str, str], tuple[int, list[str]]]


class FakeDnsServer:
    """One server and its records.

    Attributes:
        records: all records of the zone.
        updates: how many updates were applied.
        before_update: called before an update is looked at.
        mute: whether requests are read and not answered; `loses` an update's answer only.
        rcode: what every question is answered with instead, if given.
    """

    def __init__(self, records: Records) -> None:
        self.records: Records = {(ZONE, "SOA"): (30, [f"ns1.{ZONE} admin.{ZONE} 1 60 60 60 30"]), **records}
        self.updates, self.mute, self.loses = 0, False, False
        self.rcode: dns.rcode.Rcode | None = None
        self.authoritative = True
        self.before_update: Callable[[], object] = lambda: None
        self._keys = {dns.name.from_text(KEY): dns.tsig.Key(KEY, SECRET)}
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                size = int.from_bytes(self.rfile.read(2), "big")
                answer = outer._answer(self.rfile.read(size))
                if answer is not None:
                    self.wfile.write(len(answer).to_bytes(2, "big") + answer)
                else:
                    self.rfile.read(1)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads, allow_reuse_address = True, True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()

    def data(self, name: str, kind: str) -> list[str]:
        """Return the data of a name's records."""
        return self.records.get((name, kind), (0, []))[1]

    def _answer(self, wire: bytes) -> bytes | None:
        try:
            request = dns.message.from_wire(wire, keyring=self._keys)
        except dns.exception.DNSException as error:
            return self._refused(wire, error)
        if self.mute:
            return None
        if request.opcode() != dns.opcode.UPDATE:
            return self._found(request)
        self.before_update()
        response = dns.message.make_response(request)
        response.set_rcode(self._update(request) if request.had_tsig else dns.rcode.REFUSED)
        return None if self.loses else response.to_wire()

    def _refused(self, wire: bytes, error: Exception) -> bytes:
        """Answer a request whose key is not known, or another one (RFC 8945, 5.2)."""
        request = dns.message.from_wire(wire, keyring=False)
        response = dns.message.make_response(request)
        response.set_rcode(dns.rcode.NOTAUTH)
        reason = dns.rcode.BADSIG if isinstance(error, dns.tsig.BadSignature) else dns.rcode.BADKEY
        response.use_tsig(dns.tsig.Key(request.keyname, SECRET), tsig_error=reason)
        return response.to_wire()

    def _found(self, request: dns.message.Message) -> bytes:
        response = dns.message.make_response(request)
        if self.authoritative:
            response.flags |= dns.flags.AA
        question = request.question[0]
        name, kind = question.name.to_text(), dns.rdatatype.to_text(question.rdtype)
        for own in dict.fromkeys((kind, "CNAME")):
            if (name, own) in self.records:
                ttl, data = self.records[name, own]
                response.answer.append(dns.rrset.from_text(name, ttl, "IN", own, *data))
        response.set_rcode(dns.rcode.NOERROR if self.rcode is None else self.rcode)
        return response.to_wire()

    def _update(self, request: dns.message.Message) -> dns.rcode.Rcode:
        """Check all prerequisites, then apply (RFC 2136, 3.2 and 3.4)."""
        wanted: dict[tuple[str, str], set[str]] = {}
        for rrset in request.sections[1]:
            key = rrset.name.to_text(), dns.rdatatype.to_text(rrset.rdtype)
            if rrset.deleting == dns.rdataclass.NONE:
                if key in self.records:
                    return dns.rcode.YXRRSET
            else:
                wanted.setdefault(key, set()).update(one.to_text() for one in rrset)
        if any(set(self.data(*key)) != data for key, data in wanted.items()):
            return dns.rcode.NXRRSET
        for rrset in request.sections[2]:
            key = rrset.name.to_text(), dns.rdatatype.to_text(rrset.rdtype)
            if rrset.deleting is not None:
                self.records.pop(key, None)
            else:
                self.records[key] = rrset.ttl, sorted({*self.data(*key), *(one.to_text() for one in rrset)})
        self.updates += 1
        return dns.rcode.NOERROR
