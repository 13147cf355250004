"""Damages small files at every byte, and cuts them at every length: each must be refused with one clear line.

Environment: ESPALIER, the program. Last line: "N passed, N failed".
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ESPALIER = os.environ["ESPALIER"]
GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
FILES = ("tied", "metadata")
LINE = re.compile(r"\Aespalier: [^\n]+ \(code [a-z_]+, at byte \d+[^\n]*\)\n\Z")

passed = 0
failures = []


def check(what, content, folder):
    """`convert` reads everything, so it must find every damage: exit code 3, and nothing written."""
    global passed
    source, target = folder / "bad.espalier", folder / "out.espalier"
    source.write_bytes(content)
    done = subprocess.run([ESPALIER, "convert", source, target], capture_output=True, text=True, timeout=60)
    if done.returncode == 3 and LINE.match(done.stderr) and not done.stdout and not target.exists():
        passed += 1
    else:
        failures.append(f"{what}: exit code {done.returncode}, {done.stderr.strip()!r}")
        target.unlink(missing_ok=True)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for stem in FILES:
            whole = (GOLDEN / f"{stem}.espalier").read_bytes()
            for at in range(len(whole)):
                # A different bit each time; every one of the eight comes up in every field.
                flipped = bytearray(whole)
                flipped[at] ^= 1 << (at * 5 % 8)
                check(f"{stem} with byte {at} changed", bytes(flipped), folder)
                check(f"{stem} cut to {at} bytes", whole[:at], folder)
            for extra in (b"\0", b"x", b"\0" * 64, whole):
                check(f"{stem} with {len(extra)} bytes more", whole + extra, folder)
    for failure in failures[:20]:
        print(failure)
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
