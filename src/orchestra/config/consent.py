"""Consent: the lines of a project's configuration that do more than the defaults, and whether the user agreed to them.

Rules
1. A clone's configuration was written by others. Lines about servers that get a key, programs, less
   containment, the network, folders outside the project, variables passed on, or fewer questions count only after the
   person agreed. What runs in the sandbox anyway (whitelists, rules, tools of the project) needs no consent, nor what
   only narrows, nor what a person typed on a command line.
2. Consent is for one folder and for exactly these lines, normalised: a line that is new or changed asks again, a line
   that was removed does not. A provider's whole entry is one line: a key agreed to for one server is not agreed to
   for another.
3. It is kept outside the project (core/keyring.py: state_folder) and can be revoked. A person's own file
   (`$XDG_CONFIG_HOME/orchestra/config.yaml`) agrees to its lines for every project. `ORCHESTRA_TRUST` names the digest
   of all lines, for machines without a person.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import Struct

from orchestra.config.borders import Place
from orchestra.config.sections import KINDS, Config, ProviderSection
from orchestra.config.settings import Loaded, read_own_config
from orchestra.config.yamlfile import Origins
from orchestra.core.disk import Disk
from orchestra.core.errors import NoConsent, OddFile, UsageError
from orchestra.core.files import MIB, read_bounded
from orchestra.core.keyring import state_folder, within_project
from orchestra.core.records import now
from orchestra.core.text import clean
from orchestra.policy.policy import within

TRUST = "ORCHESTRA_TRUST"
_NATIVE = "this file is read by native code on your machine"
_PLAIN = re.compile(r"[\w./:@~*+,=-]+", re.ASCII)  # texts that are unambiguous without quotes


class Line(Struct, frozen=True):
    """A line of the configuration that needs a person's consent."""

    key: str
    value: str  # normalised: the same meaning is the same text
    why: str
    where: str  # file:line

    @property
    def text(self) -> str:
        return f"{self.key}: {self.value}"


class Agreed(Struct, frozen=True):
    """The record of what a person agreed to, for one folder."""

    project: str
    lines: tuple[str, ...]
    by: str
    at: str


class Consent:
    """The lines of one project that need consent, and those that the person agreed to."""

    def __init__(self, project: Path, loaded: Loaded, place: Place, environ: Mapping[str, str], disk: Disk) -> None:
        self.lines = tuple(lines_of(loaded.config, loaded.origins, place))
        self._project = str(project)
        self._place = place
        self._environ = environ
        self._disk = disk

    @property
    def digest(self) -> str:
        """The digest of all lines, sorted: the value of ORCHESTRA_TRUST."""
        return "sha256:" + hashlib.sha256(msgspec.json.encode(sorted(self._texts))).hexdigest()

    @property
    def agreed(self) -> Agreed | None:
        """The record for this folder; None if there is none that can be trusted."""
        if within_project(self._file, self._project):
            return None  # a patch could have written the record
        try:
            found = msgspec.json.decode(read_bounded(self._file, MIB), type=Agreed)
        except (OSError, OddFile, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return found if found.project == self._project else None

    @property
    def missing(self) -> tuple[Line, ...]:
        """The lines that the person has not agreed to."""
        if not self.lines or self._environ.get(TRUST, "").strip() == self.digest:
            return ()
        here = self.agreed
        agreed = {*(here.lines if here else ()), *self._everywhere}
        return tuple(line for line in self.lines if line.text not in agreed)

    def require(self) -> None:
        """Raise NoConsent, with each line, if the person has not agreed to one."""
        missing = self.missing
        if not missing:
            return
        told = "\n".join(f"  {clean(line.where)}  {clean(line.text)}\n      {line.why}" for line in missing)
        other = self._environ.get(TRUST, "").strip()
        wrong = f" ({TRUST} is {other}: it is for other lines.)" if other else ""
        elsewhere = ("-C", self._project) if self._project != os.path.realpath(os.curdir) else ()
        raise NoConsent(
            f"the configuration of {self._project} asks for more than the defaults, and you have not agreed to it:\n"
            f"{told}\nIf you want that: {shlex.join(('orchestra', 'trust', '--yes', *elsewhere))}. "
            f"Where nobody can type it: {TRUST}={self.digest}{wrong}"
        )

    def agree(self, by: str) -> None:
        """Record durably that a person agreed to the lines as they are now."""
        if within_project(self._file, self._project):
            raise UsageError(f"{self._file.parent} lies in the project, where a patch reaches it: set XDG_STATE_HOME")
        record = Agreed(self._project, self._texts, by, now())
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._disk.publish(self._file, msgspec.json.format(msgspec.json.encode(record)) + b"\n", durable=True)
        except OSError as error:
            raise UsageError(
                f"your consent cannot be kept in {self._file.parent}: {error.strerror}. "
                f"Make that folder writable, or set XDG_STATE_HOME; where nobody can: {TRUST}={self.digest}"
            ) from error

    def revoke(self) -> bool:
        """Delete the record; False if there was none."""
        try:
            self._disk.unlink(str(self._file))
        except FileNotFoundError:
            return False
        self._disk.sync_folder(self._file.parent)
        return True

    @property
    def _texts(self) -> tuple[str, ...]:
        return tuple(line.text for line in self.lines)

    @property
    def _file(self) -> Path:
        name = hashlib.sha256(self._project.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return state_folder(self._environ) / "consent" / f"{name}.json"

    @cached_property
    def _everywhere(self) -> frozenset[str]:
        """The lines of the person's own file, which hold for every project."""
        path = own_file(self._environ)
        if path is None or not path.exists():
            return frozenset()
        if within_project(path, self._project):
            raise UsageError(f"{path} lies in the project, where a patch reaches it; it is to be yours alone")
        loaded = read_own_config(path, self._environ)
        return frozenset(line.text for line in lines_of(loaded.config, loaded.origins, self._place))


def own_file(environ: Mapping[str, str]) -> Path | None:
    """The person's own configuration, for all projects; None where there is no home."""
    config, home = environ.get("XDG_CONFIG_HOME", ""), environ.get("HOME", "")
    if config.startswith("/"):
        return Path(config) / "orchestra" / "config.yaml"
    return Path(home) / ".config" / "orchestra" / "config.yaml" if home.startswith("/") else None


# -- which lines ------------------------------------------------------------------------------------------------------


_Tell = Callable[..., Line]  # why, the value, and its key path


def lines_of(config: Config, origins: Origins, place: Place) -> Iterator[Line]:
    """Every line that does more than the defaults (rule 1)."""

    def tell(why: str, value: str, *keys: str | int) -> Line:
        names = [_quoted(key) for key in keys if not isinstance(key, int)]
        return Line(".".join(names), value, why, origins.where(*keys))

    yield from _about_commands(config, place, tell)
    yield from _about_code(config, place, tell)
    yield from _about_folders(config, place, tell)
    yield from _about_models(config, place, tell)
    yield from _about_asking(config, tell)


def _about_commands(config: Config, place: Place, tell: _Tell) -> Iterator[Line]:
    tier = config.sandbox.tier
    if tier != "strict":
        why = "nothing contains commands" if tier == "none" else "commands are contained less"
        yield tell(why, tier, "sandbox", "tier")
    for index, port in enumerate(config.sandbox.loopback):
        yield tell("commands reach the service on this port of your machine", str(port), "sandbox", "loopback", index)
    for index, name in enumerate(config.sandbox.env):
        yield tell("commands get this variable of yours", name, "sandbox", "env", index)
    if config.policies.allow_network:
        yield tell("commands may use the network", "true", "policies", "allow_network")
        for index, domain in enumerate(config.security.net.allow_domains):
            why = "commands may send what they read there"
            yield tell(why, _quoted(domain), "security", "net", "allow_domains", index)
    named = config.environment
    if named and named != "none" and not within(place.real(named), place.base):
        yield tell("commands use this environment, outside the project", _quoted(place.real(named)), "environment")
    for name, target in config.tools.items():
        if not within(place.real(target), place.base):
            why = "commands use this program, outside the project"
            yield tell(why, _quoted(place.real(target)), "tools", name)


def _about_code(config: Config, place: Place, tell: _Tell) -> Iterator[Line]:
    for name, target in config.workflows.items():
        file, _, function = target.rpartition(":")
        why = "this code runs on your machine, as you, outside the sandbox"
        yield tell(why, f"{_quoted(place.named(file))}:{function}", "workflows", name)
    if config.notify:
        argv = " ".join(_quoted(word) for word in config.notify)
        yield tell("this command runs on your machine, as you, outside the sandbox", argv, "notify")


def _about_folders(config: Config, place: Place, tell: _Tell) -> Iterator[Line]:
    fs = config.security.fs
    for key, verb, entries in (("allow_read", "read", fs.allow_read), ("allow_write", "write", fs.allow_write)):
        for index, entry in enumerate(entries):
            if _is_outside(entry, place):
                why = f"commands may {verb} there, outside the project"
                yield tell(why, _quoted(place.real(entry)), "security", "fs", key, index)
    for key in ("runs", "logs", "artifacts", "report"):
        real = place.real(getattr(config.paths, key))
        if not within(real, place.base):
            yield tell("runs are kept there, outside the project", _quoted(real), "paths", key)


def _about_models(config: Config, place: Place, tell: _Tell) -> Iterator[Line]:
    for name, entry in config.providers.items():
        if isinstance(entry, ProviderSection) and (said := _server(name, entry, place)):
            yield tell(_why_server(entry), said, "providers", name)
        elif isinstance(entry, str) and (file := _model_file(entry, config)):
            yield tell(_NATIVE, _quoted(place.named(file)), "providers", name)
    for name, spec in config.roles.items():
        if file := _model_file(spec, config):
            yield tell(_NATIVE, _quoted(place.named(file)), "roles", name)
    if not config.security.redact_secrets:
        yield tell("secrets are written down and sent to models as they are", "false", "security", "redact_secrets")


def _about_asking(config: Config, tell: _Tell) -> Iterator[Line]:
    if config.loop.approval != "always":
        yield tell("patches are applied without you", config.loop.approval, "loop", "approval")
    if config.contracts.approval != "always":
        yield tell("patches are applied without you", config.contracts.approval, "contracts", "approval")
    if config.dag.approval == "never":
        yield tell("plans and changes are carried out without you", config.dag.approval, "dag", "approval")


def _is_outside(entry: str, place: Place) -> bool:
    return not (within(place.real(entry), place.base) or place.private(entry) or place.narrowed(entry))


def _server(name: str, entry: ProviderSection, place: Place) -> str:
    """The server, program or file of an entry, in one line; empty if the entry names none."""
    kind = entry.kind or (name if name in KINDS else "")
    # The path as it will be started: relative to the project's folder, `~` is not expanded (commands/tools.py).
    program = os.path.normpath(os.path.join(place.base, entry.program)) if "/" in entry.program else entry.program
    file = place.named(entry.file) if entry.file and kind == "local" else ""  # a script contains only replies
    said = {"base_url": entry.base_url.rstrip("/"), "key_env": entry.key_env, "program": program, "file": file}
    given = [f"{key}={_quoted(value)}" for key, value in said.items() if value]
    return " ".join((f"kind={kind}", *given)) if given else ""


def _why_server(entry: ProviderSection) -> str:
    if entry.key_env:
        return f"the value of {entry.key_env} is sent there as a key, with your files"
    if entry.base_url:
        return "your files are sent there"
    return "this program gets your files" if entry.program else _NATIVE


def _model_file(spec: str, config: Config) -> str:
    """The model file that a spec names for `local`; empty if it names none (providers/choose.py, rule 1)."""
    name, _, file = spec.partition(":")
    for _ in config.providers:  # follows aliases; there cannot be more steps than entries
        entry = config.providers.get(name)
        if not isinstance(entry, str) or entry.partition(":")[0] == name:
            break
        name, _, usual = entry.partition(":")
        file = file or usual
    entry = config.providers.get(name)
    kind = entry.kind or name if isinstance(entry, ProviderSection) else name
    return file if kind == "local" else ""


def _quoted(value: str) -> str:
    """A value, in quotes unless it is unambiguous without them."""
    return value if _PLAIN.fullmatch(value) else msgspec.json.encode(value).decode()
