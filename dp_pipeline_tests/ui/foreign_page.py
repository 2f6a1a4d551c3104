"""A page of another origin on this computer, that tries to launch a run of the stack."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlencode

from dp_pipeline_tests.stack.dagster_client import REPOSITORY

MUTATION = """
mutation {
  launchRun(executionParams: {
    selector: {repositoryName: "%(repositoryName)s", jobName: "rides_prepare",
               repositoryLocationName: "%(repositoryLocationName)s"}
    mode: "default"
    runConfigData: "{}"
  }) { __typename }
}
"""
QUERY = MUTATION % REPOSITORY

FORM = """
        new Promise(done => {
            const frame = document.createElement('iframe');
            frame.name = 'answer';
            document.body.append(frame);
            const form = document.createElement('form');
            form.method = 'POST';
            form.target = 'answer';
            %s
            document.body.append(form);
            frame.onload = () => done('answered');
            form.submit();
        })
"""
ATTACKS = {
    "image": """
        new Promise(done => {
            const image = new Image();
            image.onload = image.onerror = () => done('answered');
            image.src = URL + '?' + QUERY_STRING;
        })
    """,
    "form": FORM
    % """
            form.action = URL;
            form.enctype = 'text/plain';
            const field = document.createElement('input');
            field.name = BODY.slice(0, -1) + ', "extra": "';
            field.value = '"}';
            form.append(field);
    """,
    "form with a question in its address": FORM % "form.action = URL + '?' + QUERY_STRING;",
    "fetch without an answer": """
        fetch(URL, {method: 'POST', mode: 'no-cors', body: BODY,
                    headers: {'Content-Type': 'text/plain;charset=application/json'}})
            .then(answer => answer.type, error => 'failed')
    """,
    "fetch by GET": """
        fetch(URL + '?' + QUERY_STRING, {mode: 'no-cors'})
            .then(answer => answer.type, error => 'failed')
    """,
    "fetch as JSON": """
        fetch(URL, {method: 'POST', body: BODY, headers: {'Content-Type': 'application/json'}})
            .then(answer => answer.text(), error => 'failed')
    """,
    "beacon": "Promise.resolve(String(navigator.sendBeacon(URL + '?' + QUERY_STRING, BODY)))",
    "window": """
        new Promise(done => {
            const opened = window.open(URL + '?' + QUERY_STRING);
            setTimeout(() => { opened && opened.close(); done('opened'); }, 2000);
        })
    """,
}
"""Way → JavaScript that goes it, a promise of a text."""

WEBSOCKET = """
    new Promise(done => {
        const socket = new WebSocket(URL.replace('http', 'ws'), 'graphql-ws');
        socket.onopen = () => {
            socket.send(JSON.stringify({type: 'connection_init'}));
            socket.send(JSON.stringify({type: 'start', id: '1', payload: JSON.parse(BODY)}));
        };
        socket.onmessage = message => done(message.data);
        socket.onclose = socket.onerror = () => done('closed');
    })
"""
FRAME = """
    new Promise(done => {
        const frame = document.createElement('iframe');
        frame.src = URL.replace('/graphql', '/');
        frame.onload = () => setTimeout(() => done(String(frame.contentWindow.length)), 2000);
        document.body.append(frame);
    })
"""


def script(way: str, url: str) -> str:
    """A way, over what it asks of which address."""
    query = {"query": QUERY}
    known = {"URL": f"{url}/graphql", "QUERY_STRING": urlencode(query), "BODY": json.dumps(query)}
    constants = "".join(f"const {name} = {json.dumps(text)}; " for name, text in known.items())
    return f"() => {{ {constants} return {way.strip()}; }}"


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<!doctype html><title>Cat pictures</title><body>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def foreign_page() -> Iterator[str]:
    """Serve a page on loopback, at another port: another origin; its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
