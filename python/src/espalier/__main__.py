"""`python -m espalier ARGUMENTS` is `espalier ARGUMENTS`: the C++ library's program, which the wheel does not hold."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig


def _program() -> str | None:
    """The program beside this Python, in its environment, or on the PATH."""
    beside = [os.path.dirname(sys.executable), sysconfig.get_path("scripts")]
    return shutil.which("espalier", path=os.pathsep.join(filter(None, beside))) or shutil.which("espalier")


def main() -> None:
    program = _program()
    if program is None:
        sys.exit(
            "espalier: the command line is a program of its own, and it is not beside this Python or on the PATH; "
            "build it as README.md of the repository says, and put it there"
        )
    os.execv(program, ["espalier", *sys.argv[1:]])


if __name__ == "__main__":
    main()
