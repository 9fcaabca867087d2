"""The task graph (S2): a plan of tools, run in dependency order, each in its sandbox."""
