"""Runs the command line on URLs, from servers that misbehave in every way.

Usage: ESPALIER=path/to/espalier MAKE_SAMPLE=path/to/make_sample python3 test_urls.py
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import lying_servers  # noqa: E402
from odd_server import OddServer  # noqa: E402

ESPALIER = os.environ["ESPALIER"]
MAKE_SAMPLE = os.environ["MAKE_SAMPLE"]
DIGITS = pathlib.Path(__file__).resolve().parent.parent / "data/digits/digits.safetensors"
SHARDS = pathlib.Path(__file__).resolve().parent.parent / "foreign/shards/model"
DISTRIBUTED = SHARDS.parent.parent / "dcp/files/sharded.dcp"
OK, CHECK_FAILED, USAGE, BAD_INPUT, IO = 0, 1, 2, 3, 4
MIB = 1 << 20
HEAD = MIB  # bytes of the first request
OWN_VARIABLES = ("ESPALIER_TOKEN", "HF_TOKEN", "ESPALIER_HTTP_TIMEOUT", "http_proxy", "https_proxy", "all_proxy",
                 "no_proxy", "ALL_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE")


class Urls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.samples = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.samples)
        for name, change in {"sample": "", "large": "large", "large-changed": "large-changed", "many": "many:3000"}.items():
            subprocess.run([MAKE_SAMPLE, cls.samples / (name + ".espalier"), change], check=True)
        (cls.samples / "empty").touch()
        (cls.samples / "text.txt").write_text("not a checkpoint " * 100)
        # Larger than what is taken whole from a server without ranges.
        with open(cls.samples / "17MiB", "wb") as file:
            file.truncate(17 * MIB)
        shutil.copy(DIGITS, cls.samples)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.server = self.serving(OddServer(self.samples))

    def serving(self, server):
        """Starts a server, until the test ends."""
        server.__enter__()
        self.addCleanup(server.__exit__)
        return server

    def environment(self, **variables):
        environment = {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES}
        # No ~/.netrc of the user's own.
        return {**environment, "HOME": str(self.folder), **variables}

    def run_cli(self, *args, expect=OK, **variables):
        done = subprocess.run([ESPALIER, *map(str, args)], capture_output=True, timeout=100,
                              env=self.environment(**variables))
        self.stderr = done.stderr.decode()
        self.assertEqual(done.returncode, expect, (args, done.stdout, done.stderr))
        if expect in (USAGE, BAD_INPUT, IO):
            self.assertRegex(self.stderr, r"\Aespalier: [^\n]+\n\Z")
            self.assertTrue(self.stderr[:-1].isprintable(), self.stderr)
        else:
            self.assertEqual(self.stderr, "")
        return done.stdout.decode()

    def fails(self, url, text, expect=IO, command=("ls",), **variables):
        self.run_cli(*command, url, expect=expect, **variables)
        self.assertIn(text, self.stderr)

    def sent(self):
        return sum(request.sent for request in self.server.requests)


class Reading(Urls):
    def check_like_file(self, *args, expect=OK):
        """That a command prints the same of a URL as of the file."""
        local = [str(self.samples / arg[4:]) if str(arg).startswith("url:") else arg for arg in args]
        remote = [self.server.url(arg[4:]) if str(arg).startswith("url:") else arg for arg in args]
        there, here = self.run_cli(*remote, expect=expect), self.run_cli(*local, expect=expect)
        self.assertEqual(there.replace(self.server.url(""), str(self.samples) + "/"), here)

    def test_every_reading_command(self):
        for name in ("url:sample.espalier", "url:large.espalier", "url:digits.safetensors"):
            for command in ("ls", "tree", "stats", "verify"):
                self.check_like_file(command, name)
                self.check_like_file(command, name, "--json", *(["--nest"] if command != "verify" else []))
        self.check_like_file("ls", "--long", "url:sample.espalier", "url:large.espalier")
        self.check_like_file("show", "url:large.espalier", "x", "--slice", "100:103,::300")
        self.check_like_file("show", "url:sample.espalier", "model/embed", "--json")
        self.check_like_file("diff", "url:large.espalier", "url:large.espalier")
        self.check_like_file("diff", "url:large.espalier", "url:large-changed.espalier", expect=CHECK_FAILED)
        self.assertEqual({request.method for request in self.server.requests}, {"GET"})

    def test_writing_from_urls(self):
        url = self.server.url
        for source, out in (("sample.espalier", "a.espalier"), ("many.espalier", "b.espalier"),
                            ("large.espalier", "c.espalier"), ("digits.safetensors", "d.espalier")):
            self.run_cli("convert", "-q", url(source), self.folder / out)
            self.run_cli("convert", "-q", self.samples / source, self.folder / ("local-" + out))
            self.assertEqual((self.folder / out).read_bytes(), (self.folder / ("local-" + out)).read_bytes())
        self.run_cli("extract", "-q", url("large.espalier"), "x", "-o", self.folder / "x.npy")
        self.assertEqual((self.folder / "x.npy").stat().st_size, 128 + 4_000_000)
        self.run_cli("merge", "-q", url("sample.espalier"), url("many.espalier"), self.folder / "m.espalier")
        self.run_cli("verify", self.folder / "m.espalier")
        (self.folder / "into").mkdir()
        self.run_cli("convert", "-q", url("sample.espalier") + "?Signature=signed@x#x", url("digits.safetensors"),
                     self.folder / "into", "--to", "espalier")
        self.assertEqual(sorted(os.listdir(self.folder / "into")), ["digits.espalier", "sample.espalier"])

    def test_urls_are_not_written_or_viewed(self):
        url, file = self.server.url("out.espalier"), self.samples / "sample.espalier"
        for args in (("convert", file, url), ("extract", file, "-o", url, "model"), ("merge", file, file, url),
                     ("convert", file, "-o", url)):
            self.run_cli(*args, expect=USAGE)
            self.assertIn("URLs are read, not written", self.stderr)
        self.run_cli("view", self.server.url("sample.espalier"), expect=USAGE)
        self.assertIn("download the file first", self.stderr)
        self.assertEqual(self.server.requests, [])

    def test_what_is_no_url(self):
        for name in ("s3://bucket/x", "ftp://host/x", "file:///etc/passwd", "hf://a/b"):
            self.fails(name, "only http and https", USAGE)
        for name in ("http://", "http://[::bad/x", "https://a b/x", "http://user@:80/x"):
            self.fails(name, "not a valid http or https URL", USAGE)
        # A file of such a name can be read.
        os.makedirs(self.folder / "http:/x")
        shutil.copy(self.samples / "sample.espalier", self.folder / "http:/x/s")
        subprocess.run([ESPALIER, "ls", "./http:/x/s"], check=True, cwd=self.folder, stdout=subprocess.DEVNULL)

    def test_tab_key_asks_no_server(self):
        self.run_cli("complete-path", self.server.url("sample.espalier"), "model")
        self.assertEqual(self.server.requests, [])

    def test_contents_that_are_no_checkpoint(self):
        self.fails(self.server.url("text.txt"), "no format that the library reads", BAD_INPUT)
        self.fails(self.server.url("empty"), "code", BAD_INPUT)
        self.fails(self.server.url("empty", "whole"), "code", BAD_INPUT)

    def test_several_files(self):
        out = self.run_cli("ls", "-q", self.server.url("sample.espalier"), self.server.url("nope.espalier"),
                           self.samples / "sample.espalier", "model/embed", expect=IO)
        self.assertEqual(out.count("model/embed"), 2)
        self.assertIn("no such file", self.stderr)


class Requests(Urls):
    """How many requests are made, and how many bytes they fetch."""

    def test_ls_takes_one(self):
        for name in ("sample.espalier", "large.espalier", "many.espalier", "digits.safetensors"):
            self.server.forget()
            self.run_cli("ls", "--long", self.server.url(name))
            (request,) = self.server.requests
            self.assertEqual(request.range, f"bytes=0-{HEAD - 1}")
            self.assertEqual(request.headers["Accept-Encoding"], "identity")
            self.server.forget()
            # Also where the file is opened twice: to tell patterns from files.
            self.run_cli("ls", self.server.url(name), self.samples / "sample.espalier")
            self.assertEqual(len(self.server.requests), 1)

    def test_a_sharded_model_takes_one_for_each_file(self):
        shutil.copytree(SHARDS, self.samples / "shards", dirs_exist_ok=True)
        index, url = "shards/model.safetensors.index.json", self.server.url("shards/model.safetensors.index.json")
        files = sorted(file.name for file in SHARDS.iterdir())
        self.assertEqual(len(files), 17)
        for command in ("ls", "verify"):
            self.server.forget()
            self.run_cli(command, url)
            self.assertEqual(sorted(request.path.split("/")[-1] for request in self.server.requests), files)
        self.assertEqual(self.run_cli("ls", "--json", url).replace(url, index),
                         self.run_cli("ls", "--json", self.samples / index).replace(str(self.samples / index), index))

    def test_files_of_a_sharded_model_are_asked_for_at_the_same_time(self):
        shutil.copytree(SHARDS, self.samples / "shards", dirs_exist_ok=True)
        self.assertNotIn("note", self.run_cli("ls", self.server.url("shards/model.safetensors.index.json", "together")))

    def test_a_distributed_checkpoint_takes_one_for_each_file(self):
        shutil.copytree(DISTRIBUTED, self.samples / "dcp", dirs_exist_ok=True)
        url = self.server.url("dcp/.metadata")
        files = sorted(file.name for file in DISTRIBUTED.iterdir())
        self.assertEqual(len(files), 5)
        listed = self.run_cli("ls", "--json", url)
        self.assertEqual(sorted(request.path.split("/")[-1] for request in self.server.requests), files)
        folder = str(self.samples / "dcp")
        self.assertEqual(listed.replace(url, folder), self.run_cli("ls", "--json", folder))
        self.run_cli("convert", "-q", url, self.folder / "a.espalier")
        self.run_cli("convert", "-q", folder, self.folder / "b.espalier")
        self.assertEqual((self.folder / "a.espalier").read_bytes(), (self.folder / "b.espalier").read_bytes())

    def test_bytes_of_the_head_are_not_asked_for_again(self):
        self.run_cli("verify", self.server.url("sample.espalier"))
        self.assertEqual(len(self.server.requests), 1)
        self.server.forget()
        self.run_cli("verify", self.server.url("large.espalier"))
        self.assertEqual(self.sent(), (self.samples / "large.espalier").stat().st_size)

    def test_a_slice_takes_its_chunks(self):
        self.run_cli("show", self.server.url("large.espalier"), "x", "--slice", "999")
        head, part = self.server.requests
        self.assertLess(part.sent, MIB)
        self.server.forget()
        self.run_cli("show", self.server.url("large.espalier"), "x", "--slice", "520:530")  # in two chunks
        self.assertEqual(len(self.server.requests), 3)
        self.assertLessEqual(self.sent(), 3 * MIB)

    def test_small_tensors_are_fetched_together(self):
        size = (self.samples / "many.espalier").stat().st_size
        self.assertLess(size, MIB)
        big = self.samples / "far.espalier"
        if not big.exists():
            subprocess.run([MAKE_SAMPLE, big, "many:40000"], check=True)
        for command in (["verify"], ["stats"], ["convert", "-q"]):
            self.server.forget()
            out = [self.folder / "out.espalier"] if command[0] == "convert" else []
            self.run_cli(*command, self.server.url("far.espalier"), *out)
            self.assertLess(len(self.server.requests), 60, command)
            self.assertLess(self.sent(), big.stat().st_size * 1.2, command)

    def test_a_large_file(self):
        gib = 20
        file = self.folder / "zeros.espalier"
        subprocess.run([MAKE_SAMPLE, file, f"zeros:{gib}"], check=True)
        self.assertLess(file.stat().st_blocks * 512, 64 * MIB, "the file is not sparse")
        self.server.folder = self.folder
        listing = self.run_cli("ls", self.server.url("zeros.espalier"))
        self.assertIn(f"{gib} tensors, ", listing)
        self.assertEqual(len(self.server.requests), 1)
        print(f"{gib} GiB: ls: 1 request, {self.sent()} bytes", flush=True)
        self.server.forget()
        self.run_cli("show", self.server.url("zeros.espalier"), f"zeros_{gib - 1}", "--slice", "-1,-5:")
        self.assertEqual(len(self.server.requests), 2)
        self.assertLessEqual(self.sent(), HEAD + 2 * MIB)
        print(f"{gib} GiB: show --slice: {len(self.server.requests)} requests, {self.sent()} bytes", flush=True)


class Misbehaviour(Urls):
    def test_servers_that_lie(self):
        for manner, refusal in lying_servers.LIES.items():
            with self.subTest(manner):
                self.server.forget()
                self.fails(self.server.url("large.espalier", manner), refusal.text, command=("stats",))
                self.assertIn(f"code {refusal.code}", self.stderr)
                self.assertLess(self.sent(), 20 * MIB)
                self.assertLess(self.server.written, 40 * MIB)
                self.assertLess(len(self.server.requests), 30)

    def test_servers_that_are_good_enough(self):
        for manner in lying_servers.GOOD:
            with self.subTest(manner):
                self.run_cli("verify", self.server.url("large.espalier", manner))

    def test_a_server_without_ranges_sends_no_large_file(self):
        for manner in ("whole", "whole-without-length"):
            self.fails(self.server.url("17MiB", manner), "download the file first")

    def test_status(self):
        for status, code, text in ((401, "io_error", "set ESPALIER_TOKEN"), (403, "io_error", "set ESPALIER_TOKEN"),
                                   (404, "file_not_found", "no such file"), (410, "file_not_found", "no such file"),
                                   (204, "io_error", "does not send the file"), (418, "io_error", "status 418"),
                                   (500, "io_error", "(after 4 attempts)"), (503, "io_error", "busy or broken")):
            with self.subTest(status):
                self.server.forget()
                self.fails(self.server.url("large.espalier", "status") + f"?{status}", text)
                self.assertIn(f"code {code}", self.stderr)
                self.assertEqual(len(self.server.requests), 4 if status >= 500 else 1)

    def test_long_redirects_are_shortened(self):
        self.fails(self.server.url("large.espalier", "to-long-url"), "xxx[...]xxx")
        self.assertLess(len(self.stderr), 500)

    def test_floods_are_not_asked_for_again(self):
        for manner in ("flood-in-one-line", "trailer-flood", "trailer-flood-in-one-line"):
            self.server.forget()
            self.fails(self.server.url("sample.espalier", manner), "check the link")
            self.assertEqual(len(self.server.requests), 1)

    def test_redirects_are_followed_once(self):
        self.run_cli("verify", self.server.url("large.espalier", "moved"))
        self.assertEqual([request.path for request in self.server.requests].count("/moved/large.espalier"), 1)

    def test_links_that_expire(self):
        # Each later request finds the link expired, and gets a new one.
        self.run_cli("show", self.server.url("large.espalier", "signed-for-one"), "x", "--slice", "999")
        self.assertEqual([request.path.split("/")[1] for request in self.server.requests],
                         ["signed-for-one", "expiring", "expiring", "signed-for-one", "expiring"])

    def test_silence(self):
        for manner, refusal in lying_servers.STALLS.items():
            self.fails(self.server.url("large.espalier", manner), refusal.text, command=("stats",), ESPALIER_HTTP_TIMEOUT="1")
            self.assertIn(f"code {refusal.code}", self.stderr)
        # Such a request is made again once.
        self.assertEqual([request.path for request in self.server.requests].count("/silent/large.espalier"), 2)
        for odd in ("0", "x", "1x", "99999999999"):
            self.fails(self.server.url("sample.espalier"), "ESPALIER_HTTP_TIMEOUT", USAGE, ESPALIER_HTTP_TIMEOUT=odd)

    def test_nobody_listens(self):
        other = OddServer(self.samples)
        url = other.url("x")
        other.server_close()
        self.fails(url, "no response")

    def test_random_responses(self):
        for seed in range(150):
            done = subprocess.run([ESPALIER, "ls", self.server.url("sample.espalier", "random") + f"?{seed}"],
                                  capture_output=True, timeout=60, env=self.environment(ESPALIER_HTTP_TIMEOUT="2"))
            self.assertIn(done.returncode, (OK, BAD_INPUT, IO), (seed, done.stderr))
            if done.returncode == OK:
                self.assertIn(b"23 tensors", done.stdout)

    def test_interrupts(self):
        for command, expect in ((["verify"], -signal.SIGINT), (["convert"], 128 + signal.SIGINT)):
            # A server of its own: requests of a process that has ended may still come in.
            server = self.serving(OddServer(self.samples))
            out = [str(self.folder / "out.espalier")] if command == ["convert"] else []
            process = subprocess.Popen([ESPALIER, *command, server.url("large.espalier", "stalls"), *out],
                                       env=self.environment(ESPALIER_HTTP_TIMEOUT="3600"), stderr=subprocess.PIPE)
            while len(server.requests) < 2:
                self.assertIsNone(process.poll())
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=120)
            self.assertEqual((process.returncode, stderr), (expect, b""))
            self.assertEqual(os.listdir(self.folder), [])


class Https(Urls):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.certificate = cls.samples / "certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", cls.samples / "key.pem", "-out", cls.certificate], check=True, capture_output=True)
        with open(cls.certificate, "a") as file:
            file.write((cls.samples / "key.pem").read_text())

    def setUp(self):
        super().setUp()
        self.server = self.serving(OddServer(self.samples, self.certificate))

    def test_certificates_that_are_trusted(self):
        url = self.server.url("large.espalier", "private")
        self.run_cli("verify", url, SSL_CERT_FILE=str(self.certificate), ESPALIER_TOKEN="s3cret")
        self.assertEqual({request.headers["Authorization"] for request in self.server.requests}, {"Bearer s3cret"})

    def test_certificates_that_are_not(self):
        self.fails(self.server.url("sample.espalier"), "certificate")
        # For another name.
        self.fails(self.server.url("sample.espalier", host="localhost"), "certificate",
                   SSL_CERT_FILE=str(self.certificate))
        self.assertEqual(self.server.requests, [])

    def test_no_way_back_to_http(self):
        self.fails(self.server.url("sample.espalier", "to-http"), "redirects from https to http",
                   SSL_CERT_FILE=str(self.certificate))


class Secrets(Urls):
    def authorizations(self, start=""):
        return {request.headers.get("Authorization") for request in self.server.requests
                if request.path.startswith(start)}

    def test_tokens(self):
        url = self.server.url("large.espalier", "private")
        self.fails(url, "set ESPALIER_TOKEN")
        self.server.forget()
        self.run_cli("verify", url, ESPALIER_TOKEN="s3cret")
        self.assertEqual(self.authorizations(), {"Bearer s3cret"})
        self.fails(url, "check the token in ESPALIER_TOKEN", ESPALIER_TOKEN="wrong")
        self.assertNotIn("wrong", self.stderr)
        for odd in ("two words", "line\nbreak", "tab\t", "é"):
            self.fails(url, "holds spaces, line breaks", USAGE, ESPALIER_TOKEN=odd)
        # Hugging Face's token is for huggingface.co alone.
        self.server.forget()
        self.fails(url, "status 401", HF_TOKEN="s3cret")
        self.assertEqual(self.authorizations(), {None})

    def test_user_name_and_password_in_the_url(self):
        url = self.server.url("large.espalier", "private", user="user:pa%20ss@")
        out = self.run_cli("verify", url, "--json", ESPALIER_TOKEN="other")
        self.assertNotIn("pa%20ss", out)
        self.assertEqual(self.authorizations(), {"Basic dXNlcjpwYSBzcw=="})

    def test_netrc(self):
        netrc = self.folder / ".netrc"
        netrc.write_text("machine 127.0.0.1 login user password \"pa ss\"\n")
        netrc.chmod(0o600)
        self.run_cli("verify", self.server.url("large.espalier", "private"))

    def test_credentials_stay_with_their_host(self):
        netrc = self.folder / ".netrc"
        for start, variables in (({}, {"ESPALIER_TOKEN": "s3cret"}), ({"user": "user:pa@"}, {})):
            self.server.forget()
            self.run_cli("verify", self.server.url("large.espalier", "elsewhere", **start), **variables)
            self.assertNotIn(None, self.authorizations("/elsewhere/"))
            self.assertEqual(self.authorizations("/good/"), {None})
        # Not to another port either, nor to the user that a redirect names.
        netrc.write_text("machine localhost login user password word\n")
        self.server.forget()
        self.run_cli("verify", self.server.url("large.espalier", "elsewhere"))
        self.run_cli("verify", self.server.url("large.espalier", "with-user"))
        self.assertEqual(self.authorizations(), {None})

    def test_tokens_are_not_sent_in_the_open(self):
        # A proxy stands for a server that is not on this machine.
        proxy = f"http://127.0.0.1:{self.server.server_port}"
        url = "http://host.example/good/large.espalier"
        self.run_cli("verify", url, http_proxy=proxy, ESPALIER_TOKEN="s3cret")
        self.assertEqual(self.authorizations(), {None})
        self.assertTrue(all(request.target == url for request in self.server.requests))
        self.fails("http://host.example/private/large.espalier", "not sent over http", http_proxy=proxy,
                   ESPALIER_TOKEN="s3cret")
        # A name that only looks like this machine's.
        self.server.forget()
        self.run_cli("verify", "http://127.0.0.1.host.example/good/large.espalier", http_proxy=proxy,
                     ESPALIER_TOKEN="s3cret")
        self.assertEqual(self.authorizations(), {None})
        # This machine is not reached through a proxy.
        self.server.forget()
        self.run_cli("ls", self.server.url("sample.espalier"), http_proxy="http://127.0.0.1:9")
        self.run_cli("ls", "http://host.example/good/sample.espalier", http_proxy="http://127.0.0.1:9",
                     no_proxy="", expect=IO)

    def test_nothing_secret_is_printed(self):
        self.fails(self.server.url("large.espalier", "to-refused"), "get a new link")
        self.assertIn(f"(the URL redirects to http://localhost:{self.server.server_port}/refused/large.espalier)",
                      self.stderr)
        secrets = ("hunter2", "Signature", "fragment")
        for manner in ("good", "status", "whole", "circle", "changed-etag", "elsewhere", "to-file"):
            url = self.server.url("large.espalier", manner, user="name:hunter2@") + "?404&Signature=x#fragment"
            for args in (("ls", url), ("ls", url, url), ("verify", url, "--json"), ("stats", "--json", url),
                         ("tree", url, "--json"), ("show", url, "x", "--json"), ("show", url, "nope"),
                         ("diff", url, url, "--json"), ("view", url), ("diff", url, url, "x", "--slice", url),
                         ("tree", url, "x", url), ("extract", url, "-o", self.folder / "o.espalier", "--json", "-f"),
                         ("convert", url, self.folder / "o.espalier", "--json", "-f"), ("convert", url, url),
                         ("convert", url, url, self.folder, "--to", "espalier"),
                         ("merge", url, self.samples / "large-changed.espalier", self.folder / "o.espalier", "-f"),
                         ("merge", self.samples / "many.espalier", url, url, self.folder / "o.espalier", "-f")):
                if manner != "good" and args[0] not in ("ls", "verify", "merge"):
                    continue
                done = subprocess.run([ESPALIER, *map(str, args)], capture_output=True, timeout=60,
                                      env=self.environment())
                for secret in secrets:
                    self.assertNotIn(secret.encode(), done.stdout + done.stderr, (manner, args))

    def test_passwords_in_odd_urls_are_not_printed(self):
        file, host = self.samples / "sample.espalier", "host.invalid/x"
        for start in ("https://user:hun/ter2@", "https://user:hun?ter2@", "http://user:hun#ter2@", "http://user:hun@ter2@",
                      "HTTPS://user:hun ter2@", "ftp://user:hun-ter2@", "s3://user:hun/ter2@", "https:/user:hun-ter2@",
                      "https:user:hun-ter2@", "user:hun-ter2@"):
            url = start + host
            for args in (("ls", url), ("verify", url), ("convert", file, url), ("view", url), (url,), ("help", url),
                         ("ls", "--" + url), ("ls", file, "--dtype", url), ("tree", file, "model", url),
                         ("convert", url, self.folder, "--to", "npy")):
                with self.subTest(args):
                    done = subprocess.run([ESPALIER, *map(str, args)], capture_output=True, env=self.environment())
                    self.assertIn(done.returncode, (USAGE, IO))
                    self.assertNotRegex(done.stdout + done.stderr, b"hun|ter2")
            if "://" in url:
                for args in (("ls", file, url), ("stats", file, url), ("diff", file, file, url),
                             ("extract", file, "-o", self.folder / "o.espalier", url)):
                    done = subprocess.run([ESPALIER, *map(str, args)], capture_output=True, env=self.environment())
                    self.assertNotRegex(done.stdout + done.stderr, b"hun|ter2", args)
        self.fails("ftp://user:secret@host/x", "espalier: ftp://host/x: ", USAGE)
        self.fails("https://user:se/cret@host/x", "espalier: https://[...]@host/x: ", USAGE)
        # A file of such a name.
        name = "run:1@best.espalier"
        shutil.copy(file, self.folder / name)
        done = subprocess.run([ESPALIER, "verify", name], capture_output=True, cwd=self.folder)
        self.assertIn(name.encode(), done.stdout)


if __name__ == "__main__":
    import report
    sys.exit(report.main())
