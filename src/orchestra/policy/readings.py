"""Other commands that a command amounts to: behind a wrapper, a runner, or options before a sub-command. Pure.

`timeout 5 git -C . push` is `git push`. An option that is not in the tables is read in both ways, with a value and
without one. Rules that forbid or ask are matched against all readings (decide.py, rule 4).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

Readings = tuple[tuple[str, ...], ...]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SHELLS = _names("sh bash dash zsh ash ksh mksh fish csh tcsh rbash busybox toybox pwsh")
WRAPPERS = SHELLS | _names(
    "env sudo su doas pkexec runuser setpriv xargs parallel nice ionice chrt taskset nohup timeout setsid stdbuf time"
    " watch strace ltrace gdb perf script expect unshare nsenter chroot bwrap firejail flock start-stop-daemon"
    " systemd-run ssh at batch crontab ld.so ld-linux.so ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 eval exec command"
)
# Sub-commands that run what comes after them; "": the program itself does.
RUNNERS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("npx", "pnpx", "bunx", "uvx"), frozenset({""})),
    **dict.fromkeys(("poetry", "pdm", "hatch", "rye", "pipenv", "pipx", "conda", "mamba", "uv"), _names("run")),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), _names("exec x dlx run run-script")),
    "bundle": _names("exec"),
    "mise": _names("exec x"),
    "tox": _names("exec"),
}
# Options before the sub-command that take the next word as their value.
_VALUED: dict[str, frozenset[str]] = {
    "git": _names("-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source"),
    "npm": _names("--prefix -w --workspace --userconfig --globalconfig --registry --loglevel"),
    "pnpm": _names("-C --dir --filter -F --config-dir --registry --loglevel"),
    "poetry": _names("-C --directory -P --project"),
    "docker": _names("-H --host -c --context --config -l --log-level"),
}
# Options before the sub-command that take none.
_FLAGS: dict[str, frozenset[str]] = {
    "git": _names(
        "-p -P -v -h --paginate --no-pager --bare --version --help --html-path --man-path --info-path --exec-path"
        " --no-replace-objects --no-lazy-fetch --no-optional-locks --no-advice --literal-pathspecs --glob-pathspecs"
        " --noglob-pathspecs --icase-pathspecs"
    ),
}
_ATTACHED = re.compile(r"-[A-Za-z]*?[Sc](?=[^\s=])|--[\w-]+=")  # `env -Sgit push`, `su -c'git push'`, `--call=git push`
_RENAMING = ("alias.", "include.", "includeif.")  # settings of git by which a word means another command
_SHELL = r"[\s;&|()'\"`$]+"
_MOST_PREFIX = 50  # words of a rule's prefix that can match a reading
_MOST_WORDS = 5_000  # of a wrapped command that are looked at


def readings(argv: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Other commands that this one amounts to: without options before its first plain word, without a wrapper."""
    plain = [argv]
    if argv[1:2] == argv[:1]:
        plain.append(argv[1:])  # a plan drops the repetition (G2-2)
    plain += [reading for one in plain for reading in _without_options(one)]
    yield from plain[1:]
    if any(map(_runs, plain)):
        words = [word for text in argv[1:] for word in _words(text)]
        for start in range(min(len(words), _MOST_WORDS)):
            inner = (words[start].rpartition("/")[2], *words[start + 1 : start + _MOST_PREFIX])
            yield inner
            yield from _without_options(inner)


def _runs(argv: tuple[str, ...]) -> bool:
    known = RUNNERS.get(argv[0], frozenset())
    return argv[0] in WRAPPERS or "" in known or (len(argv) > 1 and argv[1] in known)


def _words(text: str) -> list[str]:
    """The words of `sh -c TEXT`; a plain argument is one word. A value may be attached to its option."""
    attached = _ATTACHED.match(text)
    texts = (text, text[attached.end() :]) if attached else (text,)
    return [word for one in texts for word in (re.split(_SHELL, one) if re.search(r"[\s;&|()]", one) else [one])]


def _without_options(argv: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The command without the options before its first plain word, in every way they can be read."""
    valued, flags = _VALUED.get(argv[0], frozenset()), _FLAGS.get(argv[0], frozenset())
    reached = {1}
    for at in range(1, min(len(argv), _MOST_WORDS)):
        if at not in reached:
            continue
        word = argv[at]
        if not word.startswith("-"):
            if at > 1:
                yield (argv[0], *argv[at : at + _MOST_PREFIX])
        elif word in valued:
            reached.add(at + 2)
        else:
            reached |= {at + 1} if word in flags or "=" in word else {at + 1, at + 2}


def renames(argv: tuple[str, ...]) -> bool:
    """Whether options of git give a command another name."""
    if argv[0] != "git":
        return False
    for option, value in zip(argv[1:], (*argv[2:], ""), strict=False):
        text = value if option in ("-c", "--config-env") else re.sub("^(-c|--config-env=)", "", option)
        if option.startswith("-") and text.lower().startswith(_RENAMING):
            return True
    return False
