"""The show's screen: both shops side by side, the news below, and the keys."""
import locale
import os
import sys
import termios
import time

from table import EXACT, NAIVE, TITLES, missed, oversold

PLAIN, DIM, BOLD, RED, GREEN, YELLOW, ALARM = ("\033[0m", "\033[0;2m", "\033[0;1m", "\033[0;31m", "\033[0;32m",
                                               "\033[0;33m", "\033[0;1;37;41m")
HELP = "keys  kill -9: s a server, r Redis, c a client   f freeze the holders   q quit"
FIRST_ROW, NEWS_ROW = 3, 17
LIMITS = (1, 3, 10, 30, 100, 300, 1000)  # ms: the steps of the bars


class Screen:
    NEWS = 6  # lines

    def __init__(self):
        locale.setlocale(locale.LC_CTYPE, "")
        self.utf8 = locale.nl_langinfo(locale.CODESET) == "UTF-8"
        self.before = None
        self.entered = False
        self.has_keys = sys.stdin.isatty()

    def enter(self):
        if self.has_keys:
            self.before = termios.tcgetattr(0)
            mode = termios.tcgetattr(0)
            mode[3] &= ~(termios.ICANON | termios.ECHO)
            mode[6][termios.VSUSP] = b"\0"  # a stopped show would not restore the screen
            termios.tcsetattr(0, termios.TCSANOW, mode)
        self.entered = True
        self.write("\033[?1049h\033[?25l\033[2J")

    def leave(self):
        if self.before:
            termios.tcsetattr(0, termios.TCSANOW, self.before)
        if self.entered:
            self.write("\033[0m\033[?25h\033[?1049l")
        self.before, self.entered = None, False

    @staticmethod
    def write(text):
        sys.stdout.write(text)
        sys.stdout.flush()

    @staticmethod
    def size():
        try:
            columns, rows = os.get_terminal_size(1)
        except OSError:
            columns, rows = 0, 0
        return rows or 24, columns or 80

    def keys(self):
        return [0] if self.has_keys else []

    def read_keys(self):
        data = os.read(0, 64)
        self.has_keys = bool(data)
        return list(data.decode(errors="replace"))

    def show(self, grid):
        """Draws a grid of cells of one character each, so that no text passes an edge."""
        text = []
        for row, cells in enumerate(grid):
            text.append(f"\033[{row + 1};1H")  # a newline could scroll
            style = None
            for how, character in cells:
                text.append((how if how != style else "") + character)
                style = how
        self.write("".join(text) + PLAIN)


def put(grid, row, column, end, how, text):
    if row < len(grid):
        for i, character in enumerate(text[:max(0, min(end, len(grid[0])) - column)]):
            grid[row][column + i] = (how, character)


def count(label, n, how=PLAIN):
    return how, f"{label:23}{n:>8,}" if isinstance(n, int) else f"{label:23}{n:>8}"


def told_rows(side):
    gave_up = side.count("none")
    return [count("bought", side.count("bought"), BOLD), count("told sold out", side.count("sold-out")),
            count("waiting", side.count("asks")), count("gave up, no answer", gave_up, RED if gave_up else PLAIN)]


def naive_rows(show):
    side = show.sides[NAIVE]
    lost, not_counted, over = side.lost(), missed(show), oversold(show, NAIVE)
    if show.stuck:
        lock = (ALARM, "its lock has no end: no buyer gets in")
    elif show.options.naive == "decr":
        lock = (DIM, "no lock")
    else:
        lock = (DIM, f"lock: client {side.holder.index + 1}, which pays" if side.holder else "lock: no client pays")
    return [(RED, f"BY HAND: {TITLES[show.options.naive]}"), *told_rows(side),
            count("left, as it counts", str(show.left)), count("in doubt, tried anew", lost, RED if lost else PLAIN), lock, (PLAIN, ""),
            count("SOLD TWICE", not_counted, RED if not_counted else PLAIN),
            count("OVERSOLD", over, ALARM if over else PLAIN)]


def exact_rows(show):
    side = show.sides[EXACT]
    over = oversold(show, EXACT)
    till = f"client {side.holder.index + 1}" if side.holder else "changes hands"
    rows = [(GREEN, "LOCKSTOCK: Deduct, by an order id"), *told_rows(side)]
    for label, n, how in (("answer lost: MAYBE", side.lost(), YELLOW), ("... and then known", side.known(), GREEN),
                          ("... replayed", side.replayed(), GREEN)):
        rows.append(count(label, n, how if n else PLAIN))
    return [*rows, (DIM, f"till (lks_mutex): {till}"),
            count("late writes refused", show.late, GREEN if show.late else PLAIN),
            count("OVERSOLD", over, ALARM if over else GREEN)]


def put_half(grid, column, end, rows, side, utf8):
    for i, (how, text) in enumerate(rows):
        put(grid, FIRST_ROW + i, column, end, how, text)
    row = FIRST_ROW + len(rows)
    last = side.quarters[-1] if side.quarters else None
    put(grid, row, column, end, PLAIN, f"{'9 of 10 waited':23}" + (f"{'-':>8}" if last is None else f"{last:>8} ms"))
    width = max(0, min(end, len(grid[0])) - column - 1)
    for i, ms in enumerate(side.quarters[-width:] if width else []):
        if ms is not None:
            level = sum(ms > limit for limit in LIMITS)
            how = GREEN if level < 3 else YELLOW if level < 5 else RED
            at = column + width - len(side.quarters[-width:]) + i
            put(grid, row + 1, at, end, how, ("▁▂▃▄▅▆▇█" if utf8 else ".:-=+*#@")[level])


def draw(show, told, size, utf8):
    rows, columns = size
    grid = [[(PLAIN, " ")] * columns for _ in range(rows)]
    middle = columns // 2 + 1
    here = show.options.buyers - max(side.count("away") for side in show.sides)
    put(grid, 0, 1, columns, BOLD, f"{show.options.buyers:,} buyers want one of {show.options.phones:,} phones, in two "
        "shops at once, on one Redis")
    put(grid, 1, 1, columns, DIM, f"{here:,} have come to both")
    put_half(grid, 1, middle - 1, naive_rows(show), show.sides[NAIVE], utf8)
    put_half(grid, middle + 1, columns, exact_rows(show), show.sides[EXACT], utf8)
    for row in range(FIRST_ROW, NEWS_ROW - 1):
        put(grid, row, middle - 1, middle, DIM, "│" if utf8 else "|")
    lines = show.news[max(0, told - Screen.NEWS):told]
    for i, line in enumerate(lines):
        put(grid, NEWS_ROW + i, 1, columns, BOLD if i == len(lines) - 1 else PLAIN, line)
    put(grid, rows - 1, 1, columns, YELLOW, HELP)
    return grid


def status_line(show):
    seconds = time.monotonic() - show.opens_at if show.opens_at else 0
    naive, exact = show.sides

    def told(side):
        return (f"{side.count('bought')} bought, {side.count('sold-out')} sold out, {side.count('asks')} waiting, "
                f"{side.count('none')} gave up")
    return (f"{seconds:5.1f} s  by hand: {told(naive)}, {missed(show)} not counted, {oversold(show, NAIVE)} OVERSOLD | "
            f"lockstock: {told(exact)}, {exact.lost()} MAYBE, {exact.known()} of them known, {exact.replayed()} replayed")
