"""BlockIndex against a naive model under random events."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from indexer.block import Holder, Match
from indexer.index import BlockIndex
from tests.indexer import make
from tests.indexer.make import E1, E2, E3

HOLDERS = (E1, E2, E3)
CHAINS = tuple(range(201, 211))
TIERS = ("gpu", "cpu", "disk")
holders = st.sampled_from(HOLDERS)
tiers = st.sampled_from(TIERS)
pairs = st.lists(st.tuples(st.integers(1, 12), st.sampled_from(CHAINS)), min_size=1, max_size=8)


class Model:
    """What `BlockIndex` must do, with plain sets and counters."""

    def __init__(self, count_repeats: bool) -> None:
        self.count_repeats = count_repeats
        self.copies: dict[Holder, dict[str, Counter[int]]] = {}
        self.called: dict[Holder, dict[int, int]] = {}
        self.meant: dict[Holder, dict[int, int]] = {}
        """Holder → name → what it last meant, even if that is gone."""
        self.habits: dict[Holder, str] = {}
        for holder in HOLDERS:
            self.clear(holder)

    def clear(self, holder: Holder) -> None:
        self.copies[holder] = {tier: Counter() for tier in TIERS}
        self.called[holder] = {}
        self.meant[holder] = {}

    def has(self, holder: Holder, chain: int) -> bool:
        return any(counts[chain] for counts in self.copies[holder].values())

    def store(self, holder: Holder, tier: str, name: int, chain: int) -> bool:
        """False if the engine would do two odd things of which real ones do one at most.

        They are calling a block by several names and giving a name other content: names made from
        content never get another, and other names have no reason to be several.
        """
        called = self.called[holder]
        old = self.meant[holder].get(name, chain)
        reuses, doubles = old != chain, name not in called and chain in called.values()
        if reuses or doubles:
            self.habits.setdefault(holder, "reuses" if reuses else "doubles")
        habit = self.habits.get(holder)
        if (reuses and (habit != "reuses" or chain in called.values())) or (
            doubles and habit != "doubles"
        ):
            return False
        if reuses:
            for counts in self.copies[holder].values():
                counts[old] *= called.get(name) != old
            self.forget_names(holder)
            called = self.called[holder]
        called[name] = self.meant[holder][name] = chain
        counts = self.copies[holder][tier]
        counts[chain] = counts[chain] + 1 if self.count_repeats else 1
        return True

    def remove(self, holder: Holder, tier: str, name: int) -> None:
        counts = self.copies[holder][tier]
        chain = self.called[holder][name]
        counts[chain] -= bool(counts[chain])
        self.forget_names(holder)

    def clear_tier(self, holder: Holder, tier: str) -> None:
        self.copies[holder][tier].clear()
        self.forget_names(holder)

    def forget_names(self, holder: Holder) -> None:
        called = self.called[holder]
        self.called[holder] = {n: c for n, c in called.items() if self.has(holder, c)}

    def match(self, chains: list[int]) -> dict[Holder, Match]:
        matches = {}
        for holder in HOLDERS:
            best: Counter[str] = Counter()
            for chain in chains:
                tier = next((t for t in TIERS if self.copies[holder][t][chain]), None)
                if tier is None:
                    break
                best[tier] += 1
            if best:
                matches[holder] = Match(best.total(), dict(best), best.total())
        return matches


class IndexAgainstModel(RuleBasedStateMachine):
    count_repeats = True

    def __init__(self) -> None:
        super().__init__()
        self.index = BlockIndex(16, self.count_repeats, TIERS)
        self.model = Model(self.count_repeats)

    @rule(holder=holders, tier=tiers, blocks=pairs)
    def store(self, holder: Holder, tier: str, blocks: list[tuple[int, int]]) -> None:
        by_chain = {chain: name for name, chain in dict(blocks).items()}
        taken = [(n, c) for c, n in by_chain.items() if self.model.store(holder, tier, n, c)]
        if taken:
            names, chains = zip(*taken, strict=True)
            self.index.store(holder, tier, names, chains)

    @rule(holder=holders, tier=tiers, offset=st.integers(0, 100))
    def store_under_names_of_its_own(self, holder: Holder, tier: str, offset: int) -> None:
        base = (HOLDERS.index(holder) + 1) * 1000
        self.store(holder, tier, [(base + chain + offset % 2, chain) for chain in CHAINS])

    @rule(holder=holders, tier=tiers, data=st.data())
    def remove(self, holder: Holder, tier: str, data: st.DataObject) -> None:
        called = sorted(self.model.called[holder])
        if called:
            name = data.draw(st.sampled_from(called))
            self.index.remove(holder, tier, [name])
            self.model.remove(holder, tier, name)

    @rule(holder=holders, tier=tiers)
    def remove_what_nobody_has(self, holder: Holder, tier: str) -> None:
        assert self.index.remove(holder, tier, [999_999]) == []

    @rule(holder=holders)
    def clear(self, holder: Holder) -> None:
        self.index.clear(holder)
        self.model.clear(holder)

    @rule(holder=holders, tier=tiers)
    def clear_tier(self, holder: Holder, tier: str) -> None:
        self.index.clear_tier(holder, tier)
        self.model.clear_tier(holder, tier)

    @rule(blocks=st.integers(1, 30))
    def sweep(self, blocks: int) -> None:
        self.index.sweep(blocks)

    @rule(chains=st.lists(st.sampled_from(CHAINS), unique=True, min_size=1))
    def match(self, chains: list[int]) -> None:
        assert self.index.match(chains) == self.model.match(chains)

    @invariant()
    def single_blocks_and_names_agree(self) -> None:
        for chain in CHAINS:
            assert set(self.index.match([chain])) == {
                holder for holder in HOLDERS if self.model.has(holder, chain)
            }
        for holder in HOLDERS:
            for name, chain in self.model.called[holder].items():
                assert self.index.resolve(holder, name) == chain
            counts = self.model.copies[holder]
            held = {tier: sum(map(bool, counts[tier].values())) for tier in TIERS}
            assert self.index.blocks(holder) == {tier: n for tier, n in held.items() if n}

    def teardown(self) -> None:
        for holder in HOLDERS:
            for name in list(self.model.called[holder]):
                for tier in TIERS:
                    while (
                        self.model.called[holder].get(name)
                        and self.model.copies[holder][tier][self.model.called[holder][name]]
                    ):
                        self.index.remove(holder, tier, [name])
                        self.model.remove(holder, tier, name)
        assert set(make.swept(self.index).sizes().values()) == {0}
        assert self.index.bits.retired == 0


class IndexWithoutCountsAgainstModel(IndexAgainstModel):
    count_repeats = False


_SETTINGS = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
IndexAgainstModel.TestCase.settings = _SETTINGS
IndexWithoutCountsAgainstModel.TestCase.settings = _SETTINGS
TestIndexAgainstModel = IndexAgainstModel.TestCase
TestIndexWithoutCountsAgainstModel = IndexWithoutCountsAgainstModel.TestCase
