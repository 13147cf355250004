"""Makes the checkpoints of files.tar.xz with Orbax and tensorstore, and expected.json: what these find in them.

    pip install -r requirements.txt && python make_files.py

The folders v0_checkpoints and v1_checkpoints are those that Orbax's own compatibility tests read. They are copied from the
package (orbax/checkpoint/experimental/v1/_src/testing/compatibility/checkpoints; Apache License 2.0).
"""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import collections
import hashlib
import io
import json
import logging
import pathlib
import shutil
import tarfile
import tempfile
import typing

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import tensorstore as ts
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from orbax.checkpoint._src.metadata import pytree_metadata_options

logging.disable(logging.CRITICAL)
FOLDER = pathlib.Path(__file__).parent
COMPATIBILITY = pathlib.Path(ocp.__path__[0]) / "experimental/v1/_src/testing/compatibility/checkpoints"
Pair = collections.namedtuple("Pair", "p q")
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 50, shape).astype("f4")


def tree() -> typing.Any:
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))
    w = jnp.asarray(random(16, 12))
    return {
        "w": jax.device_put(w, NamedSharding(mesh, PartitionSpec("x", "y"))), "bf": jnp.arange(10, dtype=jnp.bfloat16) / 3,
        "scalar": jnp.float32(2.5), "i": 3, "f": 1.5, "flag": True, "none": None, "list": [jnp.ones(2), {"in": jnp.zeros(3)}],
        "tup": (jnp.ones(2, jnp.int8),), "empty": {}, "elist": [], "nt": Pair(jnp.ones(1), jnp.ones(2)),
        "a.b": {"c/d": jnp.full((2,), 7.0)}, "b": np.array([True, False]), "big": jnp.asarray(random(30, 70)),
        "adam": optax.adam(1e-3).init({"w": jnp.ones(3)}), "t": np.arange(20, dtype="f8").reshape(4, 5).T, "text": "héllo",
    }


def save(path: pathlib.Path, value: typing.Any, arguments: typing.Any = None, **options: typing.Any) -> None:
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options)) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(value, **(arguments or {})))


def zarr(path: pathlib.Path, spec: typing.Any, array: np.ndarray, **options: typing.Any) -> None:
    """One array, in a database with the configuration `options`, beside a _METADATA that names it."""
    kvstore = {"driver": "ocdbt", "base": f"file://{path}/", "path": "w/", "config": options}
    store = ts.open({**spec, "kvstore": kvstore}, create=True, open=True, dtype=array.dtype.name, shape=array.shape).result()
    store.write(array).result()
    describe(path, ["w"])


def describe(path: pathlib.Path, names: typing.Sequence[str], **more: typing.Any) -> None:
    entry = {"value_metadata": {"value_type": "np.ndarray", "skip_deserialize": False}}
    entries = {str((name,)): {"key_metadata": [{"key": name, "key_type": 2}], **entry} for name in names}
    (path / "_METADATA").write_text(json.dumps({"tree_metadata": entries, "use_ocdbt": True, **more}))


def codecs(folder: pathlib.Path) -> None:
    def two(name: str, **metadata: typing.Any) -> None:
        zarr(folder / name, {"driver": "zarr", "metadata": {"chunks": [10, 10], **metadata}}, random(37, 23))

    def three(name: str, chunk: typing.Sequence[int], chain: typing.Sequence[typing.Any], **metadata: typing.Any) -> None:
        grid = {"name": "regular", "configuration": {"chunk_shape": chunk}}
        zarr(folder / name, {"driver": "zarr3", "metadata": {"chunk_grid": grid, "codecs": chain, **metadata}}, random(37, 23))

    def shard(inner: typing.Sequence[int], chain: typing.Sequence[typing.Any], at: str = "end") -> typing.Any:
        index = [BYTES, {"name": "crc32c"}]
        return {"name": "sharding_indexed", "configuration": {
            "chunk_shape": inner, "codecs": chain, "index_codecs": index, "index_location": at}}

    zstd = {"name": "zstd", "configuration": {"level": 1}}
    transpose = {"name": "transpose", "configuration": {"order": [1, 0]}}
    for codec in ("zlib", "gzip", "bz2", "blosc", "zstd"):
        two(f"z2_{codec}", compressor={"id": codec})
    two("z2_none", compressor=None)
    two("z2_order", order="F", compressor={"id": "zstd"})
    two("z2_slash", dimension_separator="/", compressor=None, dtype="<f4", fill_value=7.0)
    two("z2_swapped", dtype=">f4", compressor={"id": "zstd"})
    three("z3_gzip", [10, 10], [BYTES, {"name": "gzip", "configuration": {"level": 5}}])
    three("z3_transpose", [10, 5], [transpose, BYTES, {"name": "crc32c"}])
    three("z3_rows", [10, 23], [BYTES, zstd, {"name": "crc32c"}])
    three("z3_first", [20, 20], [shard([5, 10], [BYTES, zstd], "start")])
    three("z3_nested", [20, 20], [shard([10, 10], [shard([5, 5], [BYTES])])])
    three("z3_turned", [20, 40], [transpose, shard([10, 10], [transpose, BYTES, zstd])])
    three("z3_row_shards", [12, 23], [shard([4, 23], [BYTES, zstd])])
    three("z3_v2_names", [10, 10], [BYTES], chunk_key_encoding={"name": "v2", "configuration": {"separator": "."}})
    three("z3_swapped", [10, 10], [{"name": "bytes", "configuration": {"endian": "big"}}])
    sparse = np.zeros(40, "f4")
    sparse[3] = 1
    zarr(folder / "z2_missing", {"driver": "zarr", "metadata": {
        "chunks": [10], "dtype": "<f4", "fill_value": 2.5, "compressor": {"id": "zstd"}}}, sparse + 2.5)
    zarr(folder / "z3_missing", {"driver": "zarr3", "metadata": {
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [40]}}, "data_type": "float32", "fill_value": "NaN",
        "codecs": [shard([10], [BYTES])]}}, np.where(sparse == 1, sparse, np.nan).astype("f4"))
    # The same, which the checkpoint says not to be: store_array_data_equal_to_fill_value.
    shutil.copytree(folder / "z2_missing", folder / "z2_lost")
    describe(folder / "z2_lost", ["w"], store_array_data_equal_to_fill_value=True)
    # In one chunk without compression, larger than what stands in a node: used in place.
    zarr(folder / "z2_in_place", {"driver": "zarr", "metadata": {"chunks": [30, 40], "compressor": None}}, random(30, 40))


def processes(folder: pathlib.Path) -> None:
    """What three processes write, and the merge of their databases; and tall trees."""
    context = ts.Context({"cache_pool": {"total_bytes_limit": 100_000_000}})

    def store(path: pathlib.Path, **config: typing.Any) -> typing.Any:
        spec = {"driver": "ocdbt", "base": {"driver": "file", "path": f"{path}/"}, "config": config}
        return ts.KvStore.open(spec, context=context).result()

    def merge(path: pathlib.Path) -> None:
        transaction = ts.Transaction(atomic=True)
        for process in range(3):
            part = store(path / f"ocdbt.process_{process}")
            part.experimental_copy_range_to(store(path).with_transaction(transaction)).result()
        transaction.commit_async().result()

    path = folder / "processes"
    for process in range(3):
        kvstore = {"driver": "ocdbt", "base": f"file://{path}/ocdbt.process_{process}/", "path": "w/"}
        array = ts.open({"driver": "zarr", "kvstore": kvstore, "dtype": "float32", "metadata": {
            "shape": [48, 50], "chunks": [16, 50], "compressor": {"id": "zstd"}}}, create=True, open=True).result()
        array[process * 16 : (process + 1) * 16].write(random(16, 50, seed=process)).result()
    shutil.copytree(path, folder / "unfinished")
    describe(folder / "unfinished", ["w"])
    merge(path)
    describe(path, ["w"])

    def write(path: pathlib.Path, count: int, **config: typing.Any) -> None:
        metadata = {"chunks": [2], "compressor": None, "dtype": "<i4", "fill_value": None, "filters": None, "order": "C",
                    "shape": [2], "zarr_format": 2}
        names = [f"layer{i:03d}/w" for i in range(count)]
        transaction = ts.Transaction()
        database = store(path, **config).with_transaction(transaction)
        for i, name in enumerate(names):
            database.write(f"{name}/.zarray", json.dumps(metadata)).result()
            database.write(f"{name}/0", np.array([i, -i], "<i4").tobytes()).result()
        transaction.commit_async().result()
        describe(path, names)

    write(folder / "flat", 3, max_decoded_node_bytes=100_000_000)
    write(folder / "tall", 40, max_decoded_node_bytes=512, max_inline_value_bytes=16)
    write(folder / "uncompressed", 20, max_decoded_node_bytes=512, compression=None)
    write(folder / "numbered", 4, manifest_kind="numbered", max_decoded_node_bytes=512)
    # Another version of it, so that the newest counts.
    store(folder / "flat").write("layer001/w/0", np.array([7, 8], "<i4").tobytes()).result()
    # All that a database has, moved into a folder that its root leads to: nodes behind a base path.
    base = folder / "base"
    write(base / "ocdbt.process_0", 40, max_decoded_node_bytes=512, max_inline_value_bytes=16, compression=None)
    move_below(base)


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def move_below(path: pathlib.Path) -> None:
    """Gives the root's manifest the base path "ocdbt.process_0/", which nodes below it take over."""
    inner = (path / "ocdbt.process_0/manifest.ocdbt").read_bytes()
    body = inner[14:-4]
    # See "The OCDBT format": uuid, kind, two varints of 2 and 4 bytes at most, arity, compression 0; then the files.
    at = 16 + 1
    for _ in range(2):
        while body[at] & 128:
            at += 1
        at += 1
    at += 1 + 1
    # Of the version before all was written, an empty one; and of the root, without a base path.
    assert body[at : at + 6] == b"\2\0\0\x22\0\0"
    base = b"ocdbt.process_0/"
    body = body[:at] + bytes([2, 0, 0, 0x22 + len(base), 0, len(base)]) + base + body[at + 6 :]
    packed = inner[:4] + (12 + 2 + len(body) + 4).to_bytes(8, "little") + b"\0\0" + body
    (path / "manifest.ocdbt").write_bytes(packed + crc32c(packed).to_bytes(4, "little"))
    shutil.move(path / "ocdbt.process_0/_METADATA", path / "_METADATA")


def made(folder: pathlib.Path) -> None:
    value = tree()
    for name, options in {"z2": {}, "z3": {"use_zarr3": True}, "plain_z2": {"use_ocdbt": False},
                          "plain_z3": {"use_ocdbt": False, "use_zarr3": True}}.items():
        save(folder / name, value, use_ocdbt=options.pop("use_ocdbt", True), **options)
    save(folder / "unpacked", {"big": value["big"], "t": value["t"]}, use_ocdbt=True, use_compression=False)
    chunks = {"save_args": {"big": ocp.SaveArgs(chunk_byte_size=2000)}}
    save(folder / "chunks_z2", {"big": value["big"]}, chunks, use_ocdbt=True)
    save(folder / "chunks_z3", {"big": value["big"]}, chunks, use_ocdbt=True, use_zarr3=True)
    save(folder / "prng", {"k": jax.random.key(1), "ks": jax.random.split(jax.random.key(2, impl="rbg"), 3)}, use_ocdbt=True)
    save(folder / "strings", {"s": "héllo", "t": {"u": "x"}}, use_ocdbt=True)
    save(folder / "leaf", jnp.ones(3), use_ocdbt=True)
    save(folder / "root_list", [jnp.ones(3), jnp.zeros(2)], use_ocdbt=True)
    save(folder / "collide", {"a": {"b": jnp.ones(1)}, "a.b": jnp.zeros(1)}, use_ocdbt=True)
    save(folder / "narrow", {"i4": jnp.arange(8, dtype=jnp.int4), "f8": jnp.ones(4, jnp.float8_e4m3fn),
                             "c": jnp.ones(2, jnp.complex64)}, use_ocdbt=True)
    rich = pytree_metadata_options.PyTreeMetadataOptions(support_rich_types=True)
    save(folder / "rich", {"t": (jnp.ones(1), None, ()), "adam": optax.adam(1e-3).init({"w": jnp.ones(2)}),
                           "l": [jnp.ones(1)], "nt": Pair(jnp.ones(1), {"x": jnp.zeros(1)})},
         use_ocdbt=True, pytree_metadata_options=rich)
    with ocp.CheckpointManager(folder / "manager", options=ocp.CheckpointManagerOptions(max_to_keep=2)) as manager:
        for step in (5, 10):
            manager.save(step, args=ocp.args.StandardSave({"w": jnp.full(3, float(step))}))
            manager.wait_until_finished()
    with ocp.CheckpointManager(folder / "items", item_names=("params", "opt", "info")) as manager:
        manager.save(1, args=ocp.args.Composite(
            params=ocp.args.StandardSave({"w": jnp.ones(3)}), opt=ocp.args.StandardSave({"mu": jnp.zeros(3)}),
            info=ocp.args.JsonSave({"lr": 0.1, "nan": float("nan")})), metrics={"loss": 1.5})
        manager.wait_until_finished()


def place(folder: pathlib.Path) -> pathlib.Path:
    """Where the arrays of a checkpoint are: it, or the item that has any."""
    for candidate in (folder, *sorted(path for path in folder.iterdir() if path.is_dir() and path.name != "dummy")):
        if (candidate / "_METADATA").exists() or (candidate / "manifest.ocdbt").exists():
            return candidate
    return folder


def arrays(folder: pathlib.Path) -> dict[str, typing.Any]:
    """What tensorstore reads, by name."""
    if (folder / "manifest.ocdbt").exists():
        base, root = {"driver": "ocdbt", "base": f"file://{folder}/"}, ""
    else:
        base, root = {"driver": "file"}, f"{folder}/"
    found = {}
    for key in ts.KvStore.open({**base, "path": root}).result().list().result():
        for ending, driver in ((".zarray", "zarr"), ("zarr.json", "zarr3")):
            text = key.decode()
            if text != ending and not text.endswith("/" + ending):
                continue
            name = text[: -len(ending)].rstrip("/")
            kvstore = {**base, "path": root + (name + "/" if name else "")}
            array = ts.open({"driver": driver, "kvstore": kvstore}).result().read().result()
            if array.dtype.name == "int4":
                array = array.astype("i1")
            data = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"))).tobytes()
            found[name] = {"shape": array.shape, "dtype": array.dtype.name, "sha256": hashlib.sha256(data).hexdigest()}
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        codecs(folder)
        processes(folder)
        made(folder)
        for name in ("v0_checkpoints", "v1_checkpoints"):
            shutil.copytree(COMPATIBILITY / name, folder / name)
        expected = {}
        marks = {path.parent for mark in ("_CHECKPOINT_METADATA", "_METADATA", "manifest.ocdbt", "array_metadatas")
                 for path in folder.rglob(mark)}
        for path in sorted(marks):
            if any(parent in marks for parent in path.parents) or path.name.startswith("ocdbt.process"):
                continue
            try:
                expected[str(path.relative_to(folder))] = arrays(place(path))
            except ValueError:  # what tensorstore refuses
                expected[str(path.relative_to(folder))] = None
        (FOLDER / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
        with tarfile.open(FOLDER / "files.tar.xz", "w:xz") as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    info = tarfile.TarInfo(str(path.relative_to(folder)))
                    info.size = path.stat().st_size
                    archive.addfile(info, io.BytesIO(path.read_bytes()))


if __name__ == "__main__":
    main()
