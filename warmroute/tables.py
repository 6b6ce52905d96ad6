"""Text in columns for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> Iterator[str]:
    """Lines of equal columns; the first `left` ones are flush left, the others flush right."""
    lines = [[plain(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def plain(text: str) -> str:
    """Text from elsewhere, without what a terminal would take for a command."""
    return "".join(char if char.isprintable() else "?" for char in text)
