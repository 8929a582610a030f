"""fetch: what a URL leads to, as text.

It sends nothing but the request: no cookies, no credentials, no proxy of the environment. What it may reach is decided
by the sandbox alone. Certificates are checked against those that the system trusts, or those of `SSL_CERT_FILE`.
"""

import sys
import zlib
from typing import TYPE_CHECKING, Any

from ollie.tools import files, program
from ollie.tools.program import Arguments, ToolError

if TYPE_CHECKING:
    from email.message import Message
    from urllib.request import OpenerDirector

LIMIT_BYTES = 4 * 1024 * 1024
_TIMEOUT_S = 30
_TEXTS = ("application/json", "application/xml", "application/javascript", "application/x-ndjson", "application/yaml")
_HTML = ("text/html", "application/xhtml+xml")
_SAVE = "save it with the shell: curl -o FILE URL"


def main() -> int:
    """Run the tool."""
    return program.run(fetch)


def fetch(arguments: Arguments, timeout_s: float = _TIMEOUT_S) -> str:
    """The text at `url`, after redirections; a line in brackets says where it came from when that is another place.

    `timeout_s` is for each time that something is waited for; all of it ends with the call's own timeout.
    """
    # What a web page needs is slow to import, and no other tool needs it.
    from http.client import HTTPException  # noqa: PLC0415  as said
    from urllib.error import HTTPError, URLError  # noqa: PLC0415  as said
    from urllib.request import Request  # noqa: PLC0415  as said

    asked = arguments["url"]
    url = checked(asked)
    headers = {"User-Agent": "ollie-fetch", "Accept": "text/html, text/*;q=0.9, */*;q=0.5"}
    request = Request(url, headers=headers)  # noqa: S310  http and https only, checked
    try:
        with _opener().open(request, timeout=timeout_s) as response:
            return _text(asked, response)
    except HTTPError as error:
        raise ToolError(f"{url}: HTTP {error.code} {str(error.reason).partition(chr(10))[0]}") from None
    except (HTTPException, ValueError, zlib.error) as error:
        raise ToolError(f"{url}: not an answer: {error}") from None
    except OSError as error:
        # URLError has what went wrong before there was an answer.
        trouble = error.reason if isinstance(error, URLError) else error
        if isinstance(trouble, TimeoutError):
            raise ToolError(f"{url}: no answer in {timeout_s:g} s") from None
        broke_off = "the answer broke off: " if trouble is error else ""
        raise ToolError(f"{url}: {broke_off}{_reason(trouble)}") from None


def _reason(error: object) -> str:
    """Why a connection could not be made or used; `ssl` is loaded only where it was needed."""
    message = str(getattr(error, "verify_message", ""))
    if message:
        remedy = "for a certificate of your own, name its authority in SSL_CERT_FILE, in env of the sandbox policy"
        return f"the certificate is refused: {message.rstrip('.')} ({remedy})"
    if getattr(error, "library", "") == "SSL":
        return f"TLS fails: {str(getattr(error, 'reason', '')).lower().replace('_', ' ')}; is it http:// perhaps?"
    return str(getattr(error, "strerror", None) or error)


def _opener() -> "OpenerDirector":
    """What knows http and https, and no other scheme, also where a redirection leads to one."""
    from urllib import request  # noqa: PLC0415  as above

    opener = request.OpenerDirector()
    for handler in (
        request.HTTPHandler,
        request.HTTPSHandler,
        request.HTTPDefaultErrorHandler,
        request.HTTPRedirectHandler,
        request.HTTPErrorProcessor,
        request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener


def checked(url: str) -> str:
    """The URL, if it is one that can be fetched.

    Raises:
        ToolError: for other schemes, and for what is no URL.
    """
    from urllib.parse import quote, urlsplit  # noqa: PLC0415  as above

    files.encoded("url", url)
    try:
        parts = urlsplit(url.strip())
        host, _, named = parts.hostname, parts.port, parts.username is not None
    except ValueError as error:
        raise ToolError(f"not a URL: {url}: {error}") from None
    if parts.scheme not in {"http", "https"}:
        raise ToolError(f"not a URL for fetch: {url}: use http:// or https://; read files with file_read")
    if not host:
        raise ToolError(f"not a URL: {url}: it names no host")
    if named:
        raise ToolError(f"not a URL for fetch: {url}: it has a user name, and fetch sends none; leave it out")
    # A URL as people write it; what is quoted already stays as it is.
    path, query = quote(parts.path, safe="/%:@!$&'()*+,;=~"), quote(parts.query, safe="=&%/?:@!$'()*+,;~")
    return parts._replace(path=path, query=query, fragment="").geturl()


def _text(url: str, response: Any) -> str:
    """What an answer of urllib holds, as text."""
    headers = response.headers
    kind = headers.get_content_type()
    if not (kind.startswith("text/") or kind in _TEXTS or kind in _HTML or kind.endswith(("+json", "+xml"))):
        length = headers.get("Content-Length", "an unknown number of")
        raise ToolError(f"{url}: is {kind}, {length} bytes; {_SAVE}")
    data = response.read(LIMIT_BYTES + 1)
    if response.length and len(data) <= LIMIT_BYTES:
        raise ToolError(f"{url}: the answer broke off: {response.length} bytes are missing")
    data = _unpacked(data, headers.get("Content-Encoding", "identity").lower())
    if files.is_binary(data):
        raise ToolError(f"{url}: is binary, whatever its type says; {_SAVE}")
    text = _decoded(data[:LIMIT_BYTES], headers)
    if kind in _HTML:
        from ollie.tools.html_text import plain  # noqa: PLC0415  as above

        text = plain(text, response.url)
    notes = [f"[from {response.url}]\n"] if response.url != url else []
    if len(data) > LIMIT_BYTES:
        notes.append(f"[only the first {LIMIT_BYTES} bytes of it]\n")
    return "".join(notes) + (text if text.endswith("\n") else f"{text}\n")


def _unpacked(data: bytes, coding: str) -> bytes:
    """Data without its coding, which nobody has asked for; at most a byte more than the limit of it."""
    if coding == "identity":
        return data
    if coding not in {"gzip", "x-gzip", "deflate"}:
        raise ValueError(f"it is packed with {coding}, which was not asked for")
    return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data, LIMIT_BYTES + 1)


def _decoded(data: bytes, headers: "Message") -> str:
    charset = headers.get_content_charset("utf-8")
    try:
        return data.decode(charset, "replace")
    except LookupError:
        return data.decode("utf-8", "replace")


if __name__ == "__main__":
    sys.exit(main())
