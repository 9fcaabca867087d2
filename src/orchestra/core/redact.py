"""The redactor: masks secrets in everything that a person, a log, an event or a model sees (S2-81, C-12).

Secrets are found in two ways: *known values* (the keys this process was given, in all usual encodings) and *formats*
(some hundred forms of keys, tokens and named passwords). One Aho-Corasick pass over the bytes finds the literals with
which secrets begin. For each hit, one anchored `re` decides.

Rules
1. All matches are masked. No match hides another, so the order of rules does not matter.
2. A match depends on at most `_BEHIND` bytes before its literal and `_REACH` after it, and never crosses a newline (a
   PEM block may: `_PEM_REACH`). So a stream that is cut anywhere gives the same bytes as the whole.
3. No rule matches over masked text or next to it. So redacting twice changes nothing.
4. Values are masked, names are not: in `api_key=***REDACTED***` a reader sees what was masked.
5. Text that may be a value or source code (`token = get_token()`, `password: str`) is treated as source code.

Not done: patches that will be applied are not masked, because that would corrupt files (the gate uses `found` as a
reason to ask). Secrets that are encrypted or printed in pieces are not found. Discord tokens are not found, because
they look too much like other text. The formats are in core/secrets.py.
"""

from __future__ import annotations

import re
import sys
from binascii import b2a_base64
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import NamedTuple
from urllib.parse import quote, quote_plus

from orchestra.core.secrets import (
    AFTER,
    FORMATS,
    PASSWORD_NAMES,
    PEM,
    PEM_BEGINS,
    PEM_ENDED,
    PEM_HEAD,
    SECRET_NAMES,
    START,
    TOKEN_NAMES,
)

MASK = "***REDACTED***"
_MASK = MASK.encode()
_LEAST = 6  # a shorter value would occur in ordinary words
_MOST = 512  # only this much of a longer value is masked: the rest alone is useless
_BEHIND, _REACH, _PEM_REACH = 64, 8192, 32768  # rule 2
_WHOLE = 1 << 20  # longer data is masked in pieces, because hostile data may give very many hits

Builtin = str | int | float | bool | None | list["Builtin"] | tuple["Builtin", ...] | dict[str, "Builtin"]
_Span = tuple[int, int]
_Hit = tuple[int, int, int]  # literal's index, start, end

_KNOWN_NAMES = ("API_KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PRIVATE", "CREDENTIAL")
_FALSE_FRIENDS = ("FILE", "PATH", "DIR", "SOCK", "URL", "URI", "HOST", "NAME", "USER", "_ID", "TYPE", "TOKENS", "TTL")
_NO_SECRET = re.compile(r"[a-z]{1,11}|[0-9.]{1,9}|True|False|(?:~|\.{0,2})(?:/[\w.@ -]{1,40}){2,}/?|[a-z]+://[^@]*")
_WALL = re.compile(rb"(?=\*\*\*REDACTED\*\*\*)")
_CODE = re.compile(rb"\\u([0-9A-Fa-f]{4})")
_ESCAPED = (
    *((b'\\"', b'"'), (b"\\/", b"/"), (b"\\n", b"\n"), (b"\\t", b"\t")),
    *((b"\\r", b"\r"), (b"\\b", b"\b"), (b"\\f", b"\f")),
)
_FIELD = re.compile(rb"\"[ \t]{0,4}:[ \t]{0,4}\"(?!\")")
_FIELD_NAMES = (*f"{PASSWORD_NAMES} {SECRET_NAMES} {TOKEN_NAMES}".split(), "uthorization")


class Hidden(NamedTuple):
    """A range of characters that `Redactor.text` masks, and the names of the rules."""

    start: int
    end: int
    names: tuple[str, ...]


class _Rule:
    """The rule for a literal of the automaton. Its pattern is compiled at the first hit; most never have one."""

    def __init__(self, name: str, source: bytes, *, after: bool = False) -> None:
        self.name = name
        self.source = source  # empty: a known value, which is masked itself
        self.after = after  # the pattern continues the literal (else it begins with it)
        self.names_field = name.startswith(("named", "authorization"))  # the literal may end the name of a field

    @cached_property
    def match(self) -> Callable[[bytes, int], re.Match[bytes] | None]:
        """Match the rule's pattern at a position of the data."""
        return re.compile(self.source).match


class Redactor:
    """Masks secrets: the known values given to it, and all formats. Build one per process."""

    def __init__(
        self, values: Iterable[str] = (), *, names: Mapping[str, str] | None = None, formats: bool = True
    ) -> None:
        """`names` maps a value to its name in `found` (e.g. the variable it came from)."""
        # Imported here, because code that needs only MASK or a type should not load the automaton.
        from ahocorasick_rs import BytesAhoCorasick

        table = _rules() if formats else []
        for value in values:
            rule = _Rule(f"known value of {names[value]}" if names and value in names else "known value", b"")
            table += ((form, rule) for form in _forms(value))
        self._rules = [rule for _, rule in table]
        self._escapable = any(b"\\" in literal or b'"' in literal for literal, _ in table)
        self._literals = [literal for literal, _ in table]
        self._find = BytesAhoCorasick(self._literals).find_matches_as_indexes

    @classmethod
    def blind(cls) -> Redactor:
        """A redactor that masks nothing: `security.redact_secrets: false`."""
        return cls(formats=False)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], extra: Iterable[str] = ()) -> Redactor:
        """A redactor that knows the values of all variables whose names mean a secret.

        Left out, because masking them would hide ordinary words everywhere: names of a place or an id (…_FILE, …_PATH,
        …_SOCK, …_URL, …_ID), and values that are a short lower-case word, a small number, a truth value, a path, or an
        address without a password. `extra` values are always masked.
        """
        names = {
            value: name for name, value in environ.items() if names_secret(name) and not _NO_SECRET.fullmatch(value)
        }
        return cls([*names, *extra], names=names)

    def text(self, s: str) -> str:
        """A masked copy; the same object if there is nothing to mask."""
        data = s.encode("utf-8", "surrogatepass")
        masked = self.data(data)
        return s if masked is data else masked.decode("utf-8", "surrogatepass")

    def data(self, b: bytes) -> bytes:
        """A masked copy; the same object if there is nothing to mask."""
        if len(b) > _WHOLE:
            stream = self.stream()
            masked = b"".join([stream.feed(b[at : at + _WHOLE]) for at in range(0, len(b), _WHOLE)] + [stream.close()])
            return b if masked == b else masked
        spans = [span for span, _ in self._matches(b, self._find(b, overlapping=True))]
        if not spans:
            return b
        out: list[bytes] = []
        pos = 0
        for start, end in _merged(spans):
            out += (b[pos:start], _MASK)
            pos = end
        return b"".join((*out, b[pos:]))

    def found(self, s: str) -> tuple[str, ...]:
        """The names of the rules that match, never the values: a reason for a person to approve a patch (MS-8.5)."""
        data = s.encode("utf-8", "surrogatepass")
        return tuple(sorted({name for _, name in self._matches(data, self._find(data, overlapping=True))}))

    def hidden(self, s: str) -> tuple[Hidden, ...]:
        """The ranges that `text` masks, in characters, with the rules: to tell a person what is hidden."""
        data = s.encode("utf-8", "surrogatepass")
        matches = self._matches(data, self._find(data, overlapping=True))
        merged = _merged([span for span, _ in matches])
        starts = [start for start, _ in merged]
        names: list[set[str]] = [set() for _ in merged]
        for (start, _), name in matches:
            names[bisect_right(starts, start) - 1].add(name)
        out: list[Hidden] = []
        done = characters = 0
        for (start, end), why in zip(merged, names, strict=True):
            begin = characters + len(data[done:start].decode("utf-8", "surrogatepass"))
            done, characters = end, begin + len(data[start:end].decode("utf-8", "surrogatepass"))
            out.append(Hidden(begin, characters, tuple(sorted(why))))
        return tuple(out)

    def suspects(self, line: bytes) -> bool:
        """Whether `record` may mask something in this JSON line. Fast for a clean line; never False if it would."""
        hits = self._find(line, overlapping=True)
        if not hits and not self._escapable:
            return False  # nearly all lines
        for index, _, end in hits:
            rule = self._rules[index]
            if not rule.source or (rule.names_field and _FIELD.match(line, end)):
                return True
        if b"\\" in line and (hits or self._escapable):
            # Literals of rules have no characters that JSON escapes. Text around them, and known values, may have some.
            line = _unescaped(line)
            hits = self._find(line, overlapping=True)
        return bool(self._matches(line, hits))

    def record(self, obj: Builtin) -> Builtin:
        """A masked copy of a tree of builtins; a field with the name of a secret is masked completely."""
        if isinstance(obj, str):
            return self.text(obj)
        if isinstance(obj, list | tuple):
            return [self.record(item) for item in obj]
        if isinstance(obj, dict):
            return {self._key(key): self._field(key, value) for key, value in obj.items()}
        return obj

    def stream(self, *, eager: bool = False) -> RedactingStream:
        """A redactor of bytes that arrive in pieces. `eager`: for somebody who reads along, not only lines."""
        return RedactingStream(self, eager=eager)

    @cached_property
    def _begins(self) -> tuple[list[bytes], frozenset[int], int]:
        """The literals in order, their first bytes, and the length of the longest: for `_open_end`."""
        ordered = sorted(set(self._literals))
        return ordered, frozenset(one[0] for one in ordered), max(map(len, ordered), default=0)

    def _open_end(self, data: bytes, start: int) -> int:
        """Where the longest end of `data[start:]` begins that more bytes could make a literal; else the end."""
        ordered, firsts, longest = self._begins
        size = len(data)
        for at in range(max(start, size - longest + 1), size):
            if data[at] in firsts:
                end = data[at:]
                found = bisect_left(ordered, end)
                if found < len(ordered) and ordered[found].startswith(end):
                    return at
        return size

    def _undecided(self, data: bytes, start: int) -> int:
        """Where the first match begins, from `start` on, that more bytes of the line may make or change; else the end.

        A match never begins before its literal. A known value is its literal; a format goes on behind it.
        """
        begun = (at for index, at, _ in self._find(data, overlapping=True) if at >= start and self._rules[index].source)
        return min(min(begun, default=len(data)), self._open_end(data, start))

    def _key(self, key: str) -> str:
        # Names are not masked (rule 4), unless a known value was used as one.
        hits = self._find(key.encode("utf-8", "surrogatepass"), overlapping=True)
        return self.text(key) if any(not self._rules[index].source for index, _, _ in hits) else key

    def _field(self, key: str, value: Builtin) -> Builtin:
        # Numbers are never masked: inputTokens, maxOutputTokens.
        if isinstance(value, str) and value and key.endswith(_FIELD_NAMES):
            return MASK
        return self.record(value)

    def _matches(self, data: bytes, hits: list[_Hit], lo: int = 0, hi: int = sys.maxsize) -> list[tuple[_Span, str]]:
        """The spans to mask, with the rules' names, for hits whose literal begins in [lo, hi)."""
        out: list[tuple[_Span, str]] = []
        walls = [m.start() for m in _WALL.finditer(data)] if hits and _MASK in data else []
        for index, start, end in hits:
            if not lo <= start < hi:
                continue
            rule = self._rules[index]
            if not rule.source:
                wall = bisect_right(walls, start - len(_MASK))
                if wall == len(walls) or walls[wall] >= end:
                    out.append(((start, end), rule.name))
                continue
            match = rule.match(data, end if rule.after else start)
            if match is None:
                continue
            wall = bisect_left(walls, start - len(_MASK))
            if wall == len(walls) or walls[wall] > match.end():
                group = match.lastgroup
                out.append((match.span(group) if group else (start, match.end()), rule.name))
        return out


def names_secret(name: str) -> bool:
    """Whether an environment variable of this name holds a secret (S2-136 keeps such variables from tools)."""
    upper = name.upper()
    return any(part in upper for part in _KNOWN_NAMES) and not upper.endswith(_FALSE_FRIENDS)


class RedactingStream:
    """Redacts bytes as they arrive: however the input is cut, the joined output is `Redactor.data` of the whole.

    Complete lines are returned at once. The last `_REACH` bytes of an unfinished line are held back, so that no match
    is cut. A private key is held back until its END (at most `_PEM_REACH`). This limits the memory. An eager stream
    holds back only the part of the line in which a match may have begun.
    """

    def __init__(self, redactor: Redactor, *, eager: bool = False) -> None:
        self._redactor = redactor
        self._eager = eager
        self._buf = b""
        self._parts: list[bytes] = []  # unread input: a line that grows byte by byte is joined once
        self._waiting = 0
        self._lo = 0  # in _buf: literals before this were handled
        self._pos = 0  # in _buf: bytes before this were emitted or masked (may be ahead of _lo)
        self._masked_to = -1  # in _buf: where the last mask ended; a span that touches it needs no second mask
        self._pending: list[_Span] = []  # matches that begin after the part that may be returned

    def feed(self, chunk: bytes) -> bytes:
        """Add bytes and return the masked bytes that are final."""
        self._parts.append(chunk)
        self._waiting += len(chunk)
        if b"\n" not in chunk and self._waiting < _REACH and not self._eager:
            return b""
        self._join()
        return self._advance(self._safe())

    def close(self) -> bytes:
        """Return the remaining masked bytes."""
        self._join()
        return self._advance(len(self._buf))

    def _join(self) -> None:
        self._buf = b"".join((self._buf, *self._parts))
        self._parts.clear()
        self._waiting = 0

    def _safe(self) -> int:
        """The end of the part in which all matches can be decided."""
        buf, size = self._buf, len(self._buf)
        line = buf.rfind(b"\n") + 1
        safe = max(line, self._lo)
        if size - safe >= 2 * _REACH:
            safe = size - _REACH
        if self._eager:
            safe = max(safe, self._redactor._undecided(buf, safe))
        for begin in PEM_BEGINS:
            at = buf.find(begin, self._lo, safe + len(begin) - 1)
            while at >= 0:
                head = size - at < _PEM_REACH and re.compile(PEM_HEAD).match(buf, at)  # compiled at the first hit
                if head and not re.compile(PEM_ENDED).search(buf, at + len(begin)):
                    safe = at
                    break
                at = buf.find(begin, at + 1, safe + len(begin) - 1)
        return safe

    def _advance(self, safe: int) -> bytes:
        if safe == self._lo:
            return b""  # nothing more is decided
        buf, pos = self._buf, self._pos
        hits = self._redactor._find(buf, overlapping=True)
        spans = self._pending + [span for span, _ in self._redactor._matches(buf, hits, self._lo, safe)]
        self._pending = []
        out: list[bytes] = []
        for start, end in _merged(spans):
            if start >= safe and start > self._masked_to and safe < len(buf):
                self._pending.append((start, end))
                continue
            if start > self._masked_to:
                out += (buf[pos:start], _MASK)
            pos = max(pos, end)
            self._masked_to = max(self._masked_to, end)
        out.append(buf[pos:safe])
        pos = max(pos, safe)
        drop = max(0, safe - _BEHIND)
        self._buf, self._lo, self._pos, self._masked_to = buf[drop:], safe - drop, pos - drop, self._masked_to - drop
        self._pending = [(start - drop, end - drop) for start, end in self._pending]
        return b"".join(out)


def _rules() -> list[tuple[bytes, _Rule]]:
    """Each literal of the tables with its rule."""
    pem = _Rule("private key", PEM, after=True)
    table = [(literal, pem) for literal in PEM_BEGINS]
    for name, literals, shape in FORMATS:
        rule = _Rule(name, START + shape.encode())
        table += ((literal.encode(), rule) for literal in literals.split())
    for name, literals, tail in AFTER:
        rule = _Rule(name, tail, after=True)
        table += ((literal.encode(), rule) for literal in literals.split())
    return table


def _forms(value: str) -> set[bytes]:
    """The encodings of a known value: plain, reversed, URL, hex, base64 (also inside longer text), JSON of each."""
    if len(value) < _LEAST:
        return set()
    import json  # imported only if there is a secret

    # No match may cross a newline (rule 2). So each line of a value counts, without headers and short lines.
    lines = (
        [value] if "\n" not in value else [s for s in map(str.strip, value.split("\n")) if len(s) >= 16 and s[0] != "-"]
    )
    said = {form[:_MOST] for line in lines for form in (line, line[::-1])}
    raw = value[:_MOST].encode("utf-8", "surrogatepass")
    urls = {quote(raw, safe=""), quote(raw), quote_plus(raw)}
    said |= urls | {re.sub("%[0-9A-F]{2}", lambda m: m[0].lower(), url) for url in urls}
    said |= {raw.hex(), raw.hex().upper(), b2a_base64(raw, newline=False).decode()}
    for shift in range(3):  # the base64 characters that do not depend on the text before and after
        core = b2a_base64(b"\0" * shift + raw)[(0, 2, 3)[shift] : (shift + len(raw)) * 8 // 6].decode()
        said |= {core, core.replace("+", "-").replace("/", "_")}
    said |= {json.dumps(form, ensure_ascii=ascii)[1:-1] for form in set(said) for ascii in (False, True)}
    forms = {form.encode("utf-8", "surrogatepass") for form in said if "\n" not in form}
    return {form for form in forms if form not in _MASK and _MASK not in form}


def _unescaped(line: bytes) -> bytes:
    """JSON text with its escapes decoded. Double backslashes are paired from the left by `split`."""
    parts = line.split(b"\\\\")
    for escape, meant in _ESCAPED:
        parts = [part.replace(escape, meant) for part in parts]
    if b"\\u" in line:
        parts = [_CODE.sub(lambda code: chr(int(code[1], 16)).encode("utf-8", "surrogatepass"), part) for part in parts]
    return b"\\".join(parts)


def _merged(spans: list[_Span]) -> list[_Span]:
    """The spans in order; those that overlap or touch are merged."""
    out: list[_Span] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return out
