"""The task graph (S2): a plan of commands, run in the order of their dependencies, each in its sandbox."""
