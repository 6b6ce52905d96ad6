"""pd-profile-handler: the older handler of two stages, decode first; now a form of disagg."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated

import msgspec

from router.scheduling.deciders.prefix_based_pd import PrefixBasedPdDecider
from router.scheduling.profiles.stages import StageHandler, StageProfiles
from router.scheduling.types import Decider


class PdProfileHandler(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """
    Attributes:
        decode_profile: Profile that picks who decodes.
        prefill_profile: Profile that picks who prefills.
        prefix_plugin_type: Accepted; has no effect.
        prefix_plugin_name: Accepted; has no effect.
        primary_port: Port at which all decode ranks of a host are reached; 0: each at its own.
        decider_plugin_name: Decider that says whether to prefill elsewhere.
        prefix_match_info_producer_name: Producer whose match the decider reads, where it names
            none itself.
    """

    decode_profile: str = "decode"
    prefill_profile: str = "prefill"
    prefix_plugin_type: str = ""
    prefix_plugin_name: str = ""
    primary_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    decider_plugin_name: str = "prefix-based-pd-decider"
    prefix_match_info_producer_name: str = ""

    def profile_names(self, declared: Collection[str]) -> Mapping[str, str]:
        return {"decodeProfile": self.decode_profile, "prefillProfile": self.prefill_profile}

    def decider_names(self) -> Mapping[str, str]:
        return {"deciderPluginName": self.decider_plugin_name}

    def link(self, deciders: Mapping[str, Decider]) -> StageHandler:
        return StageHandler(
            stages=StageProfiles(decode=self.decode_profile, prefill=self.prefill_profile),
            prefill_decider=self._told(deciders["deciderPluginName"]),
            primary_port=self.primary_port,
        )

    def _told(self, decider: Decider) -> Decider:
        """The decider, with the producer that is named here if it names none."""
        if not isinstance(decider, PrefixBasedPdDecider) or decider.prefix_match_info_producer_name:
            return decider
        name = self.prefix_match_info_producer_name
        return msgspec.structs.replace(decider, prefix_match_info_producer_name=name)
