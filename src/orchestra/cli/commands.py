"""The table of commands for `orchestra --help`. No command is imported for it."""

from __future__ import annotations

UNDO = "undo"  # the command that takes a run back; every ending names it

# Options of some commands that a person may expect of others: what to say there.
ELSEWHERE = {"--worktree": "only loop and more take it; a run of another workflow works in the project itself"}

# name -> (module, one line for --help). A command's module is imported when the command is run, here and nowhere else.
COMMANDS: dict[str, tuple[str, str]] = {
    "loop": ("loop", "Reach a goal by patches: plan, patch, approval, checks, fix or ask."),
    "more": ("loop", "Go on from a finished run with another goal; it knows what the run did."),
    "dag": ("dag", "Reach a goal by a graph of sandboxed tools: plan, run in parallel, report."),
    "run": ("dag", "The same as dag."),
    "contracts": ("contracts", "Build a request test first: explore, plan, design, tests, implement, verify."),
    "agent:run": ("evidence", "Answer a goal from evidence: plan, look with commands, decide, answer."),
    "chat": ("chat", "Talk in a session at the terminal, with the same memory."),
    "agent:tui": ("tui.command", "The terminal UI: talk, start and follow runs of every kind, decide on them."),
    "tui": ("tui.command", "The same as agent:tui."),
    "chat:turn": ("evidence", "One message to a session, for scripts: prints the reply."),
    "sessions": ("sessions", "The sessions of this project: list, show, rename, export, delete, rebuild."),
    "orchestrate": ("orchestrate", "Have a team of agents work on a task: draft, review, revise."),
    "compare": ("compare", "Two runs of one team and task: their artifacts, findings, cost and time."),
    "team": ("team", "Teams of agents in Markdown: `team check` prints what one will do, and what is wrong."),
    "start": ("start", "Start any workflow by its name, your own too."),
    "eval": ("eval", "Run golden scenarios and compare their results with the expected ones."),
    "resume": ("answer", "Go on with a run where it stopped."),
    "approve": ("answer", "Grant the plan or patch a run waits with, and drive it on."),
    "reject": ("answer", "Reject the plan or patch a run waits with, with a reason."),
    "answer": ("answer", "Answer the question a run waits with."),
    "cancel": ("answer", "End a run for good."),
    "kill": ("answer", "The same as cancel."),
    UNDO: ("undo", "Take a run's changes back, exactly, or name the files that changed since."),
    "apply": ("apply", "Write a run's result as a git commit: on a branch of its own, or the one checked out."),
    "retry": ("again", "Go on after a failure, with everything that succeeded kept."),
    "fork": ("again", "Start a new run from another one's history, from a point or with another answer."),
    "rerun": ("stale", "Do again what edited files make stale of a run that has ended."),
    "lineage": ("stale", "What was made from what: a run's files, editions, child runs and inputs."),
    "status": ("overview", "What waits, runs and stopped here. `orchestra` alone prints the same."),
    "inbox": ("runs", "Everything that waits for you."),
    "runs": ("runs", "All runs of this project."),
    "list": ("runs", "The same as runs."),
    "show": ("show", "What a run is, did and waits for."),
    "watch": ("watch", "Follow a run as it happens, whoever drives it."),
    "logs": ("show", "A run's events as lines; -f follows."),
    "diff": ("show", "What a run changed, or proposes to change."),
    "inspect": ("inspect", "Everything about one task of a task graph."),
    "trace": ("trace", "What the levels of a task graph did; or a request R1 and the evidence for it, both ways."),
    "requests": ("requests", "The requests of contracts, with the state that their executed tests show."),
    "audit": ("audit", "Every model call: tokens, cost, and calls that may have been billed twice."),
    "context": ("context", "What a model would be shown of the project for a goal, and why; no model is called."),
    "sent": ("sent", "What left the machine: every file and byte range, to which server, in which call."),
    "report": ("show", "The run's report, as Markdown."),
    "models": ("models", "The available models and their prices; `models try` makes one call."),
    "clean": ("clean", "Remove the folders of old runs that have ended."),
    "agent": ("agent", "The three levels and the roles: what each does, and which model it uses."),
    "verify": ("verify", "Check a run folder or a contract tree against the spec, by requirement id."),
    "schema": ("verify", "JSON Schema of every record."),
    "doctor": ("verify", "What works on this machine, and what to do about the rest."),
    "tool": ("tool", "Run one command under the policy, in the sandbox."),
    "policy": ("policy", "What tools may do: explain a decision, test the rules, show all of it."),
    "trust": ("trust", "Agree to what a project's configuration asks for beyond the defaults."),
    "adopt": ("trust", "Vouch for a run that your key did not make."),
    "config": ("setup", "Show, find or validate the configuration."),
    "init": ("setup", "Write a commented orchestra.config.yaml."),
    "completion": ("setup", "Completion for your shell: print its script, or install it."),
    "help": ("setup", "The help of a command."),
}

# How `orchestra --help` groups them. A command that no group names comes last.
GROUPS: dict[str, str] = {
    "Start": "loop dag run agent:run agent:tui tui chat chat:turn contracts orchestrate start eval more",
    "Decide": "inbox approve reject answer resume retry fork rerun undo apply cancel kill",
    "Look": "status runs list requests show watch diff report logs audit sent context inspect trace lineage compare"
    " sessions",
    "Set up": "init config doctor trust adopt models agent team policy tool clean verify schema completion help",
}
