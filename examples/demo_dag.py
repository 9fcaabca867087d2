"""`make demo-dag`: a task graph on a small project with three libraries. No network, no key, no model.

    python examples/demo_dag.py [DIR]     DIR: where to put it (default: the next free demo/N; it must not exist yet)

Like demo.py, whose words these are; the replies come from licences-replies.yaml.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence

from demo import HERE, IGNORED, head, head_of_what_next, new_folder, run, say

INTENT = "저장소의 라이선스를 조사해서 표로 정리해줘"  # "find this repository's licences and put them into a table"


def main(arguments: Sequence[str]) -> int:
    """Make the project, run the graph on it, show what it made; 0 if the run completed."""
    folder = new_folder(arguments, __doc__ or "")
    if folder is None:
        return 2
    project, yours = folder / "licences", folder / "yours"
    for copy in (project, yours):
        shutil.copytree(HERE / "licences", copy, ignore=IGNORED)
    shutil.copy(HERE / "licences-replies.yaml", folder)

    head(f"Three libraries, each with a licence: {project}")
    say("Each says its licence in package.json and has a LICENSE; one of them says one thing and has another.\n")
    run(project, ["ls", "vendor"])

    head("Have it looked into: a plan, tools in a sandbox, a table")
    say("The replies come from a file, and the first plan in it wants a shell, which the policy refuses.\n")
    code = run(project, ["orchestra", "dag", INTENT, "--approval", "never"])

    head("What it made")
    run(project, ["cat", "LICENSES.md"])

    if code:
        say(f"\nThe demo did not go as it should (exit code {code}). Look: {project}; and: orchestra doctor")
        return code
    head_of_what_next()
    say(
        f"cd {shlex.quote(str(project))}\n"
        f"orchestra report last                  # tables, the graph, every file with its checksum\n"
        f"orchestra verify last                  # is the run folder what the specification says?\n"
        f"orchestra tool run -- ls -la /         # what a tool sees of this machine\n"
        f"\n"
        f"cd {shlex.quote(str(yours))}   # the same project, untouched: now you decide\n"
        f"orchestra dag {shlex.quote(INTENT)}\n"
        f"\n"
        f"It shows the plan and waits, because its tasks may change files. More: docs/tasks.md"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
