"""Model directories for tests: the bundled one, and small ones written on the spot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "simulator" / "model"
CAPTURES = ROOT / "tests" / "captures"


CHAT = (
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


def captured(name: str) -> Iterator[dict[str, Any]]:
    """The lines of a recording."""
    with (CAPTURES / name).open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def write_model(
    directory: Path, *, bos: bool = True, template: Any = CHAT, truncate_to: int | None = None
) -> Path:
    """A byte-level tokenizer without merges: one id per byte, and <s> in front where asked for."""
    directory.mkdir(parents=True, exist_ok=True)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({c: i + 2 for i, c in enumerate(alphabet)}, []))
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    first = tokenizer.token_to_id("<s>")
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair=None, special_tokens=[("<s>", first)]
        )
    if truncate_to is not None:
        tokenizer.enable_truncation(truncate_to)
        tokenizer.enable_padding(length=truncate_to)
    tokenizer.save(str(directory / "tokenizer.json"))
    write_config(directory, bos_token="<s>", eos_token={"content": "</s>"}, chat_template=template)
    return directory


def write_config(directory: Path, **config: Any) -> None:
    """tokenizer_config.json with these fields."""
    text = json.dumps(config)
    (directory / "tokenizer_config.json").write_text(text, encoding="utf-8")


def chat(*messages: Any, **fields: Any) -> dict[str, Any]:
    """A chat body; a bare string is what a user says."""
    said = [{"role": "user", "content": m} if isinstance(m, str) else m for m in messages]
    return {"model": "tiny", "messages": said, **fields}
