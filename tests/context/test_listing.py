"""The names of a workspace's files, to the byte of their bound."""

from __future__ import annotations

from orchestra.context.listing import listing

FILES = ["src/a.py", "src/b.py", "src/c.py"]
FOLDERS = [f"{'d' * 9}{at}/{'f' * 90}" for at in range(4)]


def steps(paths: list[str], most: int) -> list[tuple[int, str]]:
    """What is listed, from each size on at which more of it fits."""
    texts = [listing(paths, {}, size) for size in range(most)]
    return [(size, text) for size, text in enumerate(texts) if size and text != texts[size - 1]]


def test_a_name_is_listed_from_the_size_on_at_which_its_last_byte_fits() -> None:
    assert steps(FILES, 120) == [
        (34, "… and 3 more files in 1 folders\n"),
        (73, "src/: a.py\n… and 2 more files in 1 folders\n"),
        (81, "src/: a.py, b.py\n… and 1 more files in 1 folders\n"),
        (88, "src/: a.py, b.py, c.py\n"),
    ]


def test_a_folder_without_its_files_is_listed_from_the_size_on_at_which_it_fits() -> None:
    assert [(size, text.count("/ and 1 more files\n")) for size, text in steps(FOLDERS, 195)] == [
        *((34, 0), (89, 1), (118, 2), (147, 3), (176, 4)),
        *((189, 0), (193, 1)),  # the first one has room for its file now
    ]
