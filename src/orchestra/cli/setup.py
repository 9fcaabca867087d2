"""Commands that set up: config, init, completion."""

from __future__ import annotations

import os
from pathlib import Path

import click

from orchestra.app import App
from orchestra.cli import options
from orchestra.cli.asking import tell
from orchestra.config.judge import missing_workflows, refuse
from orchestra.config.upward import FILE_NAME
from orchestra.core.errors import UsageError
from orchestra.runs.answers import who


@click.group()
def config() -> None:
    """Show, find or validate the configuration."""


@config.command()
@options.project
def show(project: Path) -> int:
    """The configuration in force, defaults included, as YAML."""
    import msgspec
    import yaml

    tree = msgspec.to_builtins(App(project).project.config)
    click.echo(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True), nl=False)
    return 0


@config.command()
@options.project
def path(project: Path) -> int:
    """Where the configuration is read from."""
    found = App(project).project.config_path
    if found is None:
        click.echo(f"no {FILE_NAME} in {project.resolve()}; all defaults (orchestra init writes one)", err=True)
        return 0
    click.echo(str(found))
    return 0


@config.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@options.project
def validate(file: Path | None, project: Path) -> int:
    """Check a configuration file, the names of providers and roles too; each mistake is named with its line."""
    app = App(project, config=file)
    opened = app.project
    if opened.config_path is None:
        raise UsageError(f"there is no {FILE_NAME} in {opened.path}; write one: orchestra init")
    opened.refuse_context()
    opened.notify.refuse()
    wrong = (
        *opened.providers.mistakes(app.workflows.wrong_role),
        *missing_workflows(opened.config, opened.place),
    )
    refuse(opened.config_path, opened.origins, wrong)
    click.echo(f"{opened.config_path}: valid")
    if opened.consent.lines:
        click.echo("it asks for more than the defaults, which needs your consent (! not given yet: orchestra trust):")
        for line in tell(opened.consent.lines, opened.consent.missing):
            click.echo(line)
    return 0


@click.command()
@click.option("--team", is_flag=True, help="Write sample teams instead: orchestrators/, agents/, tasks/.")
@options.project_exactly
def init(team: bool, project: Path) -> int:
    """Write a commented orchestra.config.yaml with every default; never overwrites a file."""
    if not project.is_dir():
        raise UsageError(f"{project} is not a folder; give -C DIR")
    if team:
        from orchestra.cli.team import write_sample_teams

        return write_sample_teams(project)
    return _init_config(project)


def _init_config(project: Path) -> int:
    import importlib.resources

    target = project / FILE_NAME
    text = importlib.resources.files("orchestra.config").joinpath("sample.yaml").read_text(encoding="utf-8")
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{target} exists already; check it: orchestra config validate") from None
    consent = App(project).project.consent
    if consent.lines:
        consent.agree(who())  # only to what was written just now
    click.echo(f"wrote {target}\nnext: edit it, then `orchestra config validate`, `orchestra doctor`")
    return 0


_SHELLS = ("bash", "zsh", "fish")
_COMPLETES = "_ORCHESTRA_COMPLETE"  # the variable by which a shell asks; every script has it


@click.command()
@click.argument("shell", required=False, type=click.Choice(_SHELLS))
@click.option("--install", is_flag=True, help="Write it where SHELL looks for it, and say where; edits no file.")
def completion(shell: str | None, install: bool) -> int:
    """Print the completion script for SHELL (default: yours), or install it. It completes commands, options and runs.

    \b
    orchestra completion --install
    bash: eval "$(orchestra completion bash)"      (in ~/.bashrc)
    zsh:  eval "$(orchestra completion zsh)"       (in ~/.zshrc)
    fish: orchestra completion fish | source       (in ~/.config/fish/config.fish)
    """
    import importlib.resources

    from click.shell_completion import get_completion_class

    from orchestra.cli.program import program

    yours = Path(os.environ.get("SHELL", "bash")).name
    name = shell or (yours if yours in _SHELLS else "bash")
    if name == "bash":
        script = importlib.resources.files("orchestra.cli").joinpath("completion.bash").read_text(encoding="utf-8")
    else:
        kind = get_completion_class(name)
        assert kind is not None
        script = kind(program, {}, "orchestra", _COMPLETES).source()
    if not install:
        click.echo(script)
        return 0
    target, next_step = completion_file(name)
    _write_completion(target, script)
    click.echo(f"wrote {target}\nnext: {next_step}")
    return 0


def completion_file(shell: str) -> tuple[Path, str]:
    """Where a shell looks for the completions of a user, and what the person does next."""
    home = Path(os.path.expanduser("~"))
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    if shell == "fish":
        config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        return config / "fish" / "completions" / "orchestra.fish", "open a new shell"
    if shell == "zsh":
        folder = data / "zsh" / "site-functions"
        return folder / "_orchestra", f"in ~/.zshrc, before compinit: fpath=({folder} $fpath); then a new shell"
    target = data / "bash-completion" / "completions" / "orchestra"
    return target, f"open a new shell; without the package bash-completion, in ~/.bashrc: source {target}"


def _write_completion(target: Path, script: str) -> None:
    """Write the script; UsageError if another program's file has its name."""
    try:
        if os.path.lexists(target) and _COMPLETES not in target.read_text(encoding="utf-8", errors="replace"):
            raise UsageError(f"{target} is there already, and is not orchestra's; remove it first")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"{script}\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}") from error


@click.command()
@click.argument("command", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def help_(ctx: click.Context, command: tuple[str, ...]) -> int:
    """The help of COMMAND, or of orchestra."""
    found: click.Command = ctx.find_root().command
    inner = ctx.find_root()
    for word in command:
        below = found.get_command(inner, word) if isinstance(found, click.Group) else None
        if below is None:
            raise UsageError(f"there is no command {' '.join(command)!r}: orchestra --help lists them")
        found, inner = below, click.Context(below, info_name=word, parent=inner)
    click.echo(found.get_help(inner))
    return 0
