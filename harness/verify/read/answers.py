r"""The grammar of answers: what a box, or the rest of an answer line, says.

    text     := sentence*                        the first sentence that gives a value counts; one that is asked gives none
    sentence := clause (boundary clause)* [remark]        the last clause that gives a value counts
    clause   := [subject copula] filler* value [copula affirmation]
    value    := the grammar of values, with units and things counted, up to a preposition
    copula   := is | are | equals | has | = | ≈ | :
    boundary := so | but | no | wait | a comma or `and` before a word
    remark   := a dash, because, since, which, where, a word in brackets

A clause that denies or doubts gives no value, and what bounds a value (`at least 5`) is none. A sign in words is a sign, and
`which is 5` or `i.e. 5` is another form of the value. The rules are regular expressions over the kinds of tokens, one letter a
token: small letters are words by what they do (`words.class_of`), N an operand, O an operator, E a sign of equality, R another
relation, D a dash.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from harness.verify.read import words
from harness.verify.read.grammar import Node, date, label, plain_words, value
from harness.verify.read.tokens import Token, render, tokenize

_EQUALS, _MINUS = Token("relation", "=", True), Token("operator", "-", True)
_CODES = dict.fromkeys(("number", "name", "letters", "group", "command"), "N") | {"operator": "O", "relation": "R"}
_PLAIN_SIGNS = ("=", ",", "{", r"\{", "[")
_PLAIN = ("number", "name", "letters", "command", "operator")
_SIGNS = {"%": "P", ",": ",", ";": ",", "and": "&", "or": "|", "—": "D", ":": ":", "=": "E", r"\approx": "E"}
_ABBREVIATIONS = frozenset(("approx", "ca", "eq", "vs", "i.e", "e.g", "resp", "fig", "sq", "cu"))

_OPENING = re.compile(r"(?:[D,:]|(?:o(?=[,:](?!r))|k)(?=.*N))+")
_RESTATED = re.compile(r",?(?:i|[qt]c)[,M]*(?=[^a-z]+$)")
_REMARK = re.compile(r"(?P<kept>[^Ny]*(?:N|y|o(?=,?r)).*?),*[Drq].*")
_SIGNED = re.compile(r"(?<![N!])s[pf]*(?=[Nn])")
_BOUNDARY = re.compile(r"^|(?<!d)l|(?<=[NPwko,])[ko]|[,&](?=[b-z])")
_CLAUSE = re.compile(
    r"(?P<subject>.*(?:c|E(?=[a-z])|(?<![NP]):))?(?P<lead>[a-z]*)(?P<value>[^a-z].*?)(?P<tail>c[a-z]*)?"
)
_LAST = re.compile(r"(?P<subject>.*c)?(?P<lead>(?:.*[a-z])?)(?P<value>[^a-z]+[a-z]*)(?P<tail>)")
_RESULT = re.compile(r".*[a-z].*E(?P<value>[^a-zE][^E]*)")
_ADDED = re.compile(r"(?<=[NOPMw])p[^,&|]+")


@lru_cache(maxsize=50_000)
def read_answer(text: str, prose: bool = False, last: bool = False) -> Node | None:
    """Return the value that a text gives, None where it gives none. Raises `OverLimit` or another `RecursionError`.

    Args:
        text: what stands in a box, or behind the marker of an answer line.
        prose: the text is a line, where any words may stand before the value and numbers behind it; in a box they make it a text.
        last: of a line without a copula the last value counts, not the first.
    """
    tokens = tokenize(text)
    if tokens and all(token.kind in _PLAIN or token.text in _PLAIN_SIGNS for token in tokens) and "!" not in text:
        return value(tokens)  # nothing is said in words
    return _answer(_sentences(list(tokens), prose), prose, last)


def _answer(sentences: list[tuple[list[Token], bool]], prose: bool, last: bool) -> Node | None:
    found: Node | None = None
    for sentence, is_asked in reversed(sentences) if last else sentences:
        if is_asked or (found is not None and not re.match("k|o,", code_of(sentence))):
            continue  # a later sentence counts only as a correction
        node = _sentence(sentence, prose, last)
        if node is not None and node.text and not (node.kind == "words" and (found or (last and len(sentences) > 1))):
            found = node
    return found


def read_text(text: str) -> Node:
    """Return the value that a box or a gold answer gives; where it gives none, its text. Raises `OverLimit`."""
    return read_answer(text) or _as_text(tokenize(text))


def _as_text(tokens: Sequence[Token]) -> Node:
    return Node("words", render(tokens), mark=plain_words(tokens))


def code_of(tokens: Sequence[Token]) -> str:
    """Return what each token does, a letter each."""
    return "".join(
        words.class_of(token.text) if token.kind == "word" else _SIGNS.get(token.text) or _CODES.get(token.kind, "M")
        for token in tokens
    )


def _sentences(tokens: list[Token], prose: bool) -> list[tuple[list[Token], bool]]:
    """Return the sentences of a text, and which are asked."""
    sentences, start = [], 0
    for place, token in enumerate(tokens):
        is_end = place + 1 == len(tokens) or tokens[place + 1].spaced
        is_full_stop = token.text == "." and place > start and tokens[place - 1].text not in _ABBREVIATIONS
        is_label = place - start < 3 and label(tokens[start:]) is not None
        is_exclamation = token.text == "!" and prose and token.raw != "$"
        if is_end and (token.text == "?" or (is_full_stop and not is_label) or is_exclamation):
            sentences.append((tokens[start:place], token.text == "?"))
            start = place + 1
    return [*sentences, (tokens[start:], False)] if start < len(tokens) else sentences


def _sentence(tokens: list[Token], prose: bool, last: bool) -> Node | None:
    """Return the value of the last clause of a sentence that gives one; a correction takes back what stands before it."""
    tokens = _without_remarks(tokens)
    code = code_of(tokens)
    if "N" not in code:
        return value(tokens) if plain_words(tokens) else None
    if not any(map(str.islower, code)) or date(tokens, "") is not None:
        return value(tokens)
    end = len(code)
    for boundary in reversed(list(_BOUNDARY.finditer(code))):
        node = _clause(tokens[boundary.end() : end], prose, last)
        if node is not None or boundary[0] in "ko":
            return node
        end = boundary.start()
    return None


def _without_remarks(tokens: list[Token]) -> list[Token]:
    """Return a sentence without what explains its answer, with `which is` as a sign of equality, and signs in words as signs."""
    kept: list[Token] = []
    for place, token in enumerate(tokens):
        is_dash = token.text == "-" and token.spaced and place + 1 < len(tokens) and tokens[place + 1].spaced
        if kept and token.text == "(" and token.spaced and token.items and _is_remark(token):
            kept += token.items if token.items[0].text == "or" else ()
        elif kept and is_dash and tokens[place + 1].kind == "word" and words.class_of(tokens[place + 1].text) != "s":
            kept.append(Token("mark", "—"))
        else:
            kept.append(token)
    code = code_of(kept)
    if opening := _OPENING.match(code):
        kept = kept[opening.end() :]
        code = code[opening.end() :]
    if restated := _RESTATED.search(code, 1):
        kept[restated.start() : restated.end()] = [_EQUALS]
    elif remark := _REMARK.fullmatch(code):
        kept = kept[: remark.end("kept")]
    for sign in reversed(list(_SIGNED.finditer(code_of(kept)))):
        number = kept[sign.end()]
        if number.text in words.NUMBERS:
            kept[sign.end()] = Token("number", str(words.NUMBERS[number.text]))
        is_minus = kept[sign.start()].text in ("negative", "minus", "opposite")
        kept[sign.start() : sign.end()] = [_MINUS] * is_minus
    return kept


def _is_remark(group: Token) -> bool:
    """Return whether a bracket holds words: `(five)`, `(or 0.75)`, `(see figure)`, but not `(5 apples, 6 pears)`."""
    code = code_of(group.items)
    return code[0] == "|" or (
        any(map(str.islower, code)) and (code[0] != "N" or group.items[0].kind != "number" or "c" in code)
    )


def _clause(tokens: list[Token], prose: bool, last: bool) -> Node | None:
    """Return the value that a clause gives, None where it denies, doubts or bounds one, or is not complete."""
    code = code_of(tokens)
    if "N" not in code:
        return None
    if (found := label(tokens)) is not None and any(map(str.islower, code_of(found[1]))):
        content = _sentence(list(found[1]), False, False)
        return Node("choice", render(tokens), () if content is None else (content,), mark=found[0])
    if re.search("[dho]|[a-z]N:[a-z]", code):
        return None  # `Step 1: add two` is a heading
    if result := _RESULT.fullmatch(code):
        tokens, code = tokens[result.start("value") :], result["value"]
    clause = (_LAST if last and "c" not in code else _CLAUSE).fullmatch(code)
    if clause is None:
        return None
    subject, rest = tokens[: max(0, clause.end("subject") - 1)], tokens[clause.start("value") : clause.end("value")]
    lead, tail = clause["lead"], tokens[clause.end("value") :][1:]
    has_number = any(token.kind == "number" or token.items or token.text in {*"ABCDEFGHIJ"} for token in rest)
    if tail and not has_number and not all(token.text in words.AFFIRMED for token in tail):
        return value(tail)  # `n is even`
    if "b" in lead[-3:]:
        return None
    is_call = bool(lead) and rest[0].text == "(" and not rest[0].spaced
    if is_call or (not prose and not subject and re.search("[^fpax]", lead)):
        return _as_text(tokens)
    if subject and not any(map(str.islower, code_of(subject))):
        return value([*subject, _EQUALS, *_quantity(rest)])
    return value(_quantity(rest))


def _quantity(tokens: list[Token]) -> list[Token]:
    """Return a value and its unit without what is added to it: `18 cm in length`."""
    code = code_of(tokens)
    for added in reversed(list(_ADDED.finditer(code))):
        if code[added.start() - 1] != "P" and added.end() - added.start() > 1:
            del tokens[added.start() : added.end()]
    return tokens
