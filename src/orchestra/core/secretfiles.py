"""Files that are secret by their names: their contents are not shown to models.

The redactor masks text that looks like a secret. A password in `prod.env` or a key in `config/master.key` may not look
like one. Only the file's name shows that it is a secret.

Rules
1. Only the name is judged. Case is ignored, and endings of copies (`.bak`, `~`) are removed first. No file is opened.
2. A pattern without `/` is a file name. A pattern with `/` inside is the end of a path. A pattern that ends with `/` is
   a folder, with everything in it.
3. Templates (`.env.example`), public keys (`id_rsa.pub`, `cert.pem`) and source code (`secrets.py`) are not secret: a
   model may need to see them.
4. In doubt, a well-known tool's file is secret, and a file named by an ordinary word is not.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable
from typing import NamedTuple


class _Kind(NamedTuple):
    """One class of secret files: its description, its name patterns, and the exceptions."""

    reason: str
    names: str
    unless: str = ""


_TEMPLATES = " ".join(
    pattern
    for word in ("example", "sample", "template", "dist", "tmpl", "tpl")
    for pattern in (f"*.{word}", f"*.{word}.*", f"*-{word}", f"*-{word}.*", f"*_{word}", f"*_{word}.*", f"{word}.*")
)
_CODE = (
    "*.py *.pyi *.js *.mjs *.cjs *.jsx *.ts *.tsx *.vue *.svelte *.go *.rs *.java *.kt *.kts *.scala *.swift *.c *.h "
    "*.cc *.cpp *.hpp *.m *.cs *.fs *.rb *.php *.pl *.lua *.ex *.exs *.erl *.clj *.hs *.ml *.dart *.r *.jl *.sh *.bash "
    "*.ps1 *.sql *.tf *.proto *.graphql *.html *.css *.scss *.md *.rst *.adoc *.ipynb"
)
_DATA = ("", ".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf", ".xml", ".txt", ".csv", ".properties", ".env")


def _data(*stems: str) -> str:
    """Each stem with every ending of a data file."""
    return " ".join(stem + ending for stem in stems for ending in _DATA)


_KINDS = (
    _Kind(  # .envrc is direnv's, .dev.vars Cloudflare's, .flaskenv Flask's
        "a file of environment variables",
        ".env* *.env *.env.local *.env.prod* *.env.dev* *.env.stag* *.env.test *.env.ci .flaskenv .dev.vars*",
        _TEMPLATES,
    ),
    _Kind(
        "an SSH key",
        ".ssh/ id_rsa* id_dsa* id_ecdsa* id_ed25519* id_xmss* *_rsa *_dsa *_ecdsa *_ed25519 ssh_host_*_key *.ppk",
        "*.pub *.py *.go *.c *.h *.rs *.js *.ts",
    ),
    _Kind(  # master.key is Rails'; a certificate is public
        "a private key",
        "*.pem *.key *.pk8 *.p8 *.priv *.privkey otr.private_key",
        "*public* *pubkey* *.pub.* *_pub.* *-pub.* cert.pem *.cert.pem *-cert.pem *_cert.pem *.crt.pem certificate.pem "
        "chain.pem fullchain.pem ca.pem cacert.pem *-ca.pem *_ca.pem *-bundle.pem dhparam*.pem *.csr.pem",
    ),
    _Kind(
        "a store of keys or passwords",
        "*.p12 *.pfx *.pkcs12 *.jks *.keystore *.bks *.kdb *.kdbx *.psafe3 *.agilekeychain/ *.opvault/ *.1pux "
        "*.keychain *.keychain-db *.wallet wallet.dat .gnupg/ .password-store/ secring.* *.ovpn",
    ),
    _Kind(  # logins of command-line tools
        "the login of a tool",
        ".netrc _netrc .git-credentials .gitcookies .npmrc .pypirc .gem/credentials .dockercfg .docker/config.json "
        ".dockerconfigjson dockerconfig.json .s3cfg .boto .sentryclirc .clasprc.json .terraformrc terraform.rc "
        "credentials.tfrc.json .config/gh/hosts.yml .config/hub .subversion/auth/ .cargo/credentials .codex/auth.json "
        ".m2/settings.xml settings-security.xml auth.json .bundle/config rclone.conf .mc/config.json "
        ".vault-token .vault_token .claude/.credentials.json .credentials.json",
    ),
    _Kind(
        "the login of a cloud or cluster",
        ".aws/credentials .aws/config .aws/cli/ .aws/sso/ .azure/accesstokens.json .azure/msal_token_cache.* "
        ".oci/config .oci/sessions/ .kube/config* .config/gcloud/ .gcloud/ kubeconfig *.kubeconfig kubeconfig.* "
        "kubeconfig-* service-account*.json service_account*.json serviceaccount*.json *firebase-adminsdk*.json "
        "client_secret*.json client-secret*.json application_default_credentials.json gcp-key*.json gcp_key*.json "
        "token.pickle",
        _TEMPLATES,
    ),
    _Kind(
        "the login of a database or mail program",
        ".pgpass pgpass.conf .my.cnf .mylogin.cnf .rediscli_auth .msmtprc .esmtprc .fetchmailrc .getmailrc .mbsyncrc "
        ".offlineimaprc .ftpconfig sftp.json sftp-config.json .remote-sync.json filezilla.xml recentservers.xml "
        "sitemanager.xml ws_ftp.ini wpa_supplicant.conf *.nmconnection wg0.conf wg1.conf",
        _TEMPLATES,
    ),
    _Kind("passwords of users", ".htpasswd htpasswd *.htpasswd .htdigest shadow passwd .passwd pwfile password_file"),
    _Kind(  # Terraform writes every value into its state, passwords of databases too
        "values and state of Terraform",
        "*.tfstate *.tfstate.* *.tfvars *.tfvars.json",
        _TEMPLATES,
    ),
    _Kind(
        "a file of secrets",
        f"{_data('secret', 'secrets', '.secret', '.secrets', '*-secret', '*-secrets', '*_secret', '*_secrets')} "
        f"{_data('*.secret', '*.secrets', 'secrets.*', 'credential', 'credentials', '.credentials')} "
        f"{_data('*-credentials', '*_credentials')} "
        f"{_data('password', 'passwords', 'passphrase', 'token', 'api_key', 'api-key', 'apikey', 'api_keys', 'vault')} "
        f"{_data('vault_pass', 'vault-pass', 'vault_password', 'vault-password', '.vault_pass', '.vault-pass')} "
        "tokens.txt .token .apikey .vault_password secrets/ .secrets/ secret/",
        f"{_TEMPLATES} {_CODE} sealed* external* *.baseline *.enc *.schema.json",
    ),
    _Kind(  # files of frameworks with the password of a database or a signing key
        "a framework's file of passwords",
        "wp-config.php localsettings.php local_settings.py settings.local.php sites/*/settings.php app/etc/env.php "
        "config.inc.php secret_token.rb app/config/parameters.yml local.properties keystore.properties key.properties "
        "signing.properties release-signing.properties",
        _TEMPLATES,
    ),
    _Kind(
        "what was typed or sent, passwords too",
        ".*_history .histfile cookies.txt cookie.txt *.har",
    ),
)
# What editors, tools and people put behind the name of a copy: `.bak`, `~`, `.1`, `.20240131`, ` (copy)`, ` copy 2`.
_COPY = re.compile(
    r"(?:\.(?:bak|backup|old|orig|save|saved|copy|sw[a-z]|tmp|disabled|txt|\d{1,14})|~|[. ]+"
    r"| ?\((?:copy|\d+)\)| copy(?: \d+)?)\Z"
)


def secret_by_name(path: str) -> str:
    """The kind of secret in a file, judged by its path in the project; empty if it is not secret by name."""
    folder, _, name = unicodedata.normalize("NFKC", path).casefold().rpartition("/")
    bare = name.strip("# ")
    while bare:
        ending = f"/{folder}/{bare}" if folder else f"/{bare}"
        for kind, is_one, is_none in _judges():
            if is_one(ending) and not is_none(ending):
                return kind.reason
        bare, before = _COPY.sub("", bare), bare
        if bare == before:
            break
    return ""


_Judge = Callable[[str], re.Match[str] | None]


@functools.cache
def _judges() -> tuple[tuple[_Kind, _Judge, _Judge], ...]:
    """The table, compiled when the first name is judged."""
    return tuple((kind, _compiled(kind.names), _compiled(kind.unless)) for kind in _KINDS)


def _compiled(patterns: str) -> _Judge:
    """One search for all patterns (rule 2). `*` stays within a name."""
    globs = ["[^/]*".join(map(re.escape, pattern.split("*"))) for pattern in patterns.split()]
    ends = [glob if glob.endswith("/") else rf"{glob}\Z" for glob in globs]
    return re.compile(rf"/(?:{'|'.join(ends)})" if ends else r"(?!)").search
