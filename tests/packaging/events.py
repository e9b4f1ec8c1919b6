"""events.py SOURCE_DIR
docs/operations.md has each event that the server writes, with its level, and none that it does not write."""
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
written = set()
for file in sorted([*source.glob("server/**/*.c"), *source.glob("net/**/*.c")]):
    text = file.read_text()
    written |= {(event, level) for level, event in re.findall(r'\blog_(error|warn|info|debug)\(\s*"([a-z-]+)"', text)}
    # Events that no literal names are in the table of net/stream/closings.c.
    others = re.findall(r"\blog_(?:error|warn|info|debug)\(\s*([a-z]\w*),", text)
    assert not others or file.name == "server.c" and set(others) == {"event"}, (file, others)
for event, over in re.findall(r'= \{"[a-z-]+", "([a-z-]+)", (?:NULL|"([a-z-]+)")\}', (source / "server/conditions.c").read_text()):
    written |= {("not-ready", "warn"), (event, "warn")} | ({(over, "info")} if over else set())
reasons = re.findall(r'= \{"[a-z_]+", "([a-z-]+)", "[^"]+", (true|false)\}', (source / "net/stream/closings.c").read_text())
assert len(reasons) > 10, reasons
told = {(event, "warn" if warns == "true" else "debug") for event, warns in reasons}

page = (source / "docs/operations.md").read_text()
rows = []  # of the lists under "error:", "warn:" and so on: one or more events, a colon, the meaning
for level, items in re.findall(r"^(error|warn|info|debug):\n\n((?:[- ] .+\n)+)", page, re.M):
    for events, meaning in re.findall(r"^- ((?:`[a-z-]+`(?:, )?)+): (.+)$", items, re.M):
        rows += [(event, level, meaning) for event in re.findall("`([a-z-]+)`", events)]
named = [(event, level) for event, level, _ in rows]
assert len({event for event, _ in named}) == len(named), "an event is listed twice"
# Events of connections are listed with their usual level; another level is in their text.
for event, level in sorted(told):
    if (event, level) not in named:
        text = [t for e, _, t in rows if e == event]
        assert text and f"{level}:" in text[0], f"docs/operations.md does not say that {event} is {level}, too"
wrong = sorted(written - set(named)), sorted(set(named) - written - told)
assert wrong == ([], []), f"not in docs/operations.md: {wrong[0]}; not in the sources: {wrong[1]}"
print(len(named), "events")
