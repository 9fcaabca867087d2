"""The configuration: orchestra.config.yaml -> one frozen tree, and what of it needs a person's consent."""
