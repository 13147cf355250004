"""Ends the program with a sentence if a package that it needs is missing. Import this first."""

import importlib.util
import sys

_DEBIAN = {"numpy": "python3-numpy", "xxhash": "python3-xxhash", "zstandard": "python3-zstandard"}
_missing = [name for name in _DEBIAN if importlib.util.find_spec(name) is None]

if _missing:
    print(
        f"{sys.executable} lacks the Python packages {' and '.join(_missing)}, without which "
        f"nothing was tested (Debian: {' '.join(_DEBIAN[name] for name in _missing)})",
        file=sys.stderr,
    )
    sys.exit(1)
