"""Contract-driven development (S3): a request as tasks and subtasks, tests first, verified by running them."""
