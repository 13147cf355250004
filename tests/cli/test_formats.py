#!/usr/bin/env python3
"""The table of docs/formats.md is what `espalier help formats` prints. With --write, makes it so.

Usage: [ESPALIER=path/to/espalier] test_formats.py [--write], by default with the program of the preset `release`.
"""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/formats.md"
ESPALIER = os.environ.get("ESPALIER") or ROOT / "build/release/espalier"
BLOCK = re.compile(r"(\$ espalier help formats\n)(.*?)(?=```)", re.DOTALL)

if __name__ == "__main__":
    printed = subprocess.run([ESPALIER, "help", "formats"], capture_output=True, text=True, check=True).stdout
    text = PAGE.read_text(encoding="utf-8")
    assert len(BLOCK.findall(text)) == 1, f"{PAGE} has no block that begins with $ espalier help formats"
    wanted = BLOCK.sub(lambda match: match[1] + printed, text)
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(wanted, encoding="utf-8")
    elif text != wanted:
        sys.exit(f"{PAGE} lists other formats than the program; ESPALIER={ESPALIER} {sys.argv[0]} --write mends it")
