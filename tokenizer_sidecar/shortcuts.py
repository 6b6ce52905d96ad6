"""What of a tokenizer's work can be done in a cheaper way that provably gives the same ids.

    fast          tiktoken encodes instead of the tokenizers library
    incremental   text is cut into pieces, and only those not seen before are encoded

Each is taken where it is proven for the tokenizer at hand, and the reason is kept where it is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec
from tokenizers import Tokenizer

from tokenizer_sidecar import cuts, post_processing, sample
from tokenizer_sidecar.added_tokens import AddedTokens, Normalize
from tokenizer_sidecar.byte_bpe import ranks
from tokenizer_sidecar.char_sets import Classes
from tokenizer_sidecar.cuts import PIECE_CHARS, Cutter
from tokenizer_sidecar.errors import Unproven
from tokenizer_sidecar.fast import FastEncoder
from tokenizer_sidecar.post_processing import Frame
from tokenizer_sidecar.split_pattern import SplitPattern, combine
from tokenizer_sidecar.split_syntax import Alternative, parse
from tokenizer_sidecar.tokenizer_json import Part, TokenizerJson, read, steps

Slow = Callable[[str], bytes]
"""Encodes a text with the tokenizers library, without what the post-processor adds."""

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""What the library's ByteLevel step splits by, unless told not to."""


_IN_NFC = re.compile(
    "[\0-\u02ff\u0400-\u0482\u048a-\u052f\u2010-\u2027\u2030-\u205e\u2190-\u2328\u232b-\u2adb\u3000-\u3029"
    "\u3041-\u3096\u30a0-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uff00-\uffef"
    "\U0001f000-\U0001faff]*"
)
"""Texts of characters that NFC changes neither alone nor beside each other, which is fixed for all
versions of Unicode. Asking the library takes as long as encoding does."""


class Method(msgspec.Struct, frozen=True):
    """How a tokenizer's ids are computed.

    Attributes:
        fast: By tiktoken, not by the tokenizers library.
        incremental: In pieces that are kept, not as a whole.
        why_slow: What stands against tiktoken.
        why_whole: What stands against pieces.
    """

    fast: bool
    incremental: bool
    why_slow: str = ""
    why_whole: str = ""

    def __str__(self) -> str:
        by = "tiktoken" if self.fast else f"tokenizers ({self.why_slow})"
        return f"{by}, {'in pieces' if self.incremental else f'as a whole ({self.why_whole})'}"


class Shortcuts(msgspec.Struct, frozen=True, eq=False):
    """What was proven.

    Attributes:
        frame: Ids around every text; None where the library must be asked for them each time.
    """

    method: Method
    frame: Frame | None = None
    fast: FastEncoder | None = None
    cutter: Cutter | None = None


NONE = Shortcuts(Method(False, False, "not asked for", "not asked for"))
"""For whoever encodes too little for the proofs to pay."""


def find(
    content: bytes | str, tokenizer: Tokenizer, slow: Slow, piece_chars: int = PIECE_CHARS
) -> Shortcuts:
    """Try to prove each for the tokenizer and the file it came from."""
    frame, fast, cutter = None, None, None
    why_slow, why_whole = "", ""
    try:
        json = read(content)
        frame = _frame(json, tokenizer)
        parts = _Parts(json, tokenizer)
    except Unproven as error:
        return Shortcuts(Method(False, False, str(error), str(error)), frame)
    try:
        fast = parts.fast_encoder(slow)
    except Unproven as error:
        why_slow = str(error)
    try:
        cutter = parts.cutter(piece_chars)
    except Unproven as error:
        why_whole = str(error)
    method = Method(fast is not None, cutter is not None, why_slow, why_whole)
    return Shortcuts(method, frame, fast, cutter)


def _frame(json: TokenizerJson, tokenizer: Tokenizer) -> Frame:
    """Read from the file, and seen to be what the library adds. Raises Unproven."""
    found = post_processing.frame(json)
    plain, framed = (tokenizer.encode("a", add_special_tokens=special) for special in (False, True))
    if post_processing.pack(framed.ids) != found.around(post_processing.pack(plain.ids)):
        raise Unproven("the post-processor was seen to do something else")
    return found


class _Parts:
    """The pieces of evidence. Raises Unproven where no shortcut is possible at all."""

    def __init__(self, json: TokenizerJson, tokenizer: Tokenizer) -> None:
        self._model = json.bpe()
        self._normalize = _normalize(json, tokenizer)
        self._added = AddedTokens(json.added_tokens, _ids(json, tokenizer), self._normalize)
        self._normalizers = [
            str(step.get("type")) for step in steps(json.normalizer, "normalizers")
        ]
        self._splits = steps(json.pre_tokenizer, "pretokenizers")
        self._replaced = _replaced(json)
        self._pattern: SplitPattern | None = None

    def fast_encoder(self, slow: Slow) -> FastEncoder:
        """tiktoken, seen to agree on a sample. Raises Unproven."""
        if set(self._normalizers) - {"NFC"}:
            raise Unproven(f"normalizes by {', '.join(self._normalizers)}")
        if self._model.byte_fallback or not self._splits:
            raise Unproven("the model is not byte-level")
        self._pattern = _pattern(self._splits)
        fast = FastEncoder(self._pattern.source(), ranks(self._model), self._added, slow)
        for text in sample.texts(sorted(self._added.texts)):
            if fast.encode(text) != slow(text):
                raise Unproven("tiktoken was seen to give other ids")
        return fast

    def cutter(self, piece_chars: int) -> Cutter:
        """Places to cut. Raises Unproven."""
        added = cuts.between_added(self._added)
        if self._pattern is not None:
            joined = cuts.between_pieces(self._pattern)
        elif not all(_idle(step, self._replaced) for step in self._splits):
            raise Unproven("the pre-tokenizer is not understood")
        else:
            joined = cuts.between_entries(self._model, self._normalize)
        return Cutter(joined | added, self._added, piece_chars=piece_chars)


def _ids(json: TokenizerJson, tokenizer: Tokenizer) -> dict[str, int]:
    found: dict[str, int] = {}
    for token in json.added_tokens:
        id_ = tokenizer.token_to_id(token.content)
        if id_ is None:
            raise Unproven(f"the token {token.content!r} has no id")
        found[token.content] = id_
    return found


def _normalize(json: TokenizerJson, tokenizer: Tokenizer) -> Normalize:
    known = {"NFC", "Replace"}
    kinds = {str(step.get("type")) for step in steps(json.normalizer, "normalizers")}
    if kinds - known:
        raise Unproven(f"normalizes by {', '.join(sorted(kinds - known))}")
    _replaced(json)
    normalizer = tokenizer.normalizer
    if normalizer is None or not kinds:
        return _unchanged
    if kinds == {"NFC"}:
        return lambda text: text if _IN_NFC.fullmatch(text) else str(normalizer.normalize_str(text))
    return lambda text: str(normalizer.normalize_str(text))


def _unchanged(text: str) -> str:
    return text


def _replaced(json: TokenizerJson) -> set[str]:
    """Characters that no normalized text has. Raises Unproven."""
    found: set[str] = set()
    for step in steps(json.normalizer, "normalizers"):
        if step.get("type") == "Replace":
            match step:
                case {"pattern": {"String": str(old)}, "content": str(new)} if len(old) == 1:
                    found = (found | {old}) - set(new)
                case _:
                    raise Unproven("the normalizer replaces more than single characters")
    return found


def _idle(step: Part, replaced: set[str]) -> bool:
    """The step splits at a character that normalizing has taken away."""
    match step:
        case {"type": "Split", "pattern": {"String": str(text)}}:
            return text in replaced
        case _:
            return False


def _pattern(splits: Sequence[Part]) -> SplitPattern:
    """The splits as one pattern. Raises Unproven."""
    classes = Classes()
    patterns: list[tuple[Alternative, ...]] = []
    byte_level = False
    for step in splits:
        match step:
            case {
                "type": "Split",
                "pattern": {"Regex": str(source)},
                "behavior": "Isolated",
                "invert": False,
            } if not byte_level:
                patterns.append(parse(source, classes))
            case {"type": "ByteLevel", "add_prefix_space": False} if not byte_level:
                byte_level = True
                if step.get("use_regex", True):
                    patterns.append(parse(GPT2, classes))
            case _:
                raise Unproven(f"splits text by a step of type {step.get('type')}")
    if not byte_level or not patterns:
        raise Unproven("the pre-tokenizer is not byte-level")
    return combine(patterns)
