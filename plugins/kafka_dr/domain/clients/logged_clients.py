"""Clients that only authorizer logs show: readers without a group, and writers without an ACL entry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kafka_dr.domain.clients import kinds
from kafka_dr.domain.clients.authorizer_log import AuthorizerLog
from kafka_dr.domain.clients.kinds import ClientKind
from kafka_dr.domain.fencing.fence import FenceScope, fence_changes
from kafka_dr.domain.kafka_model.acl import AclEntry, AclRules
from kafka_dr.domain.plain_text import count_of, first_few, visible_text

#: A log whose newest allowed request is older than this is no longer written, or no longer brought to this machine.
#: Time zones explain no such age.
_STALE = timedelta(hours=48)
_HOSTS_NAMED, _PROBLEMS_NAMED, _NAMED = 3, 3, 20
#: One line in so many may lack its time, as one does that a rotation has cut in two.
_MAY_LACK_TIME = 100
_UNSTOPPED = "no ACL entry stops it"
_WRITE = ("write", "topic")


@dataclass(frozen=True)
class LoggedClients:
    """What the source's authorizer logs show of clients that nothing else shows.

    Attributes:
        readers: clients without a group that fetched records of the plan's topics, as `principal from hosts`.
        writers: principals that wrote to the plan's topics without an ACL entry of their own, in the same form.
        unstopped: those of `writers` that the ACL entries of the fence are not known to stop.
        covered: which logs were read, and the period that all of them cover, as text; empty if there is a problem.
        problems: why nothing can be concluded, and what to do; () if all logs tell what they should.
    """

    readers: tuple[str, ...] = ()
    writers: tuple[str, ...] = ()
    unstopped: tuple[str, ...] = ()
    covered: str = ""
    problems: tuple[str, ...] = ()


NO_LOG = LoggedClients(problems=("the topology names no authorizer log of the source (authorizer_logs)",))


def find_logged_clients(
    logs: Mapping[str, AuthorizerLog | str],
    brokers: Iterable[int],
    rules: AclRules,
    topics: frozenset[str],
    exempt: frozenset[str],
    now: datetime,
) -> LoggedClients:
    """Return what the logs show of the clients of these topics.

    Args:
        logs: path or glob of the topology -> what this log tells, or why it could not be read.
        brokers: ids of the source's brokers, each of which writes a log of its own.
        rules: the source's ACL rules.
        topics: source topics that move.
        exempt: principals that are no clients, such as MirrorMaker 2's and Switchback's.
        now: the journal's time.
    """
    read = [log for log in logs.values() if isinstance(log, AuthorizerLog)]
    writers, unstopped = _writers(read, rules, topics, exempt)
    problems = _list_problems(logs, sorted(brokers), now)
    if problems:
        return LoggedClients((), writers, unstopped, problems=problems)
    since, until = _common_period(read)
    covered = f"{count_of(len(read), 'broker')}, from {_moment(since)} to {_moment(until)} by the brokers' clocks"
    return LoggedClients(_readers(read, topics, exempt), writers, unstopped, covered)


def as_logged(kind: ClientKind, logged: LoggedClients) -> ClientKind:
    """Return a kind with what the logs tell of its clients; unchanged if no log can tell of clients of that kind."""
    if kind not in (kinds.WITHOUT_GROUP, kinds.WITHOUT_ENTRY):
        return kind
    if logged.problems:
        unknown = "more" if logged.writers and kind is kinds.WITHOUT_ENTRY else "any"
        why = f"Whether there are {unknown} is unknown: {first_few(logged.problems, _PROBLEMS_NAMED, '; ')}."
        return replace(kind, happens=f"{kind.happens} {why}")
    return _of_readers(kind, logged) if kind is kinds.WITHOUT_GROUP else _of_writers(kind, logged)


def logged_notes(logged: LoggedClients, has_fence_hook: bool) -> list[str]:
    """Return a note on the principals that the fence's ACL entries do not stop; [] if the logs show none.

    Args:
        logged: what the logs show.
        has_fence_hook: whether a fence hook keeps clients from the source, too.
    """
    if not logged.unstopped or has_fence_hook:
        return []
    note = (
        "Principals that wrote to topics of the plan by a right that no ACL entry gives, such as that of a super user:"
        " no ACL entry of the fence is known to stop them. Stop their clients before the fence, because a record that"
        f" one of them writes behind the fence ends the run: {first_few(logged.unstopped, _NAMED)}."
    )
    return [note]


def _of_readers(kind: ClientKind, logged: LoggedClients) -> ClientKind:
    seen = (
        "These clients fetched records of the plan's topics, and no client of the same principal and host used a group."
        " The fence does not keep them from reading."
        if logged.readers
        else "No such client fetched a record of the plan's topics."
    )
    unseen = "a client that fetched nothing in that period, or whose principal and host are those of a group's member"
    return replace(kind, fate=kinds.LEFT, happens=_with_cover(seen, logged, unseen))


def _of_writers(kind: ClientKind, logged: LoggedClients) -> ClientKind:
    seen, owner = "No such principal wrote to the plan's topics.", _RARE_WRITERS
    if logged.writers:
        but = f", except of those marked: {_UNSTOPPED}" if logged.unstopped else ""
        seen = f"These principals wrote to the plan's topics. The fence refuses their writes like all others{but}."
        owner = "Whether they may write on the target is unknown: try it, or give them ACL entries there."
    if logged.unstopped:
        owner += " Before the fence, stop those whom no ACL entry stops."
    fate = kinds.LEFT if logged.unstopped else kinds.MOVED
    happens = _with_cover(seen, logged, "a principal that wrote nothing in that period")
    return replace(kind, fate=fate, happens=happens, owner=owner)


_RARE_WRITERS = (
    "If a super user writes more rarely than that, stop its clients before the fence: no ACL entry stops them."
)


def _with_cover(seen: str, logged: LoggedClients, unseen: str) -> str:
    return f"{seen} Read were the authorizer logs of {logged.covered}, which do not show {unseen}."


def _list_problems(logs: Mapping[str, AuthorizerLog | str], brokers: list[int], now: datetime) -> tuple[str, ...]:
    """Return why nothing can be concluded from the logs, and what to do; () if they tell what they should."""
    problems = [problem for name, log in logs.items() if (problem := _problem(name, log, now))]
    if len(logs) < len(brokers):
        has = f"{count_of(len(brokers), 'broker')} ({', '.join(map(str, brokers))})"
        named = f"the topology names {count_of(len(logs), 'log')} under authorizer_logs, and the source has {has}"
        problems.append(f"{named}; name one path or glob for each broker")
    if not problems:
        since, until = _common_period(log for log in logs.values() if isinstance(log, AuthorizerLog))
        if since > until:
            problems.append(
                f"the logs have no period in common: one begins at {_moment(since)}, another ends at {_moment(until)};"
                " let all brokers log times of one time zone, or with their zone, and bring all logs here at once"
            )
    return tuple(problems)


def _problem(name: str, log: AuthorizerLog | str, now: datetime) -> str:
    if isinstance(log, str):
        return f"{name} {log}"
    if not log.lines:
        return f"{name} is empty; let the broker log to this file, and bring its content here"
    if log.untimed * _MAY_LACK_TIME > log.requests:
        return f"{name} has lines without a time such as 2026-11-28 01:02:03,456; let the broker log times in this form"
    if log.newest is None:
        said = "names refused requests only" if log.requests else "has no line of the authorizer"
        return f"{name} {said}; set the broker's logger kafka.authorizer.logger to DEBUG"
    if now - log.newest > _STALE:
        return (
            f"{name} names no allowed request after {_moment(log.newest)}; bring the broker's present log here, or"
            " remove the log of a broker that is gone from the topology"
        )
    return ""


def _common_period(logs: Iterable[AuthorizerLog]) -> tuple[datetime, datetime]:
    """Return from when and until when each log tells of its broker; the first lies behind the second if never."""
    periods = [(log.since, log.newest) for log in logs if log.since is not None and log.newest is not None]
    return max(since for since, _ in periods), min(newest for _, newest in periods)


def _writers(
    logs: Iterable[AuthorizerLog], rules: AclRules, topics: frozenset[str], exempt: frozenset[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the writers without an ACL entry of their own, and the principals whom the fence is not known to stop."""
    wrote, hosts, super_users = dict[str, set[str]](), dict[str, set[str]](), set(rules.super_users)
    for log in logs:
        super_users |= log.super_users
        for principal, host, topic in log.writes():
            if topic in topics and principal not in exempt:
                wrote.setdefault(principal, set()).add(topic)
                hosts.setdefault(principal, set()).add(host)
    # A super user passes the fence also where an entry of its own is denied.
    writers = sorted(wrote.keys() & super_users | _without_own_entry(rules, wrote))
    unstopped = super_users | _beyond_fence(rules, topics, exempt, {who: wrote[who] for who in writers})
    named = (_with_hosts(who, hosts[who]) + (f" ({_UNSTOPPED})" if who in unstopped else "") for who in writers)
    return tuple(named), tuple(str(visible_text(who)) for who in writers if who in unstopped)


def _without_own_entry(rules: AclRules, wrote: Mapping[str, set[str]]) -> set[str]:
    """Return the principals that wrote to a topic on which no ALLOW entry that names them gives the right."""
    own: dict[str, set[AclEntry]] = {}
    for entry in rules.entries:
        if entry.principal in wrote and entry.permission == "allow":
            own.setdefault(entry.principal, set()).add(entry)
    allowed = {who: AclRules(frozenset(own.get(who, ()))).rights(*_WRITE, names) for who, names in wrote.items()}
    return {who for who, rights in allowed.items() if rights.names_refused(who)}


def _beyond_fence(
    rules: AclRules, topics: frozenset[str], exempt: frozenset[str], wrote: Mapping[str, set[str]]
) -> set[str]:
    """Return the principals that the rules would let write behind the fence, or that wrote what the rules refuse.

    If a broker allowed what the rules refuse, the right is one of which no entry tells.
    """
    if not wrote:
        return set()
    changes = fence_changes(rules, FenceScope.writes(topics), exempt)
    fenced = rules.with_entries(changes.added).without_entries(changes.replaced)
    now, then = rules.rights(*_WRITE, topics), fenced.rights(*_WRITE, topics)
    return {who for who in wrote if wrote[who] - set(now.names_allowed(who)) or then.names_allowed(who)}


def _readers(logs: Iterable[AuthorizerLog], topics: frozenset[str], exempt: frozenset[str]) -> tuple[str, ...]:
    logs = list(logs)
    members = {who for log in logs for who in log.group_users()}
    hosts: dict[str, set[str]] = {}
    for principal, host, topic in (use for log in logs for use in log.fetches()):
        if topic in topics and principal not in exempt and (principal, host) not in members:
            hosts.setdefault(principal, set()).add(host)
    return tuple(_with_hosts(principal, hosts[principal]) for principal in sorted(hosts))


def _with_hosts(principal: str, hosts: Iterable[str]) -> str:
    return str(visible_text(f"{principal} from {first_few(sorted(hosts), _HOSTS_NAMED)}"))


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"
