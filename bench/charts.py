"""Small charts as SVG text, readable on light and on dark pages."""

import html
import math

STYLE = """<style>
text { font: 12px sans-serif; fill: #24292f } .faint { fill: #57606a } .grid { stroke: #d0d7de }
.c0 { fill: #0969da; stroke: #0969da } .c1 { fill: #8c959f; stroke: #8c959f } .c2 { fill: #bc4c00; stroke: #bc4c00 }
.c3 { fill: #1a7f37; stroke: #1a7f37 } .c4 { fill: #8250df; stroke: #8250df } .c5 { fill: #bf3989; stroke: #bf3989 }
.line { fill: none; stroke-width: 2 } rect { stroke: none }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .faint { fill: #8d96a0 } .grid { stroke: #30363d }
.c0 { fill: #4493f8; stroke: #4493f8 } .c1 { fill: #6e7681; stroke: #6e7681 } .c2 { fill: #f0883e; stroke: #f0883e }
.c3 { fill: #3fb950; stroke: #3fb950 } .c4 { fill: #ab7df8; stroke: #ab7df8 } .c5 { fill: #db61a2; stroke: #db61a2 }
.line { fill: none } rect { stroke: none } }
</style>"""
WIDTH, LEFT, LINE, COLOURS = 720, 190, 18, 6


def document(height, title, body):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'height="{height}" role="img"><title>{html.escape(title)}</title>\n{STYLE}\n'
            + "\n".join([label(10, 20, title), *body]) + "\n</svg>\n")


def label(x, y, text, anchor="start", kind=""):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" class="{kind}">{html.escape(text)}</text>'


def shown(value):
    """Four digits, or all of a larger number: ratios differ in the third."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.4g}"


def bars(title, groups, unit):
    """`groups`: by name, a dict of a bar's name to its value. Names that begin with ours are coloured."""
    most = max((value for group in groups.values() for value in group.values()), default=1)
    y, body = 34, []
    for name, group in groups.items():
        body.append(label(10, y + 13, name, kind="faint"))
        y += LINE
        for bar, value in group.items():
            length = (WIDTH - LEFT - 90) * value / most
            colour = "c0" if bar.startswith("espalier") else "c1"
            body += [label(LEFT - 8, y + 13, bar, "end"),
                     f'<rect class="{colour}" x="{LEFT}" y="{y + 2}" width="{max(length, 1):.1f}" height="{LINE - 5}"/>',
                     label(LEFT + length + 6, y + 13, f"{shown(value)} {unit}".strip())]
            y += LINE
        y += 8
    return document(y + 4, title, body)


def lines(title, series, x_title, y_title):
    """Both axes logarithmic. `series`: by name, a list of (x, y), all above 0."""
    top, bottom, right = 52, 342, WIDTH - 160
    points = [point for line in series.values() for point in line]
    (x_low, x_high), (y_low, y_high) = (
        (math.floor(math.log10(min(p[i] for p in points))), math.ceil(math.log10(max(p[i] for p in points))))
        for i in (0, 1))

    def place(point):
        return (70 + (math.log10(point[0]) - x_low) / max(x_high - x_low, 1) * (right - 70),
                bottom - (math.log10(point[1]) - y_low) / max(y_high - y_low, 1) * (bottom - top))
    body = []
    for power in range(x_low, x_high + 1):
        x = place((10 ** power, 10 ** y_low))[0]
        body += [f'<line class="grid" x1="{x:.0f}" y1="{top}" x2="{x:.0f}" y2="{bottom}"/>',
                 label(x, bottom + 16, f"1e{power}", "middle", "faint")]
    for power in range(y_low, y_high + 1):
        y = place((10 ** x_low, 10 ** power))[1]
        body += [f'<line class="grid" x1="70" y1="{y:.0f}" x2="{right}" y2="{y:.0f}"/>',
                 label(64, y + 4, f"1e{power}", "end", "faint")]
    ends = -math.inf
    for i, (name, line) in sorted(enumerate(series.items()), key=lambda s: place(s[1][1][-1])[1]):
        shown = " ".join("{:.1f},{:.1f}".format(*place(point)) for point in line)
        ends = max(ends + 14, place(line[-1])[1] + 4)
        body += [f'<polyline class="line c{i % COLOURS}" style="fill:none" points="{shown}"/>',
                 f'<rect class="c{i % COLOURS}" x="{right + 10}" y="{ends - 9:.0f}" width="10" height="10"/>',
                 label(right + 26, ends, name)]
    body += [label((70 + right) / 2, bottom + 34, x_title, "middle"), label(10, top - 14, y_title, kind="faint")]
    return document(bottom + 44, title, body)
