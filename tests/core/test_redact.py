"""The redactor: what it masks, what it must leave alone, and that neither cutting nor repeating changes the result.

No key below was ever issued: they are assembled from parts, so that no scanner of this repository takes them for real.
"""

from __future__ import annotations

import base64
import json
import random
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestra.core.redact import _REACH as REACH
from orchestra.core.redact import MASK, Redactor, names_secret

KNOWN = 'Kn0wn"va\\lue-한글/+='
HEX = "0123456789abcdef"
MIX = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAbCdEfGhIjKlMnOpQrStUvWxYz0123456789"
UP = "A1B2C3D4E5F6G7H8J9K0L1M2N3P4Q5R6S7T8U9V0W1X2Y3Z4A5B6C7D8E9F0G1H2"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{(MIX + chr(10)) * 6}-----END RSA PRIVATE KEY-----"
R = Redactor([KNOWN])

# (rule, text with the secret between « and »): the secret must go, the rest must stay.
POSITIVE: list[tuple[str, str]] = [
    ("aws access key", f"id «AKIA{UP[:16]}» ok"),
    ("aws access key", f"id=«ASIA{UP[:16]}»"),
    ("named secret", f"aws_secret_access_key = «{MIX[:40]}»"),
    ("aws bedrock key", f"«ABSK{MIX}{MIX}»"),
    ("github token", f"push with «ghp_{MIX[:36]}»."),
    ("github token", f"\x1b[31m«gho_{MIX[:36]}»\x1b[0m"),
    ("github token", f"line\\n«ghs_{MIX[:36]}»\\n"),
    ("github fine-grained token", f"«github_pat_{MIX[:22]}_{MIX[:59]}»"),
    ("gitlab token", f"«glpat-{MIX[:20]}»"),
    ("gitlab token", f"«glagent-{MIX[:50]}»"),
    ("gitlab runner token", f"«GR1348941{MIX[:20]}»"),
    ("slack token", f"«xoxb-123456789012-{MIX[:24]}»"),
    ("slack app token", f"«xapp-1-A0123-456-{HEX * 4}»"),
    ("slack webhook", f"https://«hooks.slack.com/services/T0{UP[:8]}/B0{UP[:8]}/{MIX[:24]}»"),
    ("discord webhook", f"https://discord.com/api/webhooks/123456789012345678/«{MIX}»"),
    ("anthropic or openai key", f"«sk-{MIX[:48]}»"),
    ("anthropic or openai key", f"«sk-proj-{MIX}»"),
    ("anthropic or openai key", f"«sk-ant-api03-{MIX}-AA»"),
    ("google api key", f"?key=«AIza{MIX[:35]}»&x=1"),
    ("google oauth token", f"«ya29.{MIX}»"),
    ("google refresh token", f"«1//0{MIX}»"),
    ("google client secret", f"«GOCSPX-{MIX[:28]}»"),
    ("stripe key", f"«sk_live_{MIX[:24]}»"),
    ("stripe key", f"«rk_live_{MIX[:24]}»"),
    ("webhook secret", f"«whsec_{MIX[:32]}»"),
    ("toss payments key", f"«test_sk_{MIX[:24]}»"),
    ("npm token", f"«npm_{MIX[:36]}»"),
    ("pypi token", f"«pypi-AgEIcHlwaS5vcmc{MIX}»"),
    ("rubygems key", f"«rubygems_{HEX * 3}»"),
    ("crates.io token", f"«cio{MIX[:32]}»"),
    ("nuget key", f"«oy2{(HEX * 3)[:43]}»"),
    ("clojars token", f"«CLOJARS_{(HEX * 4)[:60]}»"),
    ("docker token", f"«dckr_pat_{MIX[:27]}»"),
    ("hugging face token", f"«hf_{MIX[:34]}»"),
    ("hugging face org token", f"«api_org_{MIX[:34]}»"),
    ("replicate token", f"«r8_{MIX[:37]}»"),
    ("groq key", f"«gsk_{MIX[:52]}»"),
    ("xai key", f"«xai-{MIX}{MIX[:13]}»"),
    ("perplexity key", f"«pplx-{MIX[:48]}»"),
    ("nvidia key", f"«nvapi-{MIX[:64]}»"),
    ("pinecone key", f"«pcsk_{MIX[:60]}»"),
    ("langsmith key", f"«lsv2_pt_{HEX * 2}_{HEX[:10]}»"),
    ("elevenlabs key", f"«sk_{HEX * 3}»"),
    ("sendgrid key", f"«SG.{MIX[:22]}.{MIX[:43]}»"),
    ("brevo key", f"«xkeysib-{HEX * 4}-{MIX[:16]}»"),
    ("mailgun key", f"«key-{HEX * 2}»"),
    ("twilio key", f"«SK{HEX * 2}»"),
    ("telegram bot token", f"bot123456789:AA«{MIX[:33]}»/getMe"),
    ("json web token", f"«eyJ{MIX[:20]}.eyJ{MIX[:40]}.{MIX[:43]}»"),
    ("age key", f"«AGE-SECRET-KEY-1{UP[:58]}»"),
    ("digitalocean token", f"«dop_v1_{HEX * 4}»"),
    ("databricks token", f"«dapi{HEX * 2}»"),
    ("shopify token", f"«shpat_{HEX * 2}»"),
    ("vault token", f"«hvs.{MIX[:24]}»"),
    ("pulumi token", f"«pul-{(HEX * 3)[:40]}»"),
    ("doppler token", f"«dp.pt.{MIX[:43]}»"),
    ("linear key", f"«lin_api_{MIX[:40]}»"),
    ("notion token", f"«ntn_{MIX[:46]}»"),
    ("figma token", f"«figd_{MIX[:40]}»"),
    ("atlassian token", f"«ATATT3{MIX}{MIX}»"),
    ("bitbucket password", f"«ATBB{MIX[:32]}»"),
    ("cloudflare origin key", f"«v1.0-{HEX}{HEX[:8]}-{(HEX * 10)[:146]}»"),
    ("fly.io token", f"«fo1_{MIX[:43]}»"),
    ("grafana token", f"«glsa_{MIX[:32]}_{HEX[:8]}»"),
    ("new relic key", f"«NRAK-{UP[:27]}»"),
    ("sentry token", f"«sntryu_{HEX * 4}»"),
    ("dynatrace token", f"«dt0c01.{UP[:24]}.{UP}»"),
    ("planetscale key", f"«pscale_tkn_{MIX[:43]}»"),
    ("supabase key", f"«sbp_{(HEX * 3)[:40]}»"),
    ("postman key", f"«PMAK-{HEX}{HEX[:8]}-{HEX * 2}01»"),
    ("prefect key", f"«pnu_{MIX[:36]}»"),
    ("shippo key", f"«shippo_live_{(HEX * 3)[:40]}»"),
    ("square token", f"«sq0atp-{MIX[:22]}»"),
    ("facebook token", f"«EAAC{MIX}{MIX}»"),
    ("alibaba key", f"«LTAI{MIX[:20]}»"),
    ("tencent key", f"«AKID{MIX[:32]}»"),
    ("heroku key", f"«HRKU-{MIX[:36]}»"),
    ("typeform token", f"«tfp_{MIX[:59]}»"),
    ("easypost key", f"«EZAK{MIX[:54]}»"),
    ("jfrog key", f"«AKCp{MIX}»"),
    ("sonar token", f"«sqp_{(HEX * 3)[:40]}»"),
    ("buildkite token", f"«bkua_{(HEX * 3)[:40]}»"),
    ("circleci token", f"«CCIPAT_{MIX[:40]}»"),
    ("netlify token", f"«nfp_{MIX[:36]}»"),
    ("render key", f"«rnd_{MIX[:32]}»"),
    ("1password token", f"«ops_eyJ{MIX}{MIX}»"),
    ("tailscale key", f"«tskey-auth-{MIX[:30]}»"),
    ("paypal token", f"«access_token$production${HEX}${HEX * 2}»"),
    ("private key", f"key:\n«{PEM}»\nnext"),
    ("private key", "«" + PEM.replace("\n", "\\n") + "»"),
    ("azure client secret", f"abc8Q~«{MIX[:34]}»"),
    ("terraform token", f"{MIX[:14]}.atlasv1.«{MIX[:67]}»"),
    ("named secret", f"DefaultEndpointsProtocol=https;AccountName=x;AccountKey=«{MIX}==»;Suffix=y"),
    ("shared access signature", f"https://x.blob/c?sv=2020&sig=«{MIX[:43]}%3D»&se=1"),
    ("authorization header", f"Authorization: Basic «{MIX[:20]}==»"),
    ("authorization header", '"authorization": "Token «abcdefabcdef»"'),
    ("bearer token", f"curl -H 'x: Bearer «{MIX[:30]}»'"),
    ("url credentials", "postgres://app:«hunter2»@db:5432/x"),
    ("url credentials", f"https://«{MIX[:40]}»@github.com/a/b"),
    ("url credentials", "redis://:«p%40ss!»@cache/0"),
    ("registry login", '"auth": "«dXNlcjpwYXNzd29yZA==»"'),
    ("registry login", "//r.example/:_auth=«dXNlcjpwYXNzd29yZA==»"),
    ("named token", f"//registry.npmjs.org/:_authToken=«{MIX[:30]}»"),
    ("session cookie", f"Set-Cookie: sid=«{MIX[:32]}»; HttpOnly"),
    ("netrc password", "machine h login me password «abc»"),
    ("netrc password", "machine h\n  login me\n  password «s3cr3t»\n"),
    ("netrc password", "+machine h\n+password «abc!»\n"),
    ("password on a command line", "mysql --password «s3cret!x» -h db"),
    ("password on a command line", "+mysql --password «a1b»;./payload.sh"),
    ("password on a command line", "x --token «abc123def»|sh"),
    ("password on a command line", "x --token «abc123def»&&sh"),
    ("password on a command line", "x --token «abc123def»>out"),
    ("password on a command line", "x --token «abc123def»</etc/passwd"),
    ("password on a command line", "x --password '«a;b 1»';ls"),
    ("password on a command line", 'x --password "«a;b|1»" && ls'),
    ("password on a command line", r"x --password «a1\;b\ c» d"),
    ("password on a command line", "sshpass -p «hunter2» ssh h"),
    ("password on a command line", "wget --http-password «hunter2» http://h"),
    ("named password", "wget --user me --password=«hunter2» http://h"),
    ("password on a command line", "curl -u user:«pass» https://h"),
    ("password on a command line", "curl -sSu user:«pass» https://h"),
    ("password on a command line", "curl -uuser:«pass» https://h"),
    ("password on a command line", "curl -XPUT -H 'a: b;c' --user user:«pass» https://h"),
    ("password on a command line", "curl --user=user:«p» https://h"),
    ("password on a command line", "curl -u 'user:«pa ss;x»' https://h; ls"),
    ("password on a command line", "curl -u user:'«pa ss;x»' https://h"),
    ("password on a command line", "curl -u user:«pass»;./payload.sh"),
    ("password on a command line", "curl --proxy-user me:«비밀» -x h"),
    ("password on a command line", '{"cmd": "curl -u \\"user:«pass»\\" https://h"}'),
    ("password on a command line", "curl \\\n  -u deploy:«S3cr3t9» \\\n  https://h"),
    ("password on a command line", "mysqldump -uroot -p«hunter» db"),
    ("password on a command line", "redis-cli -h db -a «foobared» ping"),
    ("named password", '{"password": "«correcthorse»"}'),
    ("named password", '{\\"password\\": \\"«correcthorse»\\"}'),
    ("named password", "password: «hunter2»"),
    ("named password", "DB_PASSWORD=«changeme»"),
    ("named password", 'DB_PASSWORD="«pa$$w0rd»"'),
    ("named password", "Server=db;User=sa;Password=«Str0ng!»;Encrypt=1"),
    ("named password", "<password>«hunter2»</password>"),
    ("named password", "password: str = '«hunter22»'"),
    ("named password", "비밀번호: «hunter2»"),
    ("named secret", f"OPENAI_API_KEY=«{MIX[:30]}»"),
    ("named secret", "API_KEY=«ABCDEFGH»"),
    ("password on a command line", "x --token «" + "1é" * 100 + "»"),
    ("named secret", 'client_secret: "«a1b2c3d4»"'),
    ("named secret", f"x-api-key: «{HEX}»"),
    ("named token", f'"access_token": "«{HEX}»"'),
    ("named token", f"token=«{HEX}»&x=1"),
    ("known value", f"it is «{KNOWN}»!"),
    ("known value", f"«{KNOWN[::-1]}»"),
    ("known value", f"«{KNOWN.encode().hex()}»"),
    ("known value", f"«{base64.b64encode(KNOWN.encode()).decode()}»"),
    ("known value", f"«{quote(KNOWN, safe='')}»"),
    ("known value", f"«{json.dumps(KNOWN)[1:-1]}»"),
    ("known value", f"«{json.dumps(KNOWN, ensure_ascii=False)[1:-1]}»"),
]

NEGATIVE = [
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "123e4567-e89b-12d3-a456-426614174000",
    f"sha256:{HEX * 4}",
    f'{{"key":"execute.1","digest":"sha256:{HEX * 4}","usage":{{"inputTokens":12,"maxOutputTokens":4096}}}}',
    f"integrity sha512-{MIX}{MIX[:19]}==",
    f"data:image/png;base64,iVBORw0KGgo{MIX}{MIX}",
    "token = get_token()",
    "token = self.lexer.next_token2()",
    "token: Token = lexer.tokens[0]",
    "token = 'identifier'",
    'if token == "StringLiteral":',
    "password: str",
    "password: Optional[str] = None",
    "password: string;",
    "password = getpass.getpass()",
    "connect(user=user, password=password, token=token)",
    "password=settings.database.password\n",
    'os.environ["API_KEY"]',
    'api_key = os.environ.get("OPENAI_API_KEY")',
    'apiKey: "OPENAI_API_KEY"',
    "API_KEY=$API_KEY ./run",
    "PASSWORD=${DB_PASSWORD}",
    "password: {{ vault_password }}",
    "password=<your password>",
    '"password": "비밀번호", "token": "토큰"',
    '"password": "Password"',
    '"password": "must be at least 8 characters"',
    "the password: must be long",
    "secret: uint256,",
    "token: Uint8Array",
    "max_tokens=4096 total_tokens: 123456",
    "tokens_used: 1234567890",
    "PWD=/home/minsu/project",
    "secretName: db-credentials",
    "Bearer authentication is required",
    "Basic understanding of HTTP",
    "https://example.com:8080/path@2x.png",
    "https://github.com/a/b@v1.2.3",
    "mailto:someone@example.com",
    "git@github.com:a/b.git",
    "task-001 and disk-backed-storage-for-everyone-1234567890",
    "class=sk-loading-indicator-animation-slow",
    'if "-----BEGIN RSA PRIVATE KEY-----" in text:\n    return True\n',
    "auth: authentication, auth = authenticate(user1)",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "비밀번호를 잊으셨나요? 토큰이 만료되었습니다.",
    "user: alice\nrole: planner\n",
    "curl -u $USER:$PASS https://h",
    'curl -u "$USER:$(cat pass1)" https://h',
    "curl -u <user>:<pass> https://h",
    "curl -u user:password https://h",
    "curl -u user: https://h",
    "curl https://h:8080/x -XPUT -d a:b",
    "curl https://h; docker run -u 1000:1000 image",
    "docker run --user node:node -p 3306:3306 mysql",
    "docker run --name mysql -p3306:3306 -u 1000:docker image",
    "rsync -u host1:backup2024/dir .",
    "git push -u origin v1:v2",
    'parser.add_argument("-u", "--user"); parser.add_argument("--password", "-p")',
    'mysql --password "a1$(./payload)"',
    'PASSWORD="a1b2$(./payload)"',
    "the --password option, or --password to be asked",
    "password required\npassword reset\n  password for you\n",
    "Q: is npm_config_cache set? hf_hub_download_with_retry_and_resume_please",
]


def cut(marked: str) -> tuple[str, str]:
    """The text, and what must be left of it."""
    before, _, rest = marked.partition("«")
    secret, _, after = rest.partition("»")
    return before + secret + after, before + MASK + after


@pytest.mark.spec("S2-81")
@pytest.mark.parametrize(("rule", "marked"), POSITIVE)
def test_a_secret_is_masked_and_nothing_else(rule: str, marked: str) -> None:
    text, expected = cut(marked)
    assert R.text(text) == expected
    assert rule in R.found(text)


@pytest.mark.parametrize("text", NEGATIVE)
def test_ordinary_text_is_returned_as_the_same_object(text: str) -> None:
    data = text.encode()
    assert R.text(text) is text
    assert R.data(data) is data
    assert R.found(text) == ()


@pytest.mark.parametrize("marked", [marked for _, marked in POSITIVE])
def test_masking_twice_is_masking_once(marked: str) -> None:
    once = R.text(cut(marked)[0])
    assert R.text(once) is once


def test_a_value_that_holds_a_known_value_inside_base64_is_masked_at_any_offset() -> None:
    size = len(KNOWN.encode())
    for prefix in ("", "u", "u:", "user:"):
        for suffix in ("", "@", "@h", "@host"):
            encoded = base64.b64encode((prefix + KNOWN + suffix).encode()).decode()
            first, last = -(-len(prefix) * 8 // 6), (len(prefix) + size) * 8 // 6  # what says nothing but the value
            masked = R.text(f"a {encoded} z")
            before, mask, after = masked.removeprefix("a ").removesuffix(" z").partition(MASK)
            assert mask and encoded[:first].startswith(before) and encoded[last:].endswith(after), masked


def test_the_environment_gives_values_of_secret_names_and_spares_false_friends() -> None:
    secrets = {"OPENAI_API_KEY": "zzTop-4711", "MY_TOKEN": "blue-whale-9", "DB_PASSWORD": "Tr0ub4dor"}
    friends = {
        "SSH_AUTH_SOCK": "/tmp/agent.1",
        "GOOGLE_APPLICATION_CREDENTIALS": "/home/me/key.json",
        "TOKEN_URL": "https://login.example/token",
        "USE_TOKEN": "true",
        "POSTGRES_PASSWORD": "postgres",
        "MAX_TOKENS": "1234567",
        "HOME": "/home/somebody",
    }
    redactor = Redactor.from_environment({**secrets, **friends}, extra=["plainword"])
    for value in (*secrets.values(), "plainword"):
        assert redactor.text(f"<{value}>") == f"<{MASK}>"
    for value in friends.values():
        assert redactor.text(f"<{value}>") == f"<{value}>"
    assert redactor.found("zzTop-4711") == ("known value of OPENAI_API_KEY",)
    assert redactor.found("plainword") == ("known value",)


def test_a_known_value_of_several_lines_is_masked_line_by_line_and_short_ones_are_ignored() -> None:
    redactor = Redactor([f"-----BEGIN X-----\n\n{MIX[:40]}\n{MIX[10:50]}\nlast-line\n-----END X-----", "abc12"])
    assert redactor.text(f"{MIX[:40]}\nabc12\n{MIX[10:50]}") == f"{MASK}\nabc12\n{MASK}"
    harmless = "the last-line is before -----END X-----"
    assert redactor.text(harmless) == harmless


@pytest.mark.parametrize(
    ("value", "text", "masked"),
    [
        ("k-4711", "k-4711 k-471", f"{MASK} k-471"),  # six characters are the least
        ("k-471", "k-471", "k-471"),
        (f"{MIX[:16]}\n{MIX[20:35]}", f"{MIX[:16]} {MIX[20:35]}", f"{MASK} {MIX[20:35]}"),  # sixteen of a line
    ],
)
def test_how_short_a_known_value_may_be(value: str, text: str, masked: str) -> None:
    assert Redactor([value]).text(text) == masked


def test_the_mask_itself_and_its_parts_are_no_secrets() -> None:
    redactor = Redactor(["REDACTED", f"a{MASK}b"])
    for text in ("REDACTED", f"{MASK} REDACTED", f"a{MASK}b"):
        assert redactor.text(text) == text


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("OPENAI_API_KEY", True),
        ("npm_token", True),
        ("DB_PASSWORD", True),
        ("TOKEN_FILE", False),
        ("MAX_TOKENS", False),
        ("SECRET_ID", False),
        ("EDITOR", False),
        ("KEY", False),
    ],
)
def test_the_names_of_variables_that_hold_secrets(name: str, secret: bool) -> None:
    assert names_secret(name) is secret


def test_beside_masked_text_a_known_value_is_masked_and_a_format_is_not() -> None:
    token = f"ghp_{MIX[:36]}"
    assert R.text(f"{KNOWN}{MASK}{KNOWN}") == MASK * 3
    assert R.text(f"{token}{MASK} {MASK}{token}") == f"{token}{MASK} {MASK}{token}"
    assert R.text(f"{token} {MASK} {token}") == f"{MASK} {MASK} {MASK}"


def test_a_record_keeps_its_shape_and_its_numbers() -> None:
    record = R.record(
        {
            "key": "execute.1",
            "inputTokens": 12,
            "maxOutputTokens": 4096,
            "tokens_used": 5,
            "token": "x",
            "password": "",
            "db": {"apiKey": "short", "secret": 7, "note": None, "ok": True, "f": 1.5},
            KNOWN: ["plain", f"ghp_{MIX[:36]}", [f"is {KNOWN}"]],
        }
    )
    assert record == {
        "key": "execute.1",
        "inputTokens": 12,
        "maxOutputTokens": 4096,
        "tokens_used": 5,
        "token": MASK,
        "password": "",
        "db": {"apiKey": MASK, "secret": 7, "note": None, "ok": True, "f": 1.5},
        MASK: ["plain", MASK, [f"is {MASK}"]],
    }


def test_where_it_masks_is_told_in_characters_with_the_reason() -> None:
    text = f"한글 curl -u 나:«pass» x\n키 ghp_{MIX[:36]} 끝".replace("«", "").replace("»", "")
    [first, second] = R.hidden(text)
    assert text[first.start : first.end] == "pass" and first.names == ("password on a command line",)
    assert text[second.start : second.end] == f"ghp_{MIX[:36]}" and second.names == ("github token",)
    assert R.hidden("nothing") == ()


# --- Properties ------------------------------------------------------------------------------------------------------

PIECES = (
    [cut(marked)[0] for _, marked in POSITIVE] + NEGATIVE + [MASK, KNOWN, KNOWN[:9], PEM[:200], PEM, "***", "REDACTED"]
)
GLUE = [
    "\n",
    " ",
    '"',
    "\\",
    "=",
    ": ",
    "\t",
    "한글 ",
    "é",
    "\x1b[0m",
    "{",
    "}",
    ",",
    "password",
    "token=",
    "\r\n",
    "'",
    "&",
    ";",
    "|",
    "curl -u ",
]
texts = st.lists(st.sampled_from(PIECES + GLUE) | st.text(max_size=12), max_size=14).map("".join)


@settings(deadline=None, max_examples=150)
@given(texts)
def test_what_is_told_to_be_hidden_is_what_is_masked(text: str) -> None:
    shown, done = "", 0
    for span in R.hidden(text):
        assert span.start < span.end and span.names
        shown, done = shown + text[done : span.start] + MASK, span.end
    assert shown + text[done:] == R.text(text)


def in_chunks(redactor: Redactor, data: bytes, cuts: list[int]) -> bytes:
    """The output of a stream, which is the same for an eager one."""
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    found: list[bytes] = []
    for eager in (False, True):
        stream = redactor.stream(eager=eager)
        parts = [stream.feed(data[start:end]) for start, end in pairwise(edges)]
        found.append(b"".join([*parts, stream.close()]))
    assert found[0] == found[1]
    return found[0]


@settings(deadline=None, max_examples=300)
@given(texts, st.lists(st.integers(min_value=0, max_value=10**6), max_size=12))
def test_a_stream_cut_anywhere_gives_the_bytes_of_the_whole(text: str, cuts: list[int]) -> None:
    data = text.encode("utf-8", "surrogatepass")
    assert in_chunks(R, data, cuts) == R.data(data)


@pytest.mark.parametrize("seed", range(12))
def test_long_lines_and_key_blocks_give_the_bytes_of_the_whole(seed: int) -> None:
    rnd = random.Random(seed)
    parts: list[str] = []
    while sum(map(len, parts)) < 120_000:
        parts.append(rnd.choice(PIECES))
        parts.append(rnd.choice(["", " ", "x" * rnd.randrange(9000), "-----BEGIN PRIVATE KEY-----", MIX]))
        if seed % 3 == 0:
            parts.append(rnd.choice(GLUE))
    text = "".join(parts)
    data = (text if seed % 2 else text.replace("\n", " ")).encode()
    cuts = [rnd.randrange(len(data)) for _ in range(rnd.choice([0, 3, 60, 3000]))]
    assert in_chunks(R, data, cuts) == R.data(data)


def test_the_longest_command_line_that_is_understood_is_within_reach_of_a_stream() -> None:
    quoted = "'" + "x" * 240 + "'"
    secret = r"\;" * 512
    command = "curl" + f"    {quoted}{quoted}" * 12 + " -u " + "u" * 128 + ":" + secret
    data = (("y" * 20_000 + " " + command) * 3).encode()
    masked = R.data(data)
    assert masked == data.replace(secret.encode(), MASK.encode())
    assert in_chunks(R, data, list(range(0, len(data), 1000))) == masked


@pytest.mark.parametrize("off", range(-3, 13))
@pytest.mark.parametrize("before", [False, True])
def test_a_key_that_begins_where_a_long_line_is_cut_does_not_leak(before: bool, off: int) -> None:
    """Its head lies about the last byte that would be safe to show; maybe `before` it another key, which has ended."""
    head, end = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
    ended = f"{head}{MIX}{end}" if before else ""
    first = (ended + "x y " * 8000)[: 3 * REACH]
    line = f"{first}{head}{MIX * 300}"[: len(first) + REACH + off]  # of which the last REACH bytes are held back
    data = f"{line}{MIX * 300}{end} and more\n".encode()
    shown = (MASK if before else "") + first[len(ended) :]
    assert in_chunks(R, data, [len(line)]) == R.data(data) == f"{shown}{MASK} and more\n".encode()


def test_a_secret_in_a_line_of_two_megabytes_does_not_leak() -> None:
    secret = f"ghp_{MIX[:36]}"
    data = b"x " * 500_000 + secret.encode() + b" y" * 500_000
    stream = R.stream()
    out = b"".join([*(stream.feed(data[at : at + 4096]) for at in range(0, len(data), 4096)), stream.close()])
    assert out == data.replace(secret.encode(), MASK.encode())


def test_a_stream_shows_finished_lines_at_once_and_never_half_a_key_block() -> None:
    stream = R.stream()
    assert stream.feed(b"one\ntw") == b"one\n"
    assert stream.feed(b"o\n" + PEM[:150].encode()) == b"two\n"
    assert stream.feed(PEM[150:].encode() + b"\nend\n") == f"{MASK}\nend\n".encode()
    assert stream.close() == b""
    first = R.stream()
    assert first.feed(PEM[:150].encode()) == b""  # a key block is all there is
    assert first.feed(PEM[150:].encode() + b"\n") == f"{MASK}\n".encode()


def test_an_eager_stream_shows_words_at_once_and_holds_back_what_may_become_a_secret() -> None:
    redactor = Redactor(["hunter2-and-more"])
    stream = redactor.stream(eager=True)
    assert [stream.feed(word.encode()) for word in ("안녕, ", "the ", "value is hunt", "er2-and", "-more!")] == [
        *("안녕, ".encode(), b"the ", b"value is ", b""),
        f"{MASK}!".encode(),
    ]
    assert stream.feed(b" a token: ") == b" a "  # a named secret may follow, until the line ends
    assert stream.feed(b"x" * 20) == b""
    assert stream.feed(b"\nnext,") == redactor.data(b"token: " + b"x" * 20 + b"\nnext,")
    assert stream.feed(b" sk-") == b" "
    assert stream.feed(b"ant-" + MIX[:40].encode() + b"\n") == f"{MASK}\n".encode()
    assert stream.close() == b""


def test_an_eager_stream_never_shows_a_part_of_a_secret_however_it_is_cut() -> None:
    for piece in PIECES:
        data = f"x {piece} y\n".encode()
        masked = R.data(data)
        stream, shown = R.stream(eager=True), b""
        for at in range(len(data)):
            shown += stream.feed(data[at : at + 1])
            assert masked.startswith(shown), piece
        assert shown + stream.close() == masked


def test_secrets_side_by_side_are_one_mask_wherever_a_stream_is_cut() -> None:
    for second in (KNOWN, PEM):
        data = f"a {KNOWN}{second} z\n{PEM}{KNOWN}\n".encode()
        for at in range(len(data)):
            assert in_chunks(R, data, [at]) == R.data(data), at


def test_secrets_side_by_side_in_a_long_line_are_one_mask() -> None:
    first = "x" * (REACH - len(KNOWN))
    stream = R.stream()
    assert stream.feed(f"{first}{KNOWN}{KNOWN}{first}".encode()) == f"{first}{MASK}".encode()
    assert stream.close() == first.encode()


def test_how_much_of_an_unfinished_line_a_stream_holds_back() -> None:
    assert R.stream().feed(b"x" * (2 * REACH - 1)) == b""
    assert R.stream().feed(b"x" * (2 * REACH)) == b"x" * REACH
    stream = R.stream()
    assert [stream.feed(b"x" * count) for count in (REACH, REACH - 1, 1)] == [b"", b"", b"x" * REACH]


def test_how_much_of_an_unfinished_key_block_a_stream_holds_back() -> None:
    block = b"-----BEGIN PRIVATE KEY-----" + b"A" * 40_000
    assert R.stream().feed(block[:32_767]) == b""
    assert R.stream().feed(block[:32_768]) != b""


def test_the_memory_of_a_stream_is_bounded() -> None:
    stream = R.stream()
    fed = shown = 0
    for chunk in [b"-----BEGIN PRIVATE KEY-----\n", *[b"A" * 63 + b"\n"] * 4000, *[b"B" * 64] * 4000]:
        fed += len(chunk)
        shown += len(stream.feed(chunk))
    assert shown > 200_000
    assert len(stream._buf) < 100_000


@settings(deadline=None, max_examples=400)
@given(st.lists(texts, max_size=3), texts, st.booleans(), st.booleans())
def test_suspects_never_overlooks_what_text_or_record_would_mask(
    values: list[str], key: str, compact: bool, escaped: bool
) -> None:
    obj = {"payload": {"text": values, key: "plain value"}}
    encoded = json.dumps(obj, ensure_ascii=escaped, separators=(",", ":") if compact else None)
    line = encoded.encode("utf-8", "surrogatepass")
    if R.record(obj) != obj or any(R.text(value) != value for value in values):  # type: ignore[arg-type]  # json shape
        assert R.suspects(line)


def test_a_known_value_that_is_escaped_in_a_line_is_suspected() -> None:
    known = Redactor(["비밀번호-열쇠"])
    assert known.suspects(b'{"text":"' + json.dumps("비밀번호-열쇠")[1:-1].encode() + b'"}')


def test_a_known_value_is_suspected_whatever_way_its_characters_are_escaped() -> None:
    assert Redactor(["ab\\cdefgh<"]).suspects(rb'{"text":"ab\\cdefgh\u003c"}')
    known = Redactor(['ab"cd<efgh'])
    assert known.suspects(rb'{"text":"ab\"cd\u003cefgh"}') and not known.suspects(rb'{"text":"ab\"cd\u003cefg"}')


def test_suspects_is_quiet_about_ordinary_events() -> None:
    event = {
        "id": "0000001",
        "type": "PHASE_COMPLETED",
        "payload": {"key": "task-001.2", "digest": f"sha256:{HEX * 4}"},
    }
    usage = {"inputTokens": 5, "note": 'said "hello"\nand left', "url": "https://example.com/a"}
    assert not R.suspects(json.dumps({**event, "usage": usage}).encode())


@settings(deadline=None, max_examples=300)
@given(texts)
def test_redacting_is_idempotent(text: str) -> None:
    once = R.text(text)
    assert R.text(once) == once


@settings(deadline=None, max_examples=100)
@given(st.text(alphabet=st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3) | st.sampled_from(" .,!?\n0123")))
def test_korean_text_is_left_alone(text: str) -> None:
    assert R.text(text) is text
