"""Types of the topology's fields, and the base of its models."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

LONGEST_DEADLINE = 7 * 24 * 3600.0


def matching_text(shape: str, longest: int, words: str) -> AfterValidator:
    """Return a pydantic validator that refuses other text than the regular expression `shape` matches as a whole.

    Args:
        longest: largest number of characters.
        words: says in the error what is allowed.
    """
    compiled = re.compile(shape)

    def _check(text: str) -> str:
        if len(text) > longest or not compiled.fullmatch(text):
            raise ValueError(f"{words}; at most {longest} characters")
        return text

    _check.__doc__ = words  # The reference of all keys shows it.
    return AfterValidator(_check)


# Aliases become parts of topic names, file names and command lines: so no leading dot or hyphen, and short enough to
# leave room for `mm2-offset-syncs`.
Alias = Annotated[
    str,
    matching_text(
        r"[A-Za-z0-9][A-Za-z0-9._-]*",
        100,
        "an alias has letters, digits, dots, hyphens and underscores, and begins with a letter or digit",
    ),
]
Connection = Annotated[
    str,
    matching_text(
        r"[A-Za-z0-9_][A-Za-z0-9_.-]*",
        200,
        "expected the name (not the address) of an Airflow connection: letters, digits, dots, hyphens, underscores",
    ),
]
ConnectorName = Annotated[
    str,
    matching_text(
        r"[A-Za-z0-9_][A-Za-z0-9_. >-]*",
        200,
        "expected a connector's name: letters, digits, dots, hyphens, underscores, `->`",
    ),
]
Principal = Annotated[
    str,
    matching_text(
        r"[A-Za-z]+:[^*\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*",
        500,
        "expected one principal such as User:mm2; a wildcard would exempt every user",
    ),
]
UserName = Annotated[
    str,
    matching_text(r"[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?", 200, "expected one name, not empty"),
]
Folder = Annotated[
    str,
    matching_text(r"/[^\x00-\x1f\x7f]+", 1000, "expected the absolute path of a folder, without control characters"),
]
FilePath = Annotated[
    str, matching_text(r"[^\x00-\x1f\x7f]+", 1000, "expected a path without control characters, not empty")
]

#: The first 12 bytes of an Ed25519 public key in DER form, as the one line of a PEM file begins.
_DER_PREFIX = "MCowBQYDK2VwAyEA"
PublicKey = Annotated[
    str,
    matching_text(
        rf"({_DER_PREFIX})?[A-Za-z0-9+/]{{43}}=",
        100,
        "expected an Ed25519 public key: the line that make_key prints, or the one line of its PEM file",
    ),
    AfterValidator(lambda text: text.removeprefix(_DER_PREFIX)),
]


def _as_setting(value: object) -> object:
    """Convert a YAML boolean or integer to the text that MirrorMaker 2 has for it: True to `true`, 60 to `60`."""
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, int) else value


Setting = Annotated[str, BeforeValidator(_as_setting)]
Seconds = Annotated[float, Field(strict=True, gt=0, le=LONGEST_DEADLINE, allow_inf_nan=False)]
Policy = Literal["earliest", "fail", "boundary"]
Isolation = Literal["read_uncommitted", "read_committed"]


class Model(BaseModel):
    """Base of all models: frozen; unknown keys are refused."""

    # pydantic's errors hide the input, which may be a misplaced secret; `settings` decides which values may be shown.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
