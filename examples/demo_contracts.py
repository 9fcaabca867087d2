"""`make demo-contracts`: a request is built test first, from contracts. No network, no key, no model.

    python examples/demo_contracts.py [DIR]     DIR: where to put it (default: the next free demo/N; it must not exist)

Like demo.py, whose words these are; the replies come from exchange-replies.yaml.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence

from demo import HERE, IGNORED, head, head_of_what_next, new_folder, run, say

REQUEST = "금액을 읽고 환전하는 기능을 만들어줘"  # "read amounts of money and exchange them"


def main(arguments: Sequence[str]) -> int:
    """Make the project, have the request built, show what it made; 0 if all of it is in order."""
    folder = new_folder(arguments, __doc__ or "")
    if folder is None:
        return 2
    project, yours = folder / "exchange", folder / "yours"
    for copy in (project, yours):
        shutil.copytree(HERE / "exchange", copy, ignore=IGNORED)
    shutil.copy(HERE / "exchange-replies.yaml", folder)

    head(f"A small package with one module and its test: {project}")
    run(project, ["ls", "money", "tests"])

    head("Have it built: explore and plan, design, tests first, implement, verify")
    say("The replies come from a file. One implementation in it is wrong, and one design cannot work.\n")
    code = run(project, ["orchestra", "contracts", REQUEST, "--approval", "never"])

    head("What it was made of: request, tasks, subtasks, tests")
    tree = next((project / ".claude" / "orchestrator" / "sessions").glob("*/contracts/R1"), None)
    if code or tree is None:
        say(f"\nThe demo did not go as it should (exit code {code}). Look: {project}; and: orchestra doctor")
        return code or 1
    contracts = str(tree.relative_to(project))
    run(project, ["ls", "-R", contracts])

    head("Is that tree what the specification says?")
    code = run(project, ["orchestra", "verify", contracts])
    head_of_what_next()
    say(
        f"cd {shlex.quote(str(project))}\n"
        f"orchestra show last                    # the request as a tree, then step by step\n"
        f"orchestra trace R1                     # request, task, subtask, test case, test run, change\n"
        f"\n"
        f"Edit a contract, then have done again exactly what depends on it:\n"
        f"orchestra rerun --stale last\n"
        f"\n"
        f"cd {shlex.quote(str(yours))}   # the same project, untouched: now you decide about each patch\n"
        f"orchestra contracts {shlex.quote(REQUEST)}\n"
        f"\n"
        f"More: docs/contracts.md"
    )
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
