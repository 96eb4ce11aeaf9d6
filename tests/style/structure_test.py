#!/usr/bin/env python3
"""Tests member_sources.py and strategy_callers.py: both pass on small sources, and fail after a
violation, a missing exception or one that is not needed is added."""
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

# -- strategy_callers ---------------------------------------------------------------

STRATEGY = """namespace troupe::tree {
class fold {
public:
  fold(int n);
  ~fold();
  bool add(int x);
  auto fields() { return 0; }
  friend bool operator==(const fold&, const fold&) = default;
  void on() override;
private:
  void hidden();
  int sum = 0;
};
int depth_of(int n);
}"""
USER = '#include "troupe/strategies/tree/fold.hpp"\n'
CALLS = USER + "void f(fold& x) { x.add(1); return depth_of(3); }"


def expect_caller(verdict, text, user, exceptions="", file="actors/user.cpp", own=""):
    source = USER + "namespace troupe::tree { bool fold::add(int x) { " + own + " } }"
    expect("strategy_callers", verdict, text,
           {"strategies/tree/fold.hpp": STRATEGY, "strategies/tree/fold.cpp": source, file: user},
           exceptions)


NO_DEPTH = "tree::depth_of has no caller"
NO_ADD = "tree::fold::add has no caller"
expect_caller(0, "", CALLS)
expect_caller(1, NO_DEPTH, USER + "void f(fold& x) { x.add(1); }")
expect_caller(1, NO_ADD, USER + "int x = tree::depth_of(3);")
expect_caller(0, "", USER + "auto x = g(&fold::add, depth_of);")
expect_caller(1, NO_DEPTH, CALLS, file="tests/user_test.cpp")
expect_caller(1, NO_DEPTH, CALLS, file="benchmarks/user.cpp")
expect_caller(1, NO_DEPTH, CALLS.removeprefix(USER))  # other functions of these names
expect_caller(1, NO_ADD, USER + "void f(tree::x& y) { add(1); int add(3); depth_of(1); }")
expect_caller(1, NO_DEPTH, USER + "void f(fold& x) { x.add(1); } // depth_of(3)")
# Calls of functions of strategies/.
expect_caller(0, "", USER + "void f(fold& x) { x.add(1); }", own="return depth_of(x);")
expect_caller(1, NO_DEPTH, "", own="return depth_of(x);")
expect_caller(1, NO_ADD, USER + "int x = depth_of(1);", own="return add(x);")

LISTED = "strategy_callers tree::depth_of: a reason\n"
expect_caller(0, "", USER + "void f(fold& x) { x.add(1); }", LISTED)
expect_caller(1, "needs no exception", CALLS, LISTED)
expect_caller(1, "needs no exception", CALLS, "strategy_callers tree::no_such: a reason\n")

print("the tests of the structure work" if not failed else f"{failed} cases failed")
sys.exit(1 if failed else 0)
