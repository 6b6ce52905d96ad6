"""What goes wrong between the proxy and engines.

SidecarError           status
├── Refused            403      the named engine is not allowed
├── TooLarge           413      the body exceeds the cap
└── Unreachable        502      an engine gave no answer
"""

from __future__ import annotations

from typing import Any, ClassVar


class SidecarError(Exception):
    """Its text is shown to the client."""

    status: ClassVar[int] = 500
    kind: ClassVar[str] = "InternalServerError"

    def body(self) -> dict[str, Any]:
        """In the shape of vLLM's errors."""
        return {
            "error": {
                "message": str(self),
                "type": self.kind,
                "param": None,
                "code": self.status,
            }
        }


class Refused(SidecarError):
    """The request names an engine that this proxy may not call."""

    status = 403
    kind = "Forbidden"


class TooLarge(SidecarError):
    """The body exceeds the configured cap."""

    status = 413
    kind = "RequestEntityTooLarge"


class Unreachable(SidecarError):
    """An engine refused the connection, broke it or did not answer in time."""

    status = 502
    kind = "BadGateway"
