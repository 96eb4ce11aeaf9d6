"""What the tests of the structure share: the sources, and the list of exceptions."""
import functools
import pathlib
import re
import sys

sys.dont_write_bytecode = True
from cpp_scopes import parse  # noqa: E402

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
EXCEPTIONS = "tests/style/structure_exceptions.txt"
FOLDERS = ("tensors", "strategies", "net", "data", "models", "actors", "training", "simulation",
           "apps")


@functools.cache
def product_sources():
    """The parsed headers and sources of the product, without tests and benchmarks."""
    files = [x for folder in FOLDERS for x in sorted((ROOT / folder).rglob("*"))
             if x.suffix in (".hpp", ".cpp", ".cu", ".cuh")]
    return [parse(str(x.relative_to(ROOT)), x.read_text()) for x in files]


def check(test, found):
    """Prints the errors, and returns the exit status.

    @param found what breaks the rule -> the text of the error.
    """
    status, exceptions = 0, set()
    for number, line in enumerate((ROOT / EXCEPTIONS).read_text().splitlines(), 1):
        match = re.fullmatch(rf"{test} (\S+(?: in \S+)?): (\S.*)", line)
        wrong = None
        if match:
            wrong = ("is listed twice" if match[1] in exceptions else
                     None if match[1] in found else "needs no exception")
            exceptions.add(match[1])
        elif line.startswith(test):
            wrong = f"is not of the form '{test} <name>: <reason>'"
        if wrong:
            print(f"{EXCEPTIONS}:{number}: {match[1] if match else line} {wrong}")
            status = 1
    for name, text in sorted(found.items()):
        if name not in exceptions:
            print(text)
            status = 1
    if status == 0:
        print(f"{test}: {len(exceptions)} exceptions are listed")
    return status
