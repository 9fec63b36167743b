"""Errors of the HTTP routes: one JSON shape, `{"error": {"type", "code", "message", "param"}}`."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web


class ApiError(Exception):
    """Ends a request with an error answer.

    Args:
        status: HTTP status, 400–599.
        code: stable word for programs.
        message: what is wrong and what to do.
        param: field that is wrong.
        retry_after_s: sent as `Retry-After`.
        headers: further headers.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        param: str | None = None,
        retry_after_s: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s
        self.headers = dict(headers or {})

    def response(self) -> web.Response:
        """Return the answer."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        error = {"type": kind, "code": self.code, "message": self.message, "param": self.param}
        headers = dict(self.headers)
        if self.retry_after_s is not None:
            headers["Retry-After"] = str(self.retry_after_s)
        return web.json_response({"error": error}, status=self.status, headers=headers)


def from_http_exception(error: web.HTTPException) -> web.Response:
    """Give aiohttp's own refusals (no such route, wrong method, too large) the shape of ours."""
    code = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}.get(error.status, "bad_request")
    answer = ApiError(error.status, code, f"{error.reason}.").response()
    if "Allow" in error.headers:
        answer.headers["Allow"] = error.headers["Allow"]
    return answer
