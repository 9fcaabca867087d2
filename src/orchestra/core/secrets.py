"""The formats of secrets: some hundred forms of keys, tokens and named passwords, as data for core/redact.py.

There are two tables. FORMATS: secrets that begin with a literal of their own (`ghp_…`). AFTER: secrets that are
recognised by the text before them (`password=…`). Every pattern is anchored at its literal, has a maximal length, and
never crosses a newline (a PEM block may).
"""

from __future__ import annotations

# --- Formats with a literal beginning: name, literals, the whole shape. -----------------------------------------------
# Before the literal must be the start of a word; also a colour code, an escaped newline or a %3D counts as one.
START = rb"(?:(?<![A-Za-z0-9])|(?<=[0-9;\[]m)|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u00[0-9A-Fa-f]{2}))"
_END = r"(?![A-Za-z0-9])"
FORMATS: tuple[tuple[str, str, str], ...] = (
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
PEM = (  # without 32 characters of a key near its header it is ordinary text
    _PEM_NAME
    + (rb"(?=" + _PEM_BODY + rb"{0,400}?[A-Za-z0-9+/]{32})")
    + (rb"(?>" + _PEM_BODY + rb"{0,30000})(?:-{4,5} ?END " + _PEM_NAME + rb")?")
)
PEM_BEGINS = (b"-----BEGIN ", b"---- BEGIN ")
PEM_HEAD = rb"-{4,5} ?BEGIN " + _PEM_NAME
PEM_ENDED = rb"-{4,5} ?END [^\n]{0,80}(?:\n|[^\n]{80})"

_SEP = rb"(?:\\{0,3}[\"'`])?\]?[ \t]{0,8}(?:={1,3}|=>|:=?)[ \t]{0,8}"
_TYPED = rb":[ \t]{0,4}[A-Za-z_.|\[\] ]{1,40}=[ \t]{0,4}"  # password: str = "…"
_OPEN = rb"[bruBRU]?(?P<q>\\{0,3}[\"'`])(?![A-Z][A-Z_]{2,64}[\"'`])"  # "OPENAI_API_KEY" is a name, not a value
_INSIDE = rb"(?:[^\"'`\\\s{}$]|\$(?!\()|\\[^\s\"'`\\])"  # no $(…): in double quotes a shell would run it
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
PASSWORD_NAMES = "password Password PASSWORD passwd Passwd PASSWD passphrase PASSPHRASE pwd Pwd _PWD 비밀번호"
SECRET_NAMES = (
    "secret Secret SECRET api_key apikey api-key apiKey ApiKey Apikey Api-Key API_KEY APIKEY API-KEY APIKey "
    "secret_key secretkey secret-key secretKey SecretKey SECRET_KEY SECRETKEY access_key accesskey access-key "
    "accessKey AccessKey ACCESS_KEY private_key privatekey private-key privateKey PrivateKey PRIVATE_KEY "
    "encryption_key encryptionKey ENCRYPTION_KEY signing_key signingKey SIGNING_KEY auth_key authKey AUTH_KEY "
    "AccountKey account_key credential Credential CREDENTIAL credentials Credentials CREDENTIALS"
)
TOKEN_NAMES = "token Token TOKEN"
_OPAQUE = rb"(?=[A-Za-z._~+/=-]{0,255}[0-9])(?P<b>[A-Za-z0-9._~+/=-]{16,4096}+)"
_SCHEME = rb"(?i:basic|bearer|token|digest|apikey|negotiate)[ \t]{1,4}(?P<s>[A-Za-z0-9._~+/=:-]{8,4096}+)"
_USERINFO = rb"[^\s/:@\"'`<>{}$?#]{0,256}:(?P<s>(?![$<{%*])[^\s/@\"'`<>{}]{1,256}+)@|(?P<b>[A-Za-z0-9_-]{20,256}+)@"
_BASE64 = rb"(?=[A-Za-z+/]{0,255}[0-9])(?P<s>[A-Za-z0-9+/]{12,1024}={0,2})(?![\w(.])"
_WHOLE_CHARACTER = rb"(?![\x80-\xbf])"

# On a command line. An unquoted `;|&<>()` or a blank ends an argument, so that no command hides in what is masked; a
# quoted argument ends with its quote, and one in double quotes with `$` or a backquote in it is none of ours.
_ONE, _IN_ONE = rb"\\{0,3}'", rb"[^'\n\\]"
_TWO, _IN_TWO = rb"\\{0,3}\"", rb"[^\"`$\n\\]"
_WORD = rb"(?:[^\s\"'`$<>{;|&()\\]|\\[;|&<>() ])"


def _argument(before: bytes, least: int, must: bytes = b"") -> bytes:
    """An argument of which all after `before` is masked: in quotes or bare. `must`: what it needs to hold."""

    def holds(inside: bytes) -> bytes:
        return rb"(?=" + inside + rb"{0,99}?" + must + rb")" if must else b""

    def value(group: bytes, inside: bytes) -> bytes:
        return _NOT_VALUE + holds(inside) + rb"(?P<" + group + rb">" + inside + b"{%d,512}+)" % least

    shapes = [
        _ONE + before + value(b"a", _IN_ONE) + _ONE,
        _TWO + before + value(b"b", _IN_TWO) + _TWO,
        *((before + _ONE + value(b"c", _IN_ONE) + _ONE, before + _TWO + value(b"d", _IN_TWO) + _TWO) if before else ()),
        before + value(b"s", _WORD),
    ]
    return rb"(?:" + rb"|".join(shapes) + rb")" + _WHOLE_CHARACTER


_PASSWORD_OPTIONS = (
    "--password --passwd --http-password --ftp-password --proxy-password --db-password --admin-password "
    "--root-password --user-password --keystore-password --passphrase sshpass"
)
_TOKEN_OPTIONS = "--pass --token --api-key --apikey --secret --client-secret --access-token --auth-token --secret-key"
_MARKED = rb"[0-9!@#%^*?~]"
_USER = rb"[^\s\"'`$<>{;|&():/\\]{0,128}:"
_ANY_ARGUMENT = (  # twelve of these and what follows them stay within the reach of a match (redact.py, rule 2)
    rb"(?>[ \t]{1,4}(?:'[^'\n]{0,240}+'|\"(?:[^\"\\\n]|\\[^\n]){0,120}+\"|(?:\\[^\n]|[^\s'\"\\;|&<>]){1,120}+){1,2}+)"
)


def _option_of(program: bytes, option: bytes, argument: bytes) -> bytes:
    """The argument of an option that means a password to this program only; `program` is the rest of its name."""
    return program + rb"(?:" + _ANY_ARGUMENT + rb"){0,12}?[ \t]{1,4}" + option + argument


_CURL = _option_of(  # the letters before u are options of curl that take no argument: -sSu
    rb"(?:\.exe)?",
    rb"(?:-[afgGiIjJklLMnNOpqRsSvZ0-46#]{0,8}[uU]|--(?:proxy-)?user)(?:[ \t]{0,8}|=)",
    _argument(_USER, 1),
)
_MYSQL = _option_of(rb"(?:dump|admin|import|show|check)?", rb"-p(?![0-9.:]{1,20}(?:\s|$))", _argument(b"", 3))
_STRICT_USER = (  # `docker run -u 1000:1000` and `rsync -u host:dir` are not ours: a mark, a letter, no path
    rb"(?:(?<=[\s\"'`(]-u)|(?<=-user))[ \t]{1,4}"
    + _argument(rb"[A-Za-z0-9._@+-]{1,64}:(?=[^\s/]{0,99}?[A-Za-z])(?!\S{0,199}/)", 6, _MARKED)
)
_NETRC_LINES = (  # a line of its own: `password` and a value with a mark, as in a netrc of several lines
    rb"(?:(?<=\npassword)|(?<=\n[\t +]password)|(?<=\n  password)|(?<=\n    password))[ \t]{1,8}"
    + (rb"(?=\S{0,99}?" + _MARKED + rb")(?P<s>[^\s\"'`,;:(){}<>|&]{4,256}+)")
    + (rb"[ \t]{0,8}(?=\r?\n|\Z)")
)
AFTER: tuple[tuple[str, str, bytes], ...] = (
    ("named password", PASSWORD_NAMES, _PASSWORD),
    ("named secret", SECRET_NAMES, _SECRET),
    ("named token", TOKEN_NAMES, _TOKEN),
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
    ("netrc password", "password", _NETRC_LINES),
    (
        "password on a command line",
        _PASSWORD_OPTIONS,
        rb"(?:[ \t]-p)?[ \t]{1,4}" + _argument(b"", 3, _MARKED),
    ),
    ("password on a command line", _TOKEN_OPTIONS, rb"[ \t]{1,4}" + _argument(b"", 6, rb"[0-9]")),
    ("password on a command line", "curl", _CURL),
    ("password on a command line", "mysql mariadb", _MYSQL),
    ("password on a command line", "redis-cli", _option_of(b"", rb"-a[ \t]{1,8}", _argument(b"", 3))),
    ("password on a command line", "-u --user --proxy-user", _STRICT_USER),
)
