"""Codecs of MirrorMaker 2's binary records."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.mirror_maker.mirror_records import (
    Checkpoint,
    Heartbeat,
    Malformed,
    OffsetSync,
    decode_checkpoint,
    decode_checkpoints,
    decode_heartbeat,
    decode_offset_sync,
    decode_offset_syncs,
    encode_checkpoint,
    encode_heartbeat,
    encode_offset_sync,
    newest_checkpoints,
)

from tests.support.size.traced_memory import allocated

INT64 = st.integers(0, 2**63 - 1)
INT32 = st.integers(0, 2**31 - 1)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)

VECTORS = [
    (OffsetSync("topic-1", 2, 3, 4), "0007 746f7069632d31 00000002", "0000000000000003 0000000000000004"),
    (OffsetSync("orders", 7, 1000000, 999873), "0006 6f7264657273 00000007", "00000000000f4240 00000000000f41c1"),
    (
        Checkpoint("group-1", "topic-2", 3, 4, 5, "metadata-6"),
        "0007 67726f75702d31 0007 746f7069632d32 00000003",
        "0000 0000000000000004 0000000000000005 000a 6d657461646174612d36",
    ),
    (
        Checkpoint("billing", "A.orders", 7, 1000050, 999874),
        "0007 62696c6c696e67 0008 412e6f7264657273 00000007",
        "0000 00000000000f4272 00000000000f41c2 0000",
    ),
    (Checkpoint("é", "t", 0, 1, 1), "0002 c3a9 0001 74 00000000", "0000 0000000000000001 0000000000000001 0000"),
    (
        Heartbeat("source-1", "target-2", 1234567890),
        "0008 736f757263652d31 0008 7461726765742d32",
        "0000 00000000499602d2",
    ),
    (Heartbeat("A", "B", 1767225600000), "0001 41 0001 42", "0000 0000019b76daa800"),
]
CODECS: dict[type, tuple[Callable, Callable]] = {
    OffsetSync: (encode_offset_sync, decode_offset_sync),
    Checkpoint: (encode_checkpoint, decode_checkpoint),
    Heartbeat: (encode_heartbeat, decode_heartbeat),
}


@pytest.mark.parametrize(("record", "key", "value"), VECTORS)
def test_vectors(record: OffsetSync | Checkpoint | Heartbeat, key: str, value: str) -> None:
    """Known bytes decode to the known record and it encodes to them."""
    encode, decode = CODECS[type(record)]
    assert encode(record) == (bytes.fromhex(key), bytes.fromhex(value))
    assert decode(bytes.fromhex(key), bytes.fromhex(value)) == record


@pytest.mark.parametrize("record", [vector[0] for vector in VECTORS])
def test_every_prefix_is_malformed(record: OffsetSync | Checkpoint | Heartbeat) -> None:
    """A key or value cut off anywhere is Malformed, and the text names the record's kind."""
    encode, decode = CODECS[type(record)]
    key, value = encode(record)
    kind = {OffsetSync: "offset sync", Checkpoint: "checkpoint", Heartbeat: "heartbeat"}[type(record)]
    for cut in [(key[:n], value) for n in range(len(key))] + [(key, value[:n]) for n in range(len(value))]:
        with pytest.raises(Malformed, match=kind):
            decode(*cut)


@pytest.mark.parametrize("record", [vector[0] for vector in VECTORS])
def test_every_bit_flip_decodes_or_is_malformed(record: OffsetSync | Checkpoint | Heartbeat) -> None:
    """Any single flipped bit gives another record or Malformed, never another error and never the same record."""
    encode, decode = CODECS[type(record)]
    key, value = encode(record)
    for bit in range(8 * (len(key) + len(value))):
        whole = bytearray(key + value)
        whole[bit // 8] ^= 1 << bit % 8
        try:
            assert decode(bytes(whole[: len(key)]), bytes(whole[len(key) :])) != record
        except Malformed:
            continue


@pytest.mark.parametrize("record", [vector[0] for vector in VECTORS])
def test_trailing_bytes_are_ignored(record: OffsetSync | Checkpoint | Heartbeat) -> None:
    """Bytes after the last field change nothing, as in MirrorMaker 2."""
    encode, decode = CODECS[type(record)]
    key, value = encode(record)
    assert decode(key + b"\x00\xff", value + b"x") == record


@pytest.mark.parametrize("record", [vector[0] for vector in VECTORS])
def test_tombstones_and_null_keys_are_malformed(record: OffsetSync | Checkpoint | Heartbeat) -> None:
    """A tombstone, which MirrorMaker 2 never writes, and a null key are named as such."""
    encode, decode = CODECS[type(record)]
    key, value = encode(record)
    with pytest.raises(Malformed, match="tombstone"):
        decode(key, None)
    with pytest.raises(Malformed, match="null key"):
        decode(None, value)


@pytest.mark.parametrize(
    ("decode", "key", "value", "word"),
    [
        (decode_checkpoint, "0001 67 0001 74 00000000", "0001 0000000000000001 0000000000000001 0000", "version 1"),
        (decode_heartbeat, "0001 41 0001 42", "ffff 0000000000000001", "version -1"),
        (decode_checkpoint, "0001 67 0001 74 00000000", "0000 ffffffffffffffff 0000000000000001 0000", "negative"),
        (decode_offset_sync, "0001 74 00000000", "0000000000000001 8000000000000000", "negative"),
        (decode_offset_sync, "0001 74 ffffffff", "0000000000000001 0000000000000001", "partition -1"),
        (decode_offset_sync, "0000 00000000", "0000000000000001 0000000000000001", "no such partition"),
        (decode_offset_sync, "0001 ff 00000000", "0000000000000001 0000000000000001", "UTF-8"),
        (decode_offset_sync, "ffff 74 00000000", "0000000000000001 0000000000000001", "length of -1"),
        (decode_checkpoint, "0001 67 0001 74 00000000", "0000 0000000000000001 0000000000000001 0005 61", "metadata"),
        (decode_heartbeat, "0000 0001 42", "0000 0000000000000001", "alias"),
    ],
)
def test_what_cannot_be_is_named(decode: Callable, key: str, value: str, word: str) -> None:
    """An unknown version, a negative number, bad UTF-8 and a wrong length are each named."""
    with pytest.raises(Malformed, match=word):
        decode(bytes.fromhex(key), bytes.fromhex(value))


@given(topic=TEXT.filter(bool), partition=INT32, upstream=INT64, downstream=INT64)
def test_offset_sync_round_trip(topic: str, partition: int, upstream: int, downstream: int) -> None:
    """Any offset sync comes back as it was, singly and in bulk."""
    sync = OffsetSync(topic, partition, upstream, downstream)
    key, value = encode_offset_sync(sync)
    assert decode_offset_sync(key, value) == sync == decode_offset_syncs([key], [value]).records[0]
    assert (len(key), len(value)) == (6 + len(topic.encode()), 16)


@given(group=TEXT, topic=TEXT.filter(bool), partition=INT32, upstream=INT64, downstream=INT64, metadata=TEXT)
def test_checkpoint_round_trip(
    group: str, topic: str, partition: int, upstream: int, downstream: int, metadata: str
) -> None:
    """Any checkpoint comes back as it was, singly and in bulk."""
    checkpoint = Checkpoint(group, topic, partition, upstream, downstream, metadata)
    key, value = encode_checkpoint(checkpoint)
    assert decode_checkpoint(key, value) == checkpoint == decode_checkpoints([key], [value]).records[0]


@given(source=TEXT.filter(bool), target=TEXT.filter(bool), timestamp=INT64)
def test_heartbeat_round_trip(source: str, target: str, timestamp: int) -> None:
    """Any heartbeat comes back as it was."""
    assert decode_heartbeat(*encode_heartbeat(Heartbeat(source, target, timestamp))) == Heartbeat(
        source, target, timestamp
    )


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_decode_or_are_malformed(key: bytes, value: bytes) -> None:
    """Random bytes never raise anything but Malformed, and what they decode to can be encoded again."""
    for encode, decode in CODECS.values():
        try:
            record = decode(key, value)
        except Malformed:
            continue
        again = encode(record)
        assert key.startswith(again[0]) and value.startswith(again[1])


@pytest.mark.parametrize(
    ("encode", "record"),
    [
        (encode_offset_sync, OffsetSync("t", 0, -1, 0)),
        (encode_offset_sync, OffsetSync("t", 0, 2**63, 0)),
        (encode_offset_sync, OffsetSync("", 0, 0, 0)),
        (encode_offset_sync, OffsetSync("t", 2**31, 0, 0)),
        (encode_checkpoint, Checkpoint("g", "t", -1, 0, 0)),
        (encode_checkpoint, Checkpoint("g", "t", 0, 0, 0, "m" * 32768)),
        (encode_checkpoint, Checkpoint("\ud800", "t", 0, 0, 0)),
        (encode_heartbeat, Heartbeat("", "b", 0)),
    ],
)
def test_what_could_not_be_decoded_is_not_encoded(
    encode: Callable, record: OffsetSync | Checkpoint | Heartbeat
) -> None:
    """A record that no reader could take is refused when it is written."""
    with pytest.raises(Malformed):
        encode(record)


def test_bulk_keeps_order_and_names_the_bad_ones() -> None:
    """Among good records bad ones are left out and named by their index, and the order stays."""
    good = [encode_offset_sync(OffsetSync("t", n % 3, n, n)) for n in range(10)]
    keys, values = [k for k, _ in good], [v for _, v in good]
    values[4], values[7], keys[8] = None, b"short", b"\x00"
    decoded = decode_offset_syncs(keys, values)
    assert [sync.upstream for sync in decoded.records] == [0, 1, 2, 3, 5, 6, 9]
    assert [index for index, _ in decoded.malformed] == [4, 7, 8]


def test_bulk_paths_agree() -> None:
    """The fast path for clean input gives what decoding one by one gives, negative offsets included."""
    pairs = [encode_offset_sync(OffsetSync(f"topic-{n % 7}", n % 5, n * n, n)) for n in range(500)]
    keys, values = [k for k, _ in pairs], [v for _, v in pairs]
    assert decode_offset_syncs(keys, values).records == [decode_offset_sync(k, v) for k, v in pairs]
    for at in (0, 8):
        odd = [*values[:499], values[499][:at] + b"\xff" + values[499][at + 1 :]]
        decoded = decode_offset_syncs(keys, odd)
        assert (len(decoded.records), [index for index, _ in decoded.malformed]) == (499, [499])


def test_bulk_of_nothing_and_of_unequal_columns() -> None:
    """No records give no records; columns of different lengths are an error, never silently cut."""
    assert decode_offset_syncs([], []) == decode_checkpoints([], []) == ([], [])
    key, value = encode_offset_sync(OffsetSync("t", 0, 1, 1))
    with pytest.raises(ValueError, match="argument"):
        decode_offset_syncs([key, key], [value])


NAMES = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
CHECKPOINTS = st.lists(
    st.builds(
        Checkpoint,
        NAMES,
        st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=4),
        st.integers(0, 3),
        st.integers(0, 2**62),
        st.integers(0, 2**62),
        st.sampled_from(["", "", "x"]),
    ),
    max_size=12,
)


@given(CHECKPOINTS)
def test_the_newest_checkpoint_of_each_key_is_kept(records: list[Checkpoint]) -> None:
    """The last one of a group and partition, whatever stood before it, with or without metadata."""
    found = newest_checkpoints([encode_checkpoint(record) for record in records])
    wanted = {(c.group, c.topic, c.partition): (c.upstream, c.downstream) for c in records}
    assert dict(zip(zip(*found[:3], strict=True), zip(*found[3:5], strict=True), strict=True)) == wanted
    assert len(found.group) == len(wanted)


@pytest.mark.parametrize(
    "spoilt", [(None, b"v"), (b"k", b"v"), ("key", None), ("key", b"\0\1" + b"\0" * 18), ("key+", "value")]
)
def test_what_cannot_be_read_hides_no_older_checkpoint(spoilt: tuple) -> None:
    """A tombstone, unknown version or bad key is passed over; bytes after the key's last field are ignored."""
    key, value = encode_checkpoint(Checkpoint("g", "orders", 1, 5, 4, ""))
    given = {"key": key, "key+": key + b"more", "value": value}
    found = newest_checkpoints([(key, value), tuple(given.get(part, part) for part in spoilt)])
    assert [column[0] for column in found[:5]] == ["g", "orders", 1, 5, 4] and len(found.group) == 1
    assert found.malformed == (spoilt[0] != "key+")


def test_a_checkpoint_takes_few_bytes() -> None:
    """The page on performance states them: 600 of each while they are decoded, 100 afterwards."""
    count = 20_000

    def records() -> Iterator[tuple[bytes, bytes]]:
        for n in range(count):
            yield encode_checkpoint(
                Checkpoint(f"payments-{n // 100}", f"orders-{n % 70}", n % 100, 2**40 + n, 2**40 + n)
            )

    found, kept, most = allocated(lambda: newest_checkpoints(records()))
    assert len(found.group) == count and kept / count < 130 and most / count < 700
    assert len(set(map(id, found.group))) == 200 and len(set(map(id, found.topic))) == 70


def test_a_name_is_one_string_however_often_it_is_decoded() -> None:
    """Portions of offset syncs are decoded one after another; an unplanned failover keeps all of them."""
    first, second = (
        decode_offset_syncs([key], [value]).records[0]
        for key, value in (encode_offset_sync(OffsetSync("orders-1", 0, n, n)) for n in (1, 2))
    )
    assert first.topic is second.topic
