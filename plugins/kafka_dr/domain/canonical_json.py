"""Canonical JSON and its SHA-256, equal for equal content on every machine; and a safe reader of foreign JSON."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> str:
    """Return a value as JSON with sorted keys, no white space between tokens, and non-ASCII characters unescaped."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def read_json(text: str | bytes) -> Any:
    """Return the parsed value of a JSON text; raise ValueError if the text is no JSON, or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None


def digest_of(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON, in hexadecimal digits."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()
