"""What the buyers of both shops were told: the rows of the screen, of the page and of the table at the end."""

NAIVE, EXACT = 0, 1  # the shops
SHOPS = ("the shop by hand's", "lockstock's")


def oversold(show, side):
    return max(0, show.sides[side].count("bought") - show.options.phones)


def missed(show):
    """Sales that the count of the shop by hand misses: two buyers read the same number."""
    return max(0, show.sides[NAIVE].count("bought") + show.left - show.options.phones)


def waits(side):
    """The wait of half of the buyers, and the longest one."""
    waited = sorted(side.waited_ms)
    return f"{waited[(len(waited) - 1) // 2]} / {waited[-1]}" if waited else "-"


def rows(show):
    """Rows of a label and both shops' values."""
    naive, exact = show.sides

    def both(label, count):
        return label, count(naive), count(exact)
    return [both("bought", lambda side: side.count("bought")),
            both("told sold out", lambda side: side.count("sold-out")),
            both("waiting", lambda side: side.count("waits", "asks")),
            both("no answer", lambda side: side.count("none")),
            ("left, as it counts", show.left, max(0, show.options.phones - exact.count("bought"))),
            ("sold twice", missed(show), 0),
            ("OVERSOLD", oversold(show, NAIVE), oversold(show, EXACT)),
            both("answers lost: MAYBE", lambda side: len(side.lost())),
            ("... known by the order id", "no way to", exact.known()),
            ("... the first answer again", "-", sum(buyer.replayed for buyer in exact.buyers)),
            ("late writes refused", "-", show.late),
            both("half waited, the longest (ms)", waits)]


def text(value):
    return f"{value:,}" if isinstance(value, int) else value


def headlines(show):
    """The state of each shop in a few words."""
    if show.stuck:
        hand = "its lock has no end: no buyer gets in"
    else:
        over = oversold(show, NAIVE)
        hand = f"{over:,} oversold" if over else f"{missed(show):,} sold twice"
    return hand, f"not exact: {show.why}" if show.why else f"{oversold(show, EXACT):,} oversold"


def verdicts(show, numbers):
    """A sentence for each shop at the end. numbers: sold units and orders, by the records of the servers."""
    over, unanswered = oversold(show, NAIVE), show.sides[NAIVE].count("none")
    hand = f"{over:,} sold that were not there." if over else "not oversold, this time."
    if show.stuck:
        hand += f" {unanswered:,} buyers have no answer: SETNX took the lock, PEXPIRE never came, so it has no end."
    if show.why:
        return f"By hand: {hand}", f"lockstock is NOT EXACT: {show.why}"
    return f"By hand: {hand}", (f"lockstock is exact: {int(numbers[0]):,} sold by its item, {int(numbers[1]):,} orders in its ledger, "
                                f"{show.sides[EXACT].count('bought'):,} buyers who were told so.")
