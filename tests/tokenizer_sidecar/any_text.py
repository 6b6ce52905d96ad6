"""Texts of every kind: code, scripts, emoji, combining marks, numbers, space, special tokens."""

# ruff: noqa: RUF001 - characters that look like others are here on purpose

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

_FRAGMENTS = (
    *("def f(x):\n    return x\n", "if (a && b) {\n\t}", "\r\n", "});", "http://a.b/c?d=e&f", "->"),
    *("can't", "IT'S", "we'LL", "\u2019s", "'\u017f", "\u212a", "Straße", "naïve", "ﬁ", "ĳ"),
    *(
        "你好，世界。",
        "没有空格",
        "カタカナ・",
        "ひらがな",
        "か\u3099",
        "한국어",
        "\u1112\u1161\u11ab",
    ),
    *("😀", "👍🏽", "👩\u200d👩\u200d👧", "🇩🇪", "e\u0301", "A\u030a", "a\u0323\u0302", "\u0301"),
    *("12", "1234567", "3.14", "1,000", "\u0663\u0664", "½", "²"),
    *("हिन्दी", "ไทย", "العربية", "привет", "и\u0306", "\u037e"),
    *(
        "\0",
        "\x85",
        "\u00a0",
        "\u3000",
        "\u2028",
        "\ufeff",
        "\u200b",
        "\x1c",
        "\ufffd",
        "\U000e0041",
    ),
    *("<", "<|", "|>", "<|im_", "<s>", "</s>", "_", "#", "\\", '"', "“"),
    *("a", "B", "the ", " of", ". The", ", and", "x" * 40, "-" * 30),
)

_RUNS = st.builds(
    lambda text, times: text * times, st.sampled_from(" \n\t\r.a1好="), st.integers(2, 60)
)


def any_text(special: Sequence[str]) -> st.SearchStrategy[str]:
    """Texts with these special tokens among them, whole and broken."""
    whole = st.sampled_from(special)
    anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    fragments = st.sampled_from([*_FRAGMENTS, " ", " ", "\n", "\n\n", "    "])
    broken = whole.map(lambda text: text[:-1])
    return st.lists(
        st.one_of(fragments, fragments, fragments, anything, whole, broken, _RUNS), max_size=40
    ).map("".join)
