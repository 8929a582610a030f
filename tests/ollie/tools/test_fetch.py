"""fetch: pages and texts over HTTP, and what cannot be had."""

import socket
import subprocess
import threading
import zlib
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from website import Answer, Authority, serving

from ollie.tools.fetch import LIMIT_BYTES, checked, fetch
from ollie.tools.html_text import plain
from ollie.tools.program import ToolError

Call = Callable[..., subprocess.CompletedProcess[str]]

PAGE = b"""<!doctype html><html><head><title>A &amp; B</title><style>p {color: red}</style>
<script>var x = "<p>no</p>";</script></head><body><h1>Hello</h1><p>One  <b>bold</b>
word.<br>Next line, <a href="/other">a link</a> and <a href="#x">none</a>.</p>
<ul><li>first<li><p>second</p></ul><pre>  kept
    as is</pre><table><tr><th>a<th>b<tr><td>1<td>2</table><img src=x alt="a picture"></body></html>"""
PLAIN = """A & B

# Hello

One bold word.
Next line, a link <{0}/other> and none.

- first
- second

  kept
    as is

a | b
1 | 2

[a picture]
"""
ANSWERS = {
    "/page": (200, "text/html; charset=utf-8", PAGE),
    "/text": (200, "text/plain", b"just text"),
    "/latin": (200, "text/plain; charset=iso-8859-1", "café\n".encode("latin-1")),
    "/odd": (200, "text/plain; charset=none-such", "café\n".encode()),
    "/json": (200, "application/vnd.api+json", b'{"a": 1}\n'),
    "/image": (200, "image/png", b"\x89PNG"),
    "/missing": (404, "text/plain", b"not here"),
    "/moved": (302, "/text", b""),
    "/loop": (302, "/loop", b""),
    "/ftp": (302, "ftp://127.0.0.1/x", b""),
    "/file": (302, "file:///etc/passwd", b""),
    "/huge": (200, "text/plain", b"x" * (LIMIT_BYTES + 1)),
    "/a%20b": (200, "text/plain", b"a blank\n"),
    "/lies": (200, "text/plain", b"PK\3\4\0"),
}
PACKED = zlib.compress(b"packed\n", wbits=31)
MORE: dict[str, Answer] = {
    "/untyped": (200, {}, b"untyped\n"),
    "/gzip": (200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, PACKED),
    "/deflate": (200, {"Content-Type": "text/plain", "Content-Encoding": "deflate"}, zlib.compress(b"packed\n")),
    "/bomb": (200, {"Content-Encoding": "gzip"}, zlib.compress(b"x" * 2 * LIMIT_BYTES, wbits=31)),
    "/brotli": (200, {"Content-Encoding": "br"}, b"?"),
    "/broken": (200, {"Content-Encoding": "gzip"}, b"no gzip"),
    "/short": (200, {"Content-Length": "100"}, b"short"),
}


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with serving({path: _answer(*answer) for path, answer in ANSWERS.items()} | MORE) as url:
        yield url


def _answer(status: int, kind: str, body: bytes) -> Answer:
    return status, {"Location" if status == 302 else "Content-Type": kind}, body


TEXTS = [
    ("/page", PLAIN),
    ("/text", "just text\n"),
    ("/latin", "café\n"),
    ("/odd", "café\n"),
    ("/json", '{"a": 1}\n'),
    ("/moved", "[from {0}/text]\njust text\n"),
    ("/a b", "[from {0}/a%20b]\na blank\n"),
    ("/untyped", "untyped\n"),
    ("/gzip", "packed\n"),
    ("/deflate", "packed\n"),
]


@pytest.mark.parametrize(("path", "text"), TEXTS)
def test_texts(call: Call, site: str, path: str, text: str) -> None:
    """HTML becomes text, other texts stay as they are, and a line says where one came from after all."""
    done = call("fetch", url=site + path)
    assert (done.returncode, done.stdout) == (0, text.replace("{0}", site)), done.stderr


def test_a_proxy_of_the_environment_is_not_used(call: Call, site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it says."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert call("fetch", url=f"{site}/text").stdout == "just text\n"


ERRORS = [
    ("/image", "is image/png, 4 bytes; save it with the shell"),
    ("/missing", "HTTP 404 Not Found"),
    ("/loop", "HTTP 302"),
    ("/file", "HTTP 302"),
    ("/ftp", "unknown url type: ftp"),
    ("/gone", "closed connection without response"),
    ("/lies", "is binary, whatever its type says; save it with the shell"),
    ("/brotli", "not an answer: it is packed with br, which was not asked for"),
    ("/broken", "not an answer: Error -3 while decompressing data: incorrect header check"),
    ("/short", "the answer broke off: 95 bytes are missing"),
]


@pytest.mark.parametrize(("path", "error"), ERRORS)
def test_errors(call: Call, site: str, path: str, error: str) -> None:
    """One line that names the URL."""
    done = call("fetch", url=site + path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert site in done.stderr
    assert error in done.stderr
    assert done.stderr.count("\n") == 1


def test_nobody_answers(call: Call) -> None:
    """The system's own words."""
    assert "Connection refused" in call("fetch", url="http://127.0.0.1:1/").stderr


@pytest.mark.parametrize("path", ["/huge", "/bomb"])
def test_what_is_too_long_is_cut(call: Call, site: str, path: str) -> None:
    """And it says so."""
    text = call("fetch", url=site + path).stdout
    assert text.startswith(f"[only the first {LIMIT_BYTES} bytes of it]\nxxx")
    assert len(text) < LIMIT_BYTES + 100


@pytest.mark.parametrize(
    "url",
    [
        "",
        "x",
        "file:///etc/passwd",
        "ftp://x/",
        "http://",
        "http:///x",
        "http://[x/",
        "http://x:y/",
        "http://me:key@x/",
    ],
)
def test_what_is_no_url_for_it(url: str) -> None:
    """Nothing is asked of anybody."""
    with pytest.raises(ToolError, match="not a URL"):
        checked(url)


@given(st.text())
def test_any_page_gives_text(html: str) -> None:
    """Whatever the markup, nothing is raised."""
    plain(html, "http://x/")


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<script>x", ""),
        ("a<svg><text>b</text></svg>c", "ac"),
        ("<head><title>t</title><p>x", "t\n\nx"),
        ("<p>a</div></p></p>b", "a\n\nb"),
        ("<a href='javascript:x'>y</a>", "y"),
        ("<a href='http://[x'>y</a>", "y"),
        ("1 &lt; 2 &#x41; &nope;", "1 < 2 A &nope;"),
        ("<a href='http://z/'><h2>x</h2></a>", "## x\n\n<http://z/>"),
    ],
)
def test_markup_that_is_wrong(html: str, text: str) -> None:
    """The text comes out."""
    assert plain(html, "http://x/") == text


# Over TLS.

TLS: dict[str, Answer] = {
    "/": (200, {"Content-Type": "text/plain"}, b"secret\n"),
    "/moved": (302, {"Location": "/"}, b""),
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def test_a_trusted_site(call: Call, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose certificate was signed by whom SSL_CERT_FILE names, by address and after a redirection."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    with serving(TLS, authority.context("IP:127.0.0.1")) as url:
        assert call("fetch", url=f"{url}/").stdout == "secret\n"
        assert call("fetch", url=f"{url}/moved").stdout == f"[from {url}/]\nsecret\n"


@pytest.mark.parametrize(
    ("names", "days", "trusted", "error"),
    [
        ("IP:127.0.0.1", 2, False, "the certificate is refused: unable to get local issuer certificate"),
        ("DNS:example.org", 2, True, "the certificate is refused: IP address mismatch, certificate is not valid for"),
        ("IP:127.0.0.1", -1, True, "the certificate is refused: certificate has expired"),
    ],
)
def test_a_site_that_is_not_trusted(
    names: str,
    days: int,
    *,
    trusted: bool,
    error: str,
    call: Call,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Signed by somebody else, for another name, or too old: nothing is fetched, and the remedy is told."""
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    with serving(TLS, authority.context(names, days=days)) as url:
        done = call("fetch", url=f"{url}/")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{url}/: {error}")
    assert done.stderr.count("\n") == 1


def test_no_tls_where_it_was_asked_for(call: Call, site: str) -> None:
    """It is told as what it is."""
    url = site.replace("http:", "https:")
    assert (
        call("fetch", url=f"{url}/text").stderr
        == f"{url}/text: TLS fails: wrong version number; is it http:// perhaps?\n"
    )


def test_tls_where_it_was_not_asked_for(call: Call, authority: Authority) -> None:
    """One line."""
    with serving(TLS, authority.context("IP:127.0.0.1")) as url:
        done = call("fetch", url=url.replace("https:", "http:"))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this"])
def test_a_site_that_is_silent(said: bytes) -> None:
    """From the beginning, or in the middle of its answer: the wait has an end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.sendall(said)
                while peer.recv(1024):
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ToolError, match=r"no answer in 0\.1 s$"):
            fetch({"url": url}, timeout_s=0.1)
        thread.join()
