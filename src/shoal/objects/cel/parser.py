"""Parses tokens into the AST by precedence climbing. Macros are recognised here; names are not resolved."""

from __future__ import annotations

from shoal.objects.cel.ast import (
    CallExpr,
    ComprehensionExpr,
    ConditionalExpr,
    ExprNode,
    IdentExpr,
    ListExpr,
    LiteralExpr,
    LogicExpr,
    MapExpr,
    SelectExpr,
    StructExpr,
    qualified_name,
)
from shoal.objects.cel.errors import CELCompileError
from shoal.objects.cel.escaping import KEYWORDS
from shoal.objects.cel.lexer import CELToken, parse_number, tokenize

_MACROS: dict[tuple[str, int], tuple[int, int]] = {
    ("all", 2): (1, 1),
    ("exists", 2): (1, 1),
    ("exists_one", 2): (1, 1),
    ("existsOne", 2): (1, 1),
    ("map", 2): (1, 1),
    ("map", 3): (1, 2),
    ("filter", 2): (1, 1),
    ("all", 3): (2, 1),
    ("exists", 3): (2, 1),
    ("existsOne", 3): (2, 1),
    ("exists_one", 3): (2, 1),
    ("transformList", 3): (2, 1),
    ("transformList", 4): (2, 2),
    ("transformMap", 3): (2, 1),
    ("transformMap", 4): (2, 2),
    ("transformMapEntry", 3): (2, 1),
    ("transformMapEntry", 4): (2, 2),
    ("sortBy", 2): (1, 1),
    ("optMap", 2): (1, 1),
    ("optFlatMap", 2): (1, 1),
}
"""By name and number of arguments: number of variables and number of expressions."""

_ACCUMULATOR_NAMES = ("__result__", "@result")


def expand_macro(source: str, at: int, function: str, target: ExprNode | None, args: list[ExprNode]) -> ExprNode | None:
    """Returns the node of a macro, or None for an ordinary call."""
    if function == "has" and target is None and len(args) == 1:
        operand = args[0]
        if not isinstance(operand, SelectExpr) or operand.optional:
            raise CELCompileError(source, [(operand.offset, "invalid argument to has() macro")])
        return SelectExpr(at, operand.operand, operand.field, test_only=True)
    arity = _MACROS.get((function, len(args)))
    if arity is None or target is None:
        return None
    variables, _ = arity
    names = [_variable_name(source, arg) for arg in args[:variables]]
    if len(set(names)) != len(names):
        raise CELCompileError(source, [(args[1].offset, f"duplicate variable name: {names[0]}")])
    macro = "exists_one" if function == "existsOne" else function
    return ComprehensionExpr(at, macro, target, names, args[variables:])


def _variable_name(source: str, node: ExprNode) -> str:
    if not isinstance(node, IdentExpr):
        raise CELCompileError(source, [(node.offset, "argument must be a simple name")])
    if node.name in _ACCUMULATOR_NAMES:
        raise CELCompileError(source, [(node.offset, "iteration variable overwrites accumulator variable")])
    return node.name


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
_LOGIC_PRECEDENCE = 2
_OPERAND_TOKENS = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


def parse(source: str) -> ExprNode:
    parser = _ExprParser(source)
    node = parser.parse_expression()
    last = parser.tokens[min(parser.index + 1, len(parser.tokens) - 1)].kind == "end"
    parser.expect("end", f"{'extraneous' if last else 'mismatched'} input '{parser.current.text}' expecting <EOF>")
    if parser.errors:
        raise CELCompileError(source, parser.errors)
    return node


class _ExprParser:
    def __init__(self, source: str) -> None:
        self.source = source
        self.errors: list[tuple[int, str]] = []
        self.tokens = tokenize(source, self.errors)
        self.index = 0
        self.nesting = 0
        self.current: CELToken = self.tokens[0]

    def advance(self) -> CELToken:
        token = self.current
        self.index = min(self.index + 1, len(self.tokens) - 1)
        self.current = self.tokens[self.index]
        return token

    def accept(self, kind: str) -> CELToken | None:
        return self.advance() if self.current.kind == kind else None

    def compile_error(self, at: int, message: str) -> CELCompileError:
        return CELCompileError(self.source, [*self.errors, (at, message)])

    def expect(self, kind: str, message: str = "") -> CELToken:
        if self.current.kind != kind:
            what = "missing '{0}' at '{1}'" if self.current.kind == "end" else "mismatched input '{1}' expecting '{0}'"
            message = message or what.format(kind, self.current.text)
            raise self.compile_error(self.current.offset, f"Syntax error: {message}")
        return self.advance()

    def check_depth(self, node: ExprNode, *children: ExprNode) -> ExprNode:
        """Sets the depth of a node with children. Raises if the tree gets deeper than Python can recurse."""
        node.depth = 1 + max((child.depth for child in children), default=0)
        if node.depth > MAX_DEPTH:
            raise self.compile_error(node.offset, f"expression recursion limit exceeded: {MAX_DEPTH}")
        return node

    def parse_expression(self) -> ExprNode:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise self.compile_error(self.current.offset, f"expression recursion limit exceeded: {MAX_NESTING}")
        node = self.parse_binary(1)
        if question := self.accept("?"):
            yes = self.parse_binary(1)
            self.expect(":")
            no = self.parse_expression()
            node = self.check_depth(ConditionalExpr(question.offset, node, yes, no), node, yes, no)
        self.nesting -= 1
        return node

    def parse_binary(self, min_precedence: int) -> ExprNode:
        """Parses operators of at least this precedence."""
        left = self.parse_unary()
        while (operator := _OPERATORS.get(self.current.kind)) is not None and operator[0] >= min_precedence:
            precedence, function = operator
            token = self.advance()
            if precedence <= _LOGIC_PRECEDENCE:
                left = self.parse_logic(left, token, precedence, function)
            else:
                right = self.parse_binary(precedence + 1)
                left = self.check_depth(CallExpr(token.offset, function, None, [left, right]), left, right)
        return left

    def parse_logic(self, first: ExprNode, token: CELToken, precedence: int, function: str) -> ExprNode:
        """Collects all terms of one `&&` or `||` chain into one node."""
        terms = [first, self.parse_binary(precedence + 1)]
        while self.accept(token.kind):
            terms.append(self.parse_binary(precedence + 1))
        return self.check_depth(LogicExpr(token.offset, function, terms), *terms)

    def parse_unary(self) -> ExprNode:
        operator = self.current.kind
        if operator not in ("-", "!"):
            return self.parse_members(self.parse_primary())
        at, times = self.current.offset, 0
        while self.current.kind == operator:
            last, times = self.advance(), times + 1
        if operator == "-" and self.is_signed_number():
            token, times = self.advance(), times - 1
            operand = self.parse_members(LiteralExpr(last.offset, parse_number(self.source, token, negative=True)))
        else:
            operand = self.parse_members(self.parse_primary())
        if times % 2 == 0:
            return operand
        return self.check_depth(CallExpr(at, "-_" if operator == "-" else "!_", None, [operand]), operand)

    def is_signed_number(self) -> bool:
        """True if the current token is a number that can be negative. Unsigned numbers cannot."""
        return self.current.kind == "number" and self.current.text[-1] not in "uU"

    def parse_members(self, node: ExprNode) -> ExprNode:
        while True:
            if dot := self.accept("."):
                node = self.parse_select(node, dot)
            elif bracket := self.accept("["):
                optional = self.accept("?") is not None
                index = self.parse_expression()
                self.expect("]")
                function = "_[?_]" if optional else "_[_]"
                node = self.check_depth(CallExpr(bracket.offset, function, None, [node, index]), node, index)
            elif self.current.kind == "{" and (name := qualified_name(node)) is not None:
                node = self.parse_struct(name)
            else:
                return node

    def parse_select(self, node: ExprNode, dot: CELToken) -> ExprNode:
        optional = self.accept("?") is not None
        name = self.expect("name", f"no viable alternative at input '.{self.current.text}'")
        opening = None if optional else self.accept("(")
        if opening is None:
            return self.check_depth(SelectExpr(dot.offset, node, name.text, optional=optional), node)
        return self.parse_call(opening.offset, name.text, node)

    def parse_call(self, at: int, function: str, target: ExprNode | None) -> ExprNode:
        args = [arg for arg, _ in self.parse_list(")")]
        children = args if target is None else [target, *args]
        node = expand_macro(self.source, at, function, target, args)
        return self.check_depth(node or CallExpr(at, function, target, args), *children)

    def parse_list(self, closing: str) -> list[tuple[ExprNode, bool]]:
        items: list[tuple[ExprNode, bool]] = []
        while not self.accept(closing):
            optional = closing == "]" and self.accept("?") is not None
            items.append((self.parse_expression(), optional))
            if not self.accept(","):
                self.expect(closing, f"mismatched input '{self.current.text}' expecting {{'{closing}', ','}}")
                break
            if closing == ")" and self.current.kind == ")":
                raise self.compile_error(
                    self.current.offset, f"Syntax error: mismatched input ')' expecting {_OPERAND_TOKENS}"
                )
        return items

    def parse_struct(self, name: str) -> ExprNode:
        opening = self.expect("{")
        fields: list[tuple[int, str, ExprNode, bool]] = []
        while not self.accept("}"):
            optional = self.accept("?") is not None
            field = self.expect("name").text
            at = self.expect(":").offset
            fields.append((at, field, self.parse_expression(), optional))
            if not self.accept(","):
                self.expect("}")
                break
        return self.check_depth(StructExpr(opening.offset, name, fields), *(value for _, _, value, _ in fields))

    def parse_primary(self) -> ExprNode:
        token = self.advance()
        if token.kind == "literal":
            return LiteralExpr(token.offset, token.value)
        if token.kind == "number":
            return LiteralExpr(token.offset, parse_number(self.source, token, negative=False))
        if token.kind == "-" and self.is_signed_number():
            return LiteralExpr(token.offset, parse_number(self.source, self.advance(), negative=True))
        if token.kind == ".":
            token = self.expect("name", f"no viable alternative at input '.{self.current.text}'")
        if token.kind == "name":
            return self.parse_identifier(token)
        if token.kind == "(":
            node = self.parse_expression()
            self.expect(")")
            return node
        if token.kind == "[":
            items = self.parse_list("]")
            return self.check_depth(ListExpr(token.offset, items), *(item for item, _ in items))
        if token.kind == "{":
            return self.parse_map(token.offset)
        raise self.compile_error(
            token.offset, f"Syntax error: mismatched input '{token.text}' expecting {_OPERAND_TOKENS}"
        )

    def parse_identifier(self, token: CELToken) -> ExprNode:
        if opening := self.accept("("):
            return self.parse_call(opening.offset, token.text, None)
        if token.text in KEYWORDS:
            raise self.compile_error(token.offset, f"reserved identifier: {token.text}")
        return IdentExpr(token.offset, token.text)

    def parse_map(self, at: int) -> ExprNode:
        entries: list[tuple[ExprNode, ExprNode, bool]] = []
        while not self.accept("}"):
            optional = self.accept("?") is not None
            key = self.parse_expression()
            self.expect(":")
            entries.append((key, self.parse_expression(), optional))
            if not self.accept(","):
                self.expect("}")
                break
        return self.check_depth(MapExpr(at, entries), *(part for entry in entries for part in entry[:2]))
