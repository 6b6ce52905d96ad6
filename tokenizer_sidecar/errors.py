"""What can go wrong with a model or a body, and whose fault it is.

    ModelError                    the model's directory cannot be used
    RenderError (ValueError)      the engine would answer 400
      InvalidText                 the text is not Unicode: it holds half a surrogate pair
    Unsupported                   legal, but the ids cannot be known here
      MediaContent                those of the first message with media and what follows cannot
    Unproven                      a shortcut may give other ids than the engine: it is not taken

Where engines differ between releases, the lenient reading wins: ids for a body that the engine then
refuses cost nothing, a refusal of a body that the engine accepts costs a cache hit.
"""

from __future__ import annotations


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
