"""Reads the few figures the router needs from a metrics page in Prometheus text format.

The page is never parsed as a whole: each needed family is searched for by name, and only its lines
are looked at. A line that cannot be read is left out and counted. No figure here can be below
zero, so a negative value counts as unreadable, as do NaN and infinities.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping

import msgspec

from router.pool.dialects import CacheInfo, Dialect, Family
from router.pool.endpoint import EngineMetrics

PROCESS_START = (Family("process_start_time_seconds"),)
"""Published by every Prometheus client library on Linux, whatever the engine."""

_LABEL = re.compile(rb'\s*([a-zA-Z_]\w*)\s*=\s*"([^"\\]*(?:\\.[^"\\]*)*)"\s*(?:,\s*|$)', re.ASCII)
_REMEMBERED_BYTES = 4096
"""Labels longer than this are parsed each time, so that an engine cannot fill the memory."""

_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", '"': '"', "\\": "\\"}


class Sample(msgspec.Struct, frozen=True):
    """One line: its labels and its value."""

    labels: Mapping[str, str]
    value: float


class Page:
    """A metrics page, looked up by family name.

    Attributes:
        ignored: Lines of the families asked for that could not be read.
    """

    def __init__(self, body: bytes) -> None:
        # With a newline before the first line, every line starts after one.
        self._text = b"\n" + body
        self.ignored = 0

    def values(self, name: str) -> list[float]:
        """The values of all series of a family; their labels are not read."""
        parts = [self._split(line) for line in self._lines(name)]
        return [part[1] for part in parts if part is not None]

    def samples(self, name: str) -> list[Sample]:
        """All series of a family, with labels."""
        found = []
        for line in self._lines(name):
            part = self._split(line)
            if part is None:
                continue
            labels = read_labels(part[0])
            if labels is None:
                self.ignored += 1
            else:
                found.append(Sample(labels, part[1]))
        return found

    def _lines(self, name: str) -> Iterable[bytes]:
        """What follows the name on each line of the family."""
        text, needle = self._text, b"\n" + name.encode()
        at = text.find(needle)
        while at >= 0:
            start = at + len(needle)
            end = text.find(b"\n", start)
            # A longer name may start the same: what follows must end this one.
            if text[start : start + 1] in (b"{", b" ", b"\t"):
                yield text[start : end if end >= 0 else len(text)].strip()
            at = text.find(needle, start)

    def _split(self, line: bytes) -> tuple[bytes, float] | None:
        """Raw labels and value; None, counted, where there is no usable value."""
        labels, brace, tail = line.rpartition(b"}")
        fields = tail.split()
        # The second field is a timestamp.
        if len(fields) in (1, 2) and labels.startswith(b"{") == bool(brace):
            value = _number(fields[0])
            if value is not None and value >= 0:
                return labels[1:], value
        self.ignored += 1
        return None


def read_labels(raw: bytes) -> Mapping[str, str] | None:
    """The text between the braces as a mapping; None where it is malformed."""
    return _remembered(raw) if len(raw) <= _REMEMBERED_BYTES else parse_labels(raw)


def parse_labels(raw: bytes) -> Mapping[str, str] | None:
    """As `read_labels`, without memory."""
    labels: dict[str, str] = {}
    at = 0
    while at < len(raw):
        match = _LABEL.match(raw, at)
        if match is None:
            return None
        value = match[2].decode(errors="replace")
        if "\\" in value:
            value = _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[0]), value)
        labels[match[1].decode()] = value
        at = match.end()
    return labels


# Labels rarely change from scrape to scrape, and those that describe a cache are long.
_remembered = functools.lru_cache(maxsize=2048)(parse_labels)


def read(
    body: bytes, dialect: Dialect, scraped_at: float, good_for_s: float = 3.0
) -> EngineMetrics:
    """The figures of a metrics page in the words of one kind of engine. Never raises."""
    page = Page(body)
    usage = _gauges(page, dialect.kv_usage, dialect)
    block_size, gpu_blocks = _cache(page, dialect)
    running, waiting, max_adapters = _adapters(page, dialect.adapters)
    return EngineMetrics(
        waiting=_whole(_sum(_gauges(page, dialect.waiting, dialect))),
        running=_whole(_sum(_gauges(page, dialect.running, dialect))),
        kv_usage=min(1.0, sum(usage) / len(usage)) if usage else None,
        block_size=block_size,
        gpu_blocks=gpu_blocks,
        process_start=_first(_values(page, PROCESS_START)),
        asleep=_asleep(page, dialect.sleep),
        prefix_queries=_sum(_values(page, dialect.prefix_queries)),
        prefix_hits=_sum(_values(page, dialect.prefix_hits)),
        running_adapters=running,
        waiting_adapters=waiting,
        max_adapters=max_adapters,
        scraped_at=scraped_at,
        good_for_s=good_for_s,
        ignored_lines=page.ignored,
    )


def attributes(body: bytes, dialect: Dialect) -> dict[str, float]:
    """The further figures of a page, by attribute; those it lacks are left out."""
    if not dialect.custom:
        return {}
    page, found = Page(body), {}
    for key, family in dialect.custom:
        values = _gauges(page, (family,), dialect)
        if values:
            found[key] = sum(values) / len(values)
    return found


def says_something(metrics: EngineMetrics) -> bool:
    """False for what is no metrics page of an engine: another kind of page, or an empty one."""
    told = msgspec.structs.replace(metrics, scraped_at=0.0, good_for_s=0.0)
    return told != EngineMetrics(good_for_s=0.0)


def _values(page: Page, families: tuple[Family, ...]) -> list[float]:
    """The values of the first family that has any."""
    for family in families:
        if family.where:
            wanted = family.where.items()
            samples = page.samples(family.name)
            values = [sample.value for sample in samples if wanted <= sample.labels.items()]
        else:
            values = page.values(family.name)
        if values:
            return values
    return []


def _gauges(page: Page, families: tuple[Family, ...], dialect: Dialect) -> list[float]:
    """One value per rank: copies and parts of another series are left out."""
    if not (dialect.copy_labels or dialect.part_labels):
        return _values(page, families)
    for family in families:
        ranks: dict[frozenset[tuple[str, str]], float] = {}
        for sample in page.samples(family.name):
            labels = sample.labels
            if not family.where.items() <= labels.items():
                continue
            if not any(labels.get(label) for label in dialect.part_labels):
                rank = frozenset(
                    item for item in labels.items() if item[0] not in dialect.copy_labels
                )
                ranks.setdefault(rank, sample.value)
        if ranks:
            return list(ranks.values())
    return []


def _cache(page: Page, dialect: Dialect) -> tuple[int | None, int | None]:
    """Block size and number of blocks, of the first rank."""
    if dialect.cache is not None:
        return _described_cache(page, dialect.cache)
    sizes, blocks = _values(page, dialect.block_size), _values(page, dialect.gpu_blocks)
    return _whole(_first(sizes)), _whole(_first(blocks))


def _described_cache(page: Page, info: CacheInfo) -> tuple[int | None, int | None]:
    for sample in page.samples(info.name):
        labels = sample.labels
        return _digits(labels.get(info.block_size)), _digits(labels.get(info.gpu_blocks))
    return None, None


def _adapters(page: Page, name: str | None) -> tuple[tuple[str, ...], tuple[str, ...], int | None]:
    """Running and waiting LoRA adapters, and how many fit.

    vLLM keeps the series of past label sets; the one with the newest time is the present one.
    """
    samples = page.samples(name) if name is not None else []
    if not samples:
        return (), (), None
    labels = max(samples, key=lambda sample: sample.value).labels
    running = _names(labels.get("running_lora_adapters", ""))
    waiting = _names(labels.get("waiting_lora_adapters", ""))
    return running, waiting, _digits(labels.get("max_lora"))


def _asleep(page: Page, name: str | None) -> bool:
    """True where any rank says it is not awake."""
    samples = page.samples(name) if name is not None else []
    return any(s.labels.get("sleep_state") == "awake" and s.value == 0 for s in samples)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _first(values: list[float]) -> float | None:
    return values[0] if values else None


def _sum(values: list[float]) -> float | None:
    return sum(values) if values else None


def _whole(value: float | None) -> int | None:
    return round(value) if value is not None and math.isfinite(value) else None


def _digits(text: str | None) -> int | None:
    """A label's value as a positive number; vLLM writes ``None`` where it has none."""
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,18}", text) else None


def _number(text: bytes) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
