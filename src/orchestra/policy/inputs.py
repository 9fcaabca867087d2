"""What a task may bring along: arguments, environment, files (S2-19 … S2-21, F2-09). Pure.

Rules
1. An argument has at most 1,000 characters, a value of the environment 10,000; at most 100 files of 1 MiB, a path of at
   most 255 characters.
2. A file's path is relative to the workspace and stays in it; it is judged as the strictest file system would read it.
   `.git` and the folders of runs are closed in every spelling.
3. A variable is refused by its name if it changes which code a tool runs, where it finds it, or where its traffic goes:
   with it a whitelisted tool would be another program. PYTHONPATH and NODE_PATH are allowed: they only add folders that
   the tool can see anyway. The list is in FORBIDDEN_ENV and FORBIDDEN_ENV_PREFIXES.

The sandbox is what protects. These limits ensure that what was requested is what runs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from orchestra.core.names import OWN, RUNS, folded, is_name, met_folder

MAX_ARGUMENT = 1_000
MAX_ENV_VALUE = 10_000
MAX_FILES = 100
MAX_FILE_BYTES = 1 << 20
MAX_PATH = 255
MAX_TOTAL_BYTES = 1 << 20  # of all arguments and variables: the kernel takes about two, the sandbox's own included

CLOSED = (*OWN, RUNS)
_NAMES = (
    # the tool's user and folders: set by the sandbox
    "PATH HOME USER LOGNAME SHELL PWD OLDPWD TMPDIR TMP TEMP XDG_CONFIG_HOME XDG_CONFIG_DIRS"
    " XDG_DATA_HOME XDG_RUNTIME_DIR"
    # shells: code before, inside or instead of the script
    " ENV BASH_ENV SHELLOPTS BASHOPTS IFS PS4 PROMPT_COMMAND CDPATH GLOBIGNORE FPATH ZDOTDIR"
    # the C library: modules, resolvers, tunables
    " GCONV_PATH LOCPATH NLSPATH HOSTALIASES LOCALDOMAIN RES_OPTIONS RESOLV_HOST_CONF GLIBC_TUNABLES GETCONF_DIR"
    # interpreters: other code at start
    " PYTHONHOME PYTHONSTARTUP PYTHONINSPECT PYTHONBREAKPOINT PYTHONUSERBASE PYTHONEXECUTABLE PYTHONWARNINGS"
    " PYTHONPLATLIBDIR PYTHONPYCACHEPREFIX PYTHONCASEOK NODE_OPTIONS NODE_EXTRA_CA_CERTS NODE_REPL_EXTERNAL_MODULE"
    " PERL5OPT PERL5DB PERL5LIB PERLLIB RUBYOPT RUBYLIB JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH"
    " PHP_INI_SCAN_DIR PHPRC LUA_INIT R_PROFILE R_PROFILE_USER R_ENVIRON"
    # programs a tool starts on its own account
    " PAGER MANPAGER LESSOPEN LESSCLOSE EDITOR VISUAL BROWSER SSH_ASKPASS SUDO_ASKPASS RSYNC_RSH MAKEFLAGS MAKEFILES"
    " TAR_OPTIONS GZIP CURL_HOME WGETRC NETRC OPENSSL_CONF OPENSSL_MODULES SSH_AUTH_SOCK DOCKER_HOST"
    # where traffic goes, which certificates are trusted
    " HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY NO_PROXY SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE"
    " NODE_TLS_REJECT_UNAUTHORIZED VIRTUAL_ENV"
)
FORBIDDEN_ENV = frozenset(_NAMES.split())
_PREFIXES = "LD_ DYLD_ GIT_ BASH_FUNC_ PIP_ NPM_CONFIG_ PNPM_ YARN_ POETRY_ UV_ PYENV_ MALLOC_ ORCHESTRA_"
FORBIDDEN_ENV_PREFIXES = tuple(_PREFIXES.split())

ViolationCode = Literal["PATH_TRAVERSAL_ATTEMPT", "FORBIDDEN_VARIABLE", "INPUT_LIMIT", "INPUT_INVALID"]
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Violation(msgspec.Struct, frozen=True):
    """An input that a task may not have: the kind of violation, its place in the inputs, the reason."""

    code: ViolationCode
    where: str  # e.g. "inputs.files[2].path"
    reason: str


def check_inputs(
    args: Sequence[str],
    env: Mapping[str, str],
    files: Iterable[tuple[str, str]],
    *,
    closed: Sequence[str] = CLOSED,
) -> tuple[Violation, ...]:
    """Everything that is wrong with a task's inputs. `files` are (path, content); `closed` are closed folders."""
    found = [*_arguments(args), *_variables(env), *_files(list(files), closed)]
    texts = (*args, *env, *env.values())
    total = len(_utf8("".join(texts))) + len(texts)  # as the kernel counts: each ends with a NUL
    if total > MAX_TOTAL_BYTES:
        why = f"arguments and variables have {total} bytes together; at most {MAX_TOTAL_BYTES}: use a file"
        found.append(Violation("INPUT_LIMIT", "inputs", why))
    return tuple(found)


def _arguments(args: Sequence[str]) -> Iterator[Violation]:
    for index, text in enumerate(args):
        where = f"inputs.args[{index}]"
        if len(text) > MAX_ARGUMENT:
            yield Violation("INPUT_LIMIT", where, f"it has {len(text)} characters; at most {MAX_ARGUMENT}")
        if wrong := _unfit(text):
            yield Violation("INPUT_INVALID", where, wrong)


def _variables(env: Mapping[str, str]) -> Iterator[Violation]:
    for name, value in env.items():
        where = f"inputs.env.{name[:40]}"
        if not _ENV_NAME.fullmatch(name) or len(name) > MAX_PATH:
            yield Violation("INPUT_INVALID", where, f"{name[:40]!r} is no name of a variable")
        elif why := forbidden_variable(name):
            yield Violation("FORBIDDEN_VARIABLE", where, why)
        if len(value) > MAX_ENV_VALUE:
            yield Violation("INPUT_LIMIT", where, f"its value has {len(value)} characters; at most {MAX_ENV_VALUE}")
        if wrong := _unfit(value):
            yield Violation("INPUT_INVALID", where, wrong)


def wrong_variable(name: str) -> str:
    """Why a variable of the user cannot be passed to commands; empty if it can."""
    if not _ENV_NAME.fullmatch(name):
        return "it is no name of a variable: letters, digits and _; its value is taken from your environment"
    return forbidden_variable(name)


def forbidden_variable(name: str) -> str:
    """Why a task may not set this variable (rule 3); empty if it may. Case is ignored: `http_proxy` is read too."""
    upper = name.upper()
    if upper in FORBIDDEN_ENV or upper.startswith(FORBIDDEN_ENV_PREFIXES):
        return f"no task may have {name} set: it changes what a tool runs, where it finds it or whom it talks to"
    return ""


def _files(files: Sequence[tuple[str, str]], closed: Sequence[str]) -> Iterator[Violation]:
    if len(files) > MAX_FILES:
        yield Violation("INPUT_LIMIT", "inputs.files", f"{len(files)} files; at most {MAX_FILES}")
    seen: dict[str, str] = {}
    for index, (path, content) in enumerate(files):
        where = f"inputs.files[{index}]"
        if len(path) > MAX_PATH:
            yield Violation("INPUT_LIMIT", f"{where}.path", f"it has {len(path)} characters; at most {MAX_PATH}")
        if wrong := wrong_path(path, closed):
            yield Violation("PATH_TRAVERSAL_ATTEMPT", f"{where}.path", f"{path[:80]!r}: {wrong}")
        size = len(_utf8(content))
        if size > MAX_FILE_BYTES:
            yield Violation("INPUT_LIMIT", where, f"its content has {size} bytes; at most {MAX_FILE_BYTES}")
        if wrong := _unfit(content, nul=True):
            yield Violation("INPUT_INVALID", where, wrong)
        name = folded(path)
        if name in seen:
            yield Violation("INPUT_INVALID", f"{where}.path", f"{path[:80]!r} is the same file as {seen[name][:80]!r}")
        seen[name] = path
    for name, path in seen.items():
        parents = ("/".join(name.split("/")[:depth]) for depth in range(1, name.count("/") + 1))
        if any(parent in seen for parent in parents):
            yield Violation("INPUT_INVALID", "inputs.files", f"{path[:80]!r} lies in a folder that is a file here too")


def wrong_path(path: str, closed: Sequence[str] = CLOSED) -> str:
    """Why a file may not be written under this path in the workspace (rule 2), or an empty string."""
    if not path:
        return "the path is empty"
    if path.startswith(("/", "~")) or re.match(r"[A-Za-z]:", path):
        return "the path is not relative to the workspace"
    if "\\" in path:
        return "the path has a backslash"
    if any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in path):
        return "the path has control characters"
    parts = path.split("/")
    for part in parts:
        if part in ("", ".", ".."):
            return f"the path has a part {part!r}"
        if part != part.rstrip(". ") or ":" in part:
            return f"the part {part!r} means another name on some file systems"
        if len(_utf8(part)) > MAX_PATH:
            return f"a part has more than {MAX_PATH} bytes"
        if is_name(part, ".git"):
            return "nothing is written into .git"
    if folder := met_folder(path, closed):
        return f"{folder} belongs to orchestra"
    return ""


def _unfit(text: str, *, nul: bool = False) -> str:
    if "\0" in text and not nul:
        return "it has a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "it is not valid Unicode text"
    return ""


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
