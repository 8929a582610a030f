"""fetch: pages and texts over HTTP, and what cannot be had."""

import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollie.tools.fetch import LIMIT_BYTES, checked
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
}


class Handler(BaseHTTPRequestHandler):
    """Answers from the table; `/gone` hangs up."""

    def do_GET(self) -> None:
        """Answer one request."""
        if self.path == "/gone":
            return
        status, kind, body = ANSWERS[self.path]
        self.send_response(status)
        self.send_header("Location" if status == 302 else "Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


TEXTS = [
    ("/page", PLAIN),
    ("/text", "just text\n"),
    ("/latin", "café\n"),
    ("/odd", "café\n"),
    ("/json", '{"a": 1}\n'),
    ("/moved", "[from {0}/text]\njust text\n"),
    ("/a b", "[from {0}/a%20b]\na blank\n"),
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


def test_what_is_too_long_is_cut(call: Call, site: str) -> None:
    """And it says so."""
    text = call("fetch", url=f"{site}/huge").stdout
    assert text.startswith(f"[only the first {LIMIT_BYTES} bytes of it]\nxxx")
    assert len(text) < LIMIT_BYTES + 100


@pytest.mark.parametrize(
    "url", ["", "x", "file:///etc/passwd", "ftp://x/", "http://", "http:///x", "http://[x/", "http://x:y/"]
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
