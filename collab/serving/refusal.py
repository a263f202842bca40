"""Errors for clients, in OpenAI's format and without details of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.responses import JSONResponse

from collab.records import Failure

RETRY_SECONDS = 5
"""Seconds after which a refused client should try again."""

INVALID, LIMITED, SERVER = "invalid_request_error", "rate_limit_error", "server_error"


@dataclass(eq=False)
class Refused(Exception):
    """A request is refused. The reason is safe to send to the client.

    `reason` is OpenAI's `code`, and `param` is the path of the field to change.
    """

    status: int
    reason: str | None
    message: str
    param: str | None = None
    kind: str = INVALID
    retry_after: int | None = None

    @property
    def body(self) -> dict[str, Any]:
        """The JSON body. Its message names `param`, because many clients show only the message."""
        named = self.param is None or self.param in self.message
        return {
            "error": {
                "message": self.message if named else f"{self.param}: {self.message}",
                "type": self.kind,
                "param": self.param,
                "code": self.reason,
            }
        }

    def response(self) -> JSONResponse:
        """Return the refusal as an HTTP response, with its status and headers."""
        headers = {"www-authenticate": "Bearer"} if self.status == 401 else {}
        if self.retry_after is not None:
            headers["retry-after"] = str(self.retry_after)
        elif self.status >= 500:
            headers["x-should-retry"] = "false"  # OpenAI's clients obey it
        if self.status in (408, 413):
            headers["connection"] = "close"
        return JSONResponse(self.body, status_code=self.status, headers=headers)


def invalid(message: str, param: str | None = None, reason: str | None = None) -> Refused:
    """Return a refusal with status 400 for a request that cannot be answered."""
    return Refused(400, reason, message, param=param)


def unavailable(message: str) -> Refused:
    """Return a refusal with status 503: no request can be answered at present."""
    return Refused(503, "engine_unavailable", message, kind=SERVER, retry_after=RETRY_SECONDS)


def refusal_for(failure: Failure) -> Refused:
    """Return the refusal for a failed episode, without its message, which may name files.

    Clients repeat a request after a status of 500 or more by default. Only a model that does not
    answer may answer later, so other failures have the status 422.
    """
    match failure.type:
        case "ContextOverflow":
            message = "the text is too long for an agent of the team; shorten it"
            return invalid(message, "messages", "context_length_exceeded")
        case "ModelUnavailable":
            return unavailable("a model of the team does not answer")
        case "ModelDenied":
            message = "a model's service refuses this server; the server's log names the cause"
        case "ModelTimeout":
            return Refused(504, "timeout", "a model of the team was too slow", kind=SERVER)
        case _:
            message = f"the episode failed: {failure.type}; a server with --record keeps its cause"
    return Refused(422, failure.type, message, kind=SERVER)
