"""A run in a folder of its own, with the files of a commit; its result comes to the project through the gate."""
