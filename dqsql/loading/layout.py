"""Reads the layout of a SELECT from its tokens: where its columns stand, and their names.

Works on tokens, not on a syntax tree: sqlglot rejects some SQL that Spark accepts, and Spark has
the last word on syntax. Only what would make positions meaningless is an error here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from dqsql.dialect import tokenize
from dqsql.errors import SqlSyntaxError
from dqsql.loading.scanner import TextProblem, blank, scan


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OPENERS = {TokenType.L_PAREN: ")", TokenType.L_BRACKET: "]", TokenType.L_BRACE: "}"}
_CLOSERS = {TokenType.R_PAREN: ")", TokenType.R_BRACKET: "]", TokenType.R_BRACE: "}"}
_SET_OPERATORS = (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT)
_QUERY_STARTS = (TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.VALUES)
_CLAUSES = (
    *(TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY),
    *(TokenType.SORT_BY, TokenType.CLUSTER_BY, TokenType.DISTRIBUTE_BY, TokenType.LIMIT),
    *(TokenType.OFFSET, TokenType.LATERAL, TokenType.PIPE_GT),
)
_ROW_LIMITS = (TokenType.LIMIT, TokenType.OFFSET)
_LIMITS = (TokenType.NUMBER, TokenType.L_PAREN, TokenType.PARAMETER, TokenType.COLON, TokenType.ALL)
_BEHIND_CTE_NAMES = (TokenType.COMMA, TokenType.ALIAS)
_CASTS = ("cast", "try_cast")
_LITERALS = (
    *(TokenType.NUMBER, TokenType.STRING, TokenType.RAW_STRING),
    *(TokenType.HEX_STRING, TokenType.BYTE_STRING, TokenType.BIT_STRING),
)
# Words behind which an identifier is an operand and no alias.
_OPERATOR_WORDS = _words(
    "and or not is like ilike rlike regexp in between div from distinct over escape collate "
    "when then else case any some all exists interval"
)
# Words that go on with an expression, and are no names of it.
_GOING_ON = _OPERATOR_WORDS | _words("over filter within as at with respect ignore nulls end")
_FUNCTIONS_WITHOUT_PARENTHESES = _words(
    "current_date current_timestamp current_time current_user localtimestamp session_user "
    "true false null current_catalog current_schema current_database"
)
# Operators of pipes that change which columns there are.
_RESHAPING = _words(
    "extend set drop rename aggregate pivot unpivot join inner left right full cross natural"
    " semi anti lateral"
)
_INTERVAL_UNITS = frozenset(
    f"{unit}{s}"
    for unit in _words("year quarter month week day hour minute second millisecond microsecond")
    for s in ("", "s")
)


class LayoutProblem(TextProblem):
    """Gross error in the SQL, at an offset of the rendered text."""


@dataclass(frozen=True, slots=True)
class Item:
    """One projection: its name, or None, its tokens, and whether it is a star."""

    name: str | None
    tokens: tuple[Token, ...]
    is_star: bool

    @property
    def listed(self) -> tuple[str, ...]:
        """The names of a generator's columns: `inline(structs) as (a, b)`."""
        words = [t for t in self.tokens if t.token_type is not TokenType.COMMA]
        starts = [i for i, t in enumerate(words) if t.token_type is TokenType.ALIAS]
        behind = words[starts[-1] + 1 :] if starts else []
        names = behind[1:-1]
        is_list = bool(names) and behind[0].token_type is TokenType.L_PAREN
        if not is_list or any(t.token_type is TokenType.R_PAREN for t in names):
            return ()
        return tuple(t.text for t in names)

    @property
    def start(self) -> int:
        """Offset of the first character."""
        return self.tokens[0].start

    @property
    def end(self) -> int:
        """Offset behind the last character."""
        return self.tokens[-1].end + 1


@dataclass(frozen=True, slots=True)
class Branch:
    """One SELECT of the final query; several when it is a set operation.

    `select` is the offset of the SELECT keyword and `list_end` the offset where the select list
    ends: at FROM or another clause, or where the branch ends (`has_clause` False). The columns of
    one that is `reshaped` are others in the end: `select a from t |> rename a as b`.
    """

    select: int
    items: tuple[Item, ...]
    list_end: int
    has_clause: bool
    reshaped: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """The branches of the final query, and the parentheses that hold another query."""

    branches: tuple[Branch, ...]
    subqueries: tuple[tuple[int, int], ...]
    semicolons: tuple[int, ...]

    @property
    def items(self) -> tuple[Item, ...]:
        """The output columns: the projections of the first branch."""
        return self.branches[0].items


def read_layout(sql: str) -> Layout:
    """Read the layout of rendered SQL. Raises LayoutProblem."""
    tokens = _tokens(sql)
    pairs = _pairs(tokens)
    statement, semicolons = _one_statement(tokens)
    if not statement:
        raise LayoutProblem("there is no SELECT in this file", 0, hint="write a SELECT statement")
    reader = _Reader(statement, pairs, len(sql))
    branches = tuple(reader.branches(0, len(statement)))
    if not branches:
        first = statement[0]
        raise LayoutProblem(
            "there is no SELECT whose columns could be checked",
            first.start,
            first.text,
            "a check model is one SELECT statement",
        )
    subqueries = tuple(
        (statement[i].start, statement[j].end)
        for i, j in pairs.items()
        if i not in reader.unwrapped and _opens_query(statement, i)
    )
    return Layout(branches, subqueries, semicolons)


def _tokens(sql: str) -> list[Token]:
    scanned = scan(sql, jinja=False)
    if scanned.unclosed_quote is not None:
        quote = sql[scanned.unclosed_quote]
        raise LayoutProblem(f"the quote {quote} is never closed", scanned.unclosed_quote, quote)
    for segment in scanned.segments:
        if not segment.closed:
            raise LayoutProblem("the comment is never closed", segment.start, "/*")
    try:
        return tokenize(blank(sql, scanned.hidden))
    except SqlSyntaxError as error:
        raise LayoutProblem(error.message.splitlines()[-1], 0) from error


def _one_statement(tokens: list[Token]) -> tuple[list[Token], tuple[int, ...]]:
    ends = [i for i, t in enumerate(tokens) if t.token_type is TokenType.SEMICOLON]
    if not ends:
        return tokens, ()
    rest = [t for t in tokens[ends[0] :] if t.token_type is not TokenType.SEMICOLON]
    if rest:
        raise LayoutProblem(
            "more than one statement", rest[0].start, rest[0].text, "one file holds one SELECT"
        )
    return tokens[: ends[0]], tuple(tokens[i].start for i in ends)


def _pairs(tokens: list[Token]) -> dict[int, int]:
    """The index of the closing parenthesis or bracket by that of the opening one.

    Raises LayoutProblem: one is missing.
    """
    pairs: dict[int, int] = {}
    stack: list[int] = []
    for i, token in enumerate(tokens):
        if token.token_type in _OPENERS:
            stack.append(i)
        elif token.token_type in _CLOSERS:
            closer = _CLOSERS[token.token_type]
            if not stack or _OPENERS[tokens[stack[-1]].token_type] != closer:
                raise LayoutProblem(f"{closer!r} has no opening counterpart", token.start, closer)
            pairs[stack.pop()] = i
    if stack:
        opener = tokens[stack[-1]]
        raise LayoutProblem(f"{opener.text!r} is never closed", opener.start, opener.text)
    return pairs


def _opens_query(tokens: list[Token], index: int) -> bool:
    while index < len(tokens) and tokens[index].token_type is TokenType.L_PAREN:
        index += 1
    return index < len(tokens) and tokens[index].token_type in _QUERY_STARTS


class _Reader:
    """Finds the branches of a query between two token indexes."""

    def __init__(self, tokens: list[Token], pairs: dict[int, int], text_end: int) -> None:
        self.tokens = tokens
        self.pairs = pairs
        self.text_end = text_end
        self.unwrapped: set[int] = set()

    def branches(self, start: int, end: int) -> Iterator[Branch]:
        start = self._after_with(start, end)
        for left, right in self._operands(start, end):
            if left < right and self._type(left) is TokenType.L_PAREN:
                self.unwrapped.add(left)
                yield from self.branches(left + 1, self.pairs[left])
            elif (select := self._find_select(left, right)) is not None:
                yield self._branch(select, right)

    def _type(self, index: int) -> TokenType:
        return self.tokens[index].token_type

    def _top_level(self, start: int, end: int) -> Iterator[int]:
        """Indexes of the tokens that are in no parentheses."""
        index = start
        while index < end:
            yield index
            index = self.pairs.get(index, index) + 1

    def _after_with(self, start: int, end: int) -> int:
        if start >= end or self._type(start) is not TokenType.WITH:
            return start
        # `with a as (..), b (x) as (..)`: the query starts behind a `)` that no comma, AS or
        # opening parenthesis follows.
        previous = start
        for index in self._top_level(start + 1, end):
            closed = self.pairs.get(previous, previous) != previous
            # `r (n) max recursion level 50 as (..)`
            is_level = self.tokens[index].text.lower() == "max"
            if closed and not is_level and self._type(index) not in _BEHIND_CTE_NAMES:
                return index
            previous = index
        return end

    def _operands(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        left = start
        for index in self._top_level(start, end):
            if self._is_set_operator(index, start):
                yield left, index
                left = self._after_quantifier(index + 1, end)
        yield left, end

    def _is_set_operator(self, index: int, start: int) -> bool:
        is_minus = self.tokens[index].text.lower() == "minus" and index + 1 < len(self.tokens)
        if is_minus:
            following = self._type(index + 1)
            return following in (TokenType.SELECT, TokenType.ALL, TokenType.DISTINCT) or (
                following is TokenType.L_PAREN and _opens_query(self.tokens, index + 1)
            )
        if self._type(index) not in _SET_OPERATORS or index == start:
            return False
        # `* except (a)` leaves columns out.
        return self._type(index - 1) not in (TokenType.STAR, TokenType.DOT, TokenType.ALIAS)

    def _after_quantifier(self, index: int, end: int) -> int:
        if index < end and self._type(index) in (TokenType.ALL, TokenType.DISTINCT):
            return index + 1
        return index

    def _find_select(self, start: int, end: int) -> int | None:
        # Hive's `from t select a` puts FROM first.
        if start < end and self._type(start) not in (TokenType.SELECT, TokenType.FROM):
            return None
        indexes = list(self._top_level(start, end))
        selects = [i for i in indexes if self._type(i) is TokenType.SELECT]
        # Of `from t |> select a |> where .. |> select b` the last one has the columns.
        piped = [i for i in selects if i > start and self._type(i - 1) is TokenType.PIPE_GT]
        return piped[-1] if piped else next(iter(selects), None)

    def _branch(self, select: int, end: int) -> Branch:
        items: list[Item] = []
        current: list[int] = []
        index = self._after_quantifier(select + 1, end)
        stop = end
        while index < end:
            if self._ends_list(index, current):
                stop = index
                break
            if self._type(index) is TokenType.COMMA:
                items.append(self._item(current, index))
                current = []
                index += 1
                continue
            following = self._next(index, end)
            current.extend(range(index, following))
            index = following
        items.append(self._item(current, stop))
        list_end = self._start_of(stop)
        reshaped = any(
            self._type(i) is TokenType.PIPE_GT
            and i + 1 < end
            and self.tokens[i + 1].text.lower() in _RESHAPING
            for i in self._top_level(stop, end)
        )
        return Branch(self.tokens[select].start, tuple(items), list_end, stop < end, reshaped)

    def _start_of(self, index: int) -> int:
        return self.tokens[index].start if index < len(self.tokens) else self.text_end

    def _next(self, index: int, end: int) -> int:
        """The index behind the token, or behind the parentheses or type that it opens."""
        if index in self.pairs:
            return self.pairs[index] + 1
        if self._type(index) is not TokenType.DCOLON:
            return index + 1
        # `a::struct<x:int, y:int>`: the commas of a type separate no projections.
        index, depth = index + 1, 0
        while index < end:
            text = self.tokens[index].text
            if text in ("<", "<>"):
                depth += text == "<"
            elif text and set(text) == {">"}:
                depth -= len(text)
            elif depth == 0 and index + 1 < end and self.tokens[index + 1].text != "<":
                return index + 1
            index += 1
            if depth <= 0 and text and set(text) == {">"}:
                return index
        return end

    def _outline(self, start: int, end: int) -> Iterator[Token]:
        """The tokens in no parentheses; of a type behind `::` only the last one."""
        while start < end:
            yield self.tokens[start]
            following = self._next(start, end)
            if self._type(start) is TokenType.DCOLON:
                yield self.tokens[following - 1]
            start = following

    def _ends_list(self, index: int, current: list[int]) -> bool:
        kind = self._type(index)
        before = self._type(index - 1)
        if before in (TokenType.DOT, TokenType.ALIAS):
            return False
        if kind is TokenType.FROM:
            # `a is [not] distinct from b`
            return not (before is TokenType.DISTINCT and len(current) > 1)
        if kind in _ROW_LIMITS and self._type(index + 1) not in _LIMITS:
            # A column of this name, as in `max_offset - offset`.
            return False
        return kind in _CLAUSES and bool(current)

    def _item(self, indexes: list[int], at: int) -> Item:
        if not indexes:
            offset = self._start_of(at)
            text = self.tokens[at].text if at < len(self.tokens) else ""
            raise LayoutProblem(
                "a column is missing in the select list",
                min(offset, max(0, self.text_end - 1)),
                text,
                "remove the comma, or write the column",
            )
        tokens = tuple(self.tokens[i] for i in indexes)
        top = list(self._outline(indexes[0], indexes[-1] + 1))
        star = _is_star(top)
        name = None if star else _name(top) or self._name_inside(indexes[0], indexes[-1] + 1)
        return Item(name, tokens, star)

    def _name_inside(self, start: int, end: int) -> str | None:
        """The name of a column in parentheses, or in one cast: Spark keeps it."""
        while self.pairs.get(start) == end - 1 and self._type(start) is TokenType.L_PAREN:
            start, end = start + 1, end - 1
        if end - start == 1 or self._type(start + 1) is TokenType.DOT:
            return _name(list(self.tokens[start:end]))
        if self.tokens[start].text.lower() in _CASTS and self.pairs.get(start + 1) == end - 1:
            stops = (i for i in range(start + 2, end) if self._type(i) is TokenType.ALIAS)
            return self._only_word(start + 2, next(stops, start + 2))
        stop = self.pairs.get(start, start) + 1
        if stop >= end or self._type(stop) is not TokenType.DCOLON:
            return None
        behind = self._next(stop, end)
        # decimal(10, 2)
        behind = self.pairs.get(behind, behind - 1) + 1
        return self._only_word(start, stop) if behind == end else None

    def _only_word(self, start: int, end: int) -> str | None:
        """A column in parentheses or not; what has a dot may be a field, whose name is longer."""
        while self.pairs.get(start) == end - 1 and self._type(start) is TokenType.L_PAREN:
            start, end = start + 1, end - 1
        return _name([self.tokens[start]]) if end - start == 1 else None


def name_behind(item: Item, offset: int) -> Token | None:
    """The word behind `offset` that SQL takes for the name of what stands before it, without AS.

    None where the expression goes on there, or ends.
    """
    before = sum(token.start < offset for token in item.tokens)
    if not 0 < before < len(item.tokens):
        return None
    kinds = [token.token_type for token in item.tokens[:before]]
    if sum(k in _OPENERS for k in kinds) != sum(k in _CLOSERS for k in kinds):
        return None
    word = item.tokens[before]
    if not _is_word(word) or word.text.lower() in _GOING_ON:
        return None
    before_it = item.tokens[before - 1]
    if before_it.token_type is TokenType.ALIAS:
        return None
    if before_it.token_type in _CLOSERS:
        return word
    return word if _is_implicit_alias(list(item.tokens[: before + 1])) else None


def _is_star(tokens: list[Token]) -> bool:
    index = 0
    while index + 1 < len(tokens) and tokens[index + 1].token_type is TokenType.DOT:
        index += 2
    return index < len(tokens) and tokens[index].token_type is TokenType.STAR


def _is_word(token: Token) -> bool:
    if token.token_type is TokenType.IDENTIFIER:
        return True
    if token.token_type in _LITERALS:
        return False
    text = token.text
    return bool(text) and (text[0].isalnum() or text[0] == "_") and text.replace("_", "a").isalnum()


def _name(tokens: list[Token]) -> str | None:
    """The output name of a projection, from its tokens outside of parentheses."""
    last = tokens[-1]
    if not _is_word(last):
        return None
    if len(tokens) == 1:
        is_function = last.token_type is not TokenType.IDENTIFIER and (
            last.text.lower() in _FUNCTIONS_WITHOUT_PARENTHESES
        )
        return None if is_function else last.text
    before = tokens[-2]
    if before.token_type is TokenType.ALIAS:
        return last.text
    if before.token_type is TokenType.DOT:
        is_path = all(
            _is_word(t) if i % 2 == 0 else t.token_type is TokenType.DOT
            for i, t in enumerate(tokens)
        )
        return last.text if is_path else None
    return last.text if _is_implicit_alias(tokens) else None


def _is_implicit_alias(tokens: list[Token]) -> bool:
    last, before = tokens[-1], tokens[-2]
    quoted = last.token_type is TokenType.IDENTIFIER
    word = last.text.lower()
    if not quoted:
        if word in ("end", "null", "true", "false", "unknown"):
            return False
        if word == "nulls" and before.text.lower() in ("ignore", "respect"):
            return False
        has_interval = any(t.token_type is TokenType.INTERVAL for t in tokens)
        if has_interval and word in _INTERVAL_UNITS:
            return False
    if before.token_type is TokenType.IDENTIFIER or before.token_type in _LITERALS:
        return True
    if before.token_type in _OPENERS:
        return True
    if before.token_type is TokenType.GT and TokenType.DCOLON in [
        t.token_type for t in tokens[-3:-2]
    ]:
        # The end of `::array<int>`, no comparison.
        return True
    return _is_word(before) and before.text.lower() not in _OPERATOR_WORDS
