"""A varied text on which two encoders must agree before one may stand for the other."""

# ruff: noqa: RUF001 - characters that look like others are here on purpose

from __future__ import annotations

from collections.abc import Iterable, Iterator

_PARTS = (
    "The quick brown fox can't jump; it's what they'll say, I'd bet. HELLO'S HeLLo'Ve WE'RE \n",
    "def f(x: int) -> str:\n    return f'{x!r}'\n\n\n\tif (a <= b && c != d) { return 0xF; }\r\n",
    "1 12 123 1234 12345678901234567890 3.14159e-10 1,234,567.89 \u0663\u0664\u0665 \u00bd\u2167\n",
    "中文没有空格，句子结束了。下一句：「你好」！日本語のテキスト、カタカナ。한국어 텍스트.\n",
    "Ünïcödé naïve Ångström Ａ１ ﬁ ſ \u212a Straße e\u0301 a\u0323\u0302 \u1112\u1161\u11ab\n",
    "привет мир العربية हिन्दी ไทยไม่มีช่องว่าง Ελληνικά עברית\n",
    "😀👍🏽 👩\u200d👩\u200d👧 🇩🇪 ✨…—«»“’ \u200b\ufeff\0\x01\x7f\x85 \U0001d400\U00020000\n",
    "  \t \n \n\n   \n\t\t\t\t  x      y\r\n\r\n \u00a0\u2003\u3000\u2028 \u2029 end   \n   ",
    "!!??...---===___###@@@$$$%%%^^^&&&***((()))[[[]]]{{{}}}\\\\\\///|||~~~```'''\"\"\"<<<>>>;;;:::\n",
    '{"key": [1, 2, {"nested": "va\\"lue\\n"}], "url": "https://a.b-c.org/x?y=1&z=%20#f"}\n',
    "x" * 300 + " " * 300 + "\n" * 50 + "9" * 50 + "好" * 100 + "-" * 100 + "\n",
)

_BLOCK = 0x100
_PLANES = (range(0x20, 0xD800, 7), range(0xE000, 0x10000, 61), range(0x10000, 0x20000, 127))


def texts(added: Iterable[str]) -> Iterator[str]:
    """Texts of every kind, some with the added tokens in them."""
    yield from _PARTS
    yield "".join(_PARTS)
    yield "".join(part[::-1] for part in _PARTS)
    for plane in _PLANES:
        for start in range(0, len(plane), _BLOCK):
            scattered = plane[start : start + _BLOCK]
            yield "".join(f"{chr(c)}a {chr(c)}{chr(c)}1" for c in scattered)
    for i, token in enumerate(added):
        if i < _BLOCK:
            yield f"a{token}b {token} {token}\n{token[1:]}{token[:-1]}{token}{token}"
