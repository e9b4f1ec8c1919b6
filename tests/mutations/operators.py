"""Finds the mutants of a C file: places of its functions where one small change makes another program.

    negate   the condition of an if, a loop or a ?: is negated
    delete   a call or an assignment that is a statement is deleted
    shift    < becomes <=, > becomes >=, and the reverse; a number that is added or subtracted grows by one
    swap     two neighbouring arguments of the same type change places

A mutant is named by function, operator, a word of the text (what is called, assigned or compared) and its number among
those of the same name, so that its name outlives changes elsewhere in the file and a move to another file.
"""
import dataclasses
import json
import pathlib
import re
import shlex

import clang.cindex
from clang.cindex import CursorKind as Kind

from mutant import SHIFTED, Mutant

PRODUCT = ("base", "rpc", "net", "standard", "client", "host", "server", "gen", "cli")
SKIPPED = (Kind.STATIC_ASSERT, Kind.CASE_STMT)  # of these the first child is a constant


@dataclasses.dataclass
class CMutant(Mutant):
    parts: list = dataclasses.field(default_factory=list)  # spans inside that the change uses, in bytes
    id: int = -1


class Finder:
    def __init__(self, root, file, flags):
        self.file = str(pathlib.Path(file).relative_to(root))
        self.path = str(file)
        self.text = pathlib.Path(file).read_bytes()
        self.mutants = []
        index = clang.cindex.Index.create()
        unit = index.parse(self.path, flags, options=clang.cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD)
        self.macros = []
        self.functions = []
        is_ours = clang.cindex.conf.lib.clang_Location_isFromMainFile
        is_ours.argtypes = [clang.cindex.SourceLocation]
        for node in unit.cursor.get_children():
            if not is_ours(node.location):
                continue
            if node.kind == Kind.MACRO_INSTANTIATION:
                self.macros.append(self.span(node))
            elif node.kind == Kind.FUNCTION_DECL and node.is_definition():
                self.functions.append(node)

    def span(self, node):
        return node.extent.start.offset, node.extent.end.offset

    def in_macro(self, begin, end):
        return begin >= end or any(first <= begin and end <= last for first, last in self.macros)

    def source(self, begin, end):
        return self.text[begin:end].decode(errors="replace")

    def find(self):
        for node in self.functions:
            self.function = node.spelling
            for child in node.get_children():
                if child.kind == Kind.COMPOUND_STMT:
                    self.walk(child)
        seen = {}
        self.mutants.sort(key=lambda mutant: (mutant.begin, -mutant.end))
        for mutant in self.mutants:
            key = mutant.function, mutant.op, mutant.word
            seen[key] = mutant.nth = seen.get(key, 0) + 1
        return self.mutants

    def add(self, op, word, begin, end, parts=()):
        if not self.in_macro(begin, end) and not any(self.in_macro(*part) and part[0] == begin for part in parts[:1]):
            line = self.text.count(b"\n", 0, begin) + 1
            self.mutants.append(CMutant(self.file, self.function, op, word, line, begin, end, parts=list(parts)))

    def word_of(self, node):
        """The name that is called or assigned, else the last name of the text."""
        if node.kind == Kind.CALL_EXPR and node.spelling:
            return node.spelling
        names = re.findall(r"[A-Za-z_]\w*", re.sub(r'"(\\.|[^"])*"', "", self.source(*self.span(node))))
        return names[-1] if names else "-"

    def walk(self, node):
        if node.kind in SKIPPED:
            children = list(node.get_children())[1:]
        elif node.kind == Kind.VAR_DECL:
            if node.storage_class == clang.cindex.StorageClass.STATIC:
                return
            children = [child for child in node.get_children() if self.is_initializer(node, child)]
        elif node.kind == Kind.CXX_UNARY_EXPR:  # sizeof
            return
        else:
            children = list(node.get_children())
        self.look_for_conditions(node, children)
        self.look_for_statements(node, children)
        if node.kind == Kind.BINARY_OPERATOR and len(children) == 2:
            self.look_at_operator(node, *children)
        if node.kind == Kind.CALL_EXPR:
            self.look_for_arguments(node)
        for child in children:
            self.walk(child)

    def is_initializer(self, node, child):
        name_end = node.location.offset + len(node.spelling)
        return b"=" in self.text[name_end:child.extent.start.offset]

    def look_for_conditions(self, node, children):
        if node.kind in (Kind.IF_STMT, Kind.WHILE_STMT, Kind.CONDITIONAL_OPERATOR):
            conditions = children[:1]
        elif node.kind == Kind.DO_STMT:
            conditions = children[1:]
        elif node.kind == Kind.FOR_STMT:
            conditions = self.condition_of_for(node, children)
        else:
            return
        for condition in conditions:
            begin, end = self.span(condition)
            if not re.fullmatch(r"[\d\s]*|true|false", self.source(begin, end)):
                self.add("negate", self.word_of(condition), begin, end)

    def condition_of_for(self, node, children):
        """The child between the two semicolons: libclang leaves parts out that are not there."""
        begin = node.extent.start.offset
        semicolons = [token.extent.start.offset for token in node.get_tokens() if token.spelling == ";"]
        if self.in_macro(begin, begin + 3) or len(semicolons) < 2:
            return []
        first = semicolons[0]
        for child in children[:-1]:
            if child.kind == Kind.DECL_STMT:  # its extent ends with the semicolon
                first = child.extent.end.offset - 1
        second = next((at for at in semicolons if at > first), 0)
        return [child for child in children[:-1] if first < child.extent.start.offset < second]

    def look_for_statements(self, node, children):
        if node.kind == Kind.COMPOUND_STMT:
            statements = children
        elif node.kind == Kind.IF_STMT:
            statements = children[1:]
        elif node.kind in (Kind.WHILE_STMT, Kind.FOR_STMT):
            statements = children[-1:]
        elif node.kind == Kind.CASE_STMT or node.kind == Kind.DEFAULT_STMT or node.kind == Kind.LABEL_STMT:
            statements = children[-1:]
        else:
            return
        for statement in statements:
            self.look_at_statement(statement)

    def look_at_statement(self, node):
        word = None
        children = list(node.get_children())
        if node.kind == Kind.CALL_EXPR:
            word = self.word_of(node)
        elif node.kind == Kind.COMPOUND_ASSIGNMENT_OPERATOR:
            word = self.word_of(children[0])
        elif node.kind == Kind.BINARY_OPERATOR and self.operator_of(*children) == "=":
            word = self.word_of(children[0])
        elif node.kind == Kind.UNARY_OPERATOR and re.search(r"^(\+\+|--)|(\+\+|--)$", self.source(*self.span(node))):
            word = self.word_of(node)
        if word is None:
            return
        begin, end = self.span(node)
        semicolon = re.compile(rb"\s*;").match(self.text, end)
        if semicolon and not self.in_macro(begin, end):
            self.add("delete", word, begin, semicolon.end())

    def operator_of(self, left, right):
        between = self.text[left.extent.end.offset:right.extent.start.offset]
        between = re.sub(rb"/\*.*?\*/|//.*", b"", between, flags=re.S)
        found = re.match(rb"[\s)]*([-+*/%<>=!&|^,]+)", between)
        return found[1].decode() if found else ""

    def look_at_operator(self, node, left, right):
        operator = self.operator_of(left, right)
        if operator in SHIFTED:
            at = self.text.index(operator.encode(), left.extent.end.offset)
            self.add("shift", self.word_of(left), *self.span(node), [(at, at + len(operator))])
        elif operator in ("+", "-") and right.kind == Kind.INTEGER_LITERAL:
            begin, end = self.span(right)
            if not self.in_macro(begin, end):
                self.add("shift", f"{operator}{self.source(begin, end)}", begin, end)

    def look_for_arguments(self, node):
        arguments = list(node.get_arguments())
        for left, right in zip(arguments, arguments[1:]):
            first, second = self.span(left), self.span(right)
            alike = left.type.get_canonical().spelling == right.type.get_canonical().spelling
            if alike and first[1] < second[0] and self.source(*first) != self.source(*second):
                if not self.in_macro(*self.span(node)):
                    self.add("swap", self.word_of(node), *self.span(node), [first, second])
                    return


def render(text, mutants, begin, end):
    """The text from begin to end with the mutants of a file as branches in it."""
    inside = [m for m in mutants if begin <= m.begin and m.end <= end]
    out, at = [], begin
    while inside:
        first = min(inside, key=lambda m: (m.begin, -m.end))
        out.append(text[at:first.begin])
        rest = [m for m in inside if m is not first]
        out.append(branch(text, first, rest))
        at = first.end
        inside = [m for m in rest if m.begin >= at]
    out.append(text[at:end])
    return b"".join(out)


def branch(text, mutant, others):
    def part(begin, end):
        return render(text, others, begin, end)

    whole = part(mutant.begin, mutant.end)
    chosen = b"lks_mutant(%d)" % mutant.id
    if mutant.op == "negate":
        return b"(!(%s) == %s)" % (whole, chosen)
    if mutant.op == "delete":
        return b"{ if (!%s) { %s } }" % (chosen, whole)
    if mutant.op == "swap":
        (a, b), (c, d) = mutant.parts
        swapped = part(mutant.begin, a) + part(c, d) + part(b, c) + part(a, b) + part(d, mutant.end)
        return b"(%s ? %s : %s)" % (chosen, swapped, whole)
    if mutant.parts:
        (a, b), = mutant.parts
        other = SHIFTED[text[a:b].decode()].encode()
        return b"(%s ? %s %s %s : %s)" % (chosen, part(mutant.begin, a), other, part(b, mutant.end), whole)
    return b"(%s + %s)" % (whole, chosen)


def instrumented(text, mutants):
    return render(text, mutants, 0, len(text))


def flags_of(root, build, files):
    """{file: what libclang needs to read it} of the product."""
    flags = {}
    for entry in json.loads((pathlib.Path(build) / "compile_commands.json").read_text()):
        file = entry["file"].removeprefix(f"{root}/")
        if file.split("/")[0] not in PRODUCT or file in flags or files is not None and file not in files or \
                not (root / file).exists():  # deleted since the build directory was configured
            continue
        words = shlex.split(entry["command"])
        kept = [word for word in words if re.match(r"-[IDU]|-std=", word)]
        kept += [part for word, after in zip(words, words[1:]) if word == "-isystem" for part in (word, after)]
        flags[file] = kept
    return flags


def mutants_of(root, build, files=None):
    """The mutants of those files of the product, or of all, by file."""
    flags = flags_of(root, build, files)
    return {file: Finder(root, root / file, flags[file]).find() for file in sorted(flags)}
