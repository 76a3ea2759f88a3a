"""Client routing by DNS, against servers in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import dns.rcode
import pytest
from kafka_dr.config.routing import DnsRoutingSettings
from kafka_dr.errors import BadInput, Contradiction, HookUnavailable
from kafka_dr.hooks.site.dns_routing import DnsRouting
from kafka_dr.hooks.site.dns_servers import DnsLogin
from kafka_dr.hooks.site.routing import ClientRoute

from tests.support.dns.fake_server import KEY, NAME, RECORD, SECRET, ZONE, FakeDnsServer, Records

EAST, WEST = "in-east.site.example.", "in-west.site.example."
ANSWERS: dict[str, Any] = {"east": EAST, "west": ["192.0.2.2", "192.0.2.1", "2001:db8::1"]}
TO_WEST, TO_EAST = ClientRoute("west", "w:9092"), ClientRoute("east", "e:9092")


def led_east() -> Records:
    """Records of a name that somebody led to a host."""
    return {(NAME, "CNAME"): (20, [EAST])}


@pytest.fixture
def make_server() -> Iterator[Callable[..., FakeDnsServer]]:
    """Starts servers, each with records of its own."""
    made: list[FakeDnsServer] = []

    def make(records: Records | None = None) -> FakeDnsServer:
        made.append(FakeDnsServer(led_east() if records is None else records))
        return made[-1]

    yield make
    for server in made:
        server.close()


def routing(server: FakeDnsServer, *others: FakeDnsServer, key: str = KEY, secret: str = SECRET) -> DnsRouting:
    """A routing whose primary is `server`; the others are authoritative, too."""
    servers = tuple(f"127.0.0.1:{one.port}" for one in (server, *others))
    settings = DnsRoutingSettings(kind="dns", connection="dns", zone=ZONE, name=NAME, answers=ANSWERS, ttl_seconds=15)
    return DnsRouting(DnsLogin("127.0.0.1", server.port, key, secret, servers=servers), settings)


def test_a_name_without_a_routing_record_leads_to_the_cluster_of_its_answers(make_server: Any) -> None:
    """As the site's own people had set it up."""
    found = routing(make_server()).current()
    assert (found.cluster, found.version) == ("east", 0)


def test_a_redirect_replaces_answers_and_record_in_one_update(make_server: Any) -> None:
    """Another type of records; TTL, version and anchor as asked for; what is returned was read back."""
    server = make_server()
    done = routing(server).redirect(TO_WEST, anchor={"sequence": 7, "hash": "x" * 600})
    assert done.changed and done.seen == ClientRoute("west", "w:9092", 1)
    assert "former answer for 20 s" in done.answered and "1 of 1 authoritative servers" in done.answered
    assert server.records[NAME, "A"] == (15, ["192.0.2.1", "192.0.2.2"])
    assert server.records[NAME, "AAAA"] == (15, ["2001:db8::1"])
    assert (NAME, "CNAME") not in server.records and server.updates == 1
    assert routing(server).anchors() == [{"sequence": 7, "hash": "x" * 600}]


def test_there_and_back_keeps_fields_that_others_wrote(make_server: Any) -> None:
    """The version grows with each change."""
    server = make_server({**led_east(), (RECORD, "TXT"): (5, [txt(cluster="east", version=4, owner="team x")])})
    routing(server).redirect(TO_WEST)
    done = routing(server).redirect(TO_EAST)
    assert done.seen.version == 6 and server.data(NAME, "CNAME") == [EAST]
    assert (NAME, "A") not in server.records and (NAME, "AAAA") not in server.records
    assert json.loads(server.data(RECORD, "TXT")[0].strip('"').replace("\\", ""))["owner"] == "team x"


def txt(**fields: Any) -> str:
    """Data of a TXT record with these fields as JSON."""
    return '"{}"'.format(json.dumps({"bootstrap_servers": "e:9092", **fields}).replace('"', '\\"'))


def test_the_same_target_twice_changes_nothing(make_server: Any) -> None:
    """But every server is asked again."""
    server = make_server()
    routing(server).redirect(TO_WEST)
    behind = make_server()
    assert not routing(server).redirect(TO_WEST).changed and server.updates == 1
    with pytest.raises(HookUnavailable, match="lag behind"):
        routing(server, behind).redirect(TO_WEST, timeout=0.3)
    assert server.updates == 1


def test_a_name_that_does_not_exist_is_made(make_server: Any) -> None:
    """By the first redirect, with version 1; until then there is no record to read."""
    server = make_server({})
    with pytest.raises(HookUnavailable, match="there is no routing record"):
        routing(server).current()
    assert routing(server).redirect(TO_WEST).seen.version == 1


@pytest.mark.parametrize(
    "records",
    [
        {(NAME, "CNAME"): (20, ["maintenance.site.example."])},
        {(NAME, "A"): (20, ["192.0.2.1"])},
        {(NAME, "A"): (20, ["192.0.2.1", "192.0.2.2", "192.0.2.9"]), (NAME, "AAAA"): (20, ["2001:db8::1"])},
        {**led_east(), (RECORD, "TXT"): (20, ['"v=spf1 -all"'])},
        {**led_east(), (RECORD, "TXT"): (20, ['"{}"', '"[]"'])},
        {**led_east(), (RECORD, "TXT"): (20, ['"3"'])},
    ],
)
def test_records_that_are_not_understood_are_named_and_not_overwritten(make_server: Any, records: Records) -> None:
    """A person decides."""
    server = make_server(dict(records))
    before = dict(server.records)
    for act in (routing(server).current, lambda: routing(server).redirect(TO_WEST)):
        with pytest.raises(HookUnavailable, match="routing record cannot be read"):
            act()
    assert server.records == before
    assert "routing record cannot be read" in routing(server).view(2.0).refused


def test_the_name_counts_and_not_the_record_beside_it(make_server: Any) -> None:
    """If somebody led the name elsewhere by hand, a redirect to where the TXT record already leads is still made."""
    server = make_server({**led_east(), (RECORD, "TXT"): (5, [txt(cluster="west", version=4)])})
    assert routing(server).current() == ClientRoute("east", NAME, 4)
    assert routing(server).redirect(TO_WEST).changed and server.data(NAME, "AAAA") == ["2001:db8::1"]


@pytest.mark.parametrize(
    ("name", "kind", "data"), [(NAME, "CNAME", "elsewhere."), (NAME, "A", "192.0.2.7"), (RECORD, "TXT", '"other"')]
)
def test_a_change_after_the_reading_is_not_overwritten(make_server: Any, name: str, kind: str, data: str) -> None:
    """The update's prerequisites name what was read, and what was not there."""
    server = make_server()
    server.before_update = lambda: server.records.update({(name, kind): (20, [data])})
    with pytest.raises((Contradiction, HookUnavailable)):
        routing(server).redirect(TO_WEST)
    assert server.updates == 0 and server.data(name, kind) == [data]


def test_a_change_to_another_cluster_meanwhile_is_refused_by_name(make_server: Any) -> None:
    """A person decides; the step is not repeated by itself."""
    server = make_server()
    server.before_update = lambda: server.records.update({(RECORD, "TXT"): (20, [txt(cluster="east", version=9)])})
    with pytest.raises(Contradiction, match="changed by another program"):
        routing(server).redirect(TO_WEST)


def test_another_process_that_wrote_the_same_is_no_error(make_server: Any) -> None:
    """Two copies of one task: the second finds the change of the first."""
    server = make_server()

    def first() -> None:
        server.before_update = lambda: None
        routing(server).redirect(TO_WEST)

    server.before_update = first
    done = routing(server).redirect(TO_WEST)
    assert not done.changed and "another process" in done.answered and server.updates == 1


def test_an_update_without_answer_counts_if_it_is_read_back(make_server: Any) -> None:
    """After a lost answer the records themselves decide."""
    server = make_server()
    server.loses = True
    done = routing(server).redirect(TO_WEST, timeout=0.5)
    assert done.changed and done.answered.startswith("no answer") and done.seen.cluster == "west"


def test_a_server_that_lags_is_named_with_what_it_answers(make_server: Any) -> None:
    """And a server that does not answer is named beside those that do."""
    server, behind, silent = make_server(), make_server(), make_server()
    silent.close()
    with pytest.raises(HookUnavailable, match=rf"127.0.0.1:{behind.port}: CNAME {EAST} .*serial") as lag:
        routing(server, behind, silent).redirect(TO_WEST, timeout=0.3)
    assert lag.value.may_pass
    behind.records.update({key: value for key, value in server.records.items() if key[0] == NAME})
    del behind.records[NAME, "CNAME"]
    told = routing(server, behind, silent).redirect(TO_WEST).answered
    assert "2 of 3 authoritative servers answer" in told and f"127.0.0.1:{silent.port}: no answer" in told


@pytest.mark.parametrize("rcode", [dns.rcode.SERVFAIL, dns.rcode.REFUSED, None])
def test_a_server_that_is_not_authoritative_counts_as_silent(make_server: Any, rcode: dns.rcode.Rcode | None) -> None:
    """Whatever it answers."""
    server, lame = make_server(), make_server()
    lame.rcode, lame.authoritative = rcode, False
    assert "1 of 2" in routing(server, lame).redirect(TO_WEST).answered


@pytest.mark.parametrize(
    ("key", "secret"), [(KEY, "b3RoZXIgc2VjcmV0IG9mIGEgc2l0ZQ=="), ("unknown-key.", SECRET), (KEY, "not base64!")]
)
def test_a_wrong_key_is_refused_and_never_shown(make_server: Any, key: str, secret: str) -> None:
    """Neither in the error nor in what readiness tells."""
    server = make_server()
    made = routing(server, key=key, secret=secret)
    with pytest.raises((HookUnavailable, BadInput)) as refused:
        made.redirect(TO_WEST)
    told = f"{refused.value} {made.view(2.0)} {vars(made)}"
    assert key in told and secret not in told and SECRET not in told
    assert server.updates == 0 and made.view(2.0).refused


def test_an_unknown_algorithm_is_refused(make_server: Any) -> None:
    """Before anything is sent."""
    server = make_server()
    made = routing(server)
    made._servers.login = replace(made._servers.login, algorithm="hmac-rot13")
    with pytest.raises(BadInput, match="TSIG key of the DNS server cannot be used"):
        made.redirect(TO_WEST)
    assert "hmac-rot13" in made.view(1.0).refused


def test_a_cluster_without_answers_is_refused(make_server: Any) -> None:
    """Before anything is sent."""
    server = make_server()
    with pytest.raises(BadInput, match="does not state what"):
        routing(server).redirect(ClientRoute("north", "n:9092"))
    assert server.updates == 0


def test_a_look_changes_nothing_but_tries_the_key(make_server: Any) -> None:
    """Records stay as they are; TTL and answers of every server are in it."""
    server, mute = make_server(), make_server()
    mute.mute = True
    before = dict(server.records)
    view = routing(server, mute).view(0.5)
    assert (view.refused, view.leads_to, view.most_ttl) == ("", "east", 15)
    assert [one.ttl for one in view.servers if one.answers] == [20] and len(view.silent) == 1
    assert server.updates == 1 and server.records == before


def test_a_primary_that_is_away_is_an_error(make_server: Any) -> None:
    """To read, to redirect, and in what readiness sees."""
    server = make_server()
    server.close()
    made = routing(server)
    for act in (made.current, lambda: made.redirect(TO_WEST)):
        with pytest.raises(HookUnavailable, match="no usable answer"):
            act()
    assert "no usable answer" in made.view(0.5).refused
