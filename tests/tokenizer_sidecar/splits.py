"""Split patterns of well-known tokenizers, and how the tokenizers library splits by them."""

# ruff: noqa: RUF001 - characters that look like others are here on purpose

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers

from tokenizer_sidecar.char_sets import Classes
from tokenizer_sidecar.shortcuts import GPT2
from tokenizer_sidecar.split_pattern import SplitPattern, combine
from tokenizer_sidecar.split_syntax import parse

_CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORD = r"[^\r\n\p{L}\p{N}]?"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SPACE = r"\s*[\r\n]+|\s+(?!\S)|\s+"

PATTERNS: Mapping[str, Sequence[str]] = {
    "gpt2": [GPT2],
    "llama3": [
        rf"{_CONTRACTION}|{_WORD}\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACE}"
    ],
    "o200k": [
        rf"{_WORD}{_UPPER}*{_LOWER}+{_CONTRACTION}?|{_WORD}{_UPPER}+{_LOWER}*{_CONTRACTION}?"
        rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACE}"
    ],
    "deepseek": [
        r"\p{N}{1,3}",
        "[一-龥぀-ゟ゠-ヿ]+",
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
        rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACE}",
    ],
    "leaves much over": [
        r"[a-z]+(?=1)|\p{Lu}{2,}|--",
    ],
    "three in a row": [r"\d+", r"[a-c]+", r"[a-z]?\d|[b-y]+(?!z)|[^\n]\n?"],
}

_ALPHABET = st.one_of(
    st.sampled_from(
        list(
            "aAbzé1٣23 \t\n\r\u00a0.,'\"_-<>()中文。カ・ーか\u3099\u0301😀\u200d\0\x1c\x85stSTreLL"
        )
    ),
    st.characters(exclude_categories=["Cs"]),
)
TEXTS = st.lists(st.one_of(_ALPHABET, _ALPHABET.map(lambda c: c * 3)), max_size=40).map("".join)


@cache
def pattern(name: str) -> SplitPattern:
    classes = Classes()
    return combine([parse(source, classes) for source in PATTERNS[name]])


def library_pieces(name: str, text: str) -> list[str]:
    """What the library makes of a text, piece by piece."""
    return [piece for piece, _ in _library_split(name).pre_tokenize_str(text)]


@cache
def _library_split(name: str) -> pre_tokenizers.PreTokenizer:
    steps = [pre_tokenizers.Split(Regex(source), "isolated") for source in PATTERNS[name]]
    return pre_tokenizers.Sequence(steps)
