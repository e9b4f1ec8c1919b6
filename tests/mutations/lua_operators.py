"""The operators of operators.py for the function library in Lua.

An edit is a text that the library has once, and what the test harness loads in its place
(tests/support/service_harness.h).
"""
import dataclasses
import pathlib
import re

from mutant import SHIFTED, Mutant

TOKEN = re.compile(r"""(?P<space>\s+|--\[\[.*?\]\]|--[^\n]*)|(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\[\[.*?\]\])
|(?P<number>0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z_]\w*)|(?P<op>\.\.\.|\.\.|==|~=|<=|>=|\S)""",
                   re.S | re.X)
KEYWORDS = set("and break do else elseif end for function if in local not or repeat return then until while".split())
BLOCK_ENDS = {"end", "else", "elseif", "until", ""}
BINARY = {"+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", "<=", ">", ">=", "and", "or"}


@dataclasses.dataclass
class LuaMutant(Mutant):
    text: str = ""  # its replacement


class Parser:
    def __init__(self, file, text):
        self.file, self.text = file, text
        self.tokens = [(m.lastgroup, m[0], m.start(), m.end()) for m in TOKEN.finditer(text) if m.lastgroup != "space"]
        self.tokens.append(("end", "", len(text), len(text)))
        self.at = 0
        self.function = "-"
        self.mutants = []

    def peek(self):
        return self.tokens[self.at][1]

    def next(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, what):
        if self.peek() == what and self.tokens[self.at][0] != "string":
            self.at += 1
            return True
        return False

    def expect(self, what):
        if not self.accept(what):
            line = self.text.count("\n", 0, self.tokens[self.at][2]) + 1
            raise SyntaxError(f"{self.file}:{line}: {what} expected, not {self.peek()}")

    def begin(self):
        return self.tokens[self.at][2]

    def end(self):
        return self.tokens[self.at - 1][3]

    def source(self, begin, end):
        return self.text[begin:end]

    def word_of(self, begin, end):
        names = re.findall(r"[A-Za-z_]\w*", re.sub(r"""'[^']*'|"[^"]*\"""", "", self.source(begin, end)))
        names = [name for name in names if name not in KEYWORDS]
        return names[-1] if names else "-"

    def add(self, op, word, begin, end, text):
        if self.function != "-":
            line = self.text.count("\n", 0, begin) + 1
            self.mutants.append(LuaMutant(self.file, self.function, op, word, line, begin, end, text=text))

    def block(self):
        while self.peek() not in BLOCK_ENDS or self.tokens[self.at][0] == "string":
            self.statement()

    def condition(self, negated="not (%s)"):
        begin = self.begin()
        self.expression()
        source = self.source(begin, self.end())
        if source != "true":
            self.add("negate", self.word_of(begin, self.end()), begin, self.end(), negated % source)

    def statement(self):
        word = self.peek()
        if word == "if":
            while self.accept("if") or self.accept("elseif"):
                self.condition()
                self.expect("then")
                self.block()
            if self.accept("else"):
                self.block()
            self.expect("end")
        elif self.accept("while"):
            self.condition()
            self.expect("do")
            self.block()
            self.expect("end")
        elif self.accept("repeat"):
            self.block()
            self.expect("until")
            self.condition()
        elif self.accept("for"):
            while not self.accept("do"):
                if self.accept("=") or self.accept("in") or self.accept(","):
                    self.expression()
                else:
                    self.next()
            self.block()
            self.expect("end")
        elif self.accept("do"):
            self.block()
            self.expect("end")
        elif self.accept("return"):
            if self.peek() not in BLOCK_ENDS and self.peek() != ";":
                self.expressions()
            self.accept(";")
        elif self.accept("break") or self.accept(";"):
            pass
        elif word == "function" or word == "local" and self.tokens[self.at + 1][1] == "function":
            self.accept("local")
            self.expect("function")
            begin = self.begin()
            while self.peek() != "(":
                self.next()
            self.body(self.source(begin, self.end()))
        elif self.accept("local"):
            while self.tokens[self.at][0] == "name" and self.peek() not in KEYWORDS:
                self.next()
                self.accept(",")
            if self.accept("="):
                self.expressions()
        else:
            self.call_or_assignment()

    def call_or_assignment(self):
        begin = self.begin()
        called = self.suffixed()
        word = called or self.word_of(begin, self.end())
        while self.accept(","):
            self.suffixed()
        if self.accept("="):
            self.expressions()
        self.add("delete", word, begin, self.end(), "")

    def body(self, name):
        outer, self.function = self.function, name
        self.expect("(")
        while not self.accept(")"):
            self.next()
        self.block()
        self.expect("end")
        self.function = outer

    def expressions(self, name=None):
        spans = []
        while True:
            begin = self.begin()
            self.expression(name)
            spans.append((begin, self.end()))
            if not self.accept(","):
                return spans

    def expression(self, name=None):
        begin = self.begin()
        while self.peek() in ("not", "-", "#") and self.tokens[self.at][0] != "string":
            self.next()
        self.operand(name)
        while self.peek() in BINARY and self.tokens[self.at][0] != "string":
            left = self.word_of(begin, self.end())
            _, operator, first, last = self.next()
            if operator in SHIFTED:
                self.add("shift", left, first, last, SHIFTED[operator])
            kind, number, first, last = self.tokens[self.at]
            if operator in "+-" and kind == "number":
                self.add("shift", f"{operator}{number}", first, last, f"({number} + 1)")
            while self.peek() in ("not", "-", "#") and self.tokens[self.at][0] != "string":
                self.next()
            self.operand()

    def operand(self, name=None):
        kind, word, _, _ = self.tokens[self.at]
        if kind in ("string", "number") or word in ("nil", "true", "false", "..."):
            self.next()
            while kind == "string" and self.accept(":"):
                self.next()
                self.arguments(word)
        elif self.accept("function"):
            self.body(name or self.function)
        elif word == "{":
            self.table()
        else:
            self.suffixed()

    def table(self):
        self.expect("{")
        while not self.accept("}"):
            if self.accept("["):
                self.expression()
                self.expect("]")
                self.expect("=")
                self.expression()
            elif self.tokens[self.at][0] == "name" and self.tokens[self.at + 1][1] == "=":
                name = self.next()[1]
                self.expect("=")
                self.expression(name)
            else:
                self.expression()
            if not self.accept(","):
                self.accept(";")

    def suffixed(self):
        """Reads a name or an expression in parentheses with what follows; returns what is called last, if anything."""
        called = None
        begin = self.begin()
        if self.accept("("):
            self.expression()
            self.expect(")")
        else:
            self.next()
        while True:
            kind, word, _, _ = self.tokens[self.at]
            if kind == "op" and word in ".:":
                self.next()
                self.next()
            elif self.accept("["):
                self.expression()
                self.expect("]")
                called = None
            elif kind == "string" or word in ("(", "{"):
                called = self.source(begin, self.end()).split(".")[-1].split(":")[-1]
                self.arguments(called)
            else:
                return called

    def arguments(self, called):
        if self.tokens[self.at][0] == "string":
            self.next()
        elif self.peek() == "{":
            self.table()
        else:
            self.expect("(")
            if self.accept(")"):
                return
            first = self.tokens[self.at]
            spans = self.expressions(first[1][1:-1] if first[0] == "string" else None)
            self.expect(")")
            for (a, b), (c, d) in zip(spans, spans[1:]):
                left, right = self.source(a, b), self.source(c, d)
                if left != right and re.fullmatch(r"[A-Za-z_][\w.]*", left) and re.fullmatch(r"[A-Za-z_][\w.]*", right):
                    self.add("swap", called, a, d, right + self.source(b, c) + left)
                    break


def find(path):
    parser = Parser(f"server/functions/{path.name}", path.read_text())
    parser.block()
    if parser.peek():
        raise SyntaxError(f"{path}: not read to its end: {parser.peek()}")
    seen = {}
    parser.mutants.sort(key=lambda mutant: (mutant.begin, -mutant.end))
    for mutant in parser.mutants:
        key = mutant.function, mutant.op, mutant.word
        seen[key] = mutant.nth = seen.get(key, 0) + 1
    return parser.mutants


def mutants_of(root, files=None):
    """The mutants of the library by file; clock.lua is not in the library that tests load."""
    return {f"server/functions/{path.name}": find(path) for path in sorted((root / "server/functions").glob("*.lua"))
            if path.name != "clock.lua" and (files is None or f"server/functions/{path.name}" in files)}


def edit(root, mutant):
    """(text to find, text to put there): as much of the file around the mutant as the library has once."""
    library = "\n".join(path.read_text() for path in sorted((root / "server/functions").glob("*.lua")))
    text = (root / mutant.file).read_text()
    begin, end = mutant.begin, mutant.end
    while library.count(text[begin:end]) > 1:
        begin = text.rfind("\n", 0, max(begin - 1, 0)) + 1
        end = text.find("\n", end + 1) if text.find("\n", end + 1) > 0 else len(text)
    return text[begin:end], text[begin:mutant.begin] + mutant.text + text[mutant.end:end]
