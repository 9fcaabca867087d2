"""Everything between an effect and the worker: tools, sandbox, scratch folders, the clock of a run."""
