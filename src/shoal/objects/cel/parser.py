"""Parses tokens into the AST by precedence climbing. Macros are recognised here; names are not resolved."""

from __future__ import annotations

from shoal.objects.cel.errors import CompileError
from shoal.objects.cel.escaping import KEYWORDS
from shoal.objects.cel.lexer import Token, number, tokens
from shoal.objects.cel.macros import expanded
from shoal.objects.cel.syntax import (
    Call,
    Choice,
    Ident,
    ListLiteral,
    Literal,
    Logic,
    MapLiteral,
    Node,
    Select,
    Struct,
    qualified,
)

MAX_NESTING = 80
MAX_DEPTH = 160
"""Maximum depth of the AST. The evaluation recurses as deep."""

_OPERATORS: dict[str, tuple[int, str]] = {
    "||": (1, "_||_"), "&&": (2, "_&&_"),
    "==": (3, "_==_"), "!=": (3, "_!=_"), "<": (3, "_<_"), "<=": (3, "_<=_"), ">": (3, "_>_"), ">=": (3, "_>=_"),
    "in": (3, "@in"),
    "+": (4, "_+_"), "-": (4, "_-_"),
    "*": (5, "_*_"), "/": (5, "_/_"), "%": (5, "_%_"),
}  # fmt: skip
"""Precedence and function of each operator."""
_LOGIC = 2
_OPERAND = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


def parse(source: str) -> Node:
    reader = _Reader(source)
    node = reader.expression()
    last = reader.tokens[min(reader.index + 1, len(reader.tokens) - 1)].kind == "end"
    reader.expect("end", f"{'extraneous' if last else 'mismatched'} input '{reader.now.text}' expecting <EOF>")
    if reader.problems:
        raise CompileError(source, reader.problems)
    return node


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.problems: list[tuple[int, str]] = []
        self.tokens = tokens(source, self.problems)
        self.index = 0
        self.nesting = 0
        self.now: Token = self.tokens[0]

    def take(self) -> Token:
        token = self.now
        self.index = min(self.index + 1, len(self.tokens) - 1)
        self.now = self.tokens[self.index]
        return token

    def accept(self, kind: str) -> Token | None:
        return self.take() if self.now.kind == kind else None

    def fail(self, at: int, message: str) -> CompileError:
        return CompileError(self.source, [*self.problems, (at, message)])

    def expect(self, kind: str, told: str = "") -> Token:
        if self.now.kind != kind:
            what = "missing '{0}' at '{1}'" if self.now.kind == "end" else "mismatched input '{1}' expecting '{0}'"
            told = told or what.format(kind, self.now.text)
            raise self.fail(self.now.at, f"Syntax error: {told}")
        return self.take()

    def sized(self, node: Node, *children: Node) -> Node:
        """Sets the depth of a node with children. Raises if the tree gets deeper than Python can recurse."""
        node.depth = 1 + max((child.depth for child in children), default=0)
        if node.depth > MAX_DEPTH:
            raise self.fail(node.at, f"expression recursion limit exceeded: {MAX_DEPTH}")
        return node

    def expression(self) -> Node:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise self.fail(self.now.at, f"expression recursion limit exceeded: {MAX_NESTING}")
        node = self.operators(1)
        if question := self.accept("?"):
            yes = self.operators(1)
            self.expect(":")
            no = self.expression()
            node = self.sized(Choice(question.at, node, yes, no), node, yes, no)
        self.nesting -= 1
        return node

    def operators(self, least: int) -> Node:
        """Parses operators of at least this precedence."""
        left = self.unary()
        while (known := _OPERATORS.get(self.now.kind)) is not None and known[0] >= least:
            strength, function = known
            token = self.take()
            if strength <= _LOGIC:
                left = self.logic(left, token, strength, function)
            else:
                right = self.operators(strength + 1)
                left = self.sized(Call(token.at, function, None, [left, right]), left, right)
        return left

    def logic(self, first: Node, token: Token, strength: int, function: str) -> Node:
        """Collects all terms of one `&&` or `||` chain into one node."""
        terms = [first, self.operators(strength + 1)]
        while self.accept(token.kind):
            terms.append(self.operators(strength + 1))
        return self.sized(Logic(token.at, function, terms), *terms)

    def unary(self) -> Node:
        operator = self.now.kind
        if operator not in ("-", "!"):
            return self.members(self.primary())
        at, times = self.now.at, 0
        while self.now.kind == operator:
            last, times = self.take(), times + 1
        if operator == "-" and self.signed():
            token, times = self.take(), times - 1
            operand = self.members(Literal(last.at, number(self.source, token, negative=True)))
        else:
            operand = self.members(self.primary())
        if times % 2 == 0:
            return operand
        return self.sized(Call(at, "-_" if operator == "-" else "!_", None, [operand]), operand)

    def signed(self) -> bool:
        """True if the current token is a number that can be negative. Unsigned numbers cannot."""
        return self.now.kind == "number" and self.now.text[-1] not in "uU"

    def members(self, node: Node) -> Node:
        while True:
            if dot := self.accept("."):
                node = self.selected(node, dot)
            elif bracket := self.accept("["):
                optional = self.accept("?") is not None
                index = self.expression()
                self.expect("]")
                function = "_[?_]" if optional else "_[_]"
                node = self.sized(Call(bracket.at, function, None, [node, index]), node, index)
            elif self.now.kind == "{" and (name := qualified(node)) is not None:
                node = self.struct(name)
            else:
                return node

    def selected(self, node: Node, dot: Token) -> Node:
        optional = self.accept("?") is not None
        name = self.expect("name", f"no viable alternative at input '.{self.now.text}'")
        opening = None if optional else self.accept("(")
        if opening is None:
            return self.sized(Select(dot.at, node, name.text, optional=optional), node)
        return self.called(opening.at, name.text, node)

    def called(self, at: int, function: str, target: Node | None) -> Node:
        args = [arg for arg, _ in self.listed(")")]
        children = args if target is None else [target, *args]
        node = expanded(self.source, at, function, target, args)
        return self.sized(node or Call(at, function, target, args), *children)

    def listed(self, closing: str) -> list[tuple[Node, bool]]:
        found: list[tuple[Node, bool]] = []
        while not self.accept(closing):
            optional = closing == "]" and self.accept("?") is not None
            found.append((self.expression(), optional))
            if not self.accept(","):
                self.expect(closing, f"mismatched input '{self.now.text}' expecting {{'{closing}', ','}}")
                break
            if closing == ")" and self.now.kind == ")":
                raise self.fail(self.now.at, f"Syntax error: mismatched input ')' expecting {_OPERAND}")
        return found

    def struct(self, name: str) -> Node:
        opening = self.expect("{")
        fields: list[tuple[int, str, Node, bool]] = []
        while not self.accept("}"):
            optional = self.accept("?") is not None
            field = self.expect("name").text
            at = self.expect(":").at
            fields.append((at, field, self.expression(), optional))
            if not self.accept(","):
                self.expect("}")
                break
        return self.sized(Struct(opening.at, name, fields), *(value for _, _, value, _ in fields))

    def primary(self) -> Node:
        token = self.take()
        if token.kind == "literal":
            return Literal(token.at, token.value)
        if token.kind == "number":
            return Literal(token.at, number(self.source, token, negative=False))
        if token.kind == "-" and self.signed():
            return Literal(token.at, number(self.source, self.take(), negative=True))
        if token.kind == ".":
            token = self.expect("name", f"no viable alternative at input '.{self.now.text}'")
        if token.kind == "name":
            return self.named(token)
        if token.kind == "(":
            node = self.expression()
            self.expect(")")
            return node
        if token.kind == "[":
            items = self.listed("]")
            return self.sized(ListLiteral(token.at, items), *(item for item, _ in items))
        if token.kind == "{":
            return self.map(token.at)
        raise self.fail(token.at, f"Syntax error: mismatched input '{token.text}' expecting {_OPERAND}")

    def named(self, token: Token) -> Node:
        if opening := self.accept("("):
            return self.called(opening.at, token.text, None)
        if token.text in KEYWORDS:
            raise self.fail(token.at, f"reserved identifier: {token.text}")
        return Ident(token.at, token.text)

    def map(self, at: int) -> Node:
        entries: list[tuple[Node, Node, bool]] = []
        while not self.accept("}"):
            optional = self.accept("?") is not None
            key = self.expression()
            self.expect(":")
            entries.append((key, self.expression(), optional))
            if not self.accept(","):
                self.expect("}")
                break
        return self.sized(MapLiteral(at, entries), *(part for entry in entries for part in entry[:2]))
