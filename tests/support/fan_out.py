"""Small files that name very many others: what a stranger sends to have them opened, or fetched.

    python3 fan_out.py FOLDER                 writes them, and prints their paths
    made = fan_out.write(folder)              the paths of the files to open, by format
    with fan_out.CountingServer(folder) as server:
        server.url("gguf/m-00001-of-65535.gguf")
        server.asked                          the paths that were asked for
"""

import http.server
import json
import pathlib
import re
import struct
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "corrupt"))

# How often the limit is exceeded: Limits::files is 1024.
MANY = 20_000


def index():
    """The index of a model in MANY files."""
    names = {f"t{i}": f"model-{i + 1:05}.safetensors" for i in range(MANY)}
    return json.dumps({"metadata": {}, "weight_map": names}).encode()


def gguf():
    """The first of 65,535 files of a model, which needs no more than the number."""
    def pair(key, value):
        return struct.pack("<Q", len(key)) + key + struct.pack("<IH", 2, value)

    return b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + pair(b"split.no", 0) + pair(b"split.count", 65535)


def metadata():
    """The .metadata of a distributed PyTorch checkpoint with a file for each of MANY processes."""
    import dcp_files as dcp

    cut = [dcp.box((i,), (1,)) for i in range(MANY)]
    storage = [(dcp.place("w", (i,)), dcp.info(0, 100, f"__{i}_0.distcp")) for i in range(MANY)]
    return dcp.pickled([(dcp.text("w"), dcp.tensor((MANY,), *cut))], storage)


def write(folder):
    """Writes each into a folder of its own. None of the files that they name is there."""
    made = {}
    for kind, name, data in (
        ("shards", "model.safetensors.index.json", index()),
        ("gguf", "m-00001-of-65535.gguf", gguf()),
        ("dcp", ".metadata", metadata()),
    ):
        path = pathlib.Path(folder) / kind / name
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
        made[kind] = path
    return made


class CountingServer(http.server.ThreadingHTTPServer):
    """Serves the files below a folder in parts. `siblings` answers a request for a name that is not there: it gets the
    handler. `asked` has the paths of all requests."""

    daemon_threads = True

    def __init__(self, folder, siblings=lambda handler: handler.answer(404)):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.siblings, self.asked, self.lock = pathlib.Path(folder), siblings, [], threading.Lock()
        self.is_stopping = threading.Event()

    def url(self, path):
        return f"http://127.0.0.1:{self.server_port}/{path}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.is_stopping.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        pass  # The program closed the connection.


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        with self.server.lock:
            self.server.asked.append(self.path)
        file = self.server.folder / self.path[1:]
        if not file.is_file():
            return self.server.siblings(self)
        data = file.read_bytes()
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
        begin, end = (int(match[1]), min(int(match[2]) + 1, len(data))) if match else (0, len(data))
        said = [("Content-Range", f"bytes {begin}-{end - 1}/{len(data)}"), ("ETag", '"one"')] if match else []
        self.answer(206 if match else 200, data[begin:end], said)

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in [*headers, ("Content-Length", str(len(body)))]:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


if __name__ == "__main__":
    print(*write(sys.argv[1]).values(), sep="\n")
