from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from router.config.errors import ConfigError
from router.config.load import Config, load
from router.scheduling.deciders.always_disagg_pd import AlwaysDisaggPdDecider
from router.scheduling.profiles.single import SingleProfileHandler
from router.scheduling.profiles.stages import StageHandler

ALWAYS = {"type": "always-disagg-pd-decider", "name": "yes"}
DISAGG = "disagg-profile-handler"


def config(*plugins: dict[str, Any], profiles: tuple[str, ...] = ("prefill", "decode")) -> Config:
    """These plugins, and profiles that filter by role."""
    filters = [{"type": "decode-filter"}, {"type": "prefill-filter"}]
    members = [{"pluginRef": "decode-filter"}, {"pluginRef": "prefill-filter"}]
    return load(
        yaml.safe_dump(
            {
                "apiVersion": "llm-d.ai/v1alpha1",
                "kind": "EndpointPickerConfig",
                "plugins": [*plugins, *filters],
                "schedulingProfiles": [{"name": n, "plugins": members} for n in profiles],
            }
        )
    )


def disagg(**parameters: Any) -> dict[str, Any]:
    return {"type": DISAGG, "parameters": parameters}


def test_a_handler_gets_its_deciders_wherever_they_stand() -> None:
    for plugins in ([ALWAYS, disagg(deciders={"prefill": "yes"})],) * 2:
        for order in (plugins, plugins[::-1]):
            built = config(*order)
            assert built.handler == StageHandler(prefill_decider=AlwaysDisaggPdDecider())
            assert built.warnings == ()


def test_what_deciders_go_by_is_produced() -> None:
    built = config(
        {"type": "precise-prefix-cache-producer", "name": "mine"},
        {"type": "endpoint-notification-source"},
        {
            "type": "prefix-based-pd-decider",
            "parameters": {"prefixMatchInfoProducerName": "mine", "nonCachedTokens": 16},
        },
        disagg(deciders={"prefill": "prefix-based-pd-decider"}),
    )
    assert [p.name for p in built.producers] == ["token-producer", "mine"]


def test_each_profile_knows_whose_matches_it_goes_by() -> None:
    built = config(
        {"type": "precise-prefix-cache-producer", "name": "mine"},
        {"type": "endpoint-notification-source"},
        {
            "type": "prefix-based-pd-decider",
            "parameters": {"prefixMatchInfoProducerName": "mine", "nonCachedTokens": 16},
        },
        disagg(deciders={"prefill": "prefix-based-pd-decider"}),
    )
    assert {p.prefix_producer for p in built.profiles.values()} == {"mine"}
    assert config(profiles=("default",)).profiles["default"].prefix_producer == ""


def test_one_profile_needs_no_handler() -> None:
    assert config(profiles=("default",)).handler == SingleProfileHandler()


@pytest.mark.parametrize(
    ("plugins", "said"),
    [
        pytest.param(
            [disagg(deciders={"prefill": "yes"})],
            "no decider 'yes'; known: none - at `$.plugins[0].parameters.deciders.prefill`",
            id="undeclared-decider",
        ),
        pytest.param(
            [disagg(deciderPluginName="decode-filter"), ALWAYS],
            "no decider 'decode-filter'; known: yes"
            " - at `$.plugins[0].parameters.deciderPluginName`",
            id="no-decider-at-all",
        ),
        pytest.param(
            [disagg(profiles={"prefill": "pre"})],
            "no profile 'pre'; did you mean 'prefill'?"
            " - at `$.plugins[0].parameters.profiles.prefill`",
            id="undeclared-profile",
        ),
        pytest.param(
            [disagg(fallbackProfile="any")],
            "- at `$.plugins[0].parameters.fallbackProfile`",
            id="undeclared-fallback",
        ),
        pytest.param(
            [{"type": "header-profile-handler", "parameters": {"defaultProfile": "any"}}],
            "- at `$.plugins[0].parameters.defaultProfile`",
            id="undeclared-default",
        ),
        pytest.param(
            [disagg(decodeProfile="decode", deciders={"prefill": "yes"}), ALWAYS],
            "use one style - at `$.plugins[0].parameters`",
            id="mixed-styles",
        ),
        pytest.param(
            [disagg(), {"type": "pd-profile-handler"}],
            "a second profile handler 'pd-profile-handler' - at `$.plugins[1]`",
            id="two-handlers",
        ),
        pytest.param([], "takes one profile, there are 2", id="no-handler-for-two-profiles"),
        pytest.param(
            [{"type": "data-parallel-profile-handler"}],
            "data-parallel-profile-handler takes one profile, there are 2 - at `$.plugins[0]`",
            id="two-profiles-for-one",
        ),
        pytest.param(
            [
                {"type": "prefix-based-pd-decider", "parameters": {"nonCachedTokens": -1}},
                disagg(deciders={"prefill": "prefix-based-pd-decider"}),
            ],
            "$.plugins[0].parameters.nonCachedTokens",
            id="negative-threshold",
        ),
        pytest.param(
            [
                {
                    "type": "prefix-based-pd-decider",
                    "parameters": {"prefixMatchInfoProducerName": "nobody"},
                },
                disagg(deciders={"prefill": "prefix-based-pd-decider"}),
            ],
            "'nobody'",
            id="producer-that-is-not-there",
        ),
    ],
)
def test_a_mistake_is_refused_with_its_path(plugins: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        config(*plugins)


@pytest.mark.parametrize(
    ("plugins", "profiles", "said"),
    [
        ([ALWAYS, disagg()], ("decode",), "'yes' is asked by no profile handler"),
        ([disagg()], ("decode", "prefill"), "profile 'prefill' never runs"),
        (
            [ALWAYS, disagg(deciders={"prefill": "yes"})],
            ("decode",),
            "would run a profile 'prefill', which is not there",
        ),
    ],
)
def test_what_is_never_asked_or_run_is_a_warning(
    plugins: list[dict[str, Any]], profiles: tuple[str, ...], said: str
) -> None:
    (warning,) = config(*plugins, profiles=profiles).warnings
    assert said in warning


def test_the_older_header_handlers_are_accepted_and_do_nothing() -> None:
    older = [
        {"type": "prefill-header-handler", "parameters": {"prefillProfile": "p"}},
        {"type": "disagg-headers-handler", "parameters": {"encodeProfile": "e"}},
    ]
    built = config(*older, profiles=("default",))
    assert built.handler == SingleProfileHandler()
    assert (built.followers, built.warnings) == ((), ())
