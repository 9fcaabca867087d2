"""The seal: a keyed digest that shows that this user wrote a record. Pure: no file is read here.

Rules
1. The key is this user's secret and is outside every project (core/keyring.py). A program that can write only in the
   project cannot make a seal.
2. A journal's line is sealed together with the seal of the line before it. So if a line is changed, moved, inserted or
   taken from another run, its seal and all later ones are wrong (core/journal.py).
3. A record in a file of its own (an answer, an adoption, a choice of models) is sealed together with its place: the run
   and the request. So a copy in another place is not valid.
4. Each use has its own domain: a seal of one use is not valid for another.

A seal proves the writer of a record. It does not prove that nothing after it was removed: the beginning of a genuine
journal is genuine.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TypeVar

import msgspec
from msgspec import Struct

SIZE = 16  # bytes of a seal
BLANK = "0" * (2 * SIZE)  # fills the seal's place in a line while the seal is computed

R = TypeVar("R", bound=Struct)
_encode = msgspec.json.Encoder().encode


class Seal:
    """Makes seals with one key, and checks them."""

    def __init__(self, secret: bytes) -> None:
        key = hashlib.blake2b(secret, person=b"orchestra key").digest()
        # The hash for a journal's lines (core/chain.py): copying it takes half the time of making a new one.
        self.line_state = hashlib.blake2b(key=key, digest_size=SIZE, person=b"journal line")
        self._record = hashlib.blake2b(key=key, digest_size=SIZE, person=b"record")

    def closes(self, record: R, *place: str) -> R:
        """The record with its field `seal` filled, for this place (rule 3)."""
        return msgspec.structs.replace(record, seal=self._of(record, place))

    def holds(self, record: Struct, *place: str) -> bool:
        """Whether this user sealed the record, for this place."""
        told = str(getattr(record, "seal", "")).encode(errors="replace")  # as text it may have ASCII only
        return hmac.compare_digest(told, self._of(record, place).encode())

    def _of(self, record: Struct, place: tuple[str, ...]) -> str:
        digest = self._record.copy()
        digest.update(_encode((type(record).__name__, place, msgspec.structs.replace(record, seal=""))))
        return digest.hexdigest()
