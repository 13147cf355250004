"""Which room each C++ file lies in, and what it must not include.

All rules say what is allowed. A file lies in the folder of a room. An include is `#include <name>` with a name and a place of
MAY_INCLUDE, or `#include "name"` with the one name of a header of ours, in a room that the file's room stands on. What could
include in another way is refused.
"""
import fnmatch
import graphlib
import pathlib
import re

# The room of each public header: what a header says belongs to a layer, though all lie in one folder.
PUBLIC = {
    "base": "bytes error file_path limits version",
    "tree": "bigint dtype key_path kind pattern value",
    "format": "detail/catalog notes",
    "read": "checkpoint walker",
    "foreign/common": "unrepresentable",
    "map": "key_map",
    "files/open": "checkpoint_file mdspan source",
    "files/delta": "save_options",
    "files/save": "file_sink save save_async save_foreign sink",
    "files/folder": "checkpoint_dir",
    "files/map": "mapped_checkpoint",
    "c": "espalier",  # the umbrella
}
ROOM_OF_PUBLIC = {f"espalier/{name}.h": room for room, names in PUBLIC.items() for name in names.split()} | {"espalier.h": "c"}
C_HEADER = "include/espalier.h"
# Headers that the build makes: a public one, and the only one with quotes that MAY_INCLUDE knows.
VERSION, GENERATED = "espalier/version.h", "espalier_generated.h"
CORE = {"base", "tree", "codec", "format", "read", "write", "delta", "report", "health", "map", "foreign"}
FOLDERS = ("include", "src", "native", "wasm", "python/core")
# What is built or fetched, and tests.
NO_SOURCES = {"wasm/build", "wasm/dist", "wasm/node_modules", "wasm/test"}
OTHER_FILES = ("src/CMakeLists.txt", "native/*CMakeLists.txt", "native/cli/*.cmake", "native/c/*.map", "wasm/.gitignore",
               "wasm/CMakeLists.txt", "wasm/LICENSE", "wasm/README.md", "wasm/*.json", "wasm/*.tgz", "wasm/examples/*.html",
               "wasm/*.mjs", "wasm/src/*.ts", "wasm/huffman_pairs.inc")
# Files or folders, and the headers of others that they may include. The core does no I/O, holds no threads and knows no
# operating system; but before it ends a program it says why.
MAY_INCLUDE = (
    ("include/espalier/ src/ native/ wasm/ python/core/",
     "algorithm array bit charconv cmath compare concepts cstddef cstdint cstring deque functional initializer_list iterator limits"
     " map memory new numeric optional set span string string_view system_error tuple type_traits unordered_map unordered_set"
     " utility variant vector"),
    ("src/ native/ python/core/", "complex"),
    ("include/espalier/checkpoint_file.h include/espalier/mapped_checkpoint.h include/espalier/save_options.h", "atomic"),
    ("include/espalier/mdspan.h", "mdspan version"),
    ("include/espalier/error.h native/", "tl/expected.hpp"),
    (C_HEADER, "stddef.h stdint.h"),
    ("src/espalier/base/misuse.cpp", "cstdio cstdlib"),
    ("src/espalier/base/real_text.cpp", "locale.h stdlib.h xlocale.h"),
    ("src/espalier/base/json_tree.cpp src/espalier/base/real_text.cpp src/espalier/foreign/safetensors/header.cpp",
     "rapidjson/error/en.h rapidjson/reader.h rapidjson/writer.h"),
    ("src/espalier/codec/", "xxhash.h xxh_x86dispatch.h zstd.h zstd_errors.h"),
    ("src/espalier/format/index.cpp", "espalier_generated.h flatbuffers/flatbuffers.h"),
    ("src/espalier/foreign/common/zstd_frame.cpp", "zstd.h zstd_errors.h"),
    ("src/espalier/foreign/zarr/unpacker.cpp", "zstd.h"),
    ("src/espalier/foreign/zip/inflate.cpp", "zlib.h"),
    ("wasm/ native/ python/core/", "cstdlib"),
    ("native/ python/core/",
     "atomic cctype cerrno chrono climits condition_variable cstdio ctime exception filesystem list mutex random semaphore"
     " shared_mutex sstream stdexcept thread"),
    ("native/files/os/ native/files/open/ native/files/save/ native/files/folder/ native/serve/ native/cli/",
     "csignal fcntl.h signal.h sys/file.h sys/ioctl.h sys/mman.h sys/resource.h sys/stat.h sys/types.h unistd.h"),
    ("native/files/os/", "linux/fs.h pthread.h sys/xattr.h"),
    ("native/serve/", "netinet/in.h netinet/tcp.h sys/random.h sys/socket.h event2/buffer.h event2/bufferevent.h event2/event.h"
     " event2/http.h event2/keyvalq_struct.h event2/listener.h event2/util.h"),
    ("native/libcurl/", "curl/curl.h dlfcn.h"),
    ("native/cli/ native/serve/", "fmt/format.h"),
    ("native/cli/", "CLI/CLI.hpp fmt/ranges.h fnmatch.h fstream mach-o/dyld.h spawn.h"),
    ("native/cli/usage/version.cpp", "zstd.h"),
    ("python/core/", "nanobind/nanobind.h nanobind/ndarray.h nanobind/stl/function.h nanobind/stl/map.h nanobind/stl/optional.h"
     " nanobind/stl/pair.h nanobind/stl/string.h nanobind/stl/string_view.h nanobind/stl/tuple.h nanobind/stl/vector.h"),
)
PLACES = {name: tuple(place for places, names in MAY_INCLUDE if name in names.split() for place in places.split())
          for _, all_names in MAY_INCLUDE for name in all_names.split()}

# What may hold a # or a quote that is none of the preprocessor's. A number's ' begins no character.
TOKEN = re.compile(
    r"""(?P<dropped>//[^\n]*|/\*.*?\*/|\b(?:u8|[uUL])?R"(?P<end>[^()\\\s]*)\(.*?\)(?P=end)")"""
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\b\d(?:'?\w)*""", re.S)
DIRECTIVE = re.compile(r"^[^\S\n]*((?:#|%:|\?\?=|(?:export\s+)?import\b)[^\n]*)", re.M)
NO_INCLUDE = re.compile(r"#\s*(?:define|elif|else|endif|error|if|ifdef|ifndef|undef|pragma (?:GCC|clang) diagnostic)\b")
INCLUDE = re.compile(r'#\s*include\s*(<[^<>]+>|"[^"]+")\s*')
HAS_INCLUDE = re.compile(r"\b__has_include\s*\(\s*(<[^<>]+>)\s*\)|__has_(?:include|embed)\w*")


def included(text):
    """What a file includes or asks for, with its brackets or quotes. A directive of any other form stands here whole."""
    code = TOKEN.sub(lambda token: " " if token["dropped"] else token[0], re.sub(r"\\[^\S\n]*\n", "", text))
    for line in DIRECTIVE.findall(code):
        plain = INCLUDE.fullmatch(line)
        if plain or not NO_INCLUDE.match(line):
            yield plain[1] if plain else line
    for asked in HAS_INCLUDE.finditer(code):
        yield asked[1] or asked[0]


def fault_of(name, target, rooms, headers):
    """Why the file `name` must not include `target`; empty if it may. `headers` has the room of each header of ours."""
    header = target[1:-1]
    if target.startswith("<") or header == GENERATED:
        return "" if name.startswith(PLACES.get(header, ())) else "it is on no list for this place (MAY_INCLUDE in cpp_rooms.py)"
    if not target.startswith('"') or header not in headers:
        return 'write #include <name>, or #include "name" with the whole name of a header of ours'
    if name.startswith("include/") and header not in ROOM_OF_PUBLIC:
        return "it is not installed"
    if name == C_HEADER:
        return "it is not C"
    own, other = room_of(name, rooms), headers[header]
    return "" if other == own or other in rooms.get(own, ()) else f"{own} must not depend on {other}"


def folder_of(room):
    if room.split("/")[0] in CORE:
        return f"src/espalier/{room}"
    return {"wasm": "wasm", "python": "python/core"}.get(room, f"native/{room}")


def room_of(name, rooms):
    """Of a file of ours, by its folder; `include` has rooms by name. Empty if there is none."""
    if name.startswith("include/"):
        return ROOM_OF_PUBLIC.get(name.removeprefix("include/"), "")
    return {folder_of(room): room for room in rooms}.get(name.rpartition("/")[0], "")


def include_name(name):
    return re.sub(r"^(?:include|src|native|wasm|python/core)/", "", name)


def circle_of(graph):
    """One circle of a graph, as a text; empty if it has none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return ", ".join(map(str, error.args[1]))
    return ""


def read_files(root):
    """From the name of each file where sources lie to its text: None for a link, empty for what is no C++."""
    found, folders = {}, [root / folder for folder in FOLDERS]
    for folder in folders:
        for path in folder.iterdir():
            name = path.relative_to(root).as_posix()
            if path.is_dir() and not path.is_symlink():
                folders += [path] if name not in NO_SOURCES else []
            else:
                found[name] = None if path.is_symlink() else path.read_text() if path.suffix in (".h", ".cpp") else ""
    return dict(sorted(found.items()))


def faults(files, rooms):
    """What is wrong with files, as read_files() gives them, if the rooms stand on each other as `rooms` says."""
    names = [name for name in files if pathlib.PurePath(name).suffix in (".h", ".cpp")]
    found = [f"{name} is a link" for name, text in files.items() if text is None]
    found += [f"{name} is neither .h nor .cpp, and not in OTHER_FILES of cpp_rooms.py" for name in files
              if name not in names and not any(fnmatch.fnmatchcase(name, other) for other in OTHER_FILES)]
    found += [f"{name} lies in no room of docs/architecture.md" for name in names if room_of(name, rooms) not in rooms]
    held = {name.rpartition("/")[0] for name in names}
    found += [f"docs/architecture.md has the room {room}, and {folder_of(room)} has no sources" for room in rooms if folder_of(room) not in held]
    headers = {VERSION: ROOM_OF_PUBLIC[VERSION]}
    for name in filter(lambda name: name.endswith(".h"), names):
        if include_name(name) in headers or include_name(name) in PLACES:
            found.append(f"{name}: another header is included by the same name")
        headers[include_name(name)] = room_of(name, rooms)
    targets = {name: list(dict.fromkeys(included(files[name] or ""))) for name in names}
    found += [f"{name} includes {target}: {fault}" for name in names for target in targets[name]
              if (fault := fault_of(name, target, rooms, headers))]
    circle = circle_of({include_name(name): [target[1:-1] for target in targets[name] if target[1:-1] in headers]
                        for name in names if name.endswith(".h")})
    return found + ([f"headers include each other in a circle: {circle}"] if circle else [])
