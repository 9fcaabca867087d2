"""orchestra: takes a goal and has language models reach it, with a person in control."""

__version__ = "0.1.0"
