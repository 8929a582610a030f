"""A web site on this machine, over HTTP or HTTPS, and an authority of its own for the latter."""

import contextlib
import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

Answer = tuple[int, Mapping[str, str], bytes]
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@contextlib.contextmanager
def serving(answers: Mapping[str, Answer], context: ssl.SSLContext | None = None) -> Iterator[str]:
    """A site with these answers by path; what is not among them is hung up on. Its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer one request."""
            if self.path not in answers:
                return
            status, headers, body = answers[self.path]
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = _Server(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"{'http' if context is None else 'https'}://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that goes away is no news."""


class Authority:
    """Something that signs certificates, in a directory of its own; `file` is what trusts it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.file = directory / "ca.pem"
        self._run("req", "-x509", *_KEY, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=tests", "-days", "2")

    def context(self, names: str, *, days: int = 2) -> ssl.SSLContext:
        """What a server needs whose certificate is for these names, as in `IP:127.0.0.1`."""
        (self._directory / "names").write_text(f"subjectAltName={names}\n")
        self._run("req", *_KEY, "-keyout", "key", "-out", "request", "-subj", "/CN=site")
        signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
        self._run("x509", "-req", "-in", "request", "-out", "certificate", *signing, "-days", str(days))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._directory / "certificate", self._directory / "key")
        return context

    def _run(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self._directory, check=True, capture_output=True)
