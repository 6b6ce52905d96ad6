"""disagg-profile-handler: prefill and encoding on endpoints of their own, where that pays."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from router.scheduling.profiles.stages import StageHandler, StageProfiles
from router.scheduling.types import Decider

_PREFILL_FIRST = "prefillfirst"
_ORDERS = ("decodefirst", _PREFILL_FIRST)


class StageDeciders(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which decider says whether a stage runs; empty: it does not."""

    prefill: str = ""
    encode: str = ""


class DisaggProfileHandler(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True
):
    """Names of profiles and deciders come in one of two styles, never both.

    Attributes:
        stage_order: ``decode-first`` or ``prefill-first``; case, ``-`` and ``_`` do not matter.
        profiles: Which profile picks for which stage.
        deciders: Which decider says whether a stage runs.
        fallback_profile: Profile that answers alone where a wanted stage has nobody; empty: 503.
        decode_profile: Older name of ``profiles.decode``.
        prefill_profile: Older name of ``profiles.prefill``.
        encode_profile: Older name of ``profiles.encode``.
        prefill_decider_plugin_name: Older name of ``deciders.prefill``.
        encode_decider_plugin_name: Older name of ``deciders.encode``.
        decider_plugin_name: Still older name of ``deciders.prefill``.
    """

    stage_order: str = "decode-first"
    profiles: StageProfiles | None = None
    deciders: StageDeciders | None = None
    fallback_profile: str = ""
    decode_profile: str | None = None
    prefill_profile: str | None = None
    encode_profile: str | None = None
    prefill_decider_plugin_name: str | None = None
    encode_decider_plugin_name: str | None = None
    decider_plugin_name: str | None = None

    def __post_init__(self) -> None:
        if self._order not in _ORDERS:
            raise ValueError(
                f"expected decode-first or prefill-first, got {self.stage_order!r} in `stageOrder`"
            )
        flat = [name for name, value in self._flat().items() if value is not None]
        if flat and (self.profiles is not None or self.deciders is not None):
            raise ValueError(
                f"`{flat[0]}` does not go with `profiles` and `deciders`: use one style"
            )
        older, oldest = self.prefill_decider_plugin_name, self.decider_plugin_name
        if older and oldest and older != oldest:
            raise ValueError("`deciderPluginName` and `prefillDeciderPluginName` differ: name one")
        if self.prefill_first and self._stage_deciders().prefill:
            raise ValueError("with `stageOrder: prefill-first` no decider is asked about prefill")

    def in_force(self) -> Mapping[str, object]:
        """Parameters that come to another value."""
        return {"profiles": self._stage_profiles(), "deciders": self._stage_deciders()}

    @property
    def prefill_first(self) -> bool:
        """Prefill always, before the endpoint that decodes is picked."""
        return self._order == _PREFILL_FIRST

    def profile_names(self, declared: Collection[str]) -> Mapping[str, str]:
        """Of stages named as usual only decode must be there."""
        usual = msgspec.structs.asdict(StageProfiles())
        fields = {
            self._field("profiles", stage): name
            for stage, name in msgspec.structs.asdict(self._stage_profiles()).items()
            if stage == "decode" or name != usual[stage]
        }
        return fields | (
            {"fallbackProfile": self.fallback_profile} if self.fallback_profile else {}
        )

    def decider_names(self) -> Mapping[str, str]:
        named = msgspec.structs.asdict(self._stage_deciders())
        return {self._field("deciders", stage): name for stage, name in named.items() if name}

    def link(self, deciders: Mapping[str, Decider]) -> StageHandler:
        return StageHandler(
            stages=self._stage_profiles(),
            prefill_first=self.prefill_first,
            prefill_decider=deciders.get(self._field("deciders", "prefill")),
            encode_decider=deciders.get(self._field("deciders", "encode")),
            fallback=self.fallback_profile,
        )

    @property
    def _order(self) -> str:
        return self.stage_order.replace("-", "").replace("_", "").lower()

    def _flat(self) -> Mapping[str, str | None]:
        return {
            "decodeProfile": self.decode_profile,
            "prefillProfile": self.prefill_profile,
            "encodeProfile": self.encode_profile,
            "prefillDeciderPluginName": self.prefill_decider_plugin_name,
            "encodeDeciderPluginName": self.encode_decider_plugin_name,
            "deciderPluginName": self.decider_plugin_name,
        }

    def _stage_profiles(self) -> StageProfiles:
        usual = StageProfiles()
        return self.profiles or StageProfiles(
            decode=self.decode_profile or usual.decode,
            prefill=self.prefill_profile or usual.prefill,
            encode=self.encode_profile or usual.encode,
        )

    def _stage_deciders(self) -> StageDeciders:
        return self.deciders or StageDeciders(
            prefill=self.prefill_decider_plugin_name or self.decider_plugin_name or "",
            encode=self.encode_decider_plugin_name or "",
        )

    def _field(self, group: str, stage: str) -> str:
        """Where a name stands in the style that is used."""
        flat = self._flat()
        if group == "profiles":
            older = f"{stage}Profile"
        elif stage == "prefill" and self.prefill_decider_plugin_name is None:
            older = "deciderPluginName"
        else:
            older = f"{stage}DeciderPluginName"
        return older if flat[older] is not None else f"{group}.{stage}"
