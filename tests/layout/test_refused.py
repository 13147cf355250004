"""Holds that the checks of the layout refuse what they should, and nothing else: a small tree is broken in each way."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import cpp_rooms
import python_imports
from report import check, end_of_checks

ROOMS = {room: {"base"} for room in cpp_rooms.ROOM_OF_PUBLIC.values()} | {"base": set(), "files/os": {"base"}, "wasm": {"read", "base"}}
CPP = {f"{cpp_rooms.folder_of(room)}/main.cpp": "" for room in ROOMS} | {
    "include/espalier/value.h": '#include <vector>\n#include "espalier/version.h"',
    "include/espalier.h": "#include <stdint.h>",
    "src/espalier/base/arena.h": "",
    "src/espalier/base/arena.cpp": '#include "espalier/base/arena.h"',
    "src/espalier/read/opener.h": '#include "espalier/base/arena.h"',
    "native/files/os/parallel.h": "#include <thread>",
    "wasm/abi.h": '#include "espalier/read/opener.h"',
    "wasm/huffman_pairs.inc": "",
}
# Of a file in base, which may include headers of base and public ones of its layer.
ALLOWED_IN_BASE = [
    "#include <vector>", "  #  include <vector>  // why", '#include "espalier/base/arena.h"', '#include "espalier/version.h"',
    "/* of old:\n#include <thread>\n*/", 'const char* text = R"(\n#include <thread>\n)";', '#define A "#include <thread>" \\\n  "b"',
    "auto n = 1'000; // 'it", "#if defined(A) && A(1)\n#elif B\n#else\n#endif", 'char quote = \'"\'; // #include <thread>',
]
REFUSED_IN_BASE = [
    # Ways to another room.
    '#include "espalier/read/opener.h"', "#include <espalier/read/opener.h>", '#include "../read/opener.h"',
    '#include "../../../native/files/os/parallel.h"', '#include "espalier/base/../read/opener.h"', '#include "files/os/parallel.h"',
    '#include "abi.h"', '#include "read/opener.h"', '#include "Espalier/read/opener.h"', '#include "espalier//read/opener.h"',
    '#define H "espalier/base/arena.h"\n#include H', '%:include "espalier/base/arena.h"', '??=include "espalier/base/arena.h"',
    '/**/ #include "espalier/read/opener.h"', '/*\n*/#include "espalier/read/opener.h"', '#\\\ninclude "espalier/read/opener.h"',
    '#incl\\\nude "espalier/read/opener.h"', '# /* */ include "espalier/read/opener.h"', '\\\n#include "espalier/read/opener.h"',
    'R"(\n)" ;\n#include "espalier/read/opener.h"', "auto n = 1'0; auto c = '\"';\n#include \"espalier/read/opener.h\"",
    # Other directives.
    '#import "espalier/base/arena.h"', '#include_next "espalier/base/arena.h"', '#embed "espalier/base/arena.h"', 'import "espalier/base/arena.h";',
    "export import <vector>;", "#pragma once", '# 1 "arena.h"',
    # What is no header, or has another name.
    '#include "espalier/base/arena.cpp"', '#include "espalier/base/arena.inc"', '#include "espalier/base/arena.hpp"', '#include "arena.h"',
    '#include "espalier/base/none.h"', "#include <espalier/espalier.h>", "#include <espalier.h>", '#include "vector"', '#include "huffman_pairs.inc"',
    # Threads, input and output, the operating system, and libraries.
    *(f"#include <{name}>" for name in "semaphore ostream print latch barrier stop_token syncstream dlfcn.h poll.h dirent.h Windows.h thread "
      "cstdio event.h evhttp.h event2/event.h curl/curl.h flatbuffers/flatbuffers.h espalier_generated.h".split()),
    '#include "espalier_generated.h"', '#include "../generated/espalier_generated.h"', '#include "generated/espalier_generated.h"', '#include "thread"',
    # Asking for a header.
    "#if __has_include(<espalier/base/arena.h>)\n#endif", '#if __has_include("espalier/base/arena.h")\n#endif', "#if __has_include(<thread>)\n#endif",
    "#ifdef __has_include\n#endif", "#if __has_include(H)\n#endif", "#if __has_include_next(<vector>)\n#endif",
]
# Other files that break the tree.
REFUSED_CPP = [
    {"include/espalier/value.h": '#include "espalier/base/arena.h"'}, {"include/espalier/value.h": "#include <espalier/base/arena.h>"},
    {"include/espalier/value.h": "#if __has_include(<espalier/base/arena.h>)\n#endif"}, {"include/espalier/value.h": "#include <filesystem>"},
    {"include/espalier.h": '#include "files/os/parallel.h"'}, {"include/espalier.h": '#include "espalier/version.h"'},
    {"include/espalier.h": "#include <vector>"}, {"include/espalier/other.h": ""}, {"include/other.h": ""},
    {"src/espalier/base/a.cc": ""}, {"src/espalier/base/a.hpp": ""}, {"src/espalier/base/a.inc": ""}, {"src/espalier/base/a.H": ""},
    {"src/espalier/nowhere/a.hpp": ""}, {"src/espalier/nowhere/a.h": ""}, {"src/espalier/a.h": ""}, {"src/a.h": ""}, {"native/a.cpp": ""},
    {"src/espalier/base/read": None}, {"src/espalier/base/a.h": None},
    {"native/base/a.h": ""}, {"native/read/a.cpp": ""}, {"src/espalier/files/os/a.h": ""}, {"src/base/a.h": ""}, {"native/wasm/a.h": ""},
    {"wasm/read/a.h": ""}, {"wasm/deep/a.h": ""}, {"wasm/thread.inc": ""}, {"wasm/version.h": "", "native/version.h": ""},
    {"wasm/unistd.h": ""}, {"wasm/espalier/version.h": ""}, {"native/files/os/parallel.h": '#include "abi.h"'},
    # Circles.
    {"src/espalier/base/arena.h": '#include "espalier/base/a.h"', "src/espalier/base/a.h": '#include "espalier/base/arena.h"'},
    {"src/espalier/base/arena.h": '#include "espalier/base/arena.h"'},
    {"include/espalier/value.h": '#include "espalier/pattern.h"', "include/espalier/pattern.h": '#include "espalier/value.h"'},
]

PYTHON = {
    "__init__.py": "from ._core import VERSION\nif TYPE_CHECKING:\n    from .a import A\nelse:\n    def __getattr__(name): pass",
    "a.py": "from .b import B",
    "b.py": "",
    "c.py": "",
    "torch/__init__.py": "def __getattr__(name): pass",
    "torch/_load.py": "from .. import b",
    "compat/__init__.py": "from .d import D",
    "compat/d.py": "",
}
# What `b.py` may hold.
ALLOWED_IN_B = [
    "def f():\n    from .a import A", "f = lambda: g(a)", "if TYPE_CHECKING:\n    from .a import A", "from .c import C", "from . import c, _core",
    "import numpy as np", "try:\n    import torch\nexcept ImportError:\n    torch = None", "from collections import abc",
]
REFUSED_IN_B = [
    "from .a import A", "from . import a", "from espalier.a import A", "import espalier.a", "import espalier.a as a", "import espalier",
    "from espalier import a", "try:\n    from .a import A\nexcept ImportError:\n    pass", "if True:\n    from .a import A",
    "if not TYPE_CHECKING:\n    from .a import A", "if TYPE_CHECKING:\n    pass\nelse:\n    from .a import A", "with x:\n    from .a import A",
    "class C:\n    from .a import A", "for i in x:\n    from .a import A", "match x:\n    case 1:\n        from .a import A",
    "import importlib\nimportlib.import_module('.a', 'espalier')", "def f():\n    import importlib", "__import__('espalier.a')",
    "f = lambda: __import__('espalier.a')", "exec('import espalier.a')", "from importlib import import_module", "import importlib.util",
    "from . import open", "from . import *", "from . import torch", "from .torch import load", "from .torch._load import load", "from .none import C",
]
# What _frameworks.py, which may import by name, may not hold.
REFUSED_IN_FRAMEWORKS = [
    "import importlib\nimportlib.import_module('.a', 'espalier')", "import importlib\nimportlib.import_module('espalier.a')", "import importlib as i",
    "import importlib\nf = importlib.import_module", "from importlib import import_module", "import importlib\nimportlib.import_module(name)",
]


def cpp(more):
    return cpp_rooms.faults(CPP | more, ROOMS)


def check_cpp():
    for text in ALLOWED_IN_BASE:
        found = cpp({"src/espalier/base/a.cpp": text})
        check(not found, f"refused: {text}: {found}")
    for text in REFUSED_IN_BASE:
        check(cpp({"src/espalier/base/a.cpp": text}), f"not refused: {text}")
    for files in REFUSED_CPP:
        check(cpp(files), f"not refused: {files}")
    check(cpp_rooms.faults(CPP, ROOMS | {"write": set()}), "not refused: a room without sources")


def python(more):
    return python_imports.faults(PYTHON | more, "espalier")


def check_python():
    for text in ALLOWED_IN_B:
        found = python({"b.py": text})
        check(not found, f"refused: {text}: {found}")
    for text in REFUSED_IN_B:
        check(python({"b.py": text}), f"not refused: {text}")
    check(python({"compat/d.py": "from . import D"}), "not refused: a package's name in its own module")
    by_name = "import importlib\ntorch = importlib.import_module('torch')\ndef f(name):\n    importlib.import_module(name)"
    check(not python({"_frameworks.py": by_name}), f"refused: {by_name}")
    for text in REFUSED_IN_FRAMEWORKS:
        check(python({"_frameworks.py": text}), f"not refused: {text}")


if __name__ == "__main__":
    check_cpp()
    check_python()
    sys.exit(end_of_checks(100))
