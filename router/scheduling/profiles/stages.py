"""Disaggregation: up to three picks for one request: who encodes, who prefills, who decodes.

decode first    decode ─► encode, if its decider says so ─► prefill, if its decider says so
prefill first   prefill ─► encode, if its decider says so ─► decode

While later stages are picked, their plugins find the first pick as the fact Peer.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence

import msgspec

from router.errors import NoEndpoints, RouterError, Saturated
from router.extproc import headers as names
from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, KeptOut, Peer
from router.request.types import Kind, Request
from router.scheduling.profiles.ports import through_port
from router.scheduling.schedule import schedule
from router.scheduling.types import Decider, Decision, Outcome, Profile

_GENERATING = frozenset({"completions", "responses", "messages", "generate"})
"""Last segments of the paths whose prompts decode sidecars have prefilled elsewhere."""

FALLBACK = "fallback"
"""What a decision is called that the fallback profile made."""


class StageProfiles(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True
):
    """Which profile picks for which stage."""

    decode: str = "decode"
    prefill: str = "prefill"
    encode: str = "encode"


class StageHandler(msgspec.Struct, frozen=True, kw_only=True):
    """The handler behind every configuration with stages.

    Attributes:
        stages: Which profile picks for which stage; decode is always there.
        prefill_first: Prefill always, and pick that endpoint before the one that decodes.
        prefill_decider: Whether to prefill elsewhere, where decode comes first; None: never.
        encode_decider: Whether to encode elsewhere; None: never.
        fallback: Profile that answers alone where a wanted stage has nobody; empty: a refusal.
        primary_port: Port at which all decode ranks of a host are reached; 0: each at its own.
    """

    stages: StageProfiles = StageProfiles()
    prefill_first: bool = False
    prefill_decider: Decider | None = None
    encode_decider: Decider | None = None
    fallback: str = ""
    primary_port: int = 0

    def needs(self) -> tuple[tuple[type, str], ...]:
        """The facts its deciders go by."""
        deciders = (self.prefill_decider, self.encode_decider)
        return tuple(need for decider in deciders for need in _needs(decider))

    def runs(self) -> Collection[str]:
        """The profiles that may run."""
        may = {
            self.stages.decode: True,
            self.stages.prefill: self.prefill_first or self.prefill_decider is not None,
            self.stages.encode: self.encode_decider is not None,
            self.fallback: bool(self.fallback),
        }
        return [name for name, runs in may.items() if runs]

    def decide(
        self,
        request: Request,
        profiles: Mapping[str, Profile],
        endpoints: Sequence[Endpoint],
        facts: Facts,
        rng: random.Random,
    ) -> Decision:
        picks = _Picks(self.stages, request, profiles, endpoints, rng)
        if not _generates(request):
            return self._decision(picks.decode(facts), None, None)
        decode = None if self.prefill_first else picks.decode(facts)
        try:
            prefill, encode = self._helpers(picks, facts, decode)
        except (NoEndpoints, Saturated):
            if not self.fallback:
                raise
            alone = schedule(profiles[self.fallback], request, endpoints, facts, rng)
            return Decision(alone, kind=FALLBACK)
        if decode is None:
            decode = picks.decode(_beside(facts, prefill))
        return self._decision(decode, prefill, encode)

    def _helpers(
        self, picks: _Picks, facts: Facts, decode: Outcome | None
    ) -> tuple[Outcome | None, Outcome | None]:
        """Who prefills and who encodes for the endpoint that decodes."""
        if decode is None:
            prefill = picks.prefill(facts)
            near = _beside(facts, prefill)
            return prefill, picks.encode(near) if self._encodes(picks, near, None) else None
        near, endpoint = _beside(facts, decode), decode.endpoint
        encode = picks.encode(near) if self._encodes(picks, near, endpoint) else None
        decider = self.prefill_decider
        if decider is None or not decider.disaggregates(picks.request, endpoint, near):
            return None, encode
        return picks.prefill(near), encode

    def _encodes(self, picks: _Picks, facts: Facts, endpoint: Endpoint | None) -> bool:
        decider = self.encode_decider
        return decider is not None and decider.disaggregates(picks.request, endpoint, facts)

    def _decision(
        self, decode: Outcome, prefill: Outcome | None, encode: Outcome | None
    ) -> Decision:
        if prefill is not None and prefill.endpoint.address == decode.endpoint.address:
            # One engine for both stages: there is nobody to hand the cache over to.
            prefill = None
        headers = {}
        if prefill is not None:
            headers[names.PREFILLER] = prefill.endpoint.address
        if encode is not None:
            headers[names.ENCODERS] = ",".join(target.address for target in encode.targets)
        decision = Decision(decode, prefill, encode, headers=headers, kind=_kind(prefill, encode))
        return through_port(decision, self.primary_port) if self.primary_port else decision


class _Picks(msgspec.Struct, frozen=True):
    """Runs the profiles of stages for one request."""

    stages: StageProfiles
    request: Request
    profiles: Mapping[str, Profile]
    endpoints: Sequence[Endpoint]
    rng: random.Random

    def decode(self, facts: Facts) -> Outcome:
        return self._run("decode", self.profiles[self.stages.decode], facts)

    def prefill(self, facts: Facts) -> Outcome | None:
        """None where there is no such profile."""
        profile = self.profiles.get(self.stages.prefill)
        out = facts.get(KeptOut)
        if out is not None and out.prefill:
            facts = facts.also(KeptOut(out.addresses | out.prefill))
        return None if profile is None else self._run("prefill", profile, facts)

    def encode(self, facts: Facts) -> Outcome | None:
        """None where there is no such profile."""
        profile = self.profiles.get(self.stages.encode)
        return None if profile is None else self._run("encode", profile, facts)

    def _run(self, stage: str, profile: Profile, facts: Facts) -> Outcome:
        """Raises NoEndpoints or Saturated, with the stage."""
        try:
            return schedule(profile, self.request, self.endpoints, facts, self.rng)
        except RouterError as error:
            error.stage = stage
            raise


def _generates(request: Request) -> bool:
    """Only an answer to a prompt has stages; where the body is not shown, the path tells."""
    if request.kind is not Kind.OTHER:
        return True
    last = request.path.rstrip("/").rpartition("/")[2]
    return last in _GENERATING and request.headers.get(":method", "POST") == "POST"


def _needs(plugin: object) -> Sequence[tuple[type, str]]:
    needs = getattr(plugin, "needs", None)
    return needs() if needs else ()


def _beside(facts: Facts, pick: Outcome | None) -> Facts:
    return facts if pick is None else facts.also(Peer(pick.endpoint))


def _kind(prefill: Outcome | None, encode: Outcome | None) -> str:
    """What llm-d calls such a decision."""
    if prefill is None:
        return "decode-only" if encode is None else "encode-decode"
    return "prefill-decode" if encode is None else "encode-prefill-decode"
