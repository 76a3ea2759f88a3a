"""The redirect of a DNS name as a script for `nsupdate`, for a person with a shell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_dr.domain.canonical_json import canonical_json
from kafka_dr.domain.routing.dns_answers import ANSWER_TYPES, DnsAnswers

#: Most characters in one string of a TXT record.
_TXT_STRING = 255


def nsupdate_script(
    server: tuple[str, int],
    zone: str,
    shared: tuple[str, DnsAnswers],
    record: tuple[str, Mapping[str, Any]],
    ttl: int,
) -> str:
    """Return the script: it replaces the shared name's answers, and the TXT record with the routing record.

    Args:
        server: host and port of the zone's primary server.
        shared: the shared name, and what it is to answer.
        record: name of the TXT record, and the routing record.
        ttl: how long resolvers may keep the new answers, in seconds.
    """
    name, answers = shared
    record_name, document = record
    lines = [f"server {server[0]} {server[1]}", f"zone {zone}"]
    lines += [f"update delete {name} {kind}" for kind in ANSWER_TYPES]
    lines += [f"update add {name} {ttl} {kind} {value}" for kind in ANSWER_TYPES for value in answers.values(kind)]
    lines += [f"update delete {record_name} TXT", f"update add {record_name} {ttl} TXT {_txt(document)}", "send"]
    return "\n".join(lines) + "\n"


def _txt(document: Mapping[str, Any]) -> str:
    content = canonical_json(document)
    strings = [content[at : at + _TXT_STRING] for at in range(0, len(content), _TXT_STRING)]
    return " ".join('"{}"'.format(one.replace("\\", "\\\\").replace('"', '\\"')) for one in strings)
