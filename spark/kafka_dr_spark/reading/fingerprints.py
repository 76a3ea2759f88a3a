"""Fingerprints of records: all that is held of them."""

from __future__ import annotations

from collections.abc import Sequence
from secrets import randbits, token_hex
from typing import NamedTuple

import numpy as np
import pandas as pd

from kafka_dr_spark.contract.columns import Hashes, Ints, Mask
from kafka_dr_spark.reading.matching import no_records

#: Of each half of a fingerprint: for values, keys and headers.
HASH_SECRETS = [[token_hex(8) for _ in range(3)] for _ in range(2)]
_NULL, _ODD = np.uint64(randbits(64)), np.uint64(randbits(64) | 1)
Headers = Sequence[tuple[str, bytes | None]]


class Prints(NamedTuple):
    """Fingerprints of records, as columns of `Records`."""

    high: Hashes
    low: Hashes
    key: Hashes
    tombstone: Mask


def record_fingerprints(
    keys: list[bytes | None], values: list[bytes | None], headers: list[Headers | None], times: Ints
) -> tuple[Hashes, Hashes]:
    """Return two 64-bit halves, equal for equal records; null differs from empty, and fields cannot run together.

    They compare within one process only: its secrets are in them, so that nobody can make records that are taken for
    others.
    """
    # Odd: two times never become one.
    high, low = (
        hash_parts(values, secrets[0]) + hash_parts(keys, secrets[1]) + times.astype(np.uint64) * _ODD
        for secrets in HASH_SECRETS
    )
    with_headers = [row for row, one in enumerate(headers) if one] if any(headers) else []
    if with_headers:
        framed = [_framed(headers[row] or ()) for row in with_headers]
        for half, secrets in zip((high, low), HASH_SECRETS):
            half[with_headers] += hash_parts(framed, secrets[2])
    return high, low


def hash_parts(parts: Sequence[bytes | None], secret: str) -> Hashes:
    """Return a 64-bit keyed hash per part, for all parts at once: one by one they cost five times as much."""
    texts = np.empty(len(parts), object)
    texts[:] = parts
    found = pd.util.hash_array(texts, hash_key=secret, categorize=False)
    if None in parts:
        found[[part is None for part in parts]] = _NULL
    return found


def _framed(headers: Headers) -> bytes:
    """Return a record's headers as one text that no others have."""
    parts = [part for name, content in headers for part in (name.encode(), content)]
    frame = ",".join(["-" if part is None else str(len(part)) for part in parts])
    return frame.encode() + b";" + b"".join([part for part in parts if part])


NO_PRINTS = Prints(*no_records()[1:])


def key_fingerprints(keys: list[bytes | None], values: list[bytes | None]) -> tuple[Hashes, Mask]:
    """Return fingerprints of the keys alone, and which values are null."""
    return hash_parts([key or b"" for key in keys], HASH_SECRETS[0][1]), np.array(
        [value is None for value in values], np.bool_
    )
