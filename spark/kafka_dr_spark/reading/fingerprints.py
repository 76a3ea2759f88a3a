"""Compute fingerprints of records; a reader stores only each record's offset and fingerprint."""

from __future__ import annotations

from collections.abc import Sequence
from secrets import randbits, token_hex
from typing import NamedTuple

import numpy as np
import pandas as pd

from kafka_dr_spark.contract.columns import Hashes, Ints, Mask
from kafka_dr_spark.reading.matching import no_records

#: Secrets for hashing values, keys and headers: three secrets for each half of a fingerprint.
HASH_SECRETS = [[token_hex(8) for _ in range(3)] for _ in range(2)]
#: The fingerprint of a null.
NULL = np.uint64(randbits(64))
_ODD = np.uint64(randbits(64) | 1)
Headers = Sequence[tuple[str, bytes | None]]


class Prints(NamedTuple):
    """Fingerprints of records, one element per record: the columns of `Records` except the offsets."""

    high: Hashes
    low: Hashes
    key: Hashes
    tombstone: Mask


def record_fingerprints(
    keys: list[bytes | None], values: list[bytes | None], headers: list[Headers | None], times: Ints
) -> tuple[Hashes, Hashes]:
    """Return both 64-bit halves of each record's fingerprint, equal for equal key, value, headers and timestamp.

    A null differs from an empty value, and key "ab" with value "c" differs from key "a" with value "bc". Each process
    draws its secrets at random, because no client shall be able to craft records with equal fingerprints; so
    fingerprints of two processes cannot be compared.
    """
    # The factor _ODD is odd, so that different timestamps stay different.
    dated = times.astype(np.uint64) * _ODD
    high, low = (
        of_value + of_key + dated
        for of_value, of_key in zip(
            hash_parts(values, [secrets[0] for secrets in HASH_SECRETS]),
            hash_parts(keys, [secrets[1] for secrets in HASH_SECRETS]),
        )
    )
    with_headers = [row for row, record_headers in enumerate(headers) if record_headers] if any(headers) else []
    if with_headers:
        framed = [_framed(headers[row] or ()) for row in with_headers]
        for half, of_headers in zip((high, low), hash_parts(framed, [secrets[2] for secrets in HASH_SECRETS])):
            half[with_headers] += of_headers
    return high, low


def hash_parts(parts: Sequence[bytes | None], secrets: Sequence[str]) -> list[Hashes]:
    """Return for each secret a 64-bit keyed hash of each part; a call per part would take five times as long."""
    texts = np.empty(len(parts), object)
    texts[:] = parts
    columns: list[Hashes] = [pd.util.hash_array(texts, hash_key=secret, categorize=False) for secret in secrets]
    if None in parts:
        absent = [part is None for part in parts]
        for hashes in columns:
            hashes[absent] = NULL
    return columns


def _framed(headers: Headers) -> bytes:
    """Return a record's headers as one byte string, different for different headers."""
    parts = [part for name, content in headers for part in (name.encode(), content)]
    frame = ",".join(["-" if part is None else str(len(part)) for part in parts])
    return frame.encode() + b";" + b"".join([part for part in parts if part])


NO_PRINTS = Prints(*no_records()[1:])


def key_fingerprints(keys: list[bytes | None], values: list[bytes | None]) -> tuple[Hashes, Mask]:
    """Return two columns: the fingerprint of each key alone (NULL for none), and whether each value is null."""
    (of_keys,) = hash_parts(keys, [HASH_SECRETS[0][1]])
    return of_keys, np.array([value is None for value in values], np.bool_)
