from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice

import pytest

from simulator.config import BUNDLED_MODEL_DIR
from simulator.language import Language
from simulator.text import LONGEST_STOP, SHORTEST_STOP, Piece, Speaker, Transcript

LANGUAGE = Language.load(BUNDLED_MODEL_DIR)
EOS = 2


def byte_by_byte(token_ids: Sequence[int]) -> str:
    """A vocabulary of bytes."""
    return bytes(token_ids).decode(errors="replace")


def pieces(text: str, stops: Sequence[str] = ()) -> list[Piece]:
    transcript = Transcript(byte_by_byte, stops)
    raw = text.encode()
    return [transcript.push(one, last=i == len(raw)) for i, one in enumerate(raw, 1)]


def answer(prompt: Sequence[int], variant: str = "", eos: int | None = None) -> list[int]:
    return list(islice(LANGUAGE.speaker.answer(prompt, variant, eos), 40))


def test_one_prompt_gets_one_answer() -> None:
    assert answer([1, 2, 3]) == answer([1, 2, 3])
    assert answer([1, 2, 3]) != answer([1, 2, 4])
    assert answer([1, 2, 3], "a") != answer([1, 2, 3], "b")


def test_an_answer_reads_as_words() -> None:
    words = LANGUAGE.encoder.decode(answer([1, 2, 3])).split(" ")[1:]
    assert len(words) == 40
    assert all(word.isalpha() for word in words)


def test_an_answer_that_ends_by_itself_has_about_24_tokens() -> None:
    for prompt in range(20):
        tokens = answer([prompt], eos=EOS)
        assert SHORTEST_STOP <= len(tokens) <= LONGEST_STOP
        assert tokens[-1] == EOS
        assert EOS not in tokens[:-1]


def test_a_vocabulary_without_words_is_refused() -> None:
    encode = partial(str.encode, encoding="utf-8")
    with pytest.raises(ValueError, match="not one common word"):
        Speaker(lambda text: list(encode(text)), byte_by_byte)


def test_text_comes_token_by_token() -> None:
    assert [piece.text for piece in pieces("abc")] == ["a", "b", "c"]


def test_a_character_comes_with_the_token_that_completes_it() -> None:
    assert [piece.text for piece in pieces("aé!")] == ["a", "", "é", "!"]


def test_a_character_that_is_never_completed_comes_at_the_end() -> None:
    transcript = Transcript(byte_by_byte)
    assert transcript.push("é".encode()[0], last=False) == Piece("")
    assert transcript.end() == Piece("\ufffd")


def test_a_stop_string_ends_the_text_before_it() -> None:
    assert pieces("one", stops=["n"])[:2] == [Piece("o"), Piece("", "n")]
    assert pieces("one", stops=["ne"])[:3] == [Piece(""), Piece("o"), Piece("", "ne")]


def test_text_that_could_become_a_stop_string_is_held_back() -> None:
    got = pieces("abSTxSTOP", stops=["STOP"])
    assert [piece.text for piece in got] == ["", "", "", "a", "b", "S", "T", "x", ""]
    assert got[-1].stop == "STOP"


def test_text_held_back_comes_with_the_last_token() -> None:
    got = pieces("abc", stops=["STOP"])
    assert [piece.text for piece in got] == ["", "", "abc"]
    assert got[-1].stop is None


def test_the_earliest_of_several_stop_strings_counts() -> None:
    transcript = Transcript(
        lambda token_ids: "one two three" if token_ids else "", ["three", "two"]
    )
    assert transcript.push(0, last=True) == Piece("one ", "two")


def test_pieces_of_real_tokens_make_up_the_whole_text() -> None:
    decode = LANGUAGE.encoder.decode
    token_ids = LANGUAGE.encoder.encode(
        "Grüße, 你好 👩‍👩‍👧  def f(x):\n\treturn x", add_special_tokens=False
    )
    transcript = Transcript(decode)
    texts = [transcript.push(one, last=False).text for one in token_ids] + [transcript.end().text]
    assert "".join(texts) == decode(token_ids)
