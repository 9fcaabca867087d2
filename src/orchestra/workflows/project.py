"""A project folder, opened: its configuration, policy, consent and key, its providers, and its sandbox for commands.

Everything that starts or drives a run uses a `Project`, and so does a workflow that prepares a job. Runs are opened by
its store (core/store.py) and found by `runs/find.py`.
"""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec import UnsetType

from orchestra.commands.environment import (
    NO_CHOICE,
    NONE,
    Choice,
    Environment,
    find_environment,
    is_venv,
    recorded_form,
)
from orchestra.commands.notify import Notify
from orchestra.commands.program import Programs
from orchestra.commands.sandbox import Workshop
from orchestra.commands.scratch import Scratch, scratch_root
from orchestra.commands.tools import Toolbox
from orchestra.commands.trial import must_run
from orchestra.config.borders import Place, homes
from orchestra.config.consent import Consent
from orchestra.config.overlay import Overlay, laid_over
from orchestra.config.sections import Config
from orchestra.config.settings import find_config, policy_of, read_config
from orchestra.context.opening import opened_file, recorded, written
from orchestra.context.rules import Rules, find_rules
from orchestra.context.view import View
from orchestra.context.walk import walk
from orchestra.core.copies import Copies, copy_of, path_of
from orchestra.core.disk import Chaos, Disk
from orchestra.core.errors import SandboxError, UsageError
from orchestra.core.globs import Globs
from orchestra.core.keyring import Keyring
from orchestra.core.model import Gathered, Provider
from orchestra.core.names import OWN
from orchestra.core.projects import Projects
from orchestra.core.redact import Redactor
from orchestra.core.run import RunFolder
from orchestra.core.shown import Opened, Search
from orchestra.core.store import FileStore, Store
from orchestra.patch.safety import wrong_path
from orchestra.policy.policy import Policy, within
from orchestra.providers.choose import Models, Providers
from orchestra.worker.probe import Proof
from orchestra.workflows.beginning import Recorded, begun_from, refuse_context, shown_to_models
from orchestra.workflows.copying import copy_project, is_copied
from orchestra.workflows.gitplace import CommitPlace, commit_place
from orchestra.workflows.guard import closed_folders, environment_folders
from orchestra.workflows.workspace import make_folder, wrong_folder

_DIGIT = "[0-9]"
_ONLY_RUNS = f"/.gitignore\n/{_DIGIT * 4}-{_DIGIT * 2}-{_DIGIT * 2}_{_DIGIT * 3}*_*/\n".encode()
ENVIRONMENT = "environment"  # the name, in `typed`, of an environment that a person chose


class Project:
    """One project folder, with the settings from its files and the environment."""

    def __init__(
        self,
        path: Path,
        *,
        environ: Mapping[str, str] = os.environ,
        config: Path | None = None,
        overlay: Overlay | None = None,
        find: Callable[[str], RunFolder],
    ) -> None:
        """`config` replaces the project's configuration file; `overlay` changes settings of either.

        `find` returns a run of the project, by its id.
        """
        if not path.is_dir():
            raise UsageError(f"{path} is not a folder; give -C DIR")
        self.path = path.resolve()
        self.folder = ""  # the folder in the project that a run works in (`inside`); empty: the project itself
        self.copy = ""  # the copy of the project that a run works in (`at`); empty: the project itself
        self.workspace = self.path  # the folder that a run works in: copy and folder together (workflows/workspace.py)
        self.environ = environ
        self.overlay = overlay
        self.config_path = config or find_config(self.path)
        loaded = read_config(self.config_path, environ)
        chaos = environ.get("ORCHESTRA_CHAOS")
        self.disk = Disk(Chaos.from_spec(chaos) if chaos else None)
        # relative paths start here (G2-10)
        self.base = self.config_path.absolute().parent if self.config_path else self.path
        self.policy: Policy = policy_of(loaded.config, self.base, loaded.origins, environ)
        self.place = Place.of(self.base, loaded.config.paths.runs, environ)
        self.consent = Consent(self.path, loaded, self.place, environ, self.disk)
        self.keyring = Keyring(environ, self.path, self.disk)
        if overlay is not None:
            loaded, self.policy = laid_over(loaded, self.policy, overlay, self.base, environ)
        self.config: Config = loaded.config
        self.origins = loaded.origins
        self.usual_runs = self.path / ".runs" / "workflows"  # S1-100
        self.runs_folder = Path(os.path.normpath(self.base / self.config.paths.runs))
        self.providers = Providers(
            self.config,
            self.base,
            environ,
            find=find,
            events=lambda run: self.store.events(run, keep=False),
            programs=lambda: Programs(self.workshop, self.policy.tier),
        )
        secrets = (*self.providers.secrets, *filter(None, (self.keyring.secret,)))
        # masks secrets even if the configuration turns masking off
        self.watchful = Redactor.from_environment(environ, secrets)
        self.redactor = self.watchful if self.config.security.redact_secrets else Redactor.blind()
        self.store: Store = FileStore(self.disk, self.redactor, self.keyring)
        self.projects = Projects(environ, self.store)
        self._chosen = NO_CHOICE

    @property
    def _top(self) -> Path:
        return Path(os.path.normpath(self.path / self.copy))

    @property
    def copies(self) -> Copies:
        """Where the copies of the project are that runs work in."""
        return Copies(self.path, (self.usual_runs, self.runs_folder))

    def at(self, copy: str) -> Project:
        """The project as a run sees it that works in this copy; UsageError if that is gone, or is no copy."""
        if not copy:
            return self
        self.copies.found(copy)
        return self._seen_from("", copy)

    def copied(self, run: Path) -> Project:
        """The project as the run with this folder sees it, which works in a copy of its own, made now."""
        made = copy_of(run)
        copy_project(self.path, made, self._closed)
        return self.at(path_of(self.path, made))

    def below(self, above: str, wanted: str | UnsetType) -> Project:
        """The project as a child run sees it: in its parent's folder, or in the folder that the child wants inside it.

        UsageError if no run may work there. The folder need not exist yet.
        """
        if isinstance(wanted, UnsetType):
            return self._seen_from(above, self.copy) if above else self
        if why := wrong_path(wanted):
            raise UsageError(f"workspace {wanted!r}: {why}")
        folder = f"{above}/{wanted}" if above else wanted
        if why := wrong_folder(self._top, folder, self._closed):
            raise UsageError(f"workspace {wanted!r}: {why}")
        return self._seen_from(folder, self.copy)

    def inside(self, folder: str) -> Project:
        """The project as a run sees it that works in this folder, which is made if it is missing."""
        if not folder:
            return self
        if why := wrong_folder(self._top, folder, self._closed):
            raise UsageError(f"the run works in {folder} of the project, and that cannot be used now: {why}")
        make_folder(self._top, folder)
        return self._seen_from(folder, self.copy)

    def _seen_from(self, folder: str, copied: str) -> Project:
        inner = copy.copy(self)
        inner.folder, inner.copy = folder, copied
        inner.workspace = inner._top / folder
        inner.__dict__["workshop"] = self.workshop.inside(inner.workspace)
        return inner

    def _closed(self, place: str) -> tuple[str, ...]:
        """The folders that are closed to runs and patches, seen from a folder of the project."""
        own = (f"{place}/{name}" for name in OWN)
        return (*own, *self.closed, *environment_folders(place, self.environment))

    @functools.cached_property
    def closed(self) -> tuple[str, ...]:
        """The folders that the configuration closes to runs and patches, besides orchestra's own."""
        return closed_folders(self.config, self.place)

    # -- providers ----------------------------------------------------------------------------------------------------

    def provider(self, models: Models, role: str, agent: str = "") -> Provider:
        """The provider for a role, before a run exists; UsageError if the choice is wrong."""
        return self.providers.make(self.providers.choice_for(models, agent or role, role))

    # -- commands -----------------------------------------------------------------------------------------------------

    def choose_environment(self, text: str) -> None:
        """Use the environment that a person typed: a folder, from here or from the project, or none."""
        here = os.path.abspath(text)
        self.use_environment(Choice(here if text != NONE and is_venv(here) else text, "--environment"))

    def use_environment(self, choice: Choice) -> None:
        """Use this environment for the commands; without a choice, the one that the configuration names or is found."""
        if choice == self._chosen:
            return
        self._chosen = choice
        for made in ("environment", "toolbox"):
            self.__dict__.pop(made, None)
        if "workshop" in self.__dict__:
            self.workshop.use(self.toolbox)

    def recorded_environment(self) -> tuple[str, bool]:
        """What a new run records of its environment, and whether a person chose it; empty if there is none to record.

        A folder that a person activated elsewhere counts as chosen.
        """
        used = self.environment
        if not used:
            return (NONE, True) if used.source == "--environment" else ("", False)
        chosen = used.source == "--environment" or (used.source == "VIRTUAL_ENV" and not used.inside)
        return recorded_form(used, str(self.path)), chosen

    def resume_environment(self, recorded: str, *, chosen: bool) -> None:
        """Use the environment that a run recorded, unless it was merely found and does not count any more.

        One that was found counts if it lies in the project, is still there, and the configuration names no other.
        """
        if recorded and chosen:
            self.use_environment(Choice(recorded, "--environment"))
            return
        folder = f"{self.path}/{recorded}"
        counts = bool(recorded) and not self.config.environment and is_venv(folder)
        inside = within(os.path.realpath(folder), str(self.path))  # a record of others, or a new link, opens nothing
        self.use_environment(NO_CHOICE)
        if counts and inside and self.environment.real != os.path.realpath(folder):
            self.use_environment(Choice(recorded, "project"))

    @functools.cached_property
    def environment(self) -> Environment:
        """The environment of this project's commands; UsageError if the chosen one is none."""
        named = self.config.environment
        configured = Choice(named if named == NONE else self.place.named(named), "environment:") if named else NO_CHOICE
        return find_environment(str(self.path), self.environ, self._chosen if self._chosen.text else configured)

    @functools.cached_property
    def toolbox(self) -> Toolbox:
        """The tools of this project's commands."""
        return Toolbox(
            self.environ.get("PATH", ""),
            self.path,
            self.config.tools,
            environ=self.environ,
            environment=self.environment,
        )

    @functools.cached_property
    def workshop(self) -> Workshop:
        """The workshop that runs this project's commands."""
        run_as = self.config.sandbox.run_as
        return Workshop(
            self.path,
            self.toolbox,
            # Providers' programs are never those of the project: they get a key and the network.
            programs=Toolbox(self.environ.get("PATH", ""), self.path, self.config.tools, environ=self.environ, own=""),
            disk=self.disk,
            redactor=self.redactor,
            runs=self.runs_folder,
            run_as=run_as,
            scratch=scratch_root(self.path, self.environ, open_way=run_as is not None),
            env={name: self.environ[name] for name in self.config.sandbox.env if name in self.environ},
        )

    @functools.cached_property
    def notify(self) -> Notify:
        """The person's own command for when a run waits for them or has ended."""
        argv, mask = self.config.notify, self.watchful.text
        return Notify(argv, self.path, programs=lambda: self.workshop.programs, environ=self.environ, mask=mask)

    def scratch(self, name: str) -> Scratch:
        """The scratch folder of a run."""
        return Scratch(self.workshop.scratch, name, self.path)

    async def prove_sandbox(self) -> Proof:
        """Prove anew whether the configured sandbox holds on this machine (for `doctor`)."""
        self.consent.require()
        try:
            return await self.workshop.prove(self.policy.tier)
        finally:
            await self.close()

    async def try_sandbox(self) -> None:
        """SandboxError if commands cannot run in this project although the sandbox holds (for `doctor`)."""
        name = f"doctor~{os.getpid()}"
        try:
            await self.try_command(self.policy, name)
        finally:
            self.scratch(name).remove()
            await self.close()

    async def try_command(self, policy: Policy, name: str) -> None:
        """SandboxError if a command that does nothing cannot run here under this policy, in this scratch folder."""
        await must_run(self.workshop, policy, self.scratch(name))

    async def close(self) -> None:
        """End the process that starts commands."""
        if "workshop" in self.__dict__:
            await self.workshop.launcher.close()

    # -- what models are shown ----------------------------------------------------------------------------------------

    @functools.cached_property
    def memory(self) -> Path | None:
        """The folder outside the project where counts of its words are kept between runs; None if there is none."""
        try:
            return scratch_root(self.path, self.environ) / "context"
        except SandboxError:
            return None

    def files(self) -> tuple[str, ...]:
        """The paths of the files that are worth listing (context/walk.py)."""
        return tuple(found.path for found in walk(self.workspace).files)

    def shown_to_models(self) -> Recorded:
        """What a root run records of what its models are shown: the project's rules, the configuration's files."""
        return shown_to_models(self.path, self.config.context, self.redactor.text)

    def begun_from(self, warning: str) -> Recorded:
        """What a root run records of the commit it begins from; `warning` is said of uncommitted changes."""
        return begun_from(self.path, homes(self.environ), warning)

    def commit_to(self, branch: str, began: str) -> CommitPlace:
        """Where a run's result can be committed; UsageError if nowhere. `began` is the commit where the run began."""
        return commit_place(self.path, homes(self.environ), self.environ, branch, began)

    # -- what a start refuses -----------------------------------------------------------------------------------------

    def refuse_home(self) -> None:
        """UsageError if a home folder is in the project: models and commands would see everything in it."""
        if any(within(home, str(self.path)) for home in homes(self.environ)):
            raise UsageError(
                f"your home folder, with your keys, is in {self.path}: commands and models would see all of it."
                " Start in the folder of a project, or give -C DIR (in a program: project=DIR)"
            )

    def refuse_secrets(self, *texts: str) -> None:
        """UsageError if a person's own commands contain a secret: it would be masked in the journal, and run masked."""
        if any(self.redactor.text(text) != text for text in texts):
            raise UsageError(
                "a command holds a secret; it would be written to the run. Let it read the secret from a file instead"
            )

    def refuse_context(self) -> None:
        """UsageError if the configuration's section `context` has a line that cannot be used."""
        refuse_context(self.config.context)

    def opened(self, files: tuple[str, ...]) -> tuple[str, ...]:
        """The files that a person opened for models, by their paths in the project, with the lines to show."""
        most = self.config.context.bytes
        return tuple(dict.fromkeys(written(opened_file(self.path, file, most)) for file in files))

    def uncopied(self, files: Iterable[str]) -> str:
        """The first of these opened files that a copy of the project would not have; empty if it has all of them."""
        paths = (recorded(self.path, file).path for file in files)
        return next((path for path in paths if not is_copied(self.path, path, self._closed)), "")

    def hidden(self, globs: tuple[str, ...]) -> tuple[str, ...]:
        """The globs of files that a person hid from models; UsageError for one that cannot be used."""
        Globs(globs)
        return tuple(dict.fromkeys(globs))

    def shown(self, goal: str, most: int | None, *, context: tuple[str, ...], hidden: tuple[str, ...]) -> Gathered:
        """What a model would be shown for a goal; `most` bounds the bytes of file contents alone."""
        section = self.config.context
        self.refuse_context()
        files = tuple(recorded(self.path, file) for file in self.opened(context))
        view = View(
            self.path,
            rules=find_rules(self.path) if section.rules else Rules(),
            opened=(*files, *(Opened(file) for file in section.show)),
            hidden=(*self.hidden(hidden), *section.hide),
            memory=self.memory,
            mask=self.redactor.text,
        )
        total = section.bytes if most is None else most + most // 4 + 2_000  # the list of names, the note, outlines
        return view(Search(hints=(goal,)), total, contents=most)

    def hide_runs(self, root: Path) -> None:
        """Add a .gitignore to the folder of runs, so that prompts and replies are not committed by accident."""
        own = self.path / ".runs"
        folder = own if within(str(root), str(own)) else root
        ignore = folder / ".gitignore"
        if os.path.exists(ignore):
            return
        ours = folder == own or not folder.exists() or not os.listdir(folder)
        # An existing `runs` may be the person's own folder: then only runs in it are hidden, and this file.
        self.disk.publish(ignore, b"*\n" if ours else _ONLY_RUNS, durable=False, mode=0o644)
