"""How an HTTP answer of a provider is a `BackendError`: its status, its body, its headers."""

import email.utils
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from ollie.engine.messages import BackendError, ErrorKind

_TEXT_LIMIT: Final = 500

_BY_STATUS: Final = {
    401: ErrorKind.auth,
    402: ErrorKind.refused,
    403: ErrorKind.auth,
    404: ErrorKind.not_found,
    408: ErrorKind.unavailable,
    409: ErrorKind.unavailable,
    413: ErrorKind.context_overflow,
    425: ErrorKind.unavailable,
    429: ErrorKind.rate_limited,
    503: ErrorKind.overloaded,
    529: ErrorKind.overloaded,
}

# What providers call an error, in its `code` or `type`. It says more than the status.
_BY_CODE: Final = {
    "context_length_exceeded": ErrorKind.context_overflow,
    "exceed_context_size_error": ErrorKind.context_overflow,
    "string_above_max_length": ErrorKind.context_overflow,
    "content_filter": ErrorKind.refused,
    "content_policy_violation": ErrorKind.refused,
    "insufficient_quota": ErrorKind.refused,
    "invalid_api_key": ErrorKind.auth,
    "authentication_error": ErrorKind.auth,
    "permission_error": ErrorKind.auth,
    "model_not_found": ErrorKind.not_found,
    "not_found_error": ErrorKind.not_found,
    "rate_limit_exceeded": ErrorKind.rate_limited,
    "rate_limit_error": ErrorKind.rate_limited,
    "overloaded_error": ErrorKind.overloaded,
    "server_error": ErrorKind.unavailable,
    "api_error": ErrorKind.unavailable,
    "timeout_error": ErrorKind.unavailable,
}

# How servers without such codes say that a request is too long.
_OVERFLOW: Final = (
    "context length",
    "context window",
    "context size",
    "maximum context",
    "too many tokens",
    "prompt is too long",
    "input is too long",
)


def error_of(status: int, body: bytes, headers: Mapping[str, str], *, secret: str, now: datetime) -> BackendError:
    """The error of an answer with a status other than 200.

    Args:
        status: the HTTP status.
        body: what came with it, perhaps not whole.
        headers: by name, in any case.
        secret: a key that the provider may repeat, and the message must not.
        now: the time to which a `Retry-After` date is compared.
    """
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        value = None
    code, text = described(value)
    if value is None:
        text = _one_line(body.decode(errors="replace"))
        if text.startswith("<"):  # a page of a proxy says nothing to people
            text = ""
    kind = kind_of(code, text, _BY_STATUS.get(status) or _by_class(status))
    text = f"{text} (HTTP {status})" if text else f"the server answered HTTP {status}"
    return BackendError(kind, without(text, secret), retry_after_s(headers, now))


def error_within(value: Any, secret: str) -> BackendError:
    """The error that a provider reports within a reply."""
    code, text = described(value)
    number = _number(value)
    otherwise = _BY_STATUS.get(number) or (_by_class(number) if number else ErrorKind.unavailable)
    return BackendError(kind_of(code, text, otherwise), without(text or "the provider reports an error", secret))


def described(value: Any) -> tuple[str, str]:
    """The code and the message in an error body, both empty where there is none.

    Servers write `{"error": {"message", "type", "code"}}`, `{"error": "…"}`, `{"message"}`, `{"detail"}`.
    """
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return "", ""
    error = value.get("error") or value
    if isinstance(error, str):
        return "", _one_line(error)
    if not isinstance(error, dict):
        return "", ""
    text = next((error[key] for key in ("message", "detail", "msg", "error") if isinstance(error.get(key), str)), "")
    codes = [error.get(key) for key in ("code", "type", "status")]
    known = [code for code in codes if isinstance(code, str) and code in _BY_CODE]
    return (known or [""])[0], _one_line(text)


def kind_of(code: str, text: str, otherwise: ErrorKind) -> ErrorKind:
    """The kind of an error by its code, else by its message, else the given one."""
    if code in _BY_CODE:
        return _BY_CODE[code]
    if otherwise in (ErrorKind.bad_request, ErrorKind.unavailable) and any(one in text.lower() for one in _OVERFLOW):
        return ErrorKind.context_overflow
    return otherwise


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """The wait that a server asks for: `Retry-After` in seconds or as a date (RFC 9110, 10.2.3), or in milliseconds."""
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        if not text:
            continue
        try:
            seconds = float(text) * unit_s
        except ValueError:
            seconds = _until(text, now)
        if math.isfinite(seconds):
            return max(seconds, 0.0)
    return None


def without(text: str, secret: str) -> str:
    """The text with a secret, and pieces of it that a provider may show, left out."""
    return text.replace(secret, "[key]") if secret else text


def _number(value: Any) -> int:
    """The HTTP status that an error body names as its code; 0 where it names none."""
    error = value.get("error") if isinstance(value, dict) else None
    code = error.get("code") if isinstance(error, dict) else value.get("code") if isinstance(value, dict) else None
    return code if isinstance(code, int) else 0


def _until(date: str, now: datetime) -> float:
    try:
        then = email.utils.parsedate_to_datetime(date)
    except ValueError:
        return math.nan
    return ((then if then.tzinfo else then.replace(tzinfo=UTC)) - now).total_seconds()


def _by_class(status: int) -> ErrorKind:
    return ErrorKind.unavailable if status >= 500 or status < 400 else ErrorKind.bad_request


def _one_line(text: str) -> str:
    line = " ".join(text.split())[:_TEXT_LIMIT]
    return line.encode(errors="replace").decode()
