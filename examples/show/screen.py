"""The show in a terminal: the rows of both shops, the news below, and the keys."""
import os
import shutil
import sys
import termios

import facts

PLAIN, DIM, BOLD, RED, GREEN, YELLOW = "\033[0m", "\033[0;2m", "\033[0;1m", "\033[0;31m", "\033[0;32m", "\033[0;33m"
HELP = "keys  kill -9: s a server, r Redis, c a client   f freeze the holders   q quit"
NEWS = 6


def line(row):
    label, hand, ours = map(facts.text, row)
    return f"{label:30}{hand:>20}{ours:>20}"


def draw(show):
    """Lines of a style and a text."""
    hand, ours = facts.headlines(show)
    here = show.options.buyers - show.sides[facts.EXACT].count("away")
    return [(BOLD, f"{show.options.buyers:,} buyers want one of {show.options.phones:,} phones, in two shops at once, on one Redis"),
            (DIM, f"{here:,} have come to both"),
            (RED, f"BY HAND, SETNX + PEXPIRE, GET, SET: {hand}"), (GREEN, f"LOCKSTOCK, Deduct by an order id: {ours}"),
            (BOLD, line(("", "by hand", "lockstock"))),
            *[(YELLOW if row[0].startswith("...") else PLAIN, line(row)) for row in facts.rows(show)],
            *[(PLAIN, news) for news in show.news[-NEWS:]]]


class Screen:
    def __init__(self):
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

    def keys(self):
        return [0] if self.has_keys else []

    def read_keys(self):
        data = os.read(0, 64)
        self.has_keys = bool(data)
        return list(data.decode(errors="replace"))

    def show(self, show):
        """Draws whole lines, the last one the keys, so that nothing is left of an earlier screen or passes an edge."""
        columns, rows = shutil.get_terminal_size()
        lines = draw(show)[:max(0, rows - 1)]
        lines += [(PLAIN, "")] * (rows - 1 - len(lines)) + [(YELLOW, HELP)]
        self.write("".join(f"\033[{i + 1};1H{style}{text[:columns].ljust(columns)}" for i, (style, text) in enumerate(lines)) + PLAIN)
