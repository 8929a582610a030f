"""Requests to providers over HTTP: one place where every failure of a connection is mapped.

There is no total time-out, since a healthy reply may stream for an hour; what ends a request is silence. Bodies are
read as they come, never by line. Proxies of the environment are used, except to this machine.
"""

import contextlib
import ipaddress
import os
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import msgspec

from ollie.backends.failures import error_of, without
from ollie.engine.messages import BackendError, ErrorKind

_CONNECT_S: Final = 30.0
_ERROR_BYTES: Final = 64 * 1024
BODY_BYTES: Final = 64 * 1024 * 1024

_PORTS: Final = {"http": 80, "https": 443}


class Http:
    """Connections to one provider, opened when they are first used.

    Args:
        base_url: where its paths begin, http or https.
        headers: sent with every request; their values may be secret.
        secret: the key among them, kept out of messages.
        silence_s: how long the provider may say nothing, before the reply as within it.

    Raises:
        BackendError: `bad_request` for a URL that is none; `auth` for a key that no header can hold.
    """

    def __init__(self, base_url: str, headers: Mapping[str, str], *, secret: str, silence_s: float) -> None:
        self.base_url = base_url.rstrip("/")
        self._headers = dict(headers)
        self._secret = secret
        self._silence_s = silence_s
        self._session: aiohttp.ClientSession | None = None
        try:
            url = urlsplit(self.base_url)
            host, port = url.hostname or "", _PORTS[url.scheme]
            port = url.port or port
        except (ValueError, KeyError):
            host = ""
        if not host:
            raise BackendError(ErrorKind.bad_request, f"not an http or https URL: {without(base_url, secret)}")
        self._host = f"{host}:{port}"
        self._proxy = proxy_of(url.scheme, host, port)
        if not secret.isprintable() or not secret.isascii():
            raise BackendError(ErrorKind.auth, "the key has characters that no header can hold")

    async def post(self, path: str, body: bytes) -> AsyncGenerator[bytes, None]:
        """Send JSON and yield what comes back, in chunks that are never empty.

        Raises:
            BackendError: `unavailable` before an answer begins, `stream_cut` within it, else what the status says.
        """
        async with self._answer("POST", path, body) as response:
            try:
                async for chunk in response.content.iter_any():
                    if chunk:
                        yield chunk
            except TimeoutError:
                raise BackendError(ErrorKind.stream_cut, f"the reply fell silent for {self._silence_s:g} s") from None
            except (aiohttp.ClientError, OSError):
                raise BackendError(ErrorKind.stream_cut, "the connection was lost in the middle of the reply") from None

    async def get(self, path: str) -> Any:
        """The JSON at a path. Raises `BackendError` as `post`, and `unavailable` for what is no JSON."""
        async with self._answer("GET", path, None) as response:
            try:
                return msgspec.json.decode(await _read(response, BODY_BYTES))
            except (aiohttp.ClientError, OSError, TimeoutError):
                raise BackendError(ErrorKind.unavailable, f"the connection to {self._host} was lost") from None
            except (msgspec.MsgspecError, RecursionError):
                raise BackendError(ErrorKind.unavailable, f"{self.base_url}/{path} is not JSON") from None

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    @contextlib.asynccontextmanager
    async def _answer(self, method: str, path: str, body: bytes | None) -> AsyncIterator[aiohttp.ClientResponse]:
        """A response with status 200, whose connection is given back or closed at the end."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                request = self._open().request(
                    method,
                    f"{self.base_url}/{path}",
                    data=body,
                    headers=self._headers | ({} if body is None else {"Content-Type": "application/json"}),
                    proxy=self._proxy,
                )
                response = await stack.enter_async_context(request)
                if response.status != 200:
                    answer = await _read(response, _ERROR_BYTES)
                    now = datetime.now(UTC)
                    raise error_of(response.status, answer, response.headers, secret=self._secret, now=now)
            except aiohttp.ConnectionTimeoutError:
                raise BackendError(ErrorKind.unavailable, f"{self._host} does not answer") from None
            except TimeoutError:
                text = f"{self._host} gave no answer for {self._silence_s:g} s"
                raise BackendError(ErrorKind.unavailable, text) from None
            except (aiohttp.ClientError, OSError, ValueError) as error:
                raise BackendError(ErrorKind.unavailable, without(self._unreachable(error), self._secret)) from None
            yield response

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=self._silence_s)
            self._session = aiohttp.ClientSession(
                timeout=timeout,
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    def _unreachable(self, error: Exception) -> str:
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return f"the certificate of {self._host} is not trusted"
        if isinstance(error, aiohttp.ClientConnectorError):
            number = error.os_error.errno  # its text repeats the address
            return f"cannot connect to {self._host}: {os.strerror(number) if number else error.os_error}"
        if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionError):
            return f"{self._host} closed the connection without an answer"
        return f"cannot reach {self._host}: {type(error).__name__}"


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The body, or as much of it as the limit allows."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) >= limit:
            break
    return bytes(body[:limit])


def proxy_of(scheme: str, host: str, port: int) -> str | None:
    """The proxy that the environment names for a server; none for this machine."""
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return None
    if host == "localhost" or urllib.request.proxy_bypass(f"{host}:{port}"):
        return None
    return urllib.request.getproxies().get(scheme)
