"""Canonical JSON: equal content, equal digest."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.canonical_json import canonical_json, digest_of, read_json

from tests.support.examples import examples

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


@examples(50)
@given(JSON)
def test_a_digest_survives_being_stored_as_json(value: object) -> None:
    """What the journal gives back has the digest of what was written."""
    assert digest_of(json.loads(json.dumps(value))) == digest_of(value)


@examples(50)
@given(st.dictionaries(st.text(), st.integers(), max_size=6))
def test_the_order_of_keys_does_not_matter(value: dict[str, int]) -> None:
    """Keys written the other way round give the same text."""
    assert canonical_json(dict(reversed(value.items()))) == canonical_json(value)


def test_the_digest_is_that_of_the_utf8_text() -> None:
    """Anybody can check a digest with sha256sum."""
    assert digest_of({"b": "ö", "a": [1, None]}) == sha256('{"a":[1,null],"b":"ö"}'.encode()).hexdigest()


@examples(50)
@given(JSON, JSON)
def test_different_texts_have_different_digests(one: object, other: object) -> None:
    """The digest tells different contents apart."""
    assert (digest_of(one) == digest_of(other)) == (canonical_json(one) == canonical_json(other))


@pytest.mark.parametrize("text", ["[" * 100_000, b'{"a":' * 100_000, "{", b"\xff", ""])
def test_what_cannot_be_read_is_one_kind_of_error(text: str | bytes) -> None:
    """Also what is nested too deeply, which Python's reader calls something else."""
    with pytest.raises(ValueError):
        read_json(text)
    assert read_json(b'{"a": [1]}') == {"a": [1]}


def test_what_is_no_json_is_refused() -> None:
    """NaN has no JSON and gets no digest."""
    with pytest.raises(ValueError):
        digest_of({"rate": float("nan")})
