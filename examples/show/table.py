"""The table at the end of the show."""

NAIVE, EXACT = 0, 1  # the shops
TITLES = {"setnx": "SETNX + EXPIRE, GET, SET", "getset": "GETSET, GET, SET", "decr": "GET, then DECR"}


def oversold(show, side):
    return max(0, show.sides[side].count("bought") - show.options.phones)


def missed(show):
    """Sales that the naive shop's count of the shelf misses: two buyers read the same number."""
    return max(0, show.sides[NAIVE].count("bought") + show.left - show.options.phones)


def verdict(show, why):
    """One line for the page."""
    hand = f"{oversold(show, NAIVE):,} were sold that were not there" if oversold(show, NAIVE) else "not oversold, this time"
    ours = f"not exact: {why}" if why else f"exact: {show.sides[EXACT].count('bought'):,} sold, 0 oversold, every answer known"
    return f"The end. By hand: {hand}. lockstock: {ours}."


def waits(side):
    waited = sorted(buyer.waited_ms for buyer in side.buyers if buyer.state in ("bought", "sold-out"))
    return f"{waited[(len(waited) - 1) // 2]} / {waited[-1]}" if waited else "0 / 0"


def print_table(show, why, numbers, colour):
    def row(label, naive, exact):
        texts = [f"{value:,}" if isinstance(value, int) else value for value in (naive, exact)]
        print(f"  {label:38}{texts[0]:>26}{texts[1]:>13}")

    def both(label, count):
        row(label, count(show.sides[NAIVE]), count(show.sides[EXACT]))

    def say(style, text):
        print(f"\033[1;{style}m{text}\033[0m" if colour and style else text, flush=True)

    naive, exact = show.sides
    print()
    row("", TITLES[show.options.naive], "lockstock")
    both("phones", lambda side: show.options.phones)
    both("buyers", lambda side: show.options.buyers)
    both("  bought", lambda side: side.count("bought"))
    both("  were told sold out", lambda side: side.count("sold-out"))
    both("  without an answer", lambda side: side.count("none") + side.count("asks"))
    if naive.count("away") + exact.count("away") > 0:
        both("  did not come any more", lambda side: side.count("away"))
    row("oversold", oversold(show, NAIVE), oversold(show, EXACT))
    row("left, as it counts", str(show.left), str(max(0, show.options.phones - exact.count("bought"))))
    row("sales that it did not count", missed(show), 0)
    row("answers lost: MAYBE", naive.lost(), exact.lost())
    row("  known afterwards, by the order id", "no way to", exact.known())
    row("  of these, the first answer again", "-", exact.replayed())
    row("late writes refused, by the fence", "-", show.late)
    row("half of them waited, the longest (ms)", waits(naive), waits(exact))
    print()
    if oversold(show, NAIVE):
        say(31, f"By hand: {oversold(show, NAIVE):,} sold that were not there.")
    else:
        say(0, "By hand: not oversold, this time.")
    if show.stuck:
        say(31, f"By hand: {naive.count('none'):,} buyers have no answer: SETNX took the lock, EXPIRE never came, so it "
            "has no end.")
    if why:
        say(31, f"lockstock is NOT EXACT: {why}")
    else:
        say(32, f"lockstock is exact: {numbers[0]:,} sold by its item, {numbers[1]:,} orders in its ledger, "
            f"{exact.count('bought'):,} buyers who were told so.")
