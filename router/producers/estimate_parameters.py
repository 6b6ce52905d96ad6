"""Parameters of token-producer's `estimate`, in llm-d's words: how many tokens media stand for."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

_AtLeast0 = Annotated[int, msgspec.Meta(ge=0)]
_AtLeast1 = Annotated[int, msgspec.Meta(ge=1)]
_Positive = Annotated[float, msgspec.Meta(gt=0, le=1e9)]


class _Camel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    pass


class Resolution(_Camel, frozen=True):
    """Pixels."""

    width: _AtLeast1 = 640
    height: _AtLeast1 = 360


class ByPixels(_Camel, frozen=True):
    """
    Attributes:
        factor: Pixels that one token stands for.
    """

    factor: _AtLeast1 = 1024


class StaticImage(_Camel, frozen=True):
    """
    Attributes:
        static_token: Tokens of every image.
    """

    static_token: _AtLeast1 = 1


class ImageParameters(_Camel, frozen=True):
    """
    Attributes:
        mode: By the image's pixels, or the same for every image.
        default_resolution: Where an image's own cannot be read.
    """

    mode: Literal["dynamic", "static"] = "dynamic"
    default_resolution: Resolution = Resolution()
    static: StaticImage = StaticImage()
    dynamic: ByPixels = ByPixels()


class StaticFrame(_Camel, frozen=True):
    """
    Attributes:
        num_tokens_per_frame: Tokens of every frame.
    """

    num_tokens_per_frame: _AtLeast1 = 1


class TokensPerFrame(_Camel, frozen=True):
    """
    Attributes:
        mode: By a frame's pixels, or the same for every frame.
    """

    mode: Literal["dynamic", "static"] = "dynamic"
    static: StaticFrame = StaticFrame()
    dynamic: ByPixels = ByPixels()


class Sampled(_Camel, frozen=True):
    """
    Attributes:
        sample_fps: Frames the model takes per second.
        temporal_patch_size: Frames that become one; below 2: each stays one.
    """

    sample_fps: _Positive = msgspec.field(default=2.0, name="sampleFPS")
    temporal_patch_size: _AtLeast0 = 0


class Strided(_Camel, frozen=True):
    """
    Attributes:
        default_source_fps: Frames per second of a video that comes without a word about it.
        frame_stride: The model takes every so-manyth frame.
    """

    default_source_fps: _Positive = msgspec.field(default=24.0, name="defaultSourceFPS")
    frame_stride: _AtLeast1 = 1


class Frames(_Camel, frozen=True):
    """
    Attributes:
        mode: So many a second, or every so-manyth.
        min_frames: At least so many; 0 for no such limit.
        max_frames: At most so many; 0 for no such limit.
    """

    mode: Literal["sampled", "strided"] = "sampled"
    min_frames: _AtLeast0 = 0
    max_frames: _AtLeast0 = 0
    sampled: Sampled = Sampled()
    strided: Strided = Strided()


class VideoParameters(_Camel, frozen=True):
    """
    Attributes:
        default_resolution: Of a video that comes without a word about it.
        default_duration: Seconds, likewise.
        max_video_tokens: At most so many per video; 0 for no such limit.
    """

    default_resolution: Resolution = Resolution()
    default_duration: _Positive = 10.0
    tokens_per_frame: TokensPerFrame = TokensPerFrame()
    frames: Frames = Frames()
    max_video_tokens: _AtLeast0 = 0


class EstimateParameters(_Camel, frozen=True):
    """How many tokens an image or a video stands for."""

    image: ImageParameters = ImageParameters()
    video: VideoParameters = VideoParameters()
