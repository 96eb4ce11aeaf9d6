#!/usr/bin/env python3
"""Tests member_sources.py: it passes on small sources, and fails after a violation or an exception
that is not needed is added."""
import pathlib
import subprocess
import sys
import tempfile

STYLE = pathlib.Path(__file__).parent
EXCEPTIONS = "tests/style/structure_exceptions.txt"
failed = 0


def expect(test, verdict, text, files, exceptions=""):
    """@param files path -> content. `text` has to occur in the output."""
    global failed
    with tempfile.TemporaryDirectory() as root:
        for name, content in {**files, EXCEPTIONS: exceptions}.items():
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        done = subprocess.run([sys.executable, STYLE / f"{test}.py", root], capture_output=True,
                              text=True)
    if done.returncode != verdict or text not in done.stdout or done.stderr:
        failed += 1
        print(f"{test} says {done.returncode}, not {verdict} with '{text}', to {files} and "
              f"'{exceptions}':\n{done.stdout}{done.stderr}")


# -- member_sources ---------------------------------------------------------------

HEADER = """namespace troupe::net {
template <class T, int N = 3> struct pair;
class queue : public base<int> {
public:
  explicit queue(std::size_t max = {}) noexcept;
  ~queue();
  void push(int x);
  bool operator==(const queue&) const;
  explicit operator bool() const;
  struct entry { entry(); void clear(); };
  class impl;
};
}"""


def expect_member(verdict, text, definition, file="net/other.cpp", exceptions=""):
    expect("member_sources", verdict, text,
           {"net/queue.hpp": HEADER, file: definition}, exceptions)


def in_net(text):
    return f"namespace troupe::net {{\n{text}\n}}\n"


for definition, name in {
        "void queue::push(int x) { if (x) { y(); } }": "queue::push",
        "queue::queue(std::size_t max) noexcept : x_{max}, y_(3) {}": "queue::queue",
        "queue::~queue() = default;": "queue::~queue",
        "bool queue::operator==(const queue&) const { return true; }": "queue::operator==",
        "queue::operator bool() const { return true; }": "queue::operatorbool",
        "queue::entry::entry() {}": "queue::entry::entry",
        "template <class T> auto queue::get(T) -> std::vector<T> { return {}; }": "queue::get",
        "[[nodiscard]] std::map<int, a::b> queue::push(int) try { } catch (...) { }": "queue::push",
        "namespace { struct x { void f() {} }; } void queue::push(int) {}": "queue::push",
}.items():
    for file in ("net/queue.cpp", "net/queue.cu"):
        expect_member(0, "", in_net(definition), file)
    for file in ("net/other.cpp", "net/inner/queue.cpp", "actors/queue.cpp"):
        expect_member(1, f"{name} belongs into net/queue.cpp", in_net(definition), file)
expect_member(1, "net::queue::push belongs", "namespace troupe { void net::queue::push(int) {} }")
expect_member(1, "queue::push belongs",
              "namespace troupe { using namespace net; void queue::push(int) {} }")

# A class of the source, also with the name of a class of another namespace.
expect_member(0, "", in_net("namespace { class queue { void push(); };\nvoid queue::push() {} }"))
expect_member(0, "", "namespace troupe::data { struct queue { void push(); };\n"
                     "void queue::push() {} }")
expect_member(0, "", in_net("class queue::impl { void f(); };\nvoid queue::impl::f() {}"))
IMPL = in_net("class queue::impl { void f(); };")
for file, verdict in {"net/queue.cpp": 0, "net/other.cpp": 1}.items():
    expect("member_sources", verdict, "" if verdict == 0 else "queue::impl::f belongs into",
           {"net/queue.hpp": HEADER, "net/queue_impl.hpp": IMPL,
            file: in_net("void queue::impl::f() {}")})
# No member functions: comments, texts, calls, static members, functions of a namespace.
for text in ("// void queue::push(int) {}", 'const char* x = "void queue::push(int) {}";',
             'const char* x = R"(" void queue::push(int) {}"; )";', "int queue::count = f(3);",
             "void f() { queue::push(3); }", "int x = queue::push(3);"):
    expect_member(0, "", in_net(text))
expect_member(0, "", "namespace troupe { namespace detail {} void detail::f() {} }")
expect_member(1, "list::f: no file defines the class", in_net("void list::f() {}"))

PUSH = in_net("void queue::push(int x) {}")
LISTED = "member_sources queue in net/other.cpp: a reason\n"
expect_member(0, "", PUSH, exceptions="# A comment\n\n" + LISTED)
expect_member(1, "is listed twice", PUSH, exceptions=LISTED + LISTED)
expect_member(1, "needs no exception", in_net(""), exceptions=LISTED)
expect_member(1, "needs no exception", PUSH, "net/queue.cpp", exceptions=LISTED)
expect_member(1, "is not of the form", PUSH, exceptions="member_sources queue in net/other.cpp:\n")

print("the tests of the structure work" if not failed else f"{failed} cases failed")
sys.exit(1 if failed else 0)
