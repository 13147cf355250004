"""Opens a file in a viewer for terminals: `terminal.py LIMIT PATTERN PROGRAM ARGUMENT...`. Prints the outcome."""

import json
import os
import pty
import re
import select
import signal
import sys
import time

MEMORY_LIMIT = 6 << 30


def main():
    limit, pattern = float(sys.argv[1]), re.compile(sys.argv[2])
    start = time.monotonic()
    child, terminal = pty.fork()
    if child == 0:
        os.environ |= {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
        os.execv(sys.argv[3], sys.argv[3:])
    seen, outcome, read, peak = "", "", 0, 0
    while not outcome:
        if select.select([terminal], [], [], 0.02)[0]:
            try:
                seen += os.read(terminal, 1 << 16).decode(errors="replace")
            except OSError:
                outcome = "ends"
        # Colours and cursor movements are not part of the text.
        plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][AB0]", " ", seen)
        read, peak = facts(child, read, peak)
        if pattern.search(plain):
            outcome = "shown"
        elif found := re.search(r"Failed to [^\n\u2502]{0,120}|\w*Error: [^\n\u2502]{0,120}", plain):
            outcome = "error: " + " ".join(found.group().split())
        elif time.monotonic() - start > limit:
            outcome = f"hangs: nothing shown after {limit:.0f} s"
        elif peak > MEMORY_LIMIT:
            outcome = f"stopped: its process took more than {MEMORY_LIMIT >> 30} GiB"
    if outcome == "ends":
        words = [line.strip() for line in plain.splitlines() if re.search(r"[Ee]rror|invalid", line)]
        outcome = "error: " + (words or [plain.strip()[-200:]])[-1][:200]
    took = time.monotonic() - start
    try:
        os.kill(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    os.waitpid(child, 0)
    print(json.dumps({"outcome": outcome, "ms": took * 1e3, "read": read, "peak": peak, "idle": 0,
                      "text": " ".join(plain.split())[-300:]}))


def facts(child, read, peak):
    try:
        read = int(re.search(r"^rchar: (\d+)", open(f"/proc/{child}/io").read(), re.M).group(1)) or read
        peak = 1024 * int(re.search(r"^VmHWM:\s+(\d+)", open(f"/proc/{child}/status").read(), re.M).group(1))
    except (OSError, AttributeError):
        pass
    return read, peak


if __name__ == "__main__":
    main()
