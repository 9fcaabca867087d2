"""The command table: what `orchestra --help` lists, without importing a single command."""

from __future__ import annotations

# name -> (module, one line for --help). A command's module is imported when the command is run, here and nowhere else.
COMMANDS: dict[str, tuple[str, str]] = {
    "loop": ("loop", "Reach a goal by patches: plan, patch, approval, checks, fix or ask."),
    "dag": ("dag", "Reach a goal by a graph of sandboxed tools: plan, run in parallel, report."),
    "run": ("dag", "The same as dag."),
    "eval": ("eval", "Run golden scenarios and compare what came of them."),
    "resume": ("drive", "Go on with a run where it stopped."),
    "approve": ("drive", "Grant the plan or patch a run waits with, and drive it on."),
    "reject": ("drive", "Reject the plan or patch a run waits with, with a reason."),
    "answer": ("drive", "Answer the question a run waits with."),
    "cancel": ("drive", "End a run for good."),
    "kill": ("drive", "The same as cancel."),
    "fork": ("drive", "Start a new run from a point in another one's history."),
    "inbox": ("look", "Everything that waits for you."),
    "runs": ("look", "All runs of this project."),
    "show": ("look", "What a run is, did and waits for."),
    "watch": ("look", "Follow a run as it happens."),
    "logs": ("look", "A run's events as lines; -f follows."),
    "diff": ("look", "What a run changed, or wants to change."),
    "inspect": ("inspect", "Everything about one task of a task graph."),
    "trace": ("trace", "What the levels of a task graph did and told each other, in order of time."),
    "audit": ("audit", "Every model call: tokens, cost, how often it was possibly paid."),
    "report": ("look", "The run's report, as Markdown."),
    "models": ("models", "Who could answer, at what price; `models try` makes one call."),
    "clean": ("clean", "Remove the folders of old runs that have ended."),
    "agent": ("agent", "The three levels and the roles: what each does, and who answers for it."),
    "verify": ("check", "Check a run folder against the spec, by requirement id."),
    "schema": ("check", "JSON Schema of every record."),
    "doctor": ("check", "What works on this machine, and what to do about the rest."),
    "tool": ("tool", "Run one command under the policy, in the sandbox."),
    "policy": ("policy", "What tools may do: explain a decision, test the rules, show all of it."),
    "config": ("setup", "Show, find or validate the configuration."),
    "init": ("setup", "Write a commented orchestra.config.yaml."),
    "completion": ("setup", "Print the completion script for your shell."),
}
