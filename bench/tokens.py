"""Token ids: what encoding and rendering cost, against the tokenizers library on the same text. IO.

All times are CPU time of this process, the least of some rounds: noise only ever adds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import uvloop
from tokenizers import Tokenizer

from bench import prompts, token_service
from bench.figures import Figure
from bench.report import report
from simulator.config import BUNDLED_MODEL_DIR
from tests.support import npm_models
from tokenizer_sidecar.chat_template import ChatTemplate
from tokenizer_sidecar.encode import Encoder
from tokenizer_sidecar.errors import Unsupported

NEW_SHARE = 0.05
TURNS = 200
SHORT_TOKENS = 200

COLD_RATIO = 10
WARM_RATIO = 100
Given = TypeVar("Given")

BASELINE = "1 (tokenizers, same run)"


class Size(msgspec.Struct, frozen=True):
    """How much is measured.

    Attributes:
        models: Those that are not installed are left out.
        chars: Of a text.
        rounds: Of each measurement.
        service: How much of the sidecar.
    """

    models: Sequence[str] = ("tiny", *npm_models.NAMES)
    chars: int = 400_000
    rounds: int = 5
    service: token_service.Size = token_service.Size()


def figures(size: Size = Size()) -> list[Figure]:  # noqa: B008 - frozen
    """Measure all of it, for the models that are installed."""
    found = {"tiny": BUNDLED_MODEL_DIR} | {
        name: directory
        for name in size.models
        if name in npm_models.NAMES and (directory := npm_models.installed(name)) is not None
    }
    measured: list[Figure] = []
    for name, directory in found.items():
        one = _Model(name, directory, size)
        measured += [*one.long_text(), one.memory(), one.growing_chat(), one.short_prompts()]
    return measured + uvloop.run(token_service.figures(found, size.service))


class _Model:
    """One model's encoder beside the library's."""

    def __init__(self, name: str, directory: Path, size: Size) -> None:
        content = (directory / "tokenizer.json").read_bytes()
        # First, as it is half as fast again where its tables lie in memory that others have left.
        self._library = Tokenizer.from_buffer(content)
        began = time.process_time()
        self._encoder = Encoder(Tokenizer.from_buffer(content), content)
        self._load_s = time.process_time() - began
        self._template = ChatTemplate.load(directory)
        self._name, self._size = name, size
        self._fast = self._encoder.method.fast

    def long_text(self) -> Iterator[Figure]:
        """A text that is new, the same again, and with a new end."""
        chars, rounds = self._size.chars, self._size.rounds
        texts = [text(chars, i) for i in range(rounds)]
        shared = texts[0][: round(chars * (1 - NEW_SHARE))]
        ended = [shared + text(chars - len(shared), 100 + i) for i in range(rounds)]
        took = least_ms(self._by_library, texts)
        goals: Sequence[tuple[str, Sequence[str], int | None]] = (
            ("first time", texts, COLD_RATIO),
            ("last 5 % new", ended, WARM_RATIO),
            ("again", texts, WARM_RATIO),
        )
        for what, given, goal in goals:
            ours = least_ms(self._encode, given)
            note = f"{ours:.2f} ms; library {took:.0f} ms"
            if what == "first time":
                tokens = len(self._encode(texts[0])) // 4
                note += f"; {tokens} tokens; {self._encoder.method}; loaded in {self._load_s:.1f} s"
            yield self._ratio(f"{chars // 1000} KB, {what}", took, ours, goal, note)

    def memory(self) -> Figure:
        """What the cache takes for the texts that were encoded so far."""
        stats = self._encoder.cache_stats()
        return Figure(
            name=f"{self._name}, cache per token",
            value=stats.bytes / stats.new_tokens,
            unit="bytes",
            note=f"{stats.entries} pieces, text and ids; none was forgotten",
        )

    def growing_chat(self) -> Figure:
        """A chat that is sent again with each turn."""
        each = self._size.chars // TURNS
        contents = [text(each, 200 + i) for i in range(TURNS)]
        chats = [self._chat(contents[: turn + 1]) for turn in range(TURNS)]
        rendering = _mean_ms(self._render, chats)
        rendered = [self._render(chat) for chat in chats]
        ours = _mean_ms(self._encode, rendered)
        # Its cost is linear in the text, so that some turns tell that of all.
        took = _mean_ms(self._by_library, rendered[TURNS // 20 :: TURNS // 10])
        note = f"a turn: {ours:.2f} ms, {rendering:.2f} ms to render; library {took:.0f} ms"
        return self._ratio(f"{TURNS} turns, one by one", took, ours, WARM_RATIO, note)

    def short_prompts(self) -> Figure:
        """Prompts of 200 tokens that are all new."""
        chars = round(SHORT_TOKENS * prompts.BYTES_PER_TOKEN)
        texts = [text(chars, 1000 + i) for i in range(50 * self._size.rounds)]
        took, ours = (_mean_ms(by, texts) for by in (self._by_library, self._encode))
        note = f"{ours * 1e3:.0f} us; library {took * 1e3:.0f} us"
        return self._ratio(f"{SHORT_TOKENS}-token prompts", took, ours, None, note)

    def _ratio(self, what: str, took: float, ours: float, goal: int | None, note: str) -> Figure:
        return Figure(
            name=f"{self._name}, {what}",
            value=took / ours,
            unit="x",
            budget=goal if self._fast else None,
            floor=True,
            baseline=BASELINE,
            note=note,
        )

    def _encode(self, given: str) -> bytes:
        return self._encoder.encode_packed(given, add_special_tokens=False)

    def _by_library(self, given: str) -> list[int]:
        ids: list[int] = self._library.encode(given, add_special_tokens=False).ids
        return ids

    def _chat(self, contents: Sequence[str]) -> Mapping[str, object]:
        body: Mapping[str, object] = msgspec.json.decode(prompts.chat(self._name, contents))
        return body

    def _render(self, chat: Mapping[str, object]) -> str:
        try:
            return self._template.render(chat)
        except Unsupported:  # a model without a template
            messages = msgspec.convert(chat["messages"], list[dict[str, str]])
            return "".join(
                f"<|start|>{message['role']}<|message|>{message['content']}<|end|>"
                for message in messages
            )


def text(chars: int, seed: int) -> str:
    """Prose of exactly so many characters."""
    return prompts.text(round(chars / prompts.BYTES_PER_TOKEN) + 1, seed)[:chars]


def least_ms(work: Callable[[Given], object], given: Sequence[Given]) -> float:
    """CPU milliseconds of the cheapest call."""
    return min(_mean_ms(work, [each]) for each in given)


def _mean_ms(work: Callable[[Given], object], given: Sequence[Given]) -> float:
    began = time.process_time_ns()
    for each in given:
        work(each)
    return (time.process_time_ns() - began) / 1e6 / len(given)


if __name__ == "__main__":
    sys.exit(report({"tokens": figures}))
