"""A repository as files: read and written without git, so that nothing in it can run."""
