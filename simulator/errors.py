"""Refusals in the shapes that vLLM answers with.

error                status   type
ApiError.invalid     400      Bad Request         the body is not what the schema says
ApiError.bad         400      BadRequestError     the body is valid, the request is not
ApiError.not_found   404      NotFoundError
ApiError.lora        400      InvalidUserInput
"""

from __future__ import annotations

from typing import Any, Self


class ApiError(Exception):
    """
    Attributes:
        status: The HTTP status, also the body's `code`.
        param: The offending field, where there is one.
    """

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.param = param

    @classmethod
    def invalid(cls, detail: str, param: str | None) -> Self:
        return cls(400, "Bad Request", f"1 validation error:\n  {detail}", param)

    @classmethod
    def bad(cls, message: str, param: str | None = None, value: object = None) -> Self:
        """`param`, and `value` if there is one, are repeated in the message, as vLLM does."""
        shown = f", value={value}" if value is not None else ""
        where = f" (parameter={param}{shown})" if param else ""
        return cls(400, "BadRequestError", message + where, param)

    @classmethod
    def not_found(cls, message: str, param: str | None = None) -> Self:
        return cls(404, "NotFoundError", message, param)

    @classmethod
    def lora(cls, message: str) -> Self:
        return cls(400, "InvalidUserInput", message)

    def body(self) -> dict[str, Any]:
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.status,
            }
        }
