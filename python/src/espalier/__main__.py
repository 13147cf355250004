"""`espalier ARGUMENTS`, and `python -m espalier ARGUMENTS`: starts the program that lies in this package."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig


def _program() -> str | None:
    """The program of this package; in one that was built without it, that beside this Python or on the PATH.

    Never the script that pip wrote for this function: it would start itself for ever.
    """
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program", "espalier")
    if os.path.isfile(own):
        return own
    beside = [os.path.dirname(sys.executable), sysconfig.get_path("scripts")]
    for folder in filter(None, [*beside, *os.environ.get("PATH", os.defpath).split(os.pathsep)]):
        found = shutil.which("espalier", path=folder)
        if found is not None and not _is_script(found):
            return found
    return None


def _is_script(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return b"espalier.__main__" in file.read(4096)
    except OSError:
        return True


def main() -> None:
    program = _program()
    if program is None:
        sys.exit(
            "espalier: this package was built without the command line, for which libevent was missing, and it is not beside this "
            "Python or on the PATH; build it as README.md of the repository says, and put it there"
        )
    os.execv(program, ["espalier", *sys.argv[1:]])


if __name__ == "__main__":
    main()
