"""Reads our Markdown: files, sections, code blocks, tables and links."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def files() -> Iterator[Path]:
    """Every Markdown file that people read, relative to the root."""
    for pattern in ("*.md", "docs/**/*.md", "envoy/*.md", "deploy/**/*.md"):
        yield from sorted(path.relative_to(ROOT) for path in ROOT.glob(pattern))


def read(path: Path | str) -> str:
    return (ROOT / path).read_text()


def blocks(text: str, language: str) -> list[str]:
    """Code blocks of one language."""
    return [body for name, body in _BLOCK.findall(text) if name == language]


def prose(text: str) -> str:
    """Without code blocks."""
    return _BLOCK.sub("", text)


def links(text: str) -> list[str]:
    """Targets of links."""
    return _LINK.findall(prose(text))


def anchors(text: str) -> set[str]:
    """What a link to a heading of this text may be called, after `#`."""
    headings = _HEADING.findall(prose(text))
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


def sections(text: str, level: int = 2) -> Mapping[str, str]:
    """Heading -> text up to the next heading of that level or above."""
    marks = "#" * level
    pieces = re.split(rf"^{marks} (.+)$", text, flags=re.MULTILINE)
    above = re.compile(rf"^#{{1,{level - 1}}} ", re.MULTILINE)
    return {
        name: above.split(body)[0] for name, body in zip(pieces[1::2], pieces[2::2], strict=True)
    }


def rows(text: str) -> list[list[str]]:
    """Cells of the table rows, headings and rulers left out."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for i, row in enumerate(cells) if not _is_head(cells, i)]


def _is_head(cells: list[list[str]], i: int) -> bool:
    return _is_ruler(cells[i]) or (i + 1 < len(cells) and _is_ruler(cells[i + 1]))


def _is_ruler(row: list[str]) -> bool:
    return all(set(cell) == {"-"} for cell in row)
