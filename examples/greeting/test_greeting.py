import unittest

from greeting import greet


class Greetings(unittest.TestCase):
    def test_english(self) -> None:
        self.assertEqual(greet("Mina"), "Hello, Mina!")

    def test_korean_name_that_ends_in_a_vowel(self) -> None:
        self.assertEqual(greet("민아", "ko"), "안녕, 민아야!")

    def test_korean_name_that_ends_in_a_consonant(self) -> None:
        self.assertEqual(greet("지훈", "ko"), "안녕, 지훈아!")
