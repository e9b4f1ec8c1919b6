"""docs_links.py SOURCE_DIR
Every relative link in the Markdown pages leads to a file that exists, and its #anchor to a heading of that file; every
docs/NAME.md that a source file names exists."""
import pathlib
import re
import sys

SKIPPED = {"build", "node_modules"}
SOURCES = {".c", ".h", ".cc", ".py", ".sh", ".lua", ".cmake", ".txt", ".proto", ".yaml", ".in", ".conf"}


def walk(directory):
    for path in sorted(directory.iterdir()):
        if path.name.startswith(".") or path.name in SKIPPED or path.is_symlink():
            continue
        if path.is_dir():
            yield from walk(path)
        else:
            yield path


def prose(text):
    """The text without code blocks and code spans; lines stay where they are."""
    lines, fence = [], None
    for line in text.split("\n"):
        mark = re.match(r"\s*(```|~~~)", line)
        if mark and fence in (None, mark[1]):
            fence = None if fence else mark[1]
            line = ""
        lines.append("" if fence else re.sub(r"(`+).+?\1", lambda code: "`" * len(code[0]), line))
    return lines


def anchors(text):
    """The anchors that GitHub gives to the headings."""
    found, fenced = {}, False
    for line in text.split("\n"):
        fenced ^= line.startswith("```")
        heading = None if fenced else re.match(r"#{1,6} +(.+?) *#*$", line)
        if not heading:
            continue
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found[name] = found.get(name, -1) + 1
    return {name if i == 0 else f"{name}-{i}" for name, last in found.items() for i in range(last + 1)}


root = pathlib.Path(sys.argv[1]).resolve()
wrong, links = [], 0
for path in walk(root):
    where = path.relative_to(root)
    if path.suffix == ".md":
        for number, line in enumerate(prose(path.read_text()), 1):
            for target in re.findall(r"\]\(([^()\s]+)\)", line):
                if re.match(r"[a-z]+:", target):
                    continue
                links += 1
                name, _, anchor = target.partition("#")
                page = (path.parent / name).resolve() if name else path
                if not page.exists():
                    wrong.append(f"{where}:{number}: {target}: no such file")
                elif anchor and (page.suffix != ".md" or anchor not in anchors(page.read_text())):
                    wrong.append(f"{where}:{number}: {target}: no such heading")
    elif path.suffix in SOURCES:
        for number, line in enumerate(path.read_text(errors="replace").split("\n"), 1):
            for page in re.findall(r"(?<![\w/.-])docs/[a-z-]+\.md", line):
                if not (root / page).exists():
                    wrong.append(f"{where}:{number}: {page}: no such file")
assert links > 100, f"only {links} links found"
print("\n".join(wrong) or f"{links} links")
sys.exit(1 if wrong else 0)
