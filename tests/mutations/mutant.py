"""A mutant: where it is in the sources, and its name. Both languages have the same operators."""
import dataclasses

SHIFTED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}


@dataclasses.dataclass
class Mutant:
    file: str
    function: str
    op: str
    word: str
    line: int
    begin: int
    end: int
    nth: int = 1

    @property
    def name(self):
        return f"{self.function} {self.op} {self.word} {self.nth}"
