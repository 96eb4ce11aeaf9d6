"""Finds the small changes to a C++ file that scripts/mutation-sample.py tries.

It does not parse C++. It relies on the layout of clang-format: spaces surround a
binary operator, but not the angle brackets of a template.
"""
import re
from dataclasses import dataclass

TURNED = {
    "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"],
    "==": ["!="], "!=": ["=="], "&&": ["||"], "||": ["&&"],
}
OPERATOR = re.compile(r"(?<=\s)(<=|>=|==|!=|<|>|&&|\|\|)(?=\s)")
ONE = re.compile(r"\s[+-]\s1u?(?![\w.'])")
NOT = re.compile(r"(?<![\w)\]])!(?=[\w(*:])")
NO_CODE = re.compile(
    r"//[^\n]*|/\*.*?\*/|R\"(\w*)\(.*?\)\1\"|\"(?:\\.|[^\"\\\n])*\""
    r"|(?<!\w)'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE)
# Matches the text before a `{` that opens a block of statements, not a list of values.
BLOCK = re.compile(r"(^|[)}\]:;]|\b(else|do|try|const|mutable|noexcept|override"
                   r"|final)|->[\w\s:<>,&*]+)$")
SCOPE = re.compile(r"\b(class|struct|union|enum|namespace|concept)\b")
LABEL = re.compile(r"(case\b[^;?]*?[^:]|default|public|private|protected):(?!:)\s*")
CONTROL = re.compile(r"(else|do)\b\s*|(if constexpr|if|while|for|switch)\s*(?=\()")
NO_CALL = re.compile(r"(return|throw|delete|new|using|goto|co_\w+|assert|static_assert)\b")


@dataclass
class Change:
    file: str
    line: int  # From 1.
    begin: int
    end: int  # Characters [begin, end) of the file are replaced by `by`.
    by: str
    text: str  # Identifies the change within its file.

    def of(self, source):
        return source[:self.begin] + self.by + source[self.end:]

    def place(self):
        return f"{self.file}:{self.line}"


def without_comments(source):
    """Returns the source with as many spaces in place of comments and literals."""
    def blank(found):
        text = found[0]
        edge = text[0] if text[0] in "\"'R" else " "
        return edge + re.sub(r"[^\n]", " ", text[1:-1]) + edge if len(text) > 1 else edge
    return NO_CODE.sub(blank, source)


def closing(code, at):
    """Returns the position after the bracket that closes the bracket at `at`."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] in "([{") - (code[i] in ")]}")
        if depth == 0:
            return i + 1
    return len(code)


def outline(statement):
    """Returns a statement without the text in its brackets."""
    out, depth = [], 0
    for c in statement:
        depth -= c in ")]}"
        if depth == 0:
            out.append(c)
        depth += c in "([{"
    return "".join(out)


def statements(code):
    """Yields the begin and end of each simple statement in the bodies of functions,
    without its semicolon."""
    levels = [["scope", 0]]  # Kind of each open bracket, and begin of the current statement in it.
    for at, c in enumerate(code):
        if c in "([":
            levels.append(["values", at + 1])
        elif c == "{":
            before = next(start for kind, start in reversed(levels) if kind != "values")
            head = code[before:at].strip()
            in_values = levels[-1][0] == "values"
            if not in_values and SCOPE.search(head) and "(" not in head:
                kind = "scope"
            else:
                kind = "block" if BLOCK.search(head) else "values"
            levels.append([kind, at + 1])
        elif c in ")]}" and len(levels) > 1:
            kind, _ = levels.pop()
            if kind != "values" and levels[-1][0] != "values":
                levels[-1][1] = at + 1
        elif c == ";":
            kind, begin = levels[-1]
            levels[-1][1] = at + 1
            if kind == "block":
                yield simple(code, begin, at), at


def simple(code, begin, end):
    """Returns where the simple statement in [begin, end) begins: after labels and conditions."""
    while begin < end:
        if code[begin].isspace():
            begin += 1
        elif found := LABEL.match(code, begin, end):
            begin = found.end()
        elif found := CONTROL.match(code, begin, end):
            begin = closing(code, found.end()) if found[2] else found.end()
        else:
            break
    return begin


def may_be_dropped(statement):
    """Returns true for an assignment, a call or an increment; false for a declaration."""
    text = outline(statement)
    if re.match(r"\+\+|--", text):
        return True
    if found := re.match(r"\*?([^=]*?)\s*[-+*/%|&^]?=(?!=)", text):
        return bool(found[1]) and not re.search(r"\s", found[1])
    return (bool(re.match(r"[A-Za-z_][^\s=]*\)$", text))
            and not NO_CALL.match(text))


def candidates_of(file, source):
    """Returns all changes to a source file, in order of position."""
    code = without_comments(source)
    found = []
    for x in OPERATOR.finditer(code):
        found += [(x.start(), x.end(), by, "") for by in TURNED[x[0]]]
    found += [(x.start(), x.end(), "", "") for x in ONE.finditer(code)]
    found += [(x.start(), x.end(), "", "") for x in NOT.finditer(code)]
    for begin, end in statements(code):
        if may_be_dropped(code[begin:end]):
            found.append((begin, end + 1, ";", " ".join(source[begin:end + 1].split())))
    changes = []
    for begin, end, by, dropped in sorted(found):
        lines = source[:begin].split("\n")
        first, last = begin - len(lines[-1]), (source + "\n").find("\n", end)
        old = " ".join(source[first:last].split())
        new = " ".join((source[first:begin] + by + source[end:last]).split())
        text = f"`{dropped}` dropped" if dropped else f"`{old}` -> `{new}`"
        above = [line.strip() for line in lines[:-1] if line.strip()]
        changes.append((Change(file, len(lines), begin, end, by, text),
                        above[-1] if above else ""))
    texts = [change.text for change, _ in changes]
    for change, above in changes:
        if texts.count(change.text) > 1:
            change.text += f" after `{above}`"
    return [change for change, _ in changes]
