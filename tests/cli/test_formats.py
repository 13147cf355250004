"""The table of docs/formats.md is what `espalier help formats` prints. With --write, makes it so."""
import os
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/formats.md"
BLOCK = re.compile(r"(\$ espalier help formats\n)(.*?)(?=```)", re.DOTALL)

if __name__ == "__main__":
    printed = subprocess.run([os.environ["ESPALIER"], "help", "formats"], capture_output=True, text=True, check=True).stdout
    text = PAGE.read_text(encoding="utf-8")
    assert len(BLOCK.findall(text)) == 1, f"{PAGE} has no block that begins with $ espalier help formats"
    wanted = BLOCK.sub(lambda match: match[1] + printed, text)
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(wanted, encoding="utf-8")
    elif text != wanted:
        sys.exit(f"{PAGE} lists other formats than the program; {sys.argv[0]} --write mends it")
