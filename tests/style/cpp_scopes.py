"""Finds the classes and functions of a C++ file, and where they stand. It parses namespaces,
classes and the declarators of functions, and skips the rest: it is enough for sources that
clang-format has formatted and that compile.
"""
import re
from dataclasses import dataclass, field

TOKEN = re.compile(
    r"""(?P<skip>\s+|//(?:\\\n|[^\n])*|/\*.*?\*/|(?<![^\n])[ \t]*\#(?:\\\n|[^\n])*)
      |(?P<text>(?:u8|[uUL])?R"(?P<mark>[^()\s]*)\(.*?\)(?P=mark)"|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"
               |(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
      |(?P<word>[A-Za-z_]\w*)|(?P<number>\.?\d(?:[eEpP][+-]|'\w|[\w.])*)
      |(?P<sign>::|->\*?|\.\.\.|<=>|==|!=|<=|&&|\|\||\+\+|--|<<=|<<|[-+*/%&|^]=|.)""",
    re.DOTALL | re.VERBOSE)
CLOSING = {"(": ")", "[": "]", "{": "}"}
SPECIFIERS = {"typedef", "static", "inline", "constexpr", "friend", "extern", "const"}


@dataclass
class Function:
    name: str  # Last component, as in `push`, `~queue` or `operator==`.
    within: tuple  # Names of the namespaces and classes that are open, and of the declarator.
    position: int  # Token of the name.
    line: int
    is_member: bool  # It is declared in the body of a class.
    qualifiers: tuple = ()  # Of the declarator: ("queue",) in `void queue::push()`.
    access: str = "public"
    is_definition: bool = False
    is_special: bool = False  # A constructor, an operator, a friend or an override.
    body: tuple = (0, 0)  # Tokens [begin, end), with the initializers of a constructor.


@dataclass
class Source:
    file: str
    words: list = field(default_factory=list)  # The tokens without comments and directives.
    lines: list = field(default_factory=list)
    includes: list = field(default_factory=list)  # Paths of troupe/<path>.
    classes: dict = field(default_factory=dict)  # Scope of each class that is defined -> line.
    aliases: set = field(default_factory=set)  # Scopes of the names of `using x = ...`.
    namespaces: set = field(default_factory=set)
    functions: list = field(default_factory=list)


def tokens_of(source, text):
    line = 1
    for match in TOKEN.finditer(text):
        if match.lastgroup != "skip" and not match["skip"]:
            source.words.append('""' if match["text"] else match.group())
            source.lines.append(line)
        line += match.group().count("\n")


def skip_balanced(words, i):
    """The index after the bracket that closes the one at i."""
    depth = 0
    while i < len(words):
        depth += (words[i] in CLOSING) - (words[i] in CLOSING.values())
        i += 1
        if depth == 0:
            break
    return i


def skip_angles(words, i):
    """The index after the > that closes the < at i."""
    depth = 0
    while i < len(words):
        if words[i] in CLOSING:
            i = skip_balanced(words, i)
            continue
        depth += (words[i] == "<") - (words[i] == ">")
        if words[i] in (";", "}"):
            break
        i += 1
        if depth == 0:
            break
    return i


class Parser:
    def __init__(self, source):
        self.source = source
        self.words = source.words

    def qualifiers_before(self, i, begin):
        """The names of `a::b<c>::` before the token i, and where they begin."""
        words, names = self.words, []
        while i - 2 >= begin and words[i - 1] == "::":
            j = i - 2
            if words[j] == ">":
                depth = 0
                while j > begin:
                    depth += (words[j] == ">") - (words[j] == "<")
                    j -= 1
                    if depth == 0:
                        break
            if not re.match(r"[A-Za-z_]", words[j]):
                break
            names.insert(0, words[j])
            i = j
        return tuple(names), i

    def declarator(self, begin, end):
        """The name of the function in the tokens [begin, end) of a declaration: (name, its
        qualifiers, its token, the token of its parameters), or None."""
        words, i = self.words, begin
        while i < end:
            word = words[i]
            if word == "operator":
                j = i + 1
                if words[j] in ("(", "["):
                    j += 2
                while j < end and words[j] != "(":
                    j = skip_angles(words, j) if words[j] == "<" and j > i + 1 else j + 1
                name = "operator" + "".join(words[i + 1:j])
                return (name, self.qualifiers_before(i, begin)[0], i, j) if j < end else None
            if word == "=":
                return None
            if word == "<" and i > begin and re.match(r"[A-Za-z_]", words[i - 1]):
                i = skip_angles(words, i)
            elif word in ("decltype", "noexcept", "alignas", "requires", "explicit") \
                    and words[i + 1] == "(":
                i = skip_balanced(words, i + 1)
            elif word == "(":
                at = i - 1
                if words[at] == ">":  # f<int>()
                    while at > begin and words[at] != "<":
                        at -= 1
                    at -= 1
                if at < begin or not re.match(r"[A-Za-z_]", words[at]):
                    return None
                name, first = words[at], at
                if at > begin and words[at - 1] == "~":
                    name, first = "~" + name, at - 1
                return name, self.qualifiers_before(first, begin)[0], at, i
            elif word in CLOSING:
                i = skip_balanced(words, i)
            else:
                i += 1
        return None

    def after_initializers(self, i):
        """The index of the body after the initializers of a constructor that begin at i."""
        words = self.words
        while True:
            while words[i] not in ("(", "{"):
                i = skip_angles(words, i) if words[i] == "<" else i + 1
            i = skip_balanced(words, i)
            if words[i] == "...":
                i += 1
            if words[i] != ",":
                return i

    def add_function(self, begin, end, scope, in_class, access, found, definition, body):
        name, qualifiers, position, _ = found
        head = self.words[begin:position]
        last = qualifiers[-1] if qualifiers else (scope[-1] if scope and in_class else None)
        is_special = (name.lstrip("~") == last or name.startswith("operator")
                      or "friend" in head or "override" in self.words[position:end]
                      or "final" in self.words[position:end])
        # A variable with an initializer in parentheses, a macro, or a deduction guide.
        if not head and not qualifiers and not is_special:
            return
        if any(x in head for x in ("return", "using", "typedef")):
            return
        self.source.functions.append(Function(
            name, scope + qualifiers, position, self.source.lines[position], in_class, qualifiers,
            access, definition, is_special, body))

    def scope(self, i, scope, class_kind=None):
        """Parses the body of a namespace or class from the token i. Returns the index after it."""
        words, in_class = self.words, class_kind is not None
        access = "private" if class_kind == "class" else "public"
        while i < len(words) and words[i] != "}":
            if words[i] in ("public", "protected", "private") and words[i + 1] == ":":
                access, i = words[i], i + 2
            elif re.fullmatch(r"[A-Z][A-Z0-9_]+", words[i]) and words[i + 1] == "(":
                i = skip_balanced(words, i + 1)  # A macro.
            elif words[i] == ";":
                i += 1
            else:
                i = self.declaration(i, scope, in_class, access)
        return i + 1

    def declaration(self, begin, scope, in_class, access):
        words, source = self.words, self.source
        i = begin
        while words[i] in ("template", "[") or words[i] in SPECIFIERS \
                or words[i] in ("alignas", "requires", "__attribute__"):
            if words[i] == "template":
                i = skip_angles(words, i + 1) if words[i + 1] == "<" else i + 1
            elif words[i] == "[":
                i = skip_balanced(words, i)
            elif words[i] == "requires":
                i = self.skip_requires(i + 1)
            elif words[i] in SPECIFIERS:
                if words[i] == "extern" and words[i + 1] == '""' and words[i + 2] == "{":
                    return self.scope(i + 3, scope)
                i += 1
            else:
                i = skip_balanced(words, i + 1)
        head = i
        if words[i] == "namespace":
            names = []
            while words[i] not in ("{", ";", "="):
                if re.match(r"[A-Za-z_]", words[i]) and words[i] not in ("namespace", "inline"):
                    names.append(words[i])
                i += 1
            if words[i] == "{":
                for count in range(1, len(names) + 1):
                    source.namespaces.add(scope + tuple(names[:count]))
                return self.scope(i + 1, scope + tuple(names))
            return self.after_semicolon(i)
        if words[i] == "using":
            if words[i + 2] in ("=", "["):
                source.aliases.add(scope + (words[i + 1],))
            return self.after_semicolon(i)
        if words[i] in ("class", "struct", "union"):
            names, j = [], i + 1
            while words[j] not in ("{", ";", ":", "(", "=", "&", "*"):
                if words[j] == "alignas" or words[j] == "__align__":
                    j = skip_balanced(words, j + 1)
                elif words[j] == "[":
                    j = skip_balanced(words, j)
                elif words[j] == "<":
                    j = skip_angles(words, j)
                else:
                    if words[j] not in ("final", "::"):
                        names.append(words[j])
                    j += 1
            if words[j] == ":":
                while words[j] not in ("{", ";"):
                    j = skip_balanced(words, j) if words[j] == "(" else j + 1
            if words[j] == "{":
                inner = scope + tuple(names)
                source.classes.setdefault(inner, source.lines[i])
                return self.after_semicolon(self.scope(j + 1, inner, words[i]))
        if words[i] == "enum":
            return self.after_semicolon(i)
        # A variable or a function.
        found = self.declarator(head, self.end_of_head(head))
        i = found[3] if found else head
        while words[i] not in (";", "{", "="):
            if found and words[i] == ":":
                body = self.after_initializers(i + 1)
                end = skip_balanced(words, body)
                self.add_function(begin, i, scope, in_class, access, found, True, (i, end))
                return end
            i = skip_balanced(words, i) if words[i] in CLOSING else i + 1
        if found and words[i] == "{":
            end = skip_balanced(words, i)
            self.add_function(begin, i, scope, in_class, access, found, True, (i, end))
            return end
        if found:
            is_defaulted = words[i] == "=" and words[i + 1] == "default"
            self.add_function(begin, i, scope, in_class, access, found, is_defaulted, (i, i))
        return self.after_semicolon(i)

    def skip_requires(self, i):
        """The index after the constraint at i, which is in parentheses or names concepts."""
        words = self.words
        while True:
            if words[i] == "(":
                i = skip_balanced(words, i)
            else:
                i += 1
                while words[i] == "::":
                    i += 2
                if words[i] == "<":
                    i = skip_angles(words, i)
            if words[i] not in ("&&", "||"):
                return i
            i += 1

    def end_of_head(self, i):
        words = self.words
        while i < len(words) and words[i] not in (";", "{", "}"):
            i = skip_balanced(words, i) if words[i] in "([" else i + 1
        return i

    def after_semicolon(self, i):
        words = self.words
        while i < len(words) and words[i] != ";":
            i = skip_balanced(words, i) if words[i] in CLOSING else i + 1
        return i + 1


def parse(file, text):
    source = Source(file)
    tokens_of(source, text)
    source.includes = re.findall(r'^[ \t]*#[ \t]*include "troupe/([^"]+)"', text, re.MULTILINE)
    Parser(source).scope(0, ())
    return source
