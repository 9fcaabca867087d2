"""Running commands: tool lookup, sandbox, scratch folders, and the run's clock. Processes are started by worker/."""
