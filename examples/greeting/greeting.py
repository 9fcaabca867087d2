"""Greets people in their language. 사람들에게 그들의 말로 인사한다."""


def greet(name: str, language: str = "en") -> str:
    """The greeting for one person."""
    return f"Hello, {name}!"
