"""A server that speaks S3 on this machine, and a proxy before it that answers as stores do in bad hours."""

import contextlib
import http.client
import http.server
import logging
import random
import threading
from typing import NamedTuple

import moto.s3.models
from moto.server import ThreadedMotoServer

KEYS = {"key": "testing", "secret": "testing"}


class Request(NamedTuple):
    method: str
    path: str


class Proxy(http.server.ThreadingHTTPServer):
    """Passes requests on to a server. `fault(request)` says what becomes of each:

    "ok", "500", "503"; "cut before" it is passed on, "cut after" it was, or "cut within" the answer; "twice" passes it on twice.
    A function is called once the request was passed on; then the connection is cut. fault() may itself wait. `edit(data)` gives what
    to answer in place of a body.
    """

    daemon_threads, block_on_close = True, False

    def __init__(self, server):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.server, self.fault, self.requests = server, lambda request: "ok", []
        self.edit = bytes

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(self.command, self.path)
        self.server.requests.append(request)
        fault = self.server.fault(request)
        if fault == "cut before":
            return self.cut()
        if fault in ("500", "503"):
            self.send_response(int(fault))
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if fault == "twice":
            self.passed_on(body)
        status, headers, data = self.passed_on(body)
        if callable(fault):
            fault()
        if fault == "cut after" or callable(fault):
            return self.cut()
        data = self.server.edit(data)
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in ("connection", "content-length", "date", "server", "transfer-encoding"):
                self.send_header(name, value)
        length = dict(headers).get("Content-Length") if self.command == "HEAD" else len(data)
        self.send_header("Content-Length", str(length or 0))
        self.end_headers()
        if self.command == "HEAD":
            return None
        if fault == "cut within":
            self.wfile.write(data[: len(data) // 2])
            return self.cut()
        return self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

    def passed_on(self, body):
        with contextlib.closing(http.client.HTTPConnection(*self.server.server)) as connection:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in ("connection", "expect")}
            connection.request(self.command, self.path, body or None, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()

    def cut(self):
        self.close_connection = True
        self.connection.close()

    def handle_one_request(self):
        with contextlib.suppress(OSError, ValueError):
            return super().handle_one_request()
        self.close_connection = True

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving():
    """The address (host, port) of a server without any bucket, which keeps its objects in memory."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto.s3.models.S3_UPLOAD_PART_MIN_SIZE = 4096  # so that tests need not send megabytes
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield server.get_host_and_port()
    finally:
        server.stop()


@contextlib.contextmanager
def proxied(server):
    with Proxy(server) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()


def options(url):
    """The storage_options for a server, without repeats by botocore, so that ours are tried."""
    config = {"retries": {"max_attempts": 0}, "connect_timeout": 10, "read_timeout": 30}
    return {**KEYS, "endpoint_url": url, "config_kwargs": config}


class Faults:
    """Faults by chance, of one seed: about 40 of 100 requests."""

    KINDS = {"ok": 60, "500": 6, "503": 6, "cut before": 8, "cut after": 8, "cut within": 8, "twice": 4}

    def __init__(self, seed):
        self._chance, self.counts, self._lock = random.Random(seed), dict.fromkeys(self.KINDS, 0), threading.Lock()

    def __call__(self, request):
        with self._lock:
            kind = self._chance.choices(list(self.KINDS), list(self.KINDS.values()))[0]
            self.counts[kind] += 1
        return kind
