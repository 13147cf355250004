"""Times ways of doing the same in one process, by turns: what the benchmarks of the Python package share."""

import gc
import json
import statistics
import time

import numpy as np

ROWS = []


def touch_memory():
    """Writes to most of the free memory, once: on many virtual machines its first use ever takes ten times as long."""
    with open("/proc/meminfo") as lines:
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    block = np.empty(int(free * 0.8), np.uint8)
    block[::4096] = 1


def by_turns(ways, rounds):
    """Runs each of `ways` once in each round, and returns their seconds. Frees each result before the next run."""
    samples = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, work in ways.items():
            gc.collect()
            start = time.perf_counter()
            result = work()
            elapsed = time.perf_counter() - start
            del result
            if number > 0:  # The first round warms up.
                samples[name].append(elapsed)
    return samples


def report(title, samples, unit, scale, bar=None):
    ours = statistics.median(samples["espalier"])
    row = {"figure": title, "unit": unit, "bar": bar}
    row.update({name: round(statistics.median(each) * scale, 3) for name, each in samples.items()})
    row["ratios"] = {
        name: round(ours / statistics.median(each), 3) for name, each in samples.items() if name != "espalier"
    }
    print(json.dumps(row), flush=True)
    ROWS.append(row)


def table(peers):
    """The rows for docs, with a column for each of `peers`. A way's first word is its column, and the others say what is special in it."""
    lines = [f"| | Espalier | {' | '.join(peers)} |", "|---" * (len(peers) + 2) + "|"]
    for row in ROWS:
        cells = {peer: [] for peer in ("espalier", *peers)}
        for name, value in row.items():
            column, _, note = name.partition(" ")
            if column not in cells:
                continue
            # Two digits at least, and no more than three.
            digits = max(0, 1 - int(np.floor(np.log10(value)))) if 0 < value < 10 else 0
            ratio = row["ratios"].get(name)
            shown = "" if ratio is None or column == "espalier" else f"{ratio:.2f}x"
            shown = f"**{shown}**" if shown and ratio > 1 else shown
            what = ", ".join(part for part in (note, shown) if part)
            cells[column].append(f"{value:,.{digits}f} {row['unit']}" + (f" ({what})" if what else ""))
        lines.append(f"| {row['figure']} | " + " | ".join(", ".join(cell) for cell in cells.values()) + " |")
    return "\n".join(lines).replace(" us", " µs")
