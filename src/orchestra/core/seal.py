"""The seal: a keyed digest by which a record of this user's is told from any other. Pure: no file is read here.

Rules
1. The key is this user's secret and lies outside every project (core/keyring.py). Who can write in a project, and no
   more, can make no seal.
2. A journal's line is sealed together with the seal of the line before it. So a line that was changed, moved, taken
   from another run or put in between does not hold, and none after it does (core/journal.py).
3. A record in a file of its own (an answer, an adoption, a choice of models) is sealed together with its place: the
   run and the request it is about. So it cannot be copied to another place.
4. Each use has a domain of its own: a seal of one use is none of another.

A seal says who wrote a record, not that nothing was removed after it: the beginning of a genuine journal is genuine.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TypeVar

import msgspec
from msgspec import Struct

SIZE = 16  # bytes of a seal
BLANK = "0" * (2 * SIZE)  # what stands in a line's place for the seal while the seal is made

R = TypeVar("R", bound=Struct)
_encode = msgspec.json.Encoder().encode


class Seal:
    """Seals, and says whether a seal is its own."""

    def __init__(self, secret: bytes) -> None:
        key = hashlib.blake2b(secret, person=b"orchestra key").digest()
        self._line = hashlib.blake2b(key=key, digest_size=SIZE, person=b"journal line")
        self._record = hashlib.blake2b(key=key, digest_size=SIZE, person=b"record")

    def line(self, before: str, *parts: bytes | memoryview) -> str:
        """The seal of a journal's line that has BLANK in the seal's place; `before`: what it follows (rule 2)."""
        digest = self._line.copy()
        digest.update(before.encode())
        for part in parts:
            digest.update(part)
        return digest.hexdigest()

    def closes(self, record: R, *place: str) -> R:
        """The record with its field `seal` filled, for this place (rule 3)."""
        return msgspec.structs.replace(record, seal=self._of(record, place))

    def holds(self, record: Struct, *place: str) -> bool:
        """Whether this user sealed the record, for this place."""
        return hmac.compare_digest(str(getattr(record, "seal", "")), self._of(record, place))

    def _of(self, record: Struct, place: tuple[str, ...]) -> str:
        digest = self._record.copy()
        digest.update(_encode((type(record).__name__, place, msgspec.structs.replace(record, seal=""))))
        return digest.hexdigest()
