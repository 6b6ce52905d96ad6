"""What can go wrong with a model or a body, and whose fault it is.

    ModelError                    the model's directory cannot be used
    RenderError (ValueError)      the engine would answer 400
      InvalidText                 the text is not Unicode: it holds half a surrogate pair
    Unsupported                   legal, but the ids cannot be known here
      MediaContent                those of the first message with media and what follows cannot
    Panic                         a library gave up on a file or a text it was not made for
    Unproven                      a shortcut may give other ids than the engine: it is not taken

Where engines differ between releases, the lenient reading wins: ids for a body that the engine then
refuses cost nothing, a refusal of a body that the engine accepts costs a cache hit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


class ModelError(Exception):
    """The message names the path and what is wrong with it."""


class RenderError(ValueError):
    """The message is for the client."""


class InvalidText(RenderError):
    """Text that no encoder accepts: it has no UTF-8 form."""


class Unsupported(Exception):
    """The message names what the ids depend on."""


class MediaContent(Unsupported):
    """The message names the part."""


class Unproven(Exception):
    """The message says what about the tokenizer stands against it."""


class Panic(Exception):
    """The message is the library's."""


def without_panics(call: Callable[[], Result]) -> Result:
    """The call's result. Raises Panic where a library in Rust raises what is no Exception: nobody
    who handles errors would catch that."""
    try:
        return call()
    except Exception:
        raise
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise Panic(" ".join(str(error).split())) from error
