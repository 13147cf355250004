"""Serves checkpoints with `espalier view` and asks for them: rightly, wrongly, and with bad intent.

Usage: ESPALIER=path/to/espalier MAKE_SAMPLE=path/to/make_sample python3 test_view.py
"""

import contextlib
import gzip
import http.client
import json
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest
import urllib.parse

ESPALIER = os.environ["ESPALIER"]
MAKE_SAMPLE = os.environ["MAKE_SAMPLE"]
FOREIGN = pathlib.Path(__file__).resolve().parent.parent / "foreign"
USAGE, BAD_INPUT, IO = 2, 3, 4
# A server that a test has forgotten ends by itself.
IDLE = ["--idle-timeout", "60"]
POLICY = ("default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; "
          "img-src 'self' data: blob:; connect-src 'self' https: http: blob:; worker-src 'self'; "
          "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")


class Server:
    """A running `espalier view`."""

    def __init__(self, *args, stdout=subprocess.PIPE, environment=None, idle=IDLE):
        # The address sanitizer's quarantine would count as memory.
        environment = {"ASAN_OPTIONS": "quarantine_size_mb=1:thread_local_quarantine_size_kb=64",
                       **(os.environ if environment is None else environment)}
        self.process = subprocess.Popen(
            [ESPALIER, "view", *args, "--no-browser", "--json", *idle], stdout=stdout,
            stderr=subprocess.PIPE, env=environment)
        ready, _, _ = select.select([self.process.stdout], [], [], 30)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            self.stop()
            raise AssertionError(f"did not start: {self.stderr}")
        self.announced = json.loads(line)
        self.url = self.announced["url"]
        self.port = self.announced["port"]
        parts = urllib.parse.urlsplit(self.url)
        self.base, self.fragment = parts.path, parts.fragment

    def stop(self, number=signal.SIGTERM):
        """Ends it; returns its exit code."""
        self.process.send_signal(number)
        _, self.stderr = self.process.communicate(timeout=30)
        return self.process.returncode

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def request(self, path="", method="GET"):
        """The bytes of a request."""
        return f"{method} {self.base}{path} HTTP/1.1\r\nHost: localhost:{self.port}\r\n\r\n".encode()

    def raw(self, request):
        """The whole response to some bytes, after which nothing more is sent."""
        answer = b""
        # A client that sends more than the server reads may get a reset connection.
        with self.connect() as connection, contextlib.suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(request)
            # It may have answered, and closed, before it was told all.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(1 << 16):
                answer += piece
        return answer

    def memory(self):
        """The most that it has used so far, in KiB."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmHWM:\s+(\d+) kB", status.read())[1])

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def ask(self, path="", method="GET", target=None, **fields):
        """One request; the path is relative to the page."""
        return self.ask_exactly(method, self.base + path if target is None else target,
                                {name.replace("_", "-"): value for name, value in fields.items()})

    def ask_exactly(self, method, target, fields):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            connection.putrequest(method, "/", skip_host=True, skip_accept_encoding=True)
            # http.client refuses some of these requests.
            connection._buffer[0] = f"{method} {target} HTTP/1.1".encode("ascii")
            for name, value in {"Host": f"127.0.0.1:{self.port}", **fields}.items():
                connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            response.content = response.read()
            return response


class View(unittest.TestCase):
    """A page and a sample, made once; each test starts servers of its own."""

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp()
        cls.page = os.path.join(cls.shared, "page")
        cls.sample = os.path.join(cls.shared, "sample.espalier")
        os.makedirs(os.path.join(cls.page, "assets"))
        cls.parts = {"index.html": b"<!doctype html><title>a page</title>\n", "assets/app.js": b"let a = 1\n",
                     "assets/app.css": b"p {}\n", "assets/core.wasm": b"\0asm", "assets/empty.txt": b""}
        for name, content in cls.parts.items():
            with open(os.path.join(cls.page, name), "wb") as file:
                file.write(content)
        with open(os.path.join(cls.shared, "secret"), "wb") as file:
            file.write(b"secret")
        os.symlink("../secret", os.path.join(cls.page, "link.txt"))
        subprocess.run([MAKE_SAMPLE, cls.sample, ""], check=True)
        with open(cls.sample, "rb") as file:
            cls.bytes = file.read()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared)

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def new(self, name, content=None):
        path = os.path.join(self.folder, name)
        if content is not None:
            with open(path, "wb") as file:
                file.write(content)
        return path

    def serve(self, *args, **options):
        server = Server(*(args or (self.sample,)), "--page", self.page, **options)
        self.addCleanup(lambda: server.process.returncode is None and server.stop())
        return server

    def refused(self, code, *args, environment=None):
        done = subprocess.run([ESPALIER, "view", *args, "--no-browser", *IDLE], capture_output=True,
                              env=environment, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (code, b""), done.stderr)
        self.assertRegex(done.stderr, rb"\Aespalier: [^\n]+\n\Z")
        return done.stderr.decode()


class Page(View):
    def test_serves_the_page_and_the_file(self):
        server = self.serve()
        self.assertRegex(server.url, r"\Ahttp://127\.0\.0\.1:\d+/[0-9a-f]{32}/#url=files/0/sample\.espalier\Z")
        self.assertEqual(server.announced, {"url": server.url, "port": server.port})
        for name, content in self.parts.items():
            response = server.ask(name)
            self.assertEqual((response.status, response.content), (200, content), name)
        self.assertEqual(server.ask().content, self.parts["index.html"])
        self.assertEqual(server.ask("?query").content, self.parts["index.html"])
        self.assertEqual(server.ask("files/0/sample.espalier").content, self.bytes)
        self.assertEqual(json.loads(server.ask("files.json").content),
                         [{"name": "sample.espalier", "url": "files/0/sample.espalier", "size": len(self.bytes)}])

    def test_fields(self):
        server = self.serve()
        types = {"": "text/html; charset=utf-8", "assets/app.js": "text/javascript; charset=utf-8",
                 "assets/app.css": "text/css; charset=utf-8", "assets/core.wasm": "application/wasm",
                 "files.json": "application/json", "files/0/sample.espalier": "application/octet-stream"}
        for path, content_type in types.items():
            self.assertEqual(server.ask(path).headers["Content-Type"], content_type)
        answers = [server.ask(), server.ask("nothing"), server.ask(target="/"),
                   server.ask("files/0/sample.espalier"), server.ask(method="HEAD", Content_Length="1"),
                   server.ask("files/0/sample.espalier", Range="bytes=1-2"),
                   server.ask("files/0/sample.espalier", Range=f"bytes={1 << 40}-")]
        self.assertEqual([answer.status for answer in answers], [200, 404, 404, 200, 413, 206, 416])
        for answer in answers:
            self.assertEqual(answer.headers["Content-Security-Policy"], POLICY)
            self.assertEqual(answer.headers["Cache-Control"], "no-store")
            self.assertEqual(answer.headers["Cross-Origin-Resource-Policy"], "same-origin")
            self.assertEqual(answer.headers["Referrer-Policy"], "no-referrer")
            self.assertEqual(answer.headers["X-Content-Type-Options"], "nosniff")
            self.assertFalse([name for name in answer.headers if name.lower().startswith("access-control")])

    def test_gzipped_copies(self):
        page = self.new("page")
        shutil.copytree(self.page, page, symlinks=True)
        plain = self.parts["assets/app.js"]
        copy = gzip.compress(plain)
        for name, content in (("assets/app.js.gz", copy), ("alone.gz", b"of nothing")):
            with open(os.path.join(page, name), "wb") as file:
                file.write(content)
        server = Server(self.sample, "--page", page)
        for accepted, expected in (("gzip, deflate, br", copy), ("br , gzip", copy), ("deflate", plain), ("", plain), ("gzip;q=0", plain),
                                   ("x-gzip", plain), ("gzippy", plain)):
            response = server.ask("assets/app.js", Accept_Encoding=accepted)
            self.assertEqual((response.status, response.content), (200, expected), accepted)
            self.assertEqual(response.getheader("Content-Encoding"), "gzip" if expected == copy else None)
            self.assertEqual(response.getheader("Content-Length"), str(len(expected)))
            self.assertEqual(response.getheader("Content-Type"), "text/javascript; charset=utf-8")
            self.assertEqual(response.getheader("Vary"), "Accept-Encoding")
        response = server.ask("assets/app.js", Accept_Encoding="gzip", Range="bytes=0-2")
        self.assertEqual((response.status, response.content, response.getheader("Content-Encoding")), (206, plain[:3], None))
        self.assertEqual(server.ask("assets/app.js.gz").status, 404)
        self.assertEqual(server.ask("alone.gz").content, b"of nothing")
        response = server.ask(Accept_Encoding="gzip")
        self.assertEqual((response.content, response.getheader("Vary")), (self.parts["index.html"], None))

    def test_head_is_get_without_content(self):
        server = self.serve()
        for path in ("", "files/0/sample.espalier", "nothing"):
            get, head = server.ask(path), server.ask(path, method="HEAD")
            self.assertEqual(head.status, get.status)
            fields = [[field for field in answer.getheaders() if field[0] != "Date"] for answer in (head, get)]
            self.assertEqual(*fields)
            self.assertTrue(server.raw(server.request(path, method="HEAD")).endswith(b"\r\n\r\n"))
        # Only GET has ranges.
        self.assertEqual(server.ask("files/0/sample.espalier", method="HEAD", Range="bytes=0-1").status, 200)

    def test_many_requests_on_one_connection(self):
        server = self.serve()
        request = f"GET {server.base} HTTP/1.1\r\nHost: localhost:{server.port}\r\n".encode()
        answer = server.raw((request + b"\r\n") * 3 + request + b"Connection: close\r\n\r\n" + request)
        self.assertEqual(answer.count(b"HTTP/1.1 200 OK"), 4)
        self.assertEqual(answer.count(self.parts["index.html"]), 4)
        answer = server.raw(request.replace(b"1.1\r", b"1.0\r") + b"\r\n" + request + b"\r\n")
        self.assertEqual(answer.count(b" 200 OK"), 1, "of 1.0, a connection has one request")

    def test_a_page_that_is_built_again_stays_as_it_was(self):
        page = self.new("page")
        shutil.copytree(self.page, page, symlinks=True)
        server = Server(self.sample, "--page", page)
        self.addCleanup(server.stop)
        shutil.rmtree(page)
        self.assertEqual(server.ask("assets/app.js").content, self.parts["assets/app.js"])

    def test_where_the_page_is(self):
        environment = {**os.environ, "ESPALIER_VIEWER": self.page}
        server = Server(self.sample, environment=environment)
        self.addCleanup(server.stop)
        self.assertEqual(server.ask().content, self.parts["index.html"])

    def run_copy(self, program):
        """The exit code and the message about its page when a copy of the program runs at `program`."""
        os.makedirs(self.new(os.path.dirname(program)), exist_ok=True)
        shutil.copy(ESPALIER, self.new(program))
        environment = {name: value for name, value in os.environ.items() if name != "ESPALIER_VIEWER"}
        done = subprocess.run([self.new(program), "view", self.sample, "--no-browser", "--idle-timeout", "1"],
                              capture_output=True, env=environment, timeout=60, check=False)
        return done.returncode, done.stderr.decode()

    def install(self, folder):
        """The path of a copy of the page, which has no links."""
        shutil.copytree(self.page, self.new(folder), ignore=shutil.ignore_patterns("link.txt"))
        return self.new(folder)

    def assert_unsafe(self, part, reason):
        self.assertEqual(self.run_copy("bin/espalier"), (IO, (
            f"espalier: {part}: the viewer's page is not served because {reason}; fix that, or pass the page's "
            "folder with --page (code file_not_found)\n")))

    WRITABLE = "users who cannot change the program can write to this"

    def test_an_installed_page(self):
        code, said = self.run_copy("usr/bin/espalier")
        self.assertEqual(code, IO)
        for advice in ("run scripts/viewer", "install again", "pass web_demo/dist with --page or ESPALIER_VIEWER"):
            self.assertIn(advice, said)
        page = self.install("usr/share/espalier/viewer")
        self.assertEqual(self.run_copy("usr/bin/espalier"), (0, ""))
        # Installed with a umask of 002: who may write to the page's folders may replace the program.
        for folder in ("bin", "share", "share/espalier", "share/espalier/viewer", "share/espalier/viewer/assets"):
            os.chmod(self.new("usr/" + folder), 0o775)
        os.chmod(os.path.join(page, "index.html"), 0o664)
        self.assertEqual(self.run_copy("usr/bin/espalier"), (0, ""))

    def test_a_planted_page(self):
        """Other users may make folders beside a program in a shared folder."""
        self.install("web_demo/dist")
        code, said = self.run_copy("alice/tools/espalier")
        self.assertEqual(code, IO)
        self.assertIn("not installed", said)

        page = self.install("share/espalier/viewer")
        for folder in ("share", "share/espalier", "share/espalier/viewer", "share/espalier/viewer/assets"):
            for mode in (0o775, 0o757, 0o1777):
                os.chmod(self.new(folder), mode)
                self.assert_unsafe(self.new(folder), self.WRITABLE)
            os.chmod(self.new(folder), 0o755)
        script = os.path.join(page, "assets/app.js")
        os.chmod(script, 0o666)
        self.assert_unsafe(script, self.WRITABLE)
        os.chmod(script, 0o644)
        # In a folder with the sticky bit, others cannot replace the program.
        os.chmod(self.new("bin"), 0o1777)
        os.chmod(self.new("share"), 0o777)
        self.assert_unsafe(self.new("share"), self.WRITABLE)
        os.chmod(self.new("bin"), 0o755)
        os.chmod(self.new("share"), 0o755)
        self.assertEqual(self.run_copy("bin/espalier"), (0, ""))

    def test_links_to_an_installed_page(self):
        self.install("tree/espalier/page")
        os.symlink("page", self.new("tree/espalier/viewer"))
        os.makedirs(self.new("share"))
        os.makedirs(self.new("between"))
        os.symlink("../between/link", self.new("share/espalier"))
        os.symlink(self.new("tree/espalier/"), self.new("between/link"))
        self.assertEqual(self.run_copy("bin/espalier"), (0, ""))
        # A user who can write to any of these can make the link lead to another page.
        for folder in ("share", "between", "tree", "tree/espalier"):
            os.chmod(self.new(folder), 0o777)
            self.assert_unsafe(self.new(folder), self.WRITABLE)
            os.chmod(self.new(folder), 0o755)
        link = self.new("tree/espalier/page/link.js")
        os.symlink("assets/app.js", link)
        self.assert_unsafe(link, "the page contains this symbolic link")

    def test_an_installed_page_of_many_files(self):
        page = self.install("share/espalier/viewer")
        for i in range(1000):
            pathlib.Path(page, str(i)).touch()
        self.assert_unsafe(page, "it has more than 1000 files and folders")

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a folder to another user")
    def test_a_page_of_another_user(self):
        page = self.install("tree/espalier/viewer")
        os.symlink("tree", self.new("share"))
        for part in ("share", "tree", "tree/espalier/viewer/assets", "tree/espalier/viewer/index.html"):
            os.chown(self.new(part), 12345, -1, follow_symlinks=False)
            self.assert_unsafe(self.new(part), "this belongs to another user")
            os.chown(self.new(part), 0, -1, follow_symlinks=False)
        # Its owner could change the program as well.
        os.chown(os.path.join(page, "assets"), 12345, -1)
        os.chown(self.new("bin"), 12345, -1)
        self.assertEqual(self.run_copy("bin/espalier"), (0, ""))

    def test_no_page(self):
        self.assertIn("scripts/viewer", self.refused(IO, self.sample, "--page", self.folder))
        environment = {**os.environ, "ESPALIER_VIEWER": self.folder}
        self.assertIn(self.folder, self.refused(IO, self.sample, environment=environment))


class RunFolder(View):
    """A folder of checkpoints, which a program may still be writing to."""

    def setUp(self):
        super().setUp()
        self.run_folder = self.new("run")
        os.makedirs(os.path.join(self.run_folder, "checkpoint-10", "deep"))
        for name in ("step-2.espalier", "step-10.espalier", "checkpoint-10/model.safetensors",
                     "checkpoint-10/model.safetensors.index.json", "a b#.pt"):
            self.write(name)
        for name in ("notes.txt", "tokenizer.json", ".hidden.pt", "checkpoint-10/deep/x.pt"):
            self.write(name, b"secret")
        os.symlink("../outside.espalier", os.path.join(self.run_folder, "link.espalier"))
        self.new("outside.espalier", b"secret")

    def write(self, name, content=None):
        with open(os.path.join(self.run_folder, name), "wb") as file:
            file.write(self.bytes if content is None else content)

    def names(self, server):
        return [file["name"] for file in json.loads(server.ask("files.json").content)]

    def test_lists_and_serves_its_checkpoints(self):
        server = self.serve(self.run_folder)
        self.assertEqual(server.fragment, "run=files.json&title=run")
        listed = json.loads(server.ask("files.json").content)
        self.assertEqual([file["name"] for file in listed],
                         ["a b#.pt", "checkpoint-10/model.safetensors", "checkpoint-10/model.safetensors.index.json",
                          "step-2.espalier", "step-10.espalier"])
        for file in listed:
            path = os.path.join(self.run_folder, file["name"])
            self.assertEqual(file["url"], "files/0/" + urllib.parse.quote(file["name"]))
            self.assertEqual((file["size"], file["time"]), (len(self.bytes), os.stat(path).st_mtime_ns // 1_000_000))
            self.assertEqual(server.ask(file["url"]).content, self.bytes)
            part = server.ask(file["url"], Range="bytes=100-199")
            self.assertEqual((part.status, part.content), (206, self.bytes[100:200]))

    def test_nothing_else(self):
        server = self.serve(self.run_folder)
        for name in ("notes.txt", "tokenizer.json", ".hidden.pt", "link.espalier", "checkpoint-10/deep/x.pt",
                     "../outside.espalier", "checkpoint-10/../step-2.espalier", "checkpoint-10", ""):
            response = server.ask("files/0/" + name)
            self.assertEqual((response.status, response.content), (404, b"Not Found\n"), name)

    def test_new_and_removed_files(self):
        server = self.serve(self.run_folder)
        self.assertEqual(server.ask("files/0/step-20.espalier").status, 404)
        self.write("step-20.espalier")
        os.remove(os.path.join(self.run_folder, "step-2.espalier"))
        names = self.names(server)
        self.assertIn("step-20.espalier", names)
        self.assertNotIn("step-2.espalier", names)
        self.assertEqual(server.ask("files/0/step-20.espalier").content, self.bytes)
        self.assertEqual(server.ask("files/0/step-2.espalier").status, 500)
        self.assertEqual(server.ask().status, 200)

    def test_a_file_that_is_replaced(self):
        server = self.serve(self.run_folder)
        before = server.ask("files/0/step-2.espalier")
        self.write("new", b"another file")
        os.rename(os.path.join(self.run_folder, "new"), os.path.join(self.run_folder, "step-2.espalier"))
        after = server.ask("files/0/step-2.espalier")
        self.assertEqual(after.content, b"another file")
        self.assertNotEqual(after.headers["ETag"], before.headers["ETag"])
        # A client that reads in parts gets the new file whole.
        part = server.ask("files/0/step-2.espalier", Range="bytes=0-1", If_Range=before.headers["ETag"])
        self.assertEqual((part.status, part.content), (200, b"another file"))

    def begin(self, server, path):
        """Asks for a long content and takes only its beginning. Returns what reads the whole of it."""
        connection = socket.socket()
        self.addCleanup(connection.close)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(30)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(server.request(path))
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response.read

    def test_a_file_that_is_replaced_while_it_is_read(self):
        self.write("big.pt", b"a" * (8 << 20))
        server = self.serve(self.run_folder)
        read = self.begin(server, "files/0/big.pt")
        self.write("new", b"b" * (8 << 20))
        os.rename(os.path.join(self.run_folder, "new"), os.path.join(self.run_folder, "big.pt"))
        self.assertEqual(server.ask("files/0/big.pt", Range="bytes=0-2").content, b"bbb")
        self.assertEqual(read(), b"a" * (8 << 20))

    def test_two_lists_at_once(self):
        names = [f"{i:05}-{'n' * 200}.pt" for i in range(5000)]
        for name in names:
            self.write(name, b"")
        server = self.serve(self.run_folder)
        read = self.begin(server, "files.json")
        for name in names:
            os.remove(os.path.join(self.run_folder, name))
        self.assertEqual(len(self.names(server)), 5)
        self.assertEqual(len(json.loads(read())), 5005)

    def test_a_name_that_ends_with_a_slash(self):
        server = self.serve(self.run_folder + "//")
        self.assertEqual(server.fragment, "run=files.json&title=run")
        self.assertEqual(server.ask("files/0/checkpoint-10/model.safetensors").content, self.bytes)

    def test_a_file_that_becomes_a_link(self):
        server = self.serve(self.run_folder)
        with open(self.new("secret"), "wb") as file:
            file.write(b"secret")
        os.makedirs(self.new("elsewhere"))
        with open(self.new("elsewhere/model.safetensors"), "wb") as file:
            file.write(b"secret")
        os.remove(os.path.join(self.run_folder, "step-2.espalier"))
        os.symlink(self.new("secret"), os.path.join(self.run_folder, "step-2.espalier"))
        shutil.rmtree(os.path.join(self.run_folder, "checkpoint-10"))
        os.symlink(self.new("elsewhere"), os.path.join(self.run_folder, "checkpoint-10"))
        for name in ("step-2.espalier", "checkpoint-10/model.safetensors"):
            response = server.ask("files/0/" + name)
            self.assertEqual(response.status, 500, name)
            self.assertNotIn(b"secret", response.content)

    def test_more_files_than_descriptors(self):
        for i in range(100):
            self.write(f"step-{i}.espalier")
        server = self.serve(self.run_folder)
        before = server.descriptors()
        for i in range(100):
            self.assertEqual(server.ask(f"files/0/step-{i}.espalier").content, self.bytes)
        self.assertLess(server.descriptors(), before + 12)

    def test_shards_of_tensorflow(self):
        parts = {"checkpoint-10/m.index", "checkpoint-10/m.data-00000-of-00001"}
        for name in parts:
            self.write(name)
        server = self.serve(self.run_folder)
        self.assertLessEqual(parts, set(self.names(server)))
        for name in parts:
            self.assertEqual(server.ask("files/0/" + name).content, self.bytes)

    def test_refusals(self):
        self.assertIn("view one folder, or files", self.refused(USAGE, self.run_folder, self.sample, "--page", self.page))
        self.assertIn("one file through a map", self.refused(USAGE, self.run_folder, "--map", "unwrap", "--page", self.page))
        empty = self.new("empty")
        os.makedirs(empty)
        self.assertIn("this is a folder", self.refused(BAD_INPUT, empty, "--page", self.page))
        # One checkpoint in several files is no run.
        self.write("model.safetensors.index.json")
        self.assertIn("it holds a model in several files", self.refused(BAD_INPUT, self.run_folder, "--page", self.page))


class Access(View):
    def not_found(self, response):
        self.assertEqual((response.status, response.content), (404, b"Not Found\n"))
        self.assertIsNone(response.headers["ETag"])

    def test_token_is_required(self):
        server = self.serve()
        token = server.base.strip("/")
        other = ("0" if token[0] != "0" else "1") + token[1:]
        for target in ("/", "/index.html", "/files.json", f"/{other}/", f"/{token}", f"/{token[:-1]}/",
                       f"/{token}0/",
                       f"//{token}/", f"/x/{token}/", f"/{token.upper()}x/", "*", f"{token}/",
                       f"http://127.0.0.1:{server.port}/{token}/", f"/?{token}/", f"/{token}?/"):
            self.assertEqual(server.ask(target=target, method="HEAD").status, 404, target)
            self.not_found(server.ask(target=target))
        self.assertNotEqual(self.serve().base, server.base)

    def test_other_hosts_are_refused(self):
        server = self.serve()
        for host in ("127.0.0.1", "localhost", f"evil.example:{server.port}", f"127.0.0.1:{server.port + 1}",
                     f"127.0.0.1.evil.example:{server.port}", f"localhost.:{server.port}", f"[::1]:{server.port}",
                     f"0.0.0.0:{server.port}", f"evil@127.0.0.1:{server.port}", f"127.0.0.1:0{server.port}"):
            self.not_found(server.ask(Host=host))
        self.assertEqual(server.ask(Host=f"localhost:{server.port}").status, 200)
        none = server.raw(f"GET {server.base} HTTP/1.1\r\nConnection: close\r\n\r\n".encode())
        self.assertTrue(none.startswith(b"HTTP/1.1 404 "), none)
        twice = f"GET {server.base} HTTP/1.1\r\n" + f"Host: localhost:{server.port}\r\n" * 2 + "\r\n"
        self.assertTrue(server.raw(twice.encode()).startswith(b"HTTP/1.1 400 "))

    def test_no_way_out(self):
        server = self.serve()
        for path in ("../secret", "%2e%2e/secret", "..%2fsecret", "%2e%2e%2fsecret", "assets/../../secret",
                     "assets/../index.html", "assets/%2e%2e/index.html", "./index.html", "/index.html",
                     "//etc/passwd",
                     "/etc/passwd", "%2fetc%2fpasswd", "..%5csecret", "..\\secret", "%252e%252e/secret",
                     "link.txt",
                     "index.html%00", "index.html%00.js", "%00", "%", "%2", "%zz", "assets%3zapp.js", "assets",
                     "assets/", "files", "files/", "files/0", "files/0/", "files/1/sample.espalier", "files/00/sample.espalier", "files/-1/x",
                     "files/0/../0/sample.espalier", "files/0/sample.espalier/", "files/0/SAMPLE.espalier",
                     "files/0" + urllib.parse.quote(self.sample), "index.html/", "INDEX.HTML", "~", "*"):
            self.not_found(server.ask(path))
        # Escapes that need not be are the same name.
        self.assertEqual(server.ask("%69ndex.html").content, self.parts["index.html"])
        self.assertEqual(server.ask("assets%2Fapp.js").content, self.parts["assets/app.js"])

    def test_other_methods_have_no_answer(self):
        server = self.serve()
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "PROPFIND", "get", "GETS"):
            self.assertEqual(server.raw(server.request(method=method)), b"", method)
            self.assertEqual(server.raw(f"{method} / HTTP/1.1\r\n\r\n".encode()), b"", method)
        self.assertEqual(server.ask().status, 200)

    def test_only_this_machine(self):
        server = self.serve()
        with open("/proc/net/tcp", encoding="ascii") as table:
            listening = [line.split()[1] for line in table if line.split()[3] == "0A"]
        self.assertIn(f"0100007F:{server.port:04X}", listening)
        self.assertNotIn(f"00000000:{server.port:04X}", listening)


class Malformed(View):
    def test_requests_that_are_none(self):
        server = self.serve()
        host = f"Host: 127.0.0.1:{server.port}\r\n"
        good = f"GET {server.base} HTTP/1.1\r\n{host}"
        # Where evhttp would answer by itself, without our policy, there is no answer. It is lenient with fields: what
        # it accepts must be what we would have said without the oddity.
        for status, requests in {
            "": ["\r\n\r\n", "x\r\n\r\n", "GET\r\n\r\n", "GET / \r\n\r\n", "GET / HTTP\r\n\r\n",
                 f"GET {server.base}\x00 HTTP/1.1\r\n{host}\r\n", f"GET {server.base} HTTP/2.0\r\n{host}\r\n",
                 good + "No colon\r\n\r\n", good + "Bad: a\rb\r\n\r\n", good + "Bad: a\nb\r\n\r\n",
                 good + "Content-Length: x\r\n\r\n",
                 good + "Long: " + "x" * 20_000 + "\r\n\r\n", "GET /" + "x" * 100_000,
                 good + "A: b\r\n" * 10_000,
                 good + "Content-Length: 1\r\n\r\nx", good + "Content-Length: 1000000000000\r\n\r\n",
                 good + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
                 good + "Expect: something\r\nContent-Length: 1\r\n\r\n",
                 good + "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n",
                 "G(T / HTTP/1.1\r\n\r\n", f"CONNECT {server.base} HTTP/1.1\r\n{host}\r\n",
                 f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n{host}\r\n"],
            "400": [good + host + "\r\n", good + "host:\r\n\r\n",
                    good + "Range: bytes=0-1\r\nRange: bytes=2-3\r\n\r\n", good + "If-Range: a\r\n" * 2 + "\r\n"],
            "404": [f"GET  {server.base} HTTP/1.1\r\n{host}\r\n", f"GET {server.base} x HTTP/1.1\r\n{host}\r\n",
                    f"GET {server.base}\x80 HTTP/1.1\r\n{host}\r\n",
                    good.replace("Host:", "Host :") + "\r\n", good + " folded\r\n\r\n"],
            "413": [good + "Content-Length: 0\r\nContent-Length: 5\r\n\r\n" + good + "\r\n",
                    good + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + good + "\r\n"],
            "200": [good + "Content-Length: 0\r\nConnection: Upgrade, close\r\n\r\n", good + "A: \xff\r\n\r\n",
                    good + "Folded: a\r\n b\r\n\r\n", good + "Range:\r\n\r\n", good.replace("\r", "") + "\n"],
        }.items():
            for text in requests:
                answer = server.raw(text.encode("latin-1"))
                self.assertEqual(answer[9:12], status.encode(), (text[:200], answer[:200]))
                self.assertEqual(answer.count(b"HTTP/1.1 "), 1 if status else 0, text[:200])
                if status != "200":
                    self.assertNotIn(server.base.encode(), answer)
        self.assertEqual(server.ask().status, 200)

    def test_a_request_byte_by_byte(self):
        server = self.serve()
        with server.connect() as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in server.request(method="HEAD"):
                connection.sendall(bytes([byte]))
            self.assertTrue(connection.recv(1 << 16).startswith(b"HTTP/1.1 200 OK\r\n"))


class Ranges(View):
    def test_ranges(self):
        server = self.serve()
        size = len(self.bytes)
        for field, first, end in (("0-0", 0, 1), ("0-127", 0, 128), ("100-199", 100, 200), (f"{size - 1}-",
                                                                                            size - 1, size),
                                  ("64-", 64, size), ("-1", size - 1, size), ("-100", size - 100, size),
                                  (f"-{size}", 0, size), (f"-{size + 9}", 0, size), (f"10-{1 << 70}", 10, size),
                                  (f"10-{size}", 10, size), ("007-08", 7, 9), ("-" + "9" * 40, 0, size)):
            response = server.ask("files/0/sample.espalier", Range="bytes=" + field)
            self.assertEqual(response.status, 206, field)
            self.assertEqual(response.content, self.bytes[first:end], field)
            self.assertEqual(response.headers["Content-Range"], f"bytes {first}-{end - 1}/{size}")
            self.assertEqual(response.headers["Accept-Ranges"], "bytes")
        self.assertEqual(server.ask("files/0/sample.espalier", Range="BYTES=0-0").status, 206)
        self.assertEqual(server.ask("assets/app.js", Range="bytes=0-2").content, b"let")

    def test_beyond_the_end(self):
        server = self.serve()
        size = len(self.bytes)
        for field in (f"{size}-", f"{size}-{size}", "-0", f"{1 << 63}-", f"{1 << 64}-{1 << 64}", "9" * 40 + "-"):
            response = server.ask("files/0/sample.espalier", Range="bytes=" + field)
            self.assertEqual((response.status, response.headers["Content-Range"]), (416, f"bytes */{size}"),
                             field)
        for field in ("0-", "-1"):
            self.assertEqual(server.ask("assets/empty.txt", Range="bytes=" + field).status, 416)

    def test_what_is_no_range_is_ignored(self):
        server = self.serve()
        for field in ("bytes=", "bytes=-", "bytes=a-b", "bytes=2-1", "bytes=0-1,2-3", "bytes=0-,0-,0-",
                      "bytes=+1-2", "bytes=0x1-2",
                      "bytes= 0-1", "bytes=0 -1", "bytes=--1", "bytes=1--2", "bytes=0-1-2", "items=0-1",
                      "bytes", "bytes:0-1", "=0-1"):
            response = server.ask("files/0/sample.espalier", Range=field)
            self.assertEqual((response.status, response.content), (200, self.bytes), field)

    def test_beyond_four_gibibytes(self):
        file = self.new("large")
        size = (5 << 30) + 10
        with open(file, "wb") as large:
            large.truncate(size)
            for offset in ((4 << 30) - 2, size - 4):
                large.seek(offset)
                large.write(b"here")
        server = self.serve(file, "--force")
        self.assertEqual(server.ask("files/0/large", method="HEAD").headers["Content-Length"], str(size))
        response = server.ask("files/0/large", Range=f"bytes={(4 << 30) - 2}-{(4 << 30) + 1}")
        self.assertEqual(response.content, b"here")
        self.assertEqual(response.headers["Content-Range"], f"bytes {(4 << 30) - 2}-{(4 << 30) + 1}/{size}")
        self.assertEqual(server.ask("files/0/large", Range="bytes=-4").content, b"here")
        self.assertEqual(json.loads(server.ask("files.json").content)[0]["size"], size)

    def test_tags(self):
        file = self.new("file", self.bytes)
        server = self.serve(file)
        tag = server.ask("files/0/file").headers["ETag"]
        self.assertRegex(tag, r'\A"[^"]+"\Z')
        self.assertEqual(server.ask("files/0/file", Range="bytes=0-1").headers["ETag"], tag)
        part = server.ask("files/0/file", Range="bytes=0-1", If_Range=tag)
        self.assertEqual((part.status, part.content), (206, self.bytes[:2]))
        for other in ('"other"', "W/" + tag, tag.strip('"'), "Sat, 01 Jan 2050 00:00:00 GMT", tag + tag):
            whole = server.ask("files/0/file", Range="bytes=0-1", If_Range=other)
            self.assertEqual((whole.status, whole.content), (200, self.bytes), other)
        # The same size, and a time that differs by a nanosecond.
        status = os.stat(file)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
        changed = server.ask("files/0/file", Range="bytes=0-1", If_Range=tag)
        self.assertEqual(changed.status, 200)
        self.assertNotEqual(changed.headers["ETag"], tag)

    def test_a_file_that_grows_or_is_replaced(self):
        file = self.new("file", self.bytes)
        server = self.serve(file)
        with open(file, "ab") as more:
            more.write(b"more")
        self.assertEqual(server.ask("files/0/file").content, self.bytes + b"more")
        os.replace(self.new("other", b"other"), file)
        self.assertEqual(server.ask("files/0/file").content, self.bytes + b"more", "the file that was opened")

    def test_a_file_that_shrinks(self):
        file = self.new("file", bytes(64 << 20))
        server = self.serve(file, "--force")
        with server.connect() as connection:
            connection.sendall(server.request("files/0/file"))
            received = len(connection.recv(1 << 16))
            os.truncate(file, 1 << 20)
            with contextlib.suppress(ConnectionResetError):
                while piece := connection.recv(1 << 20):
                    received += len(piece)
        self.assertLess(received, 64 << 20, "the connection ends early")
        self.assertEqual(server.ask("files/0/file", Range="bytes=-1").content, b"\0")
        self.assertEqual(server.ask("files/0/file").headers["Content-Length"], str(1 << 20))
        os.truncate(file, 0)
        self.assertEqual(server.ask("files/0/file").content, b"")
        self.assertEqual(server.stop(), 0)


class Files(View):
    def test_the_files_of_a_checkpoint_and_no_others_beside_it(self):
        foreign = pathlib.Path(__file__).resolve().parent.parent / "foreign"
        model = pathlib.Path(shutil.copytree(foreign / "shards" / "model", self.new("model")))
        distributed = pathlib.Path(shutil.copytree(foreign / "dcp" / "files" / "sharded.dcp", self.new("step-7")))
        parts = [(0, name) for name in os.listdir(model)] + [(1, name) for name in os.listdir(distributed)]
        for folder in (model, distributed):
            (folder / "config.json").write_text("{}")
        server = self.serve(model / "model.safetensors.index.json", distributed)
        listed = json.loads(server.ask("files.json").content)
        self.assertEqual([entry["url"] for entry in listed], ["files/0/model.safetensors.index.json", "files/1/.metadata"])
        for i, name in parts:
            self.assertEqual(server.ask(f"files/{i}/{name}").content, ((model, distributed)[i] / name).read_bytes())
        for i in (0, 1):
            self.assertEqual(server.ask(f"files/{i}/config.json").status, 404)
        # What .metadata names must have turned out to be a part.
        part = distributed / "__1_0.distcp"
        part.unlink()
        part.symlink_to("/etc/passwd")
        server = self.serve(distributed)
        self.assertEqual(server.ask("files/0/__1_0.distcp").status, 404)
        self.assertEqual(server.ask("files/0/__2_0.distcp").status, 200)

    def orbax(self, name):
        """A checkpoint that Orbax made, in a folder of its own."""
        with tarfile.open(FOREIGN / "orbax" / "files.tar.xz") as archive:
            archive.extractall(self.folder, [entry for entry in archive if entry.name.startswith(name + "/")])
        return pathlib.Path(self.new(name))

    def served_below(self, server, folder, at):
        """Which files below a folder the server has, as far as they are those of the folder."""
        served = set()
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            response = server.ask(at + urllib.parse.quote(name))
            if response.status == 200:
                self.assertEqual(response.content, path.read_bytes(), name)
                served.add(name)
        return served

    def test_a_folder_of_orbax_and_what_it_names_below(self):
        run = self.orbax("manager")
        (run / "10" / "default" / "d" / "secret").write_text("secret")
        (run / "10" / "secret").write_text("secret")
        for given in (run, run / "10", run / "10" / "_CHECKPOINT_METADATA"):
            server = self.serve(given)
            self.assertEqual(server.fragment, "url=files/0/10/_CHECKPOINT_METADATA")
            served = self.served_below(server, run / "10", "files/0/10/")
            self.assertLessEqual({"_CHECKPOINT_METADATA", "default/_METADATA", "default/manifest.ocdbt"}, served)
            [node] = [name for name in served if name.startswith("default/d/")]
            # Not what nothing names; not what Orbax alone reads; no other step.
            for name in ("secret", "default/d/secret", "commit_success.txt", "default/_sharding"):
                self.assertNotIn(name, served)
            for name in ("", "default", "default/", "default/d", "../5/_CHECKPOINT_METADATA", "default/../_CHECKPOINT_METADATA",
                         "default//_METADATA", "%2e%2e/5/_CHECKPOINT_METADATA", "default%2f..%2f_CHECKPOINT_METADATA"):
                self.assertEqual(server.ask("files/0/10/" + name).status, 404, name)
            self.assertEqual(server.ask(f"files/0/10/{node}", Range="bytes=0-3").content, bytes.fromhex("0cdb20de"))
        # Steps side by side.
        server = self.serve(run / "5", run / "10")
        listed = json.loads(server.ask("files.json").content)
        self.assertEqual([(entry["name"], entry["url"]) for entry in listed],
                         [(f"{step}/_CHECKPOINT_METADATA", f"files/{i}/{step}/_CHECKPOINT_METADATA") for i, step in enumerate((5, 10))])
        self.assertIn("default/_METADATA", self.served_below(server, run / "10", "files/1/10/"))

    def test_a_folder_of_orbax_with_values_and_chunks_in_files_below(self):
        for name, beginning in (("base", "ocdbt.process_0/d/"), ("plain_z2", "adam.0.mu.w/"), ("items", "params/d/")):
            folder = self.orbax(name)
            opened = folder / "1" if name == "items" else folder
            served = self.served_below(self.serve(folder), opened, f"files/0/{opened.name}/")
            self.assertTrue(any(one.startswith(beginning) for one in served), (name, served))
        # A checkpoint of the plain layout with many files keeps none of them open.
        server = self.serve(self.orbax("plain_z3"))
        before = server.descriptors()
        self.assertGreater(len(self.served_below(server, pathlib.Path(self.new("plain_z3")), "files/0/plain_z3/")), 20)
        self.assertLess(server.descriptors(), before + 12)

    def test_a_file_below_that_becomes_a_link(self):
        step = self.orbax("manager") / "10" / "default"
        with open(self.new("secret"), "wb") as file:
            file.write(b"secret")
        shutil.copytree(step / "d", self.new("elsewhere"))
        server = self.serve(step.parent)
        [node] = os.listdir(step / "d")
        self.assertEqual(server.ask(f"files/0/10/default/d/{node}").status, 200)
        shutil.rmtree(step / "d")
        os.symlink(self.new("elsewhere"), step / "d")
        (step / "_METADATA").unlink()
        os.symlink(self.new("secret"), step / "_METADATA")
        for name in (f"d/{node}", "_METADATA"):
            response = server.ask("files/0/10/default/" + name)
            self.assertEqual(response.status, 500, name)
            self.assertNotIn(b"secret", response.content)
        # One that is a link from the beginning is no part, and without it nothing opens.
        self.assertIn("not followed", self.refused(BAD_INPUT, step.parent, "--page", self.page))

    def test_folders_of_orbax_that_do_not_open(self):
        self.assertIn("the save did not finish", self.refused(BAD_INPUT, self.orbax("unfinished"), "--page", self.page))
        run = self.orbax("manager")
        os.rename(run / "10", run / "10.orbax-checkpoint-tmp-7")
        self.assertIn("has not finished", self.refused(BAD_INPUT, run / "10.orbax-checkpoint-tmp-7", "--page", self.page))
        self.assertEqual(json.loads(self.serve(run).ask("files.json").content)[0]["size"], (run / "5" / "_CHECKPOINT_METADATA").stat().st_size)
        for file in (run / "5" / "default").glob("*"):
            if file.is_file():
                file.unlink()
        self.assertIn("the file that joins them is missing", self.refused(BAD_INPUT, run / "5" / "default", "--page", self.page))

    def test_a_saved_model(self):
        model = pathlib.Path(shutil.copytree(FOREIGN / "tensorflow" / "files" / "saved_model.tensorflow", self.new("export")))
        for name in ("saved_model.pb", "variables/other.data-00000-of-00001"):
            (model / name).write_text("secret")
        server = self.serve(model)
        self.assertEqual(server.fragment, "url=files/0/variables.index")
        self.assertEqual(self.served_below(server, model / "variables", "files/0/"), {"variables.index", "variables.data-00000-of-00001"})
        shutil.rmtree(model / "variables")
        self.assertIn("SavedModel of TensorFlow without variables", self.refused(BAD_INPUT, model, "--page", self.page))

    def test_external_data_of_onnx(self):
        model = pathlib.Path(self.new("model"))
        model.mkdir()
        for name in ("external.onnx", "external.bin", "nested.onnx"):
            shutil.copy(FOREIGN / "onnx" / name, model)
        server = self.serve(model / "external.onnx")
        self.assertEqual(self.served_below(server, model, "files/0/"), {"external.onnx", "external.bin"})

    def test_a_folder_of_espalier_writer_is_one_checkpoint(self):
        saved = pathlib.Path(__file__).resolve().parent.parent / "distributed/saved"
        server = self.serve(saved)
        [listed] = json.loads(server.ask("files.json").content)
        self.assertEqual(listed["url"], "files/0/index.espalier")
        for name in os.listdir(saved):
            self.assertEqual(server.ask(f"files/0/{name}").content, (saved / name).read_bytes())

    def test_several_files_with_odd_names(self):
        names = ["a b", "#hash", "what?", "100%", "%41", "+", "ünï 漢字", "\"quotes\"", "it's", "back\\slash",
                 "&amp;=", "new\nline",
                 "<script>", "..dots", "-dash", "semi;colon,", "~tilde", "e\u0301", "\u202edrow",
                 b"not \xff UTF-8"]
        files = []
        for i, name in enumerate(names):
            folder = self.new(str(i))
            os.mkdir(folder)
            files.append(os.path.join(os.fsencode(folder), os.fsencode(name)))
            with open(files[-1], "wb") as file:
                file.write(self.bytes + bytes([i]))
        server = self.serve("--force", *files)
        self.assertEqual(server.fragment, "files")
        listed = json.loads(server.ask("files.json").content)
        for i, (name, entry) in enumerate(zip(names, listed, strict=True)):
            if isinstance(name, str):
                self.assertEqual(entry["name"], name)
            self.assertRegex(entry["url"], rf"\Afiles/{i}/[A-Za-z0-9._~%-]+\Z")
            self.assertEqual(urllib.parse.unquote_to_bytes(entry["url"].split("/")[2]), os.fsencode(name))
            self.assertEqual(server.ask(entry["url"]).content, self.bytes + bytes([i]))
            if isinstance(name, str):
                # As browsers write them, with fewer escapes.
                escaped = urllib.parse.quote(name, safe="!$&'()*+,;=:@")
                self.assertEqual(server.ask(f"files/{i}/{escaped}").status, 200, name)

    def test_a_map_goes_to_the_page(self):
        own = self.new("own.json", b'{"espalier_map": 1, /* & */ "rules": ["a <-> b"],}')
        config = self.new("config.json", b'{"head_dim": 4}')
        for name in ("unwrap", own):
            server = self.serve(self.sample, "--map", name, "--map-reverse", "--set", "p=64", "--set", "c=0.5", "--config", config)
            fields = urllib.parse.parse_qs(server.fragment)
            if name == "unwrap":
                self.assertEqual(fields["map"], ["unwrap"])
            else:
                self.assertEqual(json.loads(fields["map"][0])["rules"], ["`a` <-> `b`"])
            self.assertEqual(json.loads(fields["map-options"][0]),
                             {"reverse": True, "sizes": {"p": 64, "c": 0.5}, "config": {"head_dim": 4}})
        for code, wrong in ((USAGE, ["--map", "nix"]), (USAGE, ["--map", "unwrap", "--set", "p"]), (USAGE, ["--map", "unwrap", "--config", own]),
                            (USAGE, [self.sample, "--map", "unwrap"])):
            self.refused(code, self.sample, *wrong, "--page", self.page)

    def test_the_fragment_is_a_url_in_a_value(self):
        for name in ("50% of #1 + more?", "é&url=x"):
            server = self.serve(self.new(name, self.bytes))
            self.assertRegex(server.fragment, r"\Aurl=[A-Za-z0-9._~%/-]+\Z")
            value = urllib.parse.parse_qs(server.fragment)["url"][0]
            self.assertEqual(urllib.parse.unquote(value), "files/0/" + name)
            self.assertEqual(server.ask(value).content, self.bytes)

    def test_files_of_one_name(self):
        os.mkdir(self.new("other"))
        other = self.new("other/sample.espalier", b"other")
        server = self.serve("--force", self.sample, other, self.sample)
        contents = [server.ask(f"files/{i}/sample.espalier").content for i in range(3)]
        self.assertEqual(contents, [self.bytes, b"other", self.bytes])

    def test_what_is_no_checkpoint(self):
        text = self.new("text", b"no checkpoint")
        os.mkfifo(self.new("fifo"))
        self.assertIn("code not_a_checkpoint", self.refused(BAD_INPUT, text, "--page", self.page))
        self.assertIn("text: ", self.refused(BAD_INPUT, self.sample, text, "--page", self.page))
        damaged = self.new("damaged", b"\x89ESP" + bytes(200))
        self.refused(BAD_INPUT, damaged, "--page", self.page)
        for force in ([], ["--force"]):
            self.assertIn("this is a folder", self.refused(BAD_INPUT, self.folder, "--page", self.page,
                                                              *force))
            self.assertIn("this is a FIFO", self.refused(BAD_INPUT, self.new("fifo"), "--page", self.page,
                                                         *force))
            self.assertIn("code file_not_found", self.refused(IO, self.new("none"), "--page", self.page, *force))
            self.refused(USAGE, "", "--page", self.page, *force)
            self.refused(USAGE, "-", "--page", self.page, *force)
        self.assertEqual(self.serve(text, "--force").ask("files/0/text").content, b"no checkpoint")

    def test_usage(self):
        for args in ([], [self.sample, "--port", "0"], [self.sample, "--port", "65536"], [self.sample,
                                                                                          "--port", "x"],
                     [self.sample, "--idle-timeout", "-1"], [self.sample, "--nonsense"]):
            self.refused(USAGE, *args)


class Life(View):
    def run_view(self, *args, environment=None):
        done = subprocess.run([ESPALIER, "view", self.sample, "--page", self.page, "--idle-timeout", "1", *args],
                              capture_output=True, env=environment, timeout=60, check=False)
        self.assertEqual(done.returncode, 0)
        return done.stdout.decode(), done.stderr.decode()

    def test_signals_stop_it(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            server = self.serve(self.new("large", bytes(64 << 20)), "--force")
            # Neither an idle connection nor one that does not read holds it up.
            with server.connect(), server.connect() as reader:
                reader.sendall(server.request("files/0/large"))
                reader.recv(1)
                self.assertEqual((server.stop(number), server.stderr), (0, b""))

    def test_idle_timeout(self):
        self.run_view("--no-browser")

    def test_strangers_do_not_keep_it_running(self):
        server = self.serve(idle=["--idle-timeout", "1"])
        for _ in range(60):
            with contextlib.suppress(OSError), server.connect() as stranger:
                stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
                stranger.recv(1)
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.process.communicate(timeout=0.3)
                self.assertEqual(server.process.returncode, 0)
                return
        self.fail("it runs on without requests that have the token")

    def test_text(self):
        out, err = self.run_view("--no-browser")
        self.assertRegex(out, rf"\AServing {re.escape(self.sample)} at http://127\.0\.0\.1:\d+/[0-9a-f]{{32}}/"
                              r"#url=files/0/sample\.espalier\nPress Ctrl-C to stop\.\n\Z")
        self.assertEqual(err, "")
        out, _ = self.run_view(self.sample, "--no-browser")
        self.assertRegex(out, r"\AServing 2 files at http://127\.0\.0\.1:\d+/[0-9a-f]{32}/#files\n")

    def test_port(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            error = self.refused(IO, self.sample, "--page", self.page, "--port", str(port))
            self.assertIn(f"cannot listen on port {port} of 127.0.0.1: Address already in use", error)
        server = self.serve(self.sample, "--port", str(port))
        self.assertEqual(server.port, port)
        with server.connect() as connection:
            connection.sendall(server.request())
            self.assertTrue(connection.recv(1))
            self.assertEqual(server.stop(), 0)
            while connection.recv(1 << 16):
                pass
        # A connection that the server has ended first does not keep the port.
        self.assertEqual(self.serve(self.sample, "--port", str(port)).ask().status, 200)

    def test_browser(self):
        tools, said = self.new("tools"), self.new("said")
        os.mkdir(tools)
        script = os.path.join(tools, "xdg-open")
        with open(script, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\necho noise; echo noise >&2\n"
                       f"printf '%s\\n' \"$#\" \"$1\" >{said}.new && mv {said}.new {said}\n")
        os.chmod(script, 0o755)
        out, err = self.run_view(environment={**os.environ, "PATH": tools + ":" + os.environ["PATH"]})
        self.assertEqual((out.count("\n"), err), (2, ""), "what a browser says is not our output")
        with open(said, encoding="utf-8") as file:
            count, url = file.read().splitlines()
        self.assertEqual((count, url), ("1", re.search(r"http://\S+", out)[0]))

    def test_no_browser_is_only_a_note(self):
        out, err = self.run_view("--json", environment={**os.environ, "PATH": self.folder})
        self.assertEqual(set(json.loads(out)), {"url", "port"})
        self.assertRegex(err, r"\Aespalier: no browser was opened; open the URL yourself: cannot run xdg-open: [^\n]+\n\Z")

    def test_nobody_to_tell(self):
        reading, writing = os.pipe()
        os.close(reading)
        with open(writing, "wb") as closed:
            done = subprocess.run([ESPALIER, "view", self.sample, "--page", self.page, "--no-browser", *IDLE],
                                  stdout=closed, stderr=subprocess.PIPE, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (-signal.SIGPIPE, b""))


class Crowds(View):
    def test_parallel_connections(self):
        file = self.new("file", os.urandom(3 << 20))
        server = self.serve(file, "--force")
        with open(file, "rb") as opened:
            content = opened.read()
        wrong = []

        def ask(i):
            begin = i * 1000
            for _ in range(3):
                response = server.ask("files/0/file", Range=f"bytes={begin}-")
                if response.content != content[begin:]:
                    wrong.append(i)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_slow_clients_hold_nobody_up(self):
        file = self.new("large", bytes(64 << 20))
        server = self.serve(file, "--force")
        with contextlib.ExitStack() as stack:
            for i in range(100):
                slow = stack.enter_context(server.connect())
                slow.sendall(b"GET / HTTP/1.1\r\nX: "[:i % 20])
            for _ in range(20):
                reader = stack.enter_context(server.connect())
                reader.sendall(server.request("files/0/large"))
            self.assertEqual(server.ask().status, 200)
            self.assertEqual(len(server.ask("files/0/large").content), 64 << 20)

    def test_more_connections_than_it_takes(self):
        server = self.serve()
        with contextlib.ExitStack() as stack:
            used = stack.enter_context(server.connect())
            for _ in range(4):
                used.sendall(server.request(method="HEAD"))
                self.assertTrue(used.recv(1 << 16).startswith(b"HTTP/1.1 200"), "it has not waited longest")
                for _ in range(30):
                    stack.enter_context(server.connect())
            slow = [stack.enter_context(server.connect()) for _ in range(400)]
            self.assertEqual(server.ask().status, 200)
            self.assertLess(server.descriptors(), 80)
            self.assertEqual(slow[0].recv(1), b"", "the one that waited longest had to go")
            used.sendall(server.request(method="HEAD"))
            self.assertTrue(used.recv(1 << 16).startswith(b"HTTP/1.1 200"), "strangers do not end it")
            slow[-1].sendall(server.request(method="HEAD"))
            self.assertTrue(slow[-1].recv(100).startswith(b"HTTP/1.1 200"))

    def test_few_descriptors(self):
        command = 'ulimit -n 40; exec "$0" view "$1" --page "$2" --no-browser --json --idle-timeout 60'
        process = subprocess.Popen(["sh", "-c", command, ESPALIER, self.sample, self.page],
                                   stdout=subprocess.PIPE)
        with process, contextlib.ExitStack() as stack:
            stack.callback(process.kill)
            announced = json.loads(process.stdout.readline())
            target = urllib.parse.urlsplit(announced["url"]).path
            port = announced["port"]
            # The first request is for the sanitizers, which need descriptors for types that they do not know yet.
            for crowd in (0, 100):
                for _ in range(crowd):
                    stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                stack.callback(connection.close)
                connection.request("GET", target)
                self.assertEqual(connection.getresponse().status, 200)

    def test_too_few_descriptors(self):
        """Each file that is served takes one. libevent must not run out: it would end the program, without our error."""
        limit = 64
        codes = set()
        # Sanitizers need the last of them.
        for files in range(limit - 22, limit - 8):
            done = subprocess.run([ESPALIER, "view", *[self.sample] * files, "--page", self.page, "--no-browser",
                                   "--idle-timeout", "1"],
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
                                  capture_output=True, timeout=60, check=False)
            codes.add(done.returncode)
            if done.returncode == IO:
                self.assertRegex(done.stderr, rb"\Aespalier: [^\n]+Too many open files[^\n]+\n\Z")
            else:
                self.assertEqual((done.returncode, done.stderr), (0, b""), files)
        self.assertEqual(codes, {0, IO})

    def test_refusals_that_are_not_read(self):
        """A client without the token that reads no answers gets no lasting place."""
        server = self.large()
        with server.connect() as used, used.makefile("rb") as answer, contextlib.ExitStack() as stack:
            used.sendall(server.request("files/0/large"))
            for _ in range(100):
                connection = stack.enter_context(socket.socket())
                # Little room for answers on the way: short segments have the server's buffer small, too.
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.connect(("127.0.0.1", server.port))
                connection.sendall(b"GET / HTTP/1.1\r\n\r\n" * 500)
                # The server turns to all connections after each piece that it sends. This one is stuck by now.
                self.assertEqual(len(answer.read(9 << 20)), 9 << 20)
            self.assertLess(server.descriptors(), 80)
            self.assertEqual(server.ask(method="HEAD").status, 200)

    def test_memory_is_bounded(self):
        file = self.new("large", None)
        with open(file, "wb") as large:
            large.truncate(1 << 30)
        server = self.serve(file, "--force")

        before = server.memory()
        with server.connect() as connection:
            connection.sendall(server.request("files/0/large"))
            received, buffer = 0, bytearray(1 << 20)
            while received < 1 << 30:
                received += connection.recv_into(buffer)
        self.assertLess(server.memory() - before, 8 << 10, "KiB")

    def large(self):
        """A gibibyte that takes no room."""
        file = self.new("large", b"")
        os.truncate(file, 1 << 30)
        return self.serve(file, "--force")

    def test_readers_that_do_not_read(self):
        server = self.large()
        before = server.memory()
        with contextlib.ExitStack() as stack:
            for _ in range(40):
                reader = stack.enter_context(server.connect())
                reader.sendall(server.request("files/0/large"))
                self.assertTrue(reader.recv(1))
            self.assertEqual(server.ask().status, 200)
            # A piece for each.
            self.assertLess(server.memory() - before, 24 << 10, "KiB")

    def test_answers_do_not_give_way(self):
        server = self.large()
        with contextlib.ExitStack() as stack:
            readers = []
            for _ in range(70):
                readers.append(stack.enter_context(server.connect()))
                readers[-1].sendall(server.request("files/0/large"))
                self.assertTrue(readers[-1].recv(1))
            for _ in range(100):
                stack.enter_context(server.connect())
            self.assertEqual(server.ask().status, 200)
            for reader in (readers[0], readers[-1]):
                with reader.makefile("rb") as answer:
                    self.assertEqual(len(answer.read(32 << 20)), 32 << 20)

    def test_requests_without_end(self):
        server = self.large()
        chunked = server.request()[:-2] + b"Transfer-Encoding: chunked\r\n\r\n"
        for begin, again in ((b"", server.request(method="HEAD")), (b"", server.request("files/0/large")),
                             (b"", server.request("nothing")), (chunked, b" "), (chunked, b"\r\n"),
                             (chunked + b"0\r\n", b"a:\r\n"), (b"", b"\n"), (b"", b" ")):
            before = server.memory()
            with server.connect() as connection:
                connection.sendall(begin)
                connection.settimeout(0.5)
                sent, more = 0, again * (1 + (1 << 20) // len(again))
                with contextlib.suppress(TimeoutError, ConnectionResetError, BrokenPipeError):
                    while sent < 64 << 20:
                        sent += connection.send(more[sent % len(again):])
                self.assertLess(server.memory() - before, 4 << 10, (begin[-30:], again[:30], "KiB"))
        self.assertEqual(server.ask().status, 200)

    def test_pipelined_requests_are_all_answered(self):
        server = self.serve()
        count = 20_000
        with server.connect() as connection:
            writer = threading.Thread(target=connection.sendall, args=(server.request(method="HEAD") * count,))
            writer.start()
            answers = b""
            while answers.count(b"HTTP/1.1 200 OK") < count:
                piece = connection.recv(1 << 20)
                self.assertTrue(piece, "ended early")
                answers += piece
            writer.join()
        self.assertEqual(answers.count(b"\r\n\r\n"), count)

    def test_heads_of_many_fields(self):
        server = self.serve()
        before = server.memory()
        with contextlib.ExitStack() as stack:
            for _ in range(250):
                connection = stack.enter_context(server.connect())
                connection.sendall(b"GET / HTTP/1.1\r\n" + b":\n" * 8_000 + b"x")
            self.assertEqual(server.ask().status, 200)
            self.assertLess(server.memory() - before, 128 << 10, "KiB")

    def test_clients_that_go(self):
        server = self.large()
        server.ask()
        before = server.descriptors()
        for i in range(100):
            with server.connect() as connection:
                connection.sendall(server.request("files/0/large"))
                self.assertTrue(connection.recv(1))
                # Without a farewell, or after half of one, which has the server's writes end in SIGPIPE.
                if i % 2:
                    connection.shutdown(socket.SHUT_WR)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for _ in range(100):
            with server.connect() as connection:
                connection.sendall(server.request()[:20])
        self.assertEqual(server.ask().status, 200)
        self.assertLessEqual(server.descriptors(), before + 1)
        # Sanitizers report leaks.
        self.assertEqual((server.stop(), server.stderr), (0, b""))

    def test_time_is_up(self):
        server = self.large()
        with server.connect() as slow, server.connect() as idle, server.connect() as silent, \
                server.connect() as reading, reading.makefile("rb") as reader:
            idle.sendall(server.request(method="HEAD"))
            self.assertTrue(idle.recv(1 << 16))
            reading.sendall(server.request("files/0/large"))
            # Byte by byte a request takes for ever; one that is being answered may take its time.
            slow.settimeout(1)
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                for _ in range(60):
                    slow.sendall(b"x")
                    self.assertEqual(len(reader.read(1 << 16)), 1 << 16)
                    with contextlib.suppress(TimeoutError):
                        self.assertEqual(slow.recv(1), b"")
                        break
                else:
                    self.fail("the server waits for ever")
            self.assertEqual((idle.recv(1), silent.recv(1)), (b"", b""))
            self.assertEqual(len(reader.read(32 << 20)), 32 << 20)


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
    import report
    sys.exit(report.main())
