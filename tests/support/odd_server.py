"""A web server on loopback that serves files in parts, and misbehaves on request: /MANNER/FILE.

    with OddServer(folder) as server:
        server.url("run.espalier")            # served well
        server.url("run.espalier", "reset")   # see the methods that begin with "as_"
        server.requests                       # what was asked, in order
"""

import contextlib
import gzip
import http.server
import pathlib
import re
import socket
import ssl
import threading
import urllib.parse

DATE = "Mon, 01 Jan 2024 00:00:00 GMT"
LATER = "Tue, 02 Jan 2024 00:00:00 GMT"


class Request:
    """A request as it came, and the bytes of the file that were sent for it."""

    def __init__(self, handler):
        self.method, self.target, self.headers = handler.command, handler.path, dict(handler.headers)
        self.path = urllib.parse.unquote(urllib.parse.urlsplit(handler.path).path)
        self.range = handler.headers.get("Range")
        self.sent = 0


class Counted:
    """Counts the bytes that are written, also of answers that never end."""

    def __init__(self, file, server):
        self.file, self.server = file, server

    def write(self, data):
        done = self.file.write(data)
        with self.server.lock:
            self.server.written += len(data)
        return done

    def __getattr__(self, name):
        return getattr(self.file, name)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # A test that has forgotten a connection does not keep the server.
    timeout = 30

    def log_message(self, *_):
        pass

    def setup(self):
        super().setup()
        with self.server.lock:
            self.server.open_connections.append(self.connection)
            self.server.connections += 1
        self.wfile = Counted(self.wfile, self.server)

    def handle(self):
        try:
            super().handle()
        except (ConnectionError, TimeoutError):
            pass  # The program went away, as some tests want.

    def do_HEAD(self):
        """As good servers do; readers that ask so for the length see the manner afterwards."""
        file = self.server.folder / urllib.parse.urlsplit(self.path).path[1:].partition("/")[2]
        self.answer(200, length=file.stat().st_size, headers=[("Accept-Ranges", "bytes")])

    def do_GET(self):
        self.request_ = Request(self)
        with self.server.lock:
            self.server.requests.append(self.request_)
            key = self.request_.path
            self.count = self.server.counts[key] = self.server.counts.get(key, 0) + 1
        if self.path.startswith("http://"):  # As a proxy is asked.
            self.request_.path = urllib.parse.urlsplit(self.path).path
        manner, _, name = self.request_.path[1:].partition("/")
        file = self.server.folder / name
        if len(name) > 255 or not file.is_file():
            return self.answer(404, b"no such file")
        self.size = file.stat().st_size
        self.file = file
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.request_.range or "")
        self.begin, self.end = (int(match[1]), min(int(match[2]) + 1, self.size)) if match else (0, self.size)
        getattr(self, "as_" + manner.replace("-", "_"))()

    # How to answer.

    def content(self, begin=None, end=None):
        begin, end = self.begin if begin is None else begin, self.end if end is None else end
        with open(self.file, "rb") as file:
            file.seek(begin)
            data = file.read(end - begin)
        self.request_.sent += len(data)
        return data

    def answer(self, status, body=b"", headers=(), length=None):
        """`length` is the Content-Length, if it is not that of the body; False for none."""
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if length is not False:
            self.send_header("Content-Length", str(len(body) if length is None else length))
        else:
            self.close_connection = True
        self.end_headers()
        self.wfile.write(body)

    def part(self, body=None, etag='"one"', modified=DATE, said=None, **options):
        headers = [("Content-Range", said or f"bytes {self.begin}-{self.end - 1}/{self.size}")]
        headers += [("ETag", etag)] if etag else []
        headers += [("Last-Modified", modified)] if modified else []
        self.answer(206, self.content() if body is None else body, headers, **options)

    # Servers that do what they should.

    def as_good(self):
        if self.begin >= self.size:
            return self.answer(416, headers=[("Content-Range", f"bytes */{self.size}")])
        self.part()

    def as_more(self):
        """Sends more than it was asked for, and says so."""
        self.end = min(self.end + 1000, self.size)
        self.part()

    def as_weak_etag(self):
        self.part(etag=f'W/"{self.count}"')

    def as_private(self):
        """Wants a token."""
        ok = self.headers.get("Authorization") in ("Bearer s3cret", "Basic dXNlcjpwYSBzcw==")
        self.part() if ok else self.answer(401, b"who are you?")

    # Redirects.

    def redirect(self, location, status=302):
        self.answer(status, b"elsewhere", [("Location", location)])

    def as_moved(self):
        self.redirect("/good/" + self.file.name, 307)

    def as_moved_relative(self):
        self.redirect("../good/" + self.file.name, 301)

    def as_elsewhere(self):
        """To another host, which has the same address."""
        self.redirect(f"http://localhost:{self.server.server_port}/good/{self.file.name}?Signature=signed")

    def as_to_other(self):
        """To another port."""
        self.redirect(self.server.other.url(self.file.name))

    def as_with_user(self):
        self.redirect(f"http://evil:word@127.0.0.1:{self.server.server_port}/good/{self.file.name}")

    def as_to_refused(self):
        self.redirect(f"http://localhost:{self.server.server_port}/refused/{self.file.name}?Signature=signed")

    def as_refused(self):
        self.answer(403, b"no")

    def as_to_http(self):
        self.redirect(f"http://127.0.0.1:{self.server.server_port}/good/{self.file.name}")

    def as_circle(self):
        self.redirect("/circle/" + self.file.name)

    def as_to_file(self):
        self.redirect("file:///etc/passwd")

    def as_to_ftp(self):
        self.redirect("ftp://127.0.0.1/x")

    def as_to_nowhere(self):
        self.answer(302)

    def as_to_odd_url(self):
        self.redirect("http://[::bad/")

    def as_signed_for_one(self):
        """To a link that serves one request."""
        self.redirect(f"/expiring/{self.file.name}?link={self.count}&Signature=signed")

    def as_expiring(self):
        link = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)["link"][0]
        with self.server.lock:
            uses = self.server.counts["link" + link] = self.server.counts.get("link" + link, 0) + 1
        self.part() if uses == 1 else self.answer(403, b"expired")

    def as_together(self):
        """Holds requests for all but .json files until four of them have come."""
        if self.file.suffix != ".json":
            with self.server.arrived:
                self.server.waiting += 1
                self.server.arrived.notify_all()
                if not self.server.arrived.wait_for(lambda: self.server.waiting >= 4, timeout=10):
                    return self.answer(404, b"alone")
        self.part()

    # Servers that do not.

    def as_whole(self):
        self.answer(200, self.content(0, self.size))

    def as_whole_without_length(self):
        self.answer(200, self.content(0, self.size), length=False)

    def as_then_whole(self):
        self.part() if self.count == 1 else self.as_whole()

    def then(self, answer):
        """Answers well once."""
        self.part() if self.count == 1 else answer()

    def as_then_wrong_begin(self):
        """Sends as many bytes as it was asked for, from elsewhere, and says so."""
        def answer():
            shift = min(1000, self.begin)
            self.begin, self.end = self.begin - shift, self.end - shift
            self.part()

        self.then(answer)

    def as_then_endless(self):
        self.then(self.as_endless)

    def as_then_endless_part(self):
        def answer():
            self.part(b"", length=False)
            while True:
                self.wfile.write(b"x" * 65536)

        self.then(answer)

    def as_then_bomb(self):
        """1 GiB of zeros, in 1 MiB."""
        def answer():
            said = f"bytes {self.begin}-{self.end - 1}/{self.size}"
            zeros = gzip.compress(bytes(1 << 20)) * 1024
            self.answer(206, zeros, [("Content-Range", said), ("ETag", '"one"'), ("Content-Encoding", "gzip")])

        self.then(answer)

    def head_of_part(self, *fields):
        """A head of a good response, with these fields."""
        said = f"Content-Range: bytes {self.begin}-{self.end - 1}/{self.size}"
        self.wfile.write("\r\n".join(["HTTP/1.1 206 OK", said, *fields, "", ""]).encode())
        self.close_connection = True

    def as_folded(self):
        self.head_of_part("X-First: x", f" Content-Length: {self.end - self.begin}")
        self.wfile.write(self.content())

    def as_two_lengths(self):
        self.head_of_part(f"Content-Length: {self.end - self.begin}", f"Content-Length: {self.end - self.begin + 1}")
        self.wfile.write(self.content() + b"x")

    def as_bad_chunks(self):
        self.head_of_part("Transfer-Encoding: chunked")
        self.wfile.write(b"zz\r\n" + self.content())

    def as_hints(self):
        """Interim responses, as servers may send."""
        self.wfile.write(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
        self.part()

    def as_drips_headers(self):
        self.wfile.write(b"HTTP/1.1 206 OK\r\nX-Drip: ")
        while not self.server.is_stopping.wait(0.25):
            self.wfile.write(b"x" * 20)
        self.close_connection = True

    def as_huge(self):
        self.answer(200, b"x" * 1000, length=20 << 30)

    def as_endless(self):
        self.answer(200, length=False)
        while True:
            self.wfile.write(b"x" * 65536)

    def as_short(self):
        self.part(self.content()[:-10], length=self.end - self.begin)
        self.close_connection = True

    def as_short_once(self):
        self.as_short() if self.count in (1, 3) else self.part()

    def as_short_says_nothing(self):
        self.part(self.content()[:-10])

    def as_less(self):
        """Sends less than it was asked for, and says so."""
        self.end -= 10
        self.part()

    def as_longer(self):
        self.part(self.content() + b"more", length=False)

    def as_wrong_begin(self):
        self.begin, self.end = self.begin + 1, min(self.end + 1, self.size)
        self.part()

    def as_wrong_range(self):
        self.part(said="bytes 0-0/1")

    def as_odd_range(self):
        self.part(said="bytes 5-2/99999999999999999999999")

    def as_no_range(self):
        self.answer(206, self.content())

    def as_two_ranges(self):
        said = f"bytes {self.begin}-{self.end - 1}/{self.size}"
        self.answer(206, self.content(), [("Content-Range", said), ("Content-Range", said)])

    def as_no_total(self):
        self.part(said=f"bytes {self.begin}-{self.end - 1}/*")

    def as_compressed(self):
        self.answer(206, b"\x1f\x8b", [("Content-Range", f"bytes 0-1/{self.size}"), ("Content-Encoding", "gzip")])

    def as_changed_etag(self):
        self.part(etag=f'"{self.count}"')

    def as_changed_date(self):
        self.part(etag=None, modified=DATE if self.count == 1 else LATER)

    def as_changed_size(self):
        self.size += self.count - 1
        self.part(etag=None)

    def as_cut(self):
        self.part() if self.count == 1 else self.answer(416, headers=[("Content-Range", "bytes */7")])

    def as_status(self):
        """/status/FILE?404"""
        self.answer(int(urllib.parse.urlsplit(self.path).query), b"\x1b[31mno\n" * 10000)

    def as_busy_once(self):
        self.answer(503, headers=[("Retry-After", "0")]) if self.count == 1 else self.part()

    def as_limited(self):
        self.answer(429, headers=[("Retry-After", "3600")])

    def as_reset(self):
        self.close_connection = True

    def as_reset_once(self):
        self.as_reset() if self.count in (1, 3) else self.part()

    def as_garbage(self):
        self.wfile.write(b"\x00\xffnot HTTP at all\r\n\r\n")
        self.close_connection = True

    def as_random(self):
        """A good response with random changes to its first bytes: /random/FILE?SEED"""
        import random
        chance = random.Random(int(urllib.parse.urlsplit(self.path).query))
        head = (f"HTTP/1.1 206 OK\r\nContent-Range: bytes {self.begin}-{self.end - 1}/{self.size}\r\n"
                f"Content-Length: {self.end - self.begin}\r\nETag: \"one\"\r\nRetry-After: 0\r\n"
                "Location: /good/x\r\nConnection: close\r\n\r\n").encode()
        head = bytearray(head)
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(head))
            change = chance.choice(["flip", "remove", "double", "number"])
            if change == "flip":
                head[at] = chance.randrange(256)
            elif change == "remove":
                del head[at:at + chance.randrange(1, 20)]
            elif change == "double":
                head[at:at] = head[at:at + chance.randrange(1, 40)]
            else:
                head[at:at] = str(chance.choice([0, -1, 2**31, 2**63 - 1, 2**63, 2**64, 10**30])).encode()
        self.wfile.write(bytes(head) + self.content())
        self.close_connection = True

    def as_flood(self):
        self.wfile.write(b"HTTP/1.1 206 OK\r\n")
        while True:
            self.wfile.write(b"X-Flood: " + b"x" * 1000 + b"\r\n")

    def as_flood_in_one_line(self):
        self.wfile.write(b"HTTP/1.1 206 OK\r\nX-Flood: ")
        while True:
            self.wfile.write(b"x" * 1000)

    def chunked(self):
        """A good response, up to where its trailers may follow."""
        body = self.content()
        self.wfile.write(f"HTTP/1.1 206 OK\r\nContent-Range: bytes {self.begin}-{self.end - 1}/{self.size}\r\n"
                         f"Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n".encode() + body + b"\r\n0\r\n")

    def as_trailer_flood(self):
        self.chunked()
        while True:
            self.wfile.write(b"X-Flood: " + b"x" * 1000 + b"\r\n")

    def as_trailer_flood_in_one_line(self):
        self.chunked()
        self.wfile.write(b"X-Flood: ")
        while True:
            self.wfile.write(b"x" * 1000)

    def as_to_long_url(self):
        self.redirect("/good/" + "x" * 60_000)

    def as_interim_flood(self):
        while True:
            self.wfile.write(b"HTTP/1.1 100 Continue\r\nX-Flood: x\r\n\r\n" * 100)

    def as_silent(self):
        self.server.is_stopping.wait(30)
        self.close_connection = True

    def as_drips(self):
        """Sends 80 bytes a second."""
        body = self.content()
        self.part(b"", length=len(body))
        for begin in range(0, len(body), 20):
            self.wfile.write(body[begin:begin + 20])
            if self.server.is_stopping.wait(0.25):
                break
        self.close_connection = True

    def as_stalls(self):
        """Stops in the middle of the second response."""
        if self.count == 1:
            return self.part()
        self.part(self.content()[:1000], length=self.end - self.begin)
        self.wfile.flush()
        self.as_silent()


class OddServer(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, folder, certificate=None):
        """`certificate` is a file with a certificate and its key, for https."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.scheme = "https" if certificate else "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.folder = pathlib.Path(folder)
        self.lock = threading.Lock()
        self.arrived = threading.Condition()
        self.waiting = 0
        self.is_stopping = threading.Event()
        self.open_connections = []
        self.forget()

    def handle_error(self, *_):
        pass  # The program closed the connection.

    def __enter__(self):
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.is_stopping.set()
        self.shutdown()
        self.server_close()

    def url(self, name, manner="good", host="127.0.0.1", user=""):
        return f"{self.scheme}://{user}{host}:{self.server_port}/{manner}/{name}"

    def forget(self):
        """Begins to count requests anew."""
        self.requests = []
        self.counts = {}
        self.written = 0
        self.connections = 0

    def close_connections(self):
        """As servers close those that are idle."""
        for connection in self.open_connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
