"""What a DNS name answers: records, as text that compares."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

#: Types of records by which a name leads to a host.
ANSWER_TYPES = ("CNAME", "A", "AAAA")
#: First label of the name, below the shared name, whose TXT record holds the routing record.
RECORD_LABEL = "_switchback"
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_LONGEST_NAME = 253


def name_problem(name: str) -> str | None:
    """Return why a text is no DNS name of at least two labels; None if it is one. A final dot is allowed."""
    labels = name.removesuffix(".").split(".")
    if len(name) > _LONGEST_NAME or len(labels) < 2 or not all(_LABEL.fullmatch(label) for label in labels):
        return "expected a full DNS name such as kafka.example.com: labels of letters, digits and hyphens"
    return "expected a DNS name, not an address" if is_address(name) else None


def is_address(text: str) -> bool:
    """Whether a text is an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def full_name(name: str) -> str:
    """Return a DNS name in small letters with its final dot, as names compare."""
    return f"{name.removesuffix('.').lower()}."


@dataclass(frozen=True)
class DnsAnswers:
    """The records by which a name leads to hosts; empty if it leads nowhere.

    Attributes:
        records: (type, value) of each record; types as in `ANSWER_TYPES`.
    """

    records: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(cls, records: Iterable[tuple[str, str]]) -> DnsAnswers:
        """Return the answers of these (type, value), each value in the form that compares."""
        return cls(frozenset((kind, _normal(kind, value)) for kind, value in records))

    @classmethod
    def stated(cls, answer: str | Iterable[str]) -> DnsAnswers:
        """Return the answers of a host name, which becomes a CNAME record, or of addresses."""
        if isinstance(answer, str):
            return cls.of([("CNAME", answer)])
        return cls.of(("AAAA" if ":" in address else "A", address) for address in answer)

    def values(self, kind: str) -> list[str]:
        """Return the values of the records of one type, sorted."""
        return sorted(value for own, value in self.records if own == kind)

    def __str__(self) -> str:
        if not self.records:
            return "nothing"
        return ", ".join(f"{kind} {value}" for kind in ANSWER_TYPES for value in self.values(kind))


def alias_of(answers: DnsAnswers, expected: Mapping[str, DnsAnswers]) -> str | None:
    """Return the alias of the cluster to which answers lead; None if no cluster has these answers.

    Args:
        expected: alias -> what the name answers when it leads to that cluster.
    """
    return next((alias for alias, known in expected.items() if known == answers), None)


def _normal(kind: str, value: str) -> str:
    return full_name(value) if kind == "CNAME" else str(ipaddress.ip_address(value))


def certificate_covers(names: Iterable[str], name: str) -> bool:
    """Whether a certificate with these names is one for a host of that name, as TLS clients compare them.

    `*` stands for one whole label at the beginning.
    """
    wanted = full_name(name)
    return any(full_name(known) in (wanted, f"*.{wanted.partition('.')[2]}") for known in names)
