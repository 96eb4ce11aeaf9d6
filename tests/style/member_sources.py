#!/usr/bin/env python3
"""Fails if a source defines a member function of a class that stands elsewhere.

  tests/style/member_sources.py [<root>]

The class of X/name.hpp, or of X/name_impl.hpp, has its functions in X/name.cpp or X/name.cu. A
class that a source defines itself has its functions there. structure_exceptions.txt lists the
exceptions.
"""
import os
import sys

from structure import check, product_sources


def home_of(file):
    """The path without the extension, which a class shares with the source of its functions."""
    return os.path.splitext(file)[0].removesuffix("_impl")


def class_of(function, classes, others):
    """The files that define the class of a function, or None if it is a function of a namespace.
    A name is looked up as the compiler does: from the innermost namespace outwards."""
    qualifiers = function.qualifiers
    outer = function.within[:-len(qualifiers)]
    for count in range(len(outer), -1, -1):
        scope = outer[:count] + qualifiers
        if scope in classes:
            return classes[scope]
        if scope in others:
            return None
    # A using directive, or a class that derives from the one whose nested class this is.
    return {file for scope, files in classes.items()
            if scope[-1] == qualifiers[-1] and scope[-len(qualifiers):] == qualifiers
            for file in files}


def main():
    sources = product_sources()
    classes, others = {}, set()
    for source in sources:
        for scope in source.classes:
            classes.setdefault(scope, set()).add(source.file)
        others |= source.namespaces | source.aliases
    found = {}
    for source in sources:
        if source.file.endswith((".hpp", ".cuh")):
            continue
        for function in source.functions:
            if not function.qualifiers or not function.is_definition:
                continue
            files = class_of(function, classes, others)
            if files is None or home_of(source.file) in {home_of(x) for x in files}:
                continue
            name = "::".join(function.qualifiers)
            where = f"{source.file}:{function.line}: {name}::{function.name}"
            found.setdefault(
                f"{name} in {source.file}",
                f"{where} belongs into {home_of(min(files))}.cpp, beside its class" if files
                else f"{where}: no file defines the class")
    return check("member_sources", found)


if __name__ == "__main__":
    sys.exit(main())
