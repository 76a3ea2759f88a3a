"""Signs approvals, closings and anchors with the journal's key, and verifies them by the topology's public keys.

A missing or unusable key stops no step: what is unsigned then says why.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

from kafka_dr.domain.canonical_json import canonical_json
from kafka_dr.errors import BadInput
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.hooks.signing import Signer, is_signed
from kafka_dr.procedure.entries import SignedFact, facts_of

F = TypeVar("F", bound=SignedFact)

KEY_VARIABLE = "SWITCHBACK_JOURNAL_KEY"


class JournalSignatures:
    """Signs and verifies for one journal.

    Args:
        public_keys: the keys that the topology names under `journal`; () if nothing is to be signed.
    """

    def __init__(self, public_keys: Sequence[str]) -> None:
        self.public_keys = tuple(public_keys)

    @cached_property
    def _signer(self) -> Signer | str:
        """The signer, or why there is none."""
        try:
            return Signer.of_topology(os.environ.get(KEY_VARIABLE), KEY_VARIABLE, self.public_keys)
        except BadInput as error:
            return error.seen

    @property
    def unsigned_because(self) -> str:
        """Return why nothing can be signed although the topology names a key; empty otherwise."""
        return self._signer if self.public_keys and isinstance(self._signer, str) else ""

    def sign_fact(self, procedure_id: str, step: str, fact: F) -> F:
        """Return a fact with its signature, or with the reason why it has none; unchanged without public keys."""
        if not self.public_keys:
            return fact
        if isinstance(self._signer, str):
            return replace(fact, unsigned=self._signer)
        return replace(fact, signature=self._signer.sign(_signed_bytes(procedure_id, step, fact)))

    def sign_bytes(self, content: bytes) -> str:
        """Return the signature of some bytes; empty without public keys or a usable private key."""
        return self._signer.sign(content) if self.public_keys and isinstance(self._signer, Signer) else ""

    def has_signed(self, content: bytes, signature: str) -> bool:
        """Whether a signature is that of these bytes by one of the public keys."""
        return any(is_signed(content, signature, key) for key in self.public_keys)

    def list_unsigned(self, entries: Sequence[JournalEntry]) -> Iterator[str]:
        """Yield a problem for each approval and closing among the entries without a valid signature.

        Nothing is yielded without public keys.
        """
        for entry, fact in facts_of(entries, SignedFact) if self.public_keys else ():
            what = f"the journal's entry {entry.sequence} ({entry.kind} of {entry.step})"
            if fact.signature is None:
                yield f"{what} is unsigned: {fact.unsigned or 'it states no reason'}"
            elif not self.has_signed(_signed_bytes(entry.procedure_id, entry.step, fact), fact.signature):
                yield f"{what} has a signature that is none of the journal's keys"


def _signed_bytes(procedure_id: str, step: str, fact: SignedFact) -> bytes:
    """Return what a fact's signature covers: procedure, step, kind, and all fields but the signature."""
    content = replace(fact, signature=None).payload()
    whole = {"procedure_id": procedure_id, "step": str(step), "kind": fact.kind.value, "content": content}
    return canonical_json(whole).encode("utf-8", "surrogatepass")
