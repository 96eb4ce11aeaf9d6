#!/usr/bin/env python3
"""Fails if a public function of a header of strategies/ has no caller outside of tests.

  tests/style/strategy_callers.py [<root>]

Constructors, operators, overrides, friends and `fields` need none. A caller is found by the name
of the function, in a file that includes the header, directly or not. A function of strategies/
that has no caller calls nothing. structure_exceptions.txt lists the exceptions.
"""
import re
import sys

from structure import check, product_sources

FOLDER = "strategies/"
IMPLICIT = {"fields", "begin", "end", "inspect"}  # The language or a library calls them.
# Words before a call. After any other word, the name is that of a new variable.
BEFORE_CALLS = {"return", "co_return", "co_await", "co_yield", "throw", "else", "do", "case",
                "not", "and", "or", "if", "while", "sizeof"}


def included_by(sources):
    """The files that include a file, directly or not, and the file itself."""
    users = {}
    for source in sources:
        for path in source.includes:
            users.setdefault(path, set()).add(source.file)

    def reach(file):
        seen, waiting = {file}, [file]
        while waiting:
            for user in users.get(waiting.pop(), ()):
                if user not in seen:
                    seen.add(user)
                    waiting.append(user)
        return seen
    return reach


def kind_of_use(words, i):
    """How the token i uses a function of its name: "member", "qualified", "plain" or None."""
    before, after = words[i - 1] if i else "", words[i + 1] if i + 1 < len(words) else ""
    is_call = after == "("
    if after == "<":  # f<int>(x)
        end = next((j for j in range(i + 2, min(i + 24, len(words))) if words[j] == ">"), None)
        is_call = end is not None and words[end + 1] == "("
    if before in (".", "->"):
        return "member" if is_call else None
    if before == "::":
        return "qualified" if is_call or after in (")", ",", "}", ";") else None
    if is_call:
        is_name = re.match(r"[A-Za-z_]", before) and before not in BEFORE_CALLS
        return None if is_name else "plain"
    # A function as an argument.
    is_argument = before in ("(", ",", "=", "{", "&") and after in (")", ",", "}", ";")
    return "plain" if is_argument else None


class Node:
    """The functions of one name in one class or namespace."""

    def __init__(self, key, header):
        self.key, self.header = key, header
        self.is_public = self.is_used = self.is_member = False
        self.line = 0


def main():
    sources = product_sources()
    reach = included_by(sources)
    nodes, by_name = {}, {}
    for source in sources:
        if not source.file.startswith(FOLDER) or not source.file.endswith(".hpp"):
            continue
        for function in source.functions:
            if function.is_special or function.qualifiers or function.name in IMPLICIT:
                continue
            key = "::".join(function.within[1:] + (function.name,))
            if key not in nodes:
                node = nodes[key] = Node(key, source.file)
                node.line = function.line
                node.is_member = function.is_member
                node.reach = reach(source.file)
                by_name.setdefault(function.name, []).append(node)
            nodes[key].is_public |= function.access == "public"

    # uses[key of the caller] lists what it calls. The key None is all other code.
    uses = {None: set()}
    for source in sources:
        declared = {x.position for x in source.functions}
        caller = [None] * len(source.words)
        if source.file.startswith(FOLDER):
            for function in source.functions:
                key = "::".join(function.within[1:] + (function.name,))
                if key in nodes and function.is_definition:
                    begin, end = function.body
                    caller[begin:end] = [key] * (end - begin)
        classes = {x[1:] for x in source.classes}
        classes |= {x.within[1:] for x in source.functions if x.qualifiers}
        for i, word in enumerate(source.words):
            if word not in by_name or i in declared:
                continue
            kind = kind_of_use(source.words, i)
            for node in by_name[word] if kind else ():
                scope = tuple(node.key.split("::")[:-1])
                if kind == "qualified":
                    fits = not node.is_member or source.words[i - 2] in (scope[-1], ">")
                else:
                    fits = (kind == "member") == node.is_member \
                        or (kind == "plain" and scope in classes)
                if fits and caller[i] != node.key and source.file in node.reach:
                    uses.setdefault(caller[i], set()).add(node.key)

    waiting = list(uses[None])
    while waiting:
        node = nodes[waiting.pop()]
        if not node.is_used:
            node.is_used = True
            waiting.extend(uses.get(node.key, ()))
    found = {x.key: f"{x.header}:{x.line}: {x.key} has no caller outside of tests"
             for x in nodes.values() if x.is_public and not x.is_used}
    return check("strategy_callers", found)


if __name__ == "__main__":
    sys.exit(main())
