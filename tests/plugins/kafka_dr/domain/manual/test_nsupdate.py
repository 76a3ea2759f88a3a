"""The script by which a person redirects a DNS name."""

from __future__ import annotations

import json

import dns.rdata
from kafka_dr.domain.manual.nsupdate import nsupdate_script
from kafka_dr.domain.routing.dns_answers import DnsAnswers


def test_it_replaces_answers_and_record() -> None:
    """All former types are deleted; a long record is cut into strings, and reads as it was."""
    record = {"cluster": "west", "bootstrap_servers": ",".join(f'w{n}."\\.:9092' for n in range(60)), "version": 3}
    answers = DnsAnswers.stated(["192.0.2.1", "192.0.2.2"])
    shared, stored = ("kafka.example.com.", answers), ("_switchback.kafka.example.com.", record)
    lines = nsupdate_script(("ns1", 53), "example.com.", shared, stored, 30).splitlines()
    assert lines[:7] == [
        "server ns1 53",
        "zone example.com.",
        "update delete kafka.example.com. CNAME",
        "update delete kafka.example.com. A",
        "update delete kafka.example.com. AAAA",
        "update add kafka.example.com. 30 A 192.0.2.1",
        "update add kafka.example.com. 30 A 192.0.2.2",
    ]
    assert lines[7] == "update delete _switchback.kafka.example.com. TXT" and lines[9:] == ["send"]
    txt = dns.rdata.from_text("IN", "TXT", lines[8].partition(" TXT ")[2])
    assert json.loads(b"".join(txt.strings)) == record and len(txt.strings) > 3
