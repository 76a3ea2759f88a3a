"""The ACL entry that ends a faulty search of Kafka's StandardAuthorizer (seen on 4.3.1).

After the entries on `*`, the authorizer reads entries on names that sort below `*`. At a name that shares its first
character with the name asked for, its search never ends, and the broker's request handler hangs; at a name that shares
more, the request fails with UNKNOWN_SERVER_ERROR. `)` is the highest of these names with one character, so the search
ends there, before names that begin otherwise. Names that begin with `)` are not protected from each other.

Invariant
- The entry is added before entries on groups whose names sort below `*`, and removed after these.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_dr.domain.kafka_model.acl import ANY_HOST, ANY_NAME, AclEntry

#: It names a principal that nobody has, so it refuses nobody whom other entries allow.
SEARCH_END = AclEntry("group", ")", "literal", "User:switchback-search-end", ANY_HOST, "read", "deny")


def need_search_end(entries: Iterable[AclEntry]) -> bool:
    """Whether one of the entries is on a group whose name sorts below `*`."""
    return any(entry.resource_type == "group" and entry.name < ANY_NAME for entry in entries)


def order_additions(entries: Iterable[AclEntry]) -> list[AclEntry]:
    """Return the entries in their order, each once, with `SEARCH_END` first if it is among them."""
    return sorted(dict.fromkeys(entries), key=lambda entry: entry != SEARCH_END)


def order_removals(entries: Iterable[AclEntry]) -> list[AclEntry]:
    """Return the entries sorted, each once, with `SEARCH_END` last if it is among them."""
    return sorted(set(entries), key=lambda entry: (entry == SEARCH_END, entry))
