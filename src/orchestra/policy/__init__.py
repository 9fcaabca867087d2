"""Pure decisions, with their reasons: what may run, what needs a person, what binds a run."""
