"""A chart of lines and dots as SVG, for the pictures of docs/serve. Nothing but the standard library."""
import math
from xml.sax.saxutils import escape

COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]
WIDTH, HEIGHT = 760, 430
LEFT, RIGHT, TOP, BOTTOM = 74, 218, 44, 58


class Chart:
    """One coordinate system; the legend stands at its right, in the order in which things were added."""

    def __init__(self, title, x_label, y_label, log_x=False, log_y=False):
        self.title, self.x_label, self.y_label = title, x_label, y_label
        self.log_x, self.log_y = log_x, log_y
        self.series = []

    def line(self, label, colour, points, dashed=False, dots=False):
        self.series.append((label, COLOURS[colour % len(COLOURS)], sorted(points), True, dashed, dots))

    def dots(self, label, colour, points):
        self.series.append((label, COLOURS[colour % len(COLOURS)], sorted(points), False, False, True))

    def write(self, path):
        with open(path, "w") as file:
            file.write(self.svg())

    def svg(self):
        xs = [x for series in self.series for x, _ in series[2]]
        ys = [y for series in self.series for _, y in series[2]]
        x_axis = Axis(xs, self.log_x, LEFT, WIDTH - RIGHT)
        y_axis = Axis(ys, self.log_y, HEIGHT - BOTTOM, TOP, from_zero=True)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
            f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            text((LEFT + WIDTH - RIGHT) / 2, 24, self.title, "middle", 'font-size="15" fill="#222222"'),
        ]
        parts += grid(x_axis, y_axis)
        parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, self.x_label, "middle", 'fill="#222222"'))
        middle = (TOP + HEIGHT - BOTTOM) / 2
        turned = f'fill="#222222" transform="rotate(-90 18 {middle})"'
        parts.append(text(18, middle, self.y_label, "middle", turned))
        for index, series in enumerate(self.series):
            parts += draw(series, x_axis, y_axis)
            parts += legend(series, TOP + 12 + 20 * index)
        return "\n".join(parts + ["</svg>", ""])


class Axis:
    """From values to pixels: linear, from 0 where that is wished, or logarithmic in whole decades or doublings."""

    def __init__(self, values, log, first, last, from_zero=False):
        self.log, self.first, self.last = log, first, last
        if log:
            low, high = math.log10(min(values)), math.log10(max(values))
            whole = from_zero
            self.low = math.floor(low + 1e-9) if whole else low
            self.high = math.ceil(high - 1e-9) if whole else high
            self.ticks = decades(self.low, self.high) if whole else sorted(set(values))
        else:
            high = max(values)
            low = 0 if from_zero else min(values)
            step = nice((high - low) / 6 or 1)
            self.low = math.floor(low / step) * step
            self.high = math.ceil(high / step) * step
            self.ticks = [self.low + step * tick for tick in range(round((self.high - self.low) / step) + 1)]
        if self.high == self.low:
            self.high += 1

    def at(self, value):
        position = math.log10(value) if self.log else value
        return self.first + (self.last - self.first) * (position - self.low) / (self.high - self.low)


def decades(low, high):
    return [10**exponent for exponent in range(round(low), round(high) + 1)]


def nice(step):
    """The next of 1, 2, 5, 10, ... from `step` on."""
    magnitude = 10 ** math.floor(math.log10(step))
    return next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= step * 0.999)


def number(value):
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    if value >= 1e4:
        return f"{value / 1e3:g}k"
    return f"{value:g}"


def grid(x_axis, y_axis):
    parts = []
    for tick in y_axis.ticks:
        y = y_axis.at(tick)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#e4e4e4"/>')
        parts.append(text(LEFT - 8, y + 4, number(tick), "end", 'fill="#555555"'))
    for tick in x_axis.ticks:
        x = x_axis.at(tick)
        parts.append(f'<path d="M{x:.1f} {HEIGHT - BOTTOM}v5" stroke="#888888"/>')
        parts.append(text(x, HEIGHT - BOTTOM + 19, number(tick), "middle", 'fill="#555555"'))
    parts.append(f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="#888888"/>')
    return parts


def draw(series, x_axis, y_axis):
    _, colour, points, line, dashed, dots = series
    places = [(x_axis.at(x), y_axis.at(y)) for x, y in points]
    parts = []
    if line:
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes(dashed)}/>')
    if dots:
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places]
    return parts


def legend(series, y):
    label, colour, _, line, dashed, dots = series
    x = WIDTH - RIGHT + 16
    parts = []
    if line:
        parts.append(f'<path d="M{x} {y}h24" stroke="{colour}" stroke-width="2"{dashes(dashed)}/>')
    if dots:
        parts.append(f'<circle cx="{x + 12}" cy="{y}" r="3.5" fill="{colour}"/>')
    return parts + [text(x + 32, y + 4, label, "start", 'fill="#222222"')]


def dashes(dashed):
    return ' stroke-dasharray="6 4"' if dashed else ""


def text(x, y, words, anchor, more):
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" {more}>{escape(words)}</text>'
