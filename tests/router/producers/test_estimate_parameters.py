from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router.producers.estimate_parameters import EstimateParameters


def test_nothing_said_means_the_field_s_defaults() -> None:
    told = msgspec.to_builtins(msgspec.convert({}, EstimateParameters))
    assert told == {
        "image": {
            "mode": "dynamic",
            "defaultResolution": {"width": 640, "height": 360},
            "static": {"staticToken": 1},
            "dynamic": {"factor": 1024},
        },
        "video": {
            "defaultResolution": {"width": 640, "height": 360},
            "defaultDuration": 10.0,
            "tokensPerFrame": {
                "mode": "dynamic",
                "static": {"numTokensPerFrame": 1},
                "dynamic": {"factor": 1024},
            },
            "frames": {
                "mode": "sampled",
                "minFrames": 0,
                "maxFrames": 0,
                "sampled": {"sampleFPS": 2.0, "temporalPatchSize": 0},
                "strided": {"defaultSourceFPS": 24.0, "frameStride": 1},
            },
            "maxVideoTokens": 0,
        },
    }


@pytest.mark.parametrize(
    ("parameters", "place"),
    [
        ({"image": {"mode": "automatic"}}, r"\$\.image\.mode"),
        ({"image": {"dynamic": {"factor": 0}}}, r"\$\.image\.dynamic\.factor"),
        ({"video": {"frames": {"sampled": {"sampleFps": 1}}}}, r"sampleFps.*\$\.video\.frames"),
        ({"video": {"defaultDuration": -1}}, r"\$\.video\.defaultDuration"),
        ({"audio": {}}, "audio"),
    ],
    ids=str,
)
def test_a_mistake_names_its_place(parameters: dict[str, Any], place: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=place):
        msgspec.convert(parameters, EstimateParameters)
