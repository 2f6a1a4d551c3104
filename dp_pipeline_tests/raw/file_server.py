"""A server of files on this machine, which can also cut them short, send elsewhere or be slow."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Fault = str
"""none, short, endless, chunked, chunked short, silent, stalled, drip or odd header."""

SILENT_SECONDS = 60
"""How long nothing comes; nobody waits for the end of it."""


@dataclass
class FileServer:
    """What is answered, and what was asked.

    files      path → bytes
    moved      path → where it is said to be instead
    fault      how a file is sent
    asked      every path that was asked for, with its query
    headers    of the last question
    """

    port: int = 0
    files: dict[str, bytes] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    fault: Fault = "none"
    asked: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)

    def url(self, path: str = "/a.csv") -> str:
        return f"http://127.0.0.1:{self.port}{path}"


@contextmanager
def file_server() -> Iterator[FileServer]:
    served = FileServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            served.asked.append(self.path)
            served.headers = dict(self.headers.items())
            path = self.path.partition("?")[0]
            if path in served.moved:
                self.send_response(302)
                self.send_header("Location", served.moved[path])
                self.send_header("Content-Length", "0")
                self.end_headers()
            elif path not in served.files:
                self.send_error(404)
            else:
                _send(self, served.files[path], served.fault)

        def log_message(self, *_: object) -> None:
            """Tests have their own output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.port = server.server_address[1]
    # As long as it looks away, a test waits for its end.
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _send(handler: BaseHTTPRequestHandler, body: bytes, fault: Fault) -> None:
    handler.close_connection = True
    if fault == "silent":
        time.sleep(SILENT_SECONDS)
        return
    handler.send_response(200)
    if fault.startswith("chunked"):
        handler.send_header("Transfer-Encoding", "chunked")
    elif fault != "endless":
        handler.send_header("Content-Length", str(len(body)))
    if fault == "odd header":
        handler.send_header("no colon\r\nX", "")
    handler.end_headers()
    if fault.startswith("chunked"):
        handler.wfile.write(b"%x\r\n%b\r\n" % (len(body), body))
        handler.wfile.write(b"" if fault == "chunked short" else b"0\r\n\r\n")
    elif fault == "short":
        handler.wfile.write(body[:-1])
    elif fault == "stalled":
        handler.wfile.write(body[:-1])
        handler.wfile.flush()
        time.sleep(SILENT_SECONDS)
    elif fault == "drip":
        # Until nobody listens any more.
        with suppress(OSError):
            for byte in body:
                handler.wfile.write(bytes([byte]))
                handler.wfile.flush()
                time.sleep(0.02)
    else:
        handler.wfile.write(body)
