"""Commands that check: verify, schema, doctor."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from orchestra import __version__
from orchestra.app import App
from orchestra.cli import options
from orchestra.cli.completing import run_names
from orchestra.cli.text import safe
from orchestra.commands.described import environment_report
from orchestra.commands.runners import refused_runner
from orchestra.commands.surroundings import listening_ports
from orchestra.commands.tools import NoTool, Tool
from orchestra.core.errors import JournalCorrupt, OrchestraError, UsageError
from orchestra.core.events import Events
from orchestra.core.records import Finding
from orchestra.core.run import RunFolder
from orchestra.core.text import count
from orchestra.core.vouching import elsewhere
from orchestra.providers.offers import offers


@click.command()
@click.argument("run", metavar="DIR|FILE|RUN|R1", shell_complete=run_names)
@options.own
@options.project
def verify(run: str, own: bool, project: Path) -> int:
    """Check a run folder or a contract tree against the spec; each broken requirement is printed with its id (exit 1).

    DIR is any run folder, or any folder with the contracts of a request (…/contracts/R1). RUN is a run of this project,
    as everywhere, and R1 a request of it. FILE is one contract (task-breakdown.yaml, …), judged alone.
    Of a run of this project its child runs are checked, too; what is wrong with one begins with its id.
    """
    from orchestra.runs.verify import verify as check

    app = App(project)
    for workflow in app.workflows:
        if found := workflow.verified(app.project.path, run):
            return _verify_files(*found)
    path = Path(run) if Path(run).is_dir() else _find(run, app)
    folder = RunFolder(path.resolve())
    broken, below = 0, [] if own else _below(folder, app)
    for one in (folder, *below):
        read, vouched = _read(one, app)
        findings = check(app.project.store, one.path, app.workflows.get, read)
        broken += len(findings)
        where = f"{one.id}: " if one is not folder else ""
        for finding in findings:
            click.echo(safe(f"{where}{finding}"))
        if one is folder or vouched.startswith("foreign"):
            click.echo(safe(f"{where}{vouched}"))
    if broken:
        click.echo(safe(f"{path}: {broken} requirement(s) broken"), err=True)
        return 1
    if below:
        click.echo(f"{count(len(below), 'child run')} checked")
    click.echo(safe(f"{path}: conforms"))
    return 0


def _below(folder: RunFolder, app: App) -> list[RunFolder]:
    """The child runs of a run of this project, at any depth; none below a damaged run."""
    if folder.path.parent not in app.runs.roots:
        return []
    damaged: dict[str, JournalCorrupt] = {}
    try:
        found = [member.folder for member in app.runs.members(folder, damaged=damaged)][1:]
    except (OSError, OrchestraError):
        return []
    return [*found, *(RunFolder(Path(damage.path).parent) for damage in damaged.values())]


def _verify_files(folder: Path, findings: Iterator[Finding]) -> int:
    """Files of a workflow that are no run: each finding as `PATH:LINE: ID field: what`."""
    broken = 0
    for finding in findings:
        broken += 1
        click.echo(safe(f"{finding.where}: {finding.requirement} {finding.message}"))
    if broken:
        click.echo(safe(f"{folder}: {broken} requirement(s) broken"), err=True)
        return 1
    click.echo(safe(f"{folder}: conforms"))
    return 0


def _read(folder: RunFolder, app: App) -> tuple[Events | JournalCorrupt | None, str]:
    """The journal of a run folder, or its damage; and a line that tells whether the run is foreign."""
    try:
        standing = app.project.store.standing(folder)
    except FileNotFoundError:
        return None, "foreign: there is no journal that anybody could vouch for"
    except (OSError, OrchestraError) as error:
        damage = error if isinstance(error, JournalCorrupt) else None
        return damage, f"foreign: nobody can vouch for it ({error})"
    foreign = standing.foreign or ("" if standing.created else "it holds no event")
    if not foreign and folder.path.parent in app.runs.roots:
        foreign = elsewhere(standing.workspace, str(app.project.path))
    return standing.events, f"foreign: {foreign}" if foreign else "vouched: your key made it, or you adopted it"


def _find(run: str, app: App) -> Path:
    try:
        return app.runs.find(run).path
    except UsageError as error:
        raise UsageError(f"{run} is neither a run folder nor a run here: {error}") from error


@click.command()
@click.argument("name", required=False)
@click.option("--list", "listing", is_flag=True, help="Only the names, with what each record is.")
def schema(name: str | None, listing: bool) -> int:
    """JSON Schema of the record NAME; without NAME, of every record, by name.

    NAME is a record's name (event, state, …) or the name of its type (Event, WorkflowState, …).
    """
    from orchestra.schemas import RECORDS, find
    from orchestra.schemas import schema as schema_of

    if listing:
        for known, (_, what) in RECORDS.items():
            click.echo(f"{known:<22} {what}")
        return 0
    found: Any = {known: schema_of(known) for known in RECORDS} if name is None else schema_of(find(name))
    click.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
    return 0


@click.command()
@options.project
def doctor(project: Path) -> int:
    """What works on this machine, and what to do about the rest."""
    worst = 0
    marks = {
        True: click.style("ok  ", fg="green"),
        False: click.style("FAIL", fg="red"),
        None: click.style("note", fg="yellow"),
    }
    for good, what, cure in _probes(project):
        click.echo(f"{marks[good]} {what}" + ("\n     → " + cure.replace("\n", "\n       ") if not good else ""))
        worst = 1 if good is False else worst
    return worst


def _probes(project: Path) -> Iterator[tuple[bool | None, str, str]]:
    """Each probe: what was checked, whether it is fine (None: information only), and the remedy."""
    version = sys.version.split()[0]
    yield sys.version_info >= (3, 11), f"orchestra {__version__} on Python {version}", "install Python 3.11 or newer"
    yield (
        sys.platform == "linux",
        f"platform {sys.platform}",
        "only Linux is supported yet: processes are contained by its means",
    )
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    yield encoding == "utf8", f"terminal encoding {sys.stdout.encoding}", "set LANG=C.UTF-8, or Hangul will not print"
    yield shutil.which("git") is not None, "git is installed", "apt-get install git (only checks that use it need it)"
    try:
        app = App(project)
    except OrchestraError as error:
        yield False, "configuration", str(error)
        return
    yield True, f"configuration: {app.project.config_path or 'none, all defaults'}", ""
    if missing := app.project.consent.missing:
        lines = "; ".join(safe(line.text) for line in missing)
        yield False, f"consent: you have not agreed to {len(missing)} of its lines", f"{lines}: orchestra trust"
    yield (
        os.access(app.project.path, os.W_OK),
        f"project folder {app.project.path} is writable",
        "choose another folder with -C DIR",
    )
    free = shutil.disk_usage(app.project.path).free // 2**20
    yield free > 200, f"{free} MiB free for runs", "make room: a full disk stops a run (it stays resumable)"
    yield (
        _locks(app.project.path),
        "file locks work here",
        "put the project on a local file system: flock is needed for one driver per run",
    )
    if not app.project.config.security.redact_secrets:
        yield None, "security.redact_secrets is false", "secrets are written into runs as they are; set it to true"
    yield from _sandbox(app)
    yield from _environment(app)
    found = offers(app.project.providers)
    for offer in found:
        if offer.default:
            what = f"models: {offer.name} answers" + (f" with {offer.model}" if offer.model else "")
            yield offer.ready, what, app.project.redactor.text(offer.state)
        elif offer.name in app.project.config.providers:
            yield True if offer.ready else None, f"models: {offer.name}", app.project.redactor.text(offer.state)
    if not any(offer.default for offer in found):
        yield None, "models: none is configured; give --provider NAME", app.project.providers.ways


def _sandbox(app: App) -> Iterator[tuple[bool | None, str, str]]:
    """Prove which sandbox tier holds on this machine, by attempts to break out (MS-1.6)."""
    tier = app.project.policy.tier
    if tier == "none":
        yield None, "sandbox: none, commands run as you", "set sandbox.tier to strict"
        yield _try_project(app)
        return
    try:
        proof = asyncio.run(app.project.prove_sandbox())
    except OrchestraError as error:
        yield False, f"sandbox: tier {tier}", str(error)
        return
    by = f"bubblewrap {proof.bwrap}" if tier == "strict" else f"Landlock ABI {proof.landlock_abi}"
    word = "holds" if proof.held else "does not hold"
    yield proof.held, f"sandbox: tier {tier} {word} ({by}, Linux {proof.kernel})", f"{proof.reason}. {proof.remedy}"
    for expected, what in (("refused", "attempts were refused"), ("done", "ordinary things worked")):
        names = [finding.name for finding in proof.findings if finding.expected == expected and finding.ok]
        if names:
            yield True, f"  {len(names)} {what}: {', '.join(names)}", ""
    if proof.held:
        yield _try_project(app)
    for point in proof.weak:
        yield None, "  weaker than it could be", point


def _environment(app: App) -> Iterator[tuple[bool | None, str, str]]:
    """The environment that checks use, the copy of the project's package in it, opened ports, configured checks."""
    project = app.project
    try:
        toolbox = project.toolbox
    except OrchestraError as error:
        yield False, "environment", str(error)
        return
    for good, line, cure in environment_report(toolbox, str(project.path)):
        yield good, safe(line), safe(cure)
    for port in project.policy.loopback:
        what = f"sandbox.loopback: commands reach port {port} of this machine"
        listening = port in listening_ports()
        yield (
            None,
            what,
            "no other port is open to them" if listening else "nothing listens there now: start the service",
        )
    for check in project.config.loop.checks:
        argv = tuple(shlex.split(check))
        tool = toolbox.resolve_path(argv[0]) if "/" in argv[0] else toolbox.resolve(argv[0])
        wrong = (
            tool.reason if isinstance(tool, NoTool) else refused_runner(argv, toolbox.environment, str(project.path))
        )
        program = f" ({tool.path})" if isinstance(tool, Tool) else ""
        yield not wrong, f"check: {safe(check)}{safe(program)}", safe(wrong)


def _try_project(app: App) -> tuple[bool | None, str, str]:
    """Try a command in this project: the folder may be closed to the user that commands run as."""
    try:
        asyncio.run(app.project.try_sandbox())
    except OrchestraError as error:
        return False, f"  commands cannot run in {app.project.path}", str(error)
    return True, f"  commands can run in {app.project.path}", ""


def _locks(folder: Path) -> bool:
    import fcntl
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=folder) as one:
            fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except OSError:
        return False
