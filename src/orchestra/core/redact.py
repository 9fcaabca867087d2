"""The one redactor: what a person, a log, an event or a model sees holds no secret (S2-81, C-12).

Two sources say what a secret is: *known values* (the keys this process was given, in the forms they travel in) and
*formats* (some hundred shapes of keys, tokens and named passwords). One Aho-Corasick pass over the bytes finds the
literals by which any of them begins; one anchored `re` per hit decides.

Rules
1. What is masked is the union of all matches. No match hides another, so the order of rules has no meaning.
2. A match depends on at most `_BEHIND` bytes before its literal and `_REACH` after it, and never crosses a newline (a
   PEM block may: `_PEM_REACH`). Hence a stream cut anywhere gives the same bytes as the whole.
3. Text already masked is a wall: no rule matches over it or next to it. Hence redacting twice changes nothing.
4. Values are masked, names stay: `api_key=***REDACTED***` still says what stood there.
5. When in doubt between a value and source code (`token = get_token()`, `password: str`), it is source code.

It does not mask patches that will be applied (that would corrupt files: `found` is a gate reason instead), does not
catch a secret printed in pieces or encrypted, and does not know Discord tokens (too like other text). Half of this file
is the table of formats: that is why it is longer than a module should be.
"""

from __future__ import annotations

import json
import re
import sys
from binascii import b2a_base64
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from urllib.parse import quote, quote_plus

MASK = "***REDACTED***"
_MASK = MASK.encode()
_LEAST = 6  # a shorter "secret" would be found in ordinary words
_MOST = 512  # of a longer value (or line of one) the head is masked: the rest alone opens nothing
_BEHIND, _REACH, _PEM_REACH = 64, 8192, 32768  # rule 2
_WHOLE = 1 << 20  # longer data is masked in pieces: hits are a list, and hostile data can be all hits

Builtin = str | int | float | bool | None | list["Builtin"] | tuple["Builtin", ...] | dict[str, "Builtin"]
_Span = tuple[int, int]
_Hit = tuple[int, int, int]  # which literal, from, to

# --- Formats with a literal beginning: name, literals, the whole shape. -----------------------------------------------
# Before the literal must be the start of a word; also a colour code, an escaped newline or a %3D counts as one.
_START = rb"(?:(?<![A-Za-z0-9])|(?<=[0-9;\[]m)|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u00[0-9A-Fa-f]{2}))"
_END = r"(?![A-Za-z0-9])"
_FORMATS: tuple[tuple[str, str, str], ...] = (
    ("aws access key", "AKIA ASIA ABIA ACCA", r"A(?:KI|SI|BI|CC)A[A-Z0-9]{16}" + _END),
    ("aws bedrock key", "ABSK", r"ABSK[A-Za-z0-9+/]{100,300}={0,2}"),
    ("github token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{30,255}"),
    ("github fine-grained token", "github_pat_", r"github_pat_[A-Za-z0-9_]{22,255}"),
    (
        "gitlab token",
        "glpat- gldt- glrt- glcbt- glptt- glft- glimt- gloas- glsoat- glagent-",
        r"gl[a-z]{2,5}-[\w.=-]{20,300}",
    ),
    ("gitlab runner token", "GR1348941", r"GR1348941[A-Za-z0-9_-]{20,50}"),
    ("slack token", "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xoxe.", r"xox[abeoprs][-.][A-Za-z0-9.-]{10,250}"),
    ("slack app token", "xapp-", r"xapp-[0-9]-[A-Za-z0-9-]{20,250}"),
    ("slack webhook", "hooks.slack.com/", r"hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9+/_-]{20,200}"),
    ("anthropic or openai key", "sk-", r"sk-(?=[A-Za-z_-]{0,200}[0-9])[A-Za-z0-9_-]{20,300}"),
    ("google api key", "AIza", r"AIza[A-Za-z0-9_-]{35}"),
    ("google oauth token", "ya29.", r"ya29\.[A-Za-z0-9_-]{20,500}"),
    ("google refresh token", "1//0", r"1//0[A-Za-z0-9_-]{30,200}"),
    ("google client secret", "GOCSPX-", r"GOCSPX-[A-Za-z0-9_-]{24,40}"),
    ("stripe key", "sk_live_ sk_test_ rk_live_ rk_test_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,250}"),
    ("webhook secret", "whsec_", r"whsec_[A-Za-z0-9+/=]{24,100}"),
    ("toss payments key", "live_sk_ test_sk_ live_gsk_ test_gsk_", r"(?:live|test)_g?sk_[A-Za-z0-9]{20,60}"),
    ("npm token", "npm_", r"npm_[A-Za-z0-9]{36}" + _END),
    ("pypi token", "pypi-Ag", r"pypi-Ag[A-Za-z0-9_-]{50,500}"),
    ("rubygems key", "rubygems_", r"rubygems_[a-f0-9]{48}"),
    ("crates.io token", "cio", r"cio[A-Za-z0-9]{32}" + _END),
    ("nuget key", "oy2", r"oy2[a-z0-9]{43}" + _END),
    ("clojars token", "CLOJARS_", r"CLOJARS_[a-z0-9]{60}"),
    ("docker token", "dckr_pat_ dckr_oat_", r"dckr_[po]at_[A-Za-z0-9_-]{20,100}"),
    ("hugging face token", "hf_", r"hf_(?=[a-z]{0,40}[A-Z0-9])[A-Za-z0-9]{30,60}"),
    ("hugging face org token", "api_org_", r"api_org_[A-Za-z0-9]{30,60}"),
    ("replicate token", "r8_", r"r8_[A-Za-z0-9]{37,40}"),
    ("groq key", "gsk_", r"gsk_[A-Za-z0-9]{40,80}"),
    ("xai key", "xai-", r"xai-[A-Za-z0-9]{60,100}"),
    ("perplexity key", "pplx-", r"pplx-[A-Za-z0-9]{40,80}"),
    ("nvidia key", "nvapi-", r"nvapi-[A-Za-z0-9_-]{50,90}"),
    ("pinecone key", "pcsk_", r"pcsk_[A-Za-z0-9_]{40,100}"),
    ("langsmith key", "lsv2_", r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}"),
    ("elevenlabs key", "sk_", r"sk_[a-f0-9]{48}" + _END),
    ("sendgrid key", "SG.", r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}"),
    ("brevo key", "xkeysib- xsmtpsib-", r"x(?:key|smtp)sib-[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    ("mailgun key", "key-", r"key-[0-9a-f]{32}" + _END),
    ("twilio key", "SK", r"SK[0-9a-f]{32}" + _END),
    ("json web token", "eyJ", r"eyJ[\w-]{8,2048}+\.eyJ[\w-]{8,4096}+(?:\.[\w-]{0,1024}+)?"),
    ("age key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    ("digitalocean token", "dop_v1_ doo_v1_ dor_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
    ("databricks token", "dapi", r"dapi[a-f0-9]{32}(?:-[0-9])?" + _END),
    ("shopify token", "shpat_ shpca_ shppa_ shpss_", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    ("vault token", "hvs. hvb. hvr.", r"hv[sbr]\.[A-Za-z0-9_-]{20,300}"),
    ("pulumi token", "pul-", r"pul-[a-f0-9]{40}"),
    ("doppler token", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}"),
    ("linear key", "lin_api_ lin_oauth_", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,64}"),
    ("notion token", "secret_ ntn_", r"(?:secret_[A-Za-z0-9]{43}|ntn_[A-Za-z0-9]{40,60})" + _END),
    ("figma token", "figd_", r"figd_[A-Za-z0-9_-]{36,60}"),
    ("atlassian token", "ATATT3 ATCTT3", r"AT[AC]TT3[A-Za-z0-9_=-]{50,400}"),
    ("bitbucket password", "ATBB", r"ATBB[A-Za-z0-9]{28,40}" + _END),
    ("cloudflare origin key", "v1.0-", r"v1\.0-[a-f0-9]{24}-[a-f0-9]{146}"),
    ("fly.io token", "fo1_ fm2_", r"(?:fo1_[A-Za-z0-9_-]{43}|fm2_[A-Za-z0-9+/=]{100,4000})"),
    ("grafana token", "glsa_ glc_", r"gl(?:sa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|c_[A-Za-z0-9+/=]{32,400})"),
    ("new relic key", "NRAK- NRII- NRJS-", r"NR(?:AK|II|JS)-[A-Za-z0-9_-]{19,40}"),
    ("sentry token", "sntrys_ sntryu_", r"sntry(?:s_eyJ[A-Za-z0-9+/=_]{80,400}|u_[a-f0-9]{64})"),
    ("dynatrace token", "dt0c01.", r"dt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    ("planetscale key", "pscale_", r"pscale_(?:tkn|oauth|pw)_[A-Za-z0-9=._-]{32,64}"),
    ("supabase key", "sbp_ sb_secret_", r"sb(?:p_[a-f0-9]{40}|_secret_[A-Za-z0-9_-]{20,60})"),
    ("postman key", "PMAK-", r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    ("prefect key", "pnu_ pnb_", r"pn[ub]_[A-Za-z0-9]{36}"),
    ("shippo key", "shippo_", r"shippo_(?:live|test)_[a-f0-9]{40}"),
    ("square token", "sq0atp- sq0csp- EAAA", r"(?:sq0atp-[A-Za-z0-9_-]{22}|sq0csp-[A-Za-z0-9_-]{43}|EAAA[\w-]{60})"),
    ("facebook token", "EAAC EAAB EAAG", r"EAA[BCG][A-Za-z0-9]{60,300}"),
    ("alibaba key", "LTAI", r"LTAI[A-Za-z0-9]{12,24}" + _END),
    ("tencent key", "AKID", r"AKID[A-Za-z0-9]{32}" + _END),
    ("heroku key", "HRKU-", r"HRKU-[A-Za-z0-9_-]{30,80}"),
    ("typeform token", "tfp_", r"tfp_[A-Za-z0-9_=.-]{44,80}"),
    ("easypost key", "EZAK EZTK", r"EZ[AT]K[A-Za-z0-9]{54}"),
    ("jfrog key", "AKCp", r"AKCp[A-Za-z0-9]{60,80}"),
    ("sonar token", "squ_ sqp_ sqa_", r"sq[upa]_[a-f0-9]{40}"),
    ("buildkite token", "bkua_", r"bkua_[a-f0-9]{40}"),
    ("circleci token", "CCIPAT_", r"CCIPAT_[A-Za-z0-9_]{20,100}"),
    ("netlify token", "nfp_", r"nfp_[A-Za-z0-9]{36,60}"),
    ("render key", "rnd_", r"rnd_[A-Za-z0-9]{28,40}" + _END),
    ("1password token", "ops_eyJ", r"ops_eyJ[A-Za-z0-9+/=_-]{100,4000}"),
    ("tailscale key", "tskey-", r"tskey-[a-z]{3,10}-[A-Za-z0-9-]{10,80}"),
    ("paypal token", "access_token$", r"access_token\$(?:production|sandbox)\$[a-z0-9$]{20,80}"),
)

# --- Secrets known by what stands before them: name, literals, what follows the literal (group = what is masked). -----
_PEM_NAME = rb"[A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
_PEM_BODY = rb"(?:[A-Za-z0-9+/=\s\\\"',:.|>#]|-(?!-{3}))"
_PEM = (  # without 32 characters of a key near its head it is only talk about keys
    _PEM_NAME
    + (rb"(?=" + _PEM_BODY + rb"{0,400}?[A-Za-z0-9+/]{32})")
    + (rb"(?>" + _PEM_BODY + rb"{0,30000})(?:-{4,5} ?END " + _PEM_NAME + rb")?")
)
_PEM_BEGINS = (b"-----BEGIN ", b"---- BEGIN ")
_PEM_HEAD = re.compile(rb"-{4,5} ?BEGIN " + _PEM_NAME)
_PEM_ENDED = re.compile(rb"-{4,5} ?END [^\n]{0,80}(?:\n|[^\n]{80})")

_SEP = rb"(?:\\{0,3}[\"'`])?\]?[ \t]{0,8}(?:={1,3}|=>|:=?)[ \t]{0,8}"
_TYPED = rb":[ \t]{0,4}[A-Za-z_.|\[\] ]{1,40}=[ \t]{0,4}"  # password: str = "…"
_OPEN = rb"[bruBRU]?(?P<q>\\{0,3}[\"'`])(?![A-Z][A-Z_]{2,64}[\"'`])"  # "OPENAI_API_KEY" is a name, not a value
_INSIDE = rb"(?:[^\"'`\\\s{}]|\\[^\s\"'`\\])"
_NOT_VALUE = (  # templates, paths, digests, names of variables, words that stand for a value (rule 5)
    rb"(?![$<%{&]|//|/[a-z.]{1,64}/|\.{1,2}/|~/|[\"'`]|(?i:sha[0-9]{1,3}[:-])"
    rb"|(?i:pass(?:word|wd|phrase)|pwd|secret|token|string|null|none|nil|true|false|undefined|required|optional|hidden"
    rb"|example|unicode|varchar|boolean|integer|x{3,64}|\.{3,64}|\*{3,64}|-{3,64})(?:[\"'`\s,;)]|$)|(?i:your[-_ ]))"
)
_NOT_CODE = (  # an attribute (a.b), a type (Uint8Array), an encoding
    rb"(?![A-Za-z_]\w{0,64}(?:\.[A-Za-z_]\w{0,64}){1,8}(?![A-Za-z0-9_+/=~!@#%^*?-])"
    rb"|(?i:u?int|float|bytes|big|base|sha|utf|[hre]s)-?[0-9]{1,3}(?:array|url)?(?![A-Za-z0-9]))"
)
_PLAIN = rb"[A-Za-z0-9_+/=.~!@#%^*?-]"
_STOP = rb"(?![(\[{:<\\])"


def _named(quoted: bytes, bare: bytes, *, env: bytes) -> bytes:
    """What may follow the name of a secret: a quoted value, NAME=value, an XML element, or a bare value."""
    return (
        rb"(?:(?:" + _TYPED + rb"|" + _SEP + rb")" + _OPEN + _NOT_VALUE + quoted + rb"(?P=q)"
        rb"|=" + _NOT_VALUE + _NOT_CODE + env + rb"(?=[&;\s\"']|$)"
        rb"|>" + _NOT_VALUE + rb"(?P<x>[^<>\s]{4,256})</"
        rb"|" + _SEP + _NOT_VALUE + _NOT_CODE + bare + _STOP + rb")"
    )


_DIGIT = rb"(?=" + _PLAIN + rb"{0,255}?[0-9])(?=" + _PLAIN + rb"{0,255}?[A-Za-z])"
_PASSWORD = _named(
    rb"(?=[^\"'`]{0,255}?[A-Za-z0-9])(?P<s>" + _INSIDE + rb"{4,256}+)",
    rb"(?=" + _PLAIN + rb"{0,255}?[0-9!@#%^*?~])(?P<b>(?!=)" + _PLAIN + rb"{6,256}+)",
    env=rb"(?P<e>(?!=)[^\s\"'`$(){}<>;&|,\\]{5,256}+)",
)
_SECRET = _named(
    rb"(?=[^\"'`]{0,255}?[0-9A-Z!@#^&*+=]|[^\"'`]{16})(?P<s>" + _INSIDE + rb"{6,1024}+)",
    _DIGIT + rb"(?P<b>(?!=)" + _PLAIN + rb"{8,1024}+)",
    env=rb"(?P<e>(?!=)[^\s\"'`$(){}<>;&|,\\]{6,1024}+)",
)
_TOKEN = _named(
    rb"(?=[^\"'`]{0,255}?[0-9]|[^\"'`]{24})(?P<s>" + _INSIDE + rb"{8,1024}+)",
    _DIGIT + rb"(?=(?:[A-Za-z_+/=.~!@#%^*?-]{0,99}[0-9]){2})(?P<b>(?!=)" + _PLAIN + rb"{8,1024}+)",
    env=_DIGIT + rb"(?P<e>(?!=)[^\s\"'`$(){}<>;&|,\\]{8,1024}+)",
)
_PASSWORD_NAMES = "password Password PASSWORD passwd Passwd PASSWD passphrase PASSPHRASE pwd Pwd _PWD 비밀번호"
_SECRET_NAMES = (
    "secret Secret SECRET api_key apikey api-key apiKey ApiKey Apikey Api-Key API_KEY APIKEY API-KEY APIKey "
    "secret_key secretkey secret-key secretKey SecretKey SECRET_KEY SECRETKEY access_key accesskey access-key "
    "accessKey AccessKey ACCESS_KEY private_key privatekey private-key privateKey PrivateKey PRIVATE_KEY "
    "encryption_key encryptionKey ENCRYPTION_KEY signing_key signingKey SIGNING_KEY auth_key authKey AUTH_KEY "
    "AccountKey account_key credential Credential CREDENTIAL credentials Credentials CREDENTIALS"
)
_TOKEN_NAMES = "token Token TOKEN"
_OPAQUE = rb"(?=[A-Za-z._~+/=-]{0,255}[0-9])(?P<b>[A-Za-z0-9._~+/=-]{16,4096}+)"
_SCHEME = rb"(?i:basic|bearer|token|digest|apikey|negotiate)[ \t]{1,4}(?P<s>[A-Za-z0-9._~+/=:-]{8,4096}+)"
_USERINFO = rb"[^\s/:@\"'`<>{}$?#]{0,256}:(?P<s>(?![$<{%*])[^\s/@\"'`<>{}]{1,256}+)@|(?P<b>[A-Za-z0-9_-]{20,256}+)@"
_BASE64 = rb"(?=[A-Za-z+/]{0,255}[0-9])(?P<s>[A-Za-z0-9+/]{12,1024}={0,2})(?![\w(.])"
_ARGUMENT = rb"(?=[^\s\"'`$<{]{0,99}[0-9])(?P<s>[^\s\"'`$<{]{6,512}+)"
_OPTIONS = "--password --passwd --pass --token --api-key --apikey --secret --client-secret --access-token sshpass"
_WHOLE_CHARACTER = rb"(?![\x80-\xbf])"
_AFTER: tuple[tuple[str, str, bytes], ...] = (
    ("named password", _PASSWORD_NAMES, _PASSWORD),
    ("named secret", _SECRET_NAMES, _SECRET),
    ("named token", _TOKEN_NAMES, _TOKEN),
    (
        "authorization header",
        "uthorization UTHORIZATION",
        rb"\\{0,3}[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,3}[\"']?(?:" + _SCHEME + rb"|" + _OPAQUE + rb")" + _STOP,
    ),
    ("bearer token", "Bearer bearer BEARER", rb"[ \t]{1,4}" + _OPAQUE + _STOP),
    ("url credentials", "://", rb"(?:" + _USERINFO + rb")"),
    ("discord webhook", "/api/webhooks/", rb"[0-9]{10,25}/(?P<s>[A-Za-z0-9_-]{40,100})"),
    ("telegram bot token", ":AA", rb"(?<=[0-9]{8}:AA)(?P<s>[A-Za-z0-9_-]{32,33})" + _END.encode()),
    ("azure client secret", "Q~", rb"(?<=[A-Za-z0-9_~.-]{3}[0-9]Q~)(?P<s>[A-Za-z0-9_~.-]{31,34})"),
    ("terraform token", ".atlasv1.", rb"(?<=[A-Za-z0-9]{14}\.atlasv1\.)(?P<s>[A-Za-z0-9_-]{60,70})"),
    ("shared access signature", "sig= Signature=", rb"(?P<s>[A-Za-z0-9%+/=]{40,200}+)"),
    ("registry login", "auth", rb"\\{0,3}\"?[ \t]{0,4}[:=][ \t]{0,4}\\{0,3}\"?" + _BASE64),
    ("session cookie", "ookie:", rb"[ \t]{0,4}[\w.-]{1,64}=(?P<s>[^\s;,\"']{16,4096}+)" + _WHOLE_CHARACTER),
    (
        "netrc password",
        "login",
        rb"[ \t]{1,8}\S{1,99}[ \t]{1,8}password[ \t]{1,8}(?P<s>[^\s\"]{1,256}+)" + _WHOLE_CHARACTER,
    ),
    ("password on a command line", _OPTIONS, rb"(?:[ \t]-p)?[ \t]{1,4}" + _ARGUMENT + _WHOLE_CHARACTER),
)

_KNOWN_NAMES = ("API_KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PRIVATE", "CREDENTIAL")
_FALSE_FRIENDS = ("FILE", "PATH", "DIR", "SOCK", "URL", "URI", "HOST", "NAME", "USER", "_ID", "TYPE", "TOKENS", "TTL")
_NO_SECRET = re.compile(r"[a-z]{1,11}|[0-9.]{1,9}|True|False|(?:~|\.{0,2})(?:/[\w.@ -]{1,40}){2,}/?|[a-z]+://[^@]*")
_WALL = re.compile(rb"(?=\*\*\*REDACTED\*\*\*)")
_ESCAPE = re.compile(rb"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}
_FIELD = re.compile(rb"\"[ \t]{0,4}:[ \t]{0,4}\"(?!\")")
_FIELD_NAMES = (*f"{_PASSWORD_NAMES} {_SECRET_NAMES} {_TOKEN_NAMES}".split(), "uthorization")


class _Rule:
    """What a literal of the automaton may begin. Its pattern is compiled at the first hit: most never have one."""

    def __init__(self, name: str, source: bytes, *, after: bool = False) -> None:
        self.name = name
        self.source = source  # empty: a known value, masked as it stands
        self.after = after  # the pattern continues the literal (else it begins with it)
        self.names_field = name.startswith(("named", "authorization"))  # the literal may end the name of a field

    @cached_property
    def match(self) -> Callable[[bytes, int], re.Match[bytes] | None]:
        """Match at a place of the data."""
        return re.compile(self.source).match


class Redactor:
    """Masks secrets. Build one per process: the known values are its own, the formats are everybody's."""

    def __init__(self, values: Iterable[str] = (), *, names: Mapping[str, str] | None = None) -> None:
        """`names` says, for a value, how to call it in `found` (e.g. the variable it came from)."""
        # Imported here: whoever only needs MASK (or a type) does not pay for the automaton.
        from ahocorasick_rs import BytesAhoCorasick

        table = _rules()
        for value in values:
            rule = _Rule(f"known value of {names[value]}" if names and value in names else "known value", b"")
            table += ((form, rule) for form in _forms(value))
        self._rules = [rule for _, rule in table]
        self._escapable = any(b"\\" in literal or b'"' in literal for literal, _ in table)
        self._find = BytesAhoCorasick([literal for literal, _ in table]).find_matches_as_indexes

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], extra: Iterable[str] = ()) -> Redactor:
        """Know the values of all variables whose names say secret.

        Left out, because masking them would blank ordinary words everywhere: names that say where or what, not the
        secret itself (…_FILE, …_PATH, …_SOCK, …_URL, …_ID), and values that are a short lower-case word, a small
        number, a truth value, a path or an address without a password. `extra` values are taken as they are.
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
        """The names of the rules that match, never a value: why a patch needs a person (sandbox.md §8)."""
        data = s.encode("utf-8", "surrogatepass")
        return tuple(sorted({name for _, name in self._matches(data, self._find(data, overlapping=True))}))

    def suspects(self, line: bytes) -> bool:
        """Whether `record` may mask something in this JSON line: never False when it would, cheap when it is clean."""
        hits = self._find(line, overlapping=True)
        for index, _, end in hits:
            rule = self._rules[index]
            if not rule.source or (rule.names_field and _FIELD.match(line, end)):
                return True
        if b"\\" in line and (hits or self._escapable):
            # Literals of rules hold nothing that JSON escapes; what stands around them may, and so may known values.
            line = _ESCAPE.sub(_unescape, line)
            hits = self._find(line, overlapping=True)
        return bool(self._matches(line, hits))

    def record(self, obj: Builtin) -> Builtin:
        """A masked copy of a tree of builtins; the value of a field named like a secret is masked whole."""
        if isinstance(obj, str):
            return self.text(obj)
        if isinstance(obj, list | tuple):
            return [self.record(item) for item in obj]
        if isinstance(obj, dict):
            return {self._key(key): self._field(key, value) for key, value in obj.items()}
        return obj

    def stream(self) -> RedactingStream:
        """A redactor of bytes that arrive in pieces."""
        return RedactingStream(self)

    def _key(self, key: str) -> str:
        # Names stay (rule 4), unless a known value was used as one.
        hits = self._find(key.encode("utf-8", "surrogatepass"), overlapping=True)
        return self.text(key) if any(not self._rules[index].source for index, _, _ in hits) else key

    def _field(self, key: str, value: Builtin) -> Builtin:
        # Numbers are never touched: inputTokens, maxOutputTokens.
        if isinstance(value, str) and value and key.endswith(_FIELD_NAMES):
            return MASK
        return self.record(value)

    def _matches(self, data: bytes, hits: list[_Hit], lo: int = 0, hi: int = sys.maxsize) -> list[tuple[_Span, str]]:
        """What to mask, with the rule's name, of the hits whose literal begins in [lo, hi)."""
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

    Whole lines come out at once. Of an unfinished line the last `_REACH` bytes are held back, so that a match begun is
    a match seen; a private key is held until its END (at most `_PEM_REACH`). Memory is bounded by that.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._buf = b""
        self._parts: list[bytes] = []  # arrived, not looked at: a line that grows byte by byte is joined once
        self._waiting = 0
        self._lo = 0  # in _buf: literals before this were dealt with
        self._pos = 0  # in _buf: bytes before this were emitted or masked (may be ahead of _lo)
        self._masked_to = -1  # in _buf: where the last mask ended; a span that touches it needs no second mask
        self._pending: list[_Span] = []  # found, but they begin after what may be emitted

    def feed(self, chunk: bytes) -> bytes:
        """Take the next bytes, give what is safe to show."""
        self._parts.append(chunk)
        self._waiting += len(chunk)
        if b"\n" not in chunk and self._waiting < _REACH:
            return b""
        self._join()
        return self._advance(self._safe())

    def close(self) -> bytes:
        """Give the rest."""
        self._join()
        return self._advance(len(self._buf))

    def _join(self) -> None:
        self._buf = b"".join((self._buf, *self._parts))
        self._parts.clear()
        self._waiting = 0

    def _safe(self) -> int:
        """How far everything that a match needs has been seen."""
        buf, size = self._buf, len(self._buf)
        line = buf.rfind(b"\n") + 1
        safe = max(line, self._lo)
        if size - safe >= 2 * _REACH:
            safe = size - _REACH
        for begin in _PEM_BEGINS:
            at = buf.find(begin, self._lo, safe + len(begin) - 1)
            while at >= 0:
                if size - at < _PEM_REACH and _PEM_HEAD.match(buf, at) and not _PEM_ENDED.search(buf, at + len(begin)):
                    safe = at
                    break
                at = buf.find(begin, at + 1, safe + len(begin) - 1)
        return safe

    def _advance(self, safe: int) -> bytes:
        if safe <= self._lo and safe < len(self._buf):
            return b""
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
        if pos < safe:
            out.append(buf[pos:safe])
            pos = safe
        drop = max(0, safe - _BEHIND)
        self._buf, self._lo, self._pos, self._masked_to = buf[drop:], safe - drop, pos - drop, self._masked_to - drop
        self._pending = [(start - drop, end - drop) for start, end in self._pending]
        return b"".join(out)


def _rules() -> list[tuple[bytes, _Rule]]:
    """Each literal of the tables with its rule."""
    pem = _Rule("private key", _PEM, after=True)
    table = [(literal, pem) for literal in _PEM_BEGINS]
    for name, literals, shape in _FORMATS:
        rule = _Rule(name, _START + shape.encode())
        table += ((literal.encode(), rule) for literal in literals.split())
    for name, literals, tail in _AFTER:
        rule = _Rule(name, tail, after=True)
        table += ((literal.encode(), rule) for literal in literals.split())
    return table


def _forms(value: str) -> set[bytes]:
    """The ways a known value travels: as it is, reversed, URL, hex, base64 (also inside longer text), JSON of each."""
    if len(value) < _LEAST:
        return set()
    # No match may cross a newline (rule 2): of a value of many lines, each line that is no header and no short word.
    lines = (
        [value] if "\n" not in value else [s for s in map(str.strip, value.split("\n")) if len(s) >= 16 and s[0] != "-"]
    )
    said = {form[:_MOST] for line in lines for form in (line, line[::-1])}
    raw = value[:_MOST].encode("utf-8", "surrogatepass")
    urls = {quote(raw, safe=""), quote(raw), quote_plus(raw)}
    said |= urls | {re.sub("%[0-9A-F]{2}", lambda m: m[0].lower(), url) for url in urls}
    said |= {raw.hex(), raw.hex().upper(), b2a_base64(raw, newline=False).decode()}
    for shift in range(3):  # the characters of base64 that are the same whatever stands before and after
        core = b2a_base64(b"\0" * shift + raw)[(0, 2, 3)[shift] : (shift + len(raw)) * 8 // 6].decode()
        said |= {core, core.replace("+", "-").replace("/", "_")}
    said |= {json.dumps(form, ensure_ascii=ascii)[1:-1] for form in set(said) for ascii in (False, True)}
    forms = {form.encode("utf-8", "surrogatepass") for form in said if len(form) >= _LEAST and "\n" not in form}
    return {form for form in forms if form not in _MASK and _MASK not in form}


def _unescape(match: re.Match[bytes]) -> bytes:
    if match[1]:
        return chr(int(match[1], 16)).encode("utf-8", "surrogatepass")
    return _ESCAPED.get(match[2], match[2])


def _merged(spans: list[_Span]) -> list[_Span]:
    """Spans in order, those that overlap or touch as one."""
    out: list[_Span] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            if end > out[-1][1]:
                out[-1] = (out[-1][0], end)
        else:
            out.append((start, end))
    return out
