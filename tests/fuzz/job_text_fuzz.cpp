// Fuzzes training/job: the options of a run in a saved model, and the options
// that are given when the run is resumed. The first line of an input is the
// saved options. The rest, if any, is the given options.
#include "troupe/tests/fuzz/fuzz.hpp"
#include "troupe/training/job/job.hpp"
#include "troupe/training/job/job_json.hpp"

#include <optional>
#include <stdexcept>

namespace troupe::fuzz {

namespace {

/// Checks that an error message is one short line without control characters.
void check_text(const std::string& why) {
  require(!why.empty() && why.size() < 1000, "a refusal is a short sentence");
  for (const unsigned char c : why)
    require(c >= ' ' && c != 127, "a refusal is one line of text");
}

/// Returns the result of `fn`. None: `fn` has thrown `Error`.
template <class Error, class F>
auto allowed(F fn) -> std::optional<decltype(fn())> {
  try {
    return fn();
  } catch (const Error& e) {
    check_text(e.what());
    return {};
  }
}

std::optional<train_options> read(const std::string& text) {
  std::optional<train_options> x;
  const auto peak = memory_of([&] {
    x = allowed<std::runtime_error>([&] { return read_train_options(text); });
  });
  require(peak <= 256 * text.size() + 16'384, "memory follows the text");
  if (x)
    require(read_train_options(write_train_options(*x)) == *x,
            "a written value is read as the same value");
  return x;
}

void check(const train_options& x) {
  const auto done =
    allowed<std::invalid_argument>([&] { return resolve_options(x); });
  if (!done)
    return;
  require(done->batch >= done->replicas && done->replicas > 0
            && done->workers > 0 && done->replicas % done->workers == 0
            && done->replicas <= train_option_limits::replicas
            && done->workers <= train_option_limits::workers,
          "a settled job can be cut");
  require(done->devices.size() <= train_option_limits::replicas,
          "devices have a limit");
  const auto given = to_options(*done);
  require(to_options(resolve_options(given)) == given,
          "settled options do not change");
  require(merge_for_resume(given, {}) == given,
          "a resumed run has the same options");
}

} // namespace

void try_one(view input) {
  const std::string inputs{reinterpret_cast<const char*>(input.data()),
                           input.size()};
  const auto line = std::min(inputs.find('\n'), inputs.size());
  const auto saved = read(inputs.substr(0, line));
  if (!saved)
    return;
  check(*saved);
  if (line == inputs.size())
    return;
  const auto given = read(inputs.substr(line + 1));
  if (!given)
    return;
  const auto both = allowed<std::invalid_argument>(
    [&] { return merge_for_resume(*saved, *given); });
  if (both)
    require(both->seed == saved->seed && both->batch == saved->batch
              && both->model == saved->model && both->data == saved->data,
            "a resumed run is the same run");
}

std::vector<bytes> seeds() {
  const std::string inputs =
    R"({"model":"mlp","data":"digits","epochs":3,"batch":64,)"
    R"("optimizer":"sgd:momentum=0.9","learning-rate":0.1,)"
    R"("schedule":"cosine","seed":1,"threads":1,"patience":2,)"
    R"("on-nan":"skip")";
  return {
    of_text("{}"),
    of_text("[]"),
    of_text(inputs + "}"),
    of_text(inputs + R"(,"strategy":"mirrored","devices":["cpu:0","cpu:1"]})"),
    of_text(inputs + R"(,"workers":2,"replicas":4,"transport":"shm"})" + "\n"
            + R"({"strategy":"one_device","replicas":4,"epochs":9})"),
    of_text(R"({"replicas":3,"strategy":"one_device"})"
            "\n"
            R"({"workers":3})"),
    of_text(R"({"epochs":1e300,"batch":-1,"seed":18446744073709551615})"),
    of_text(R"({"model":3}[[[[[[[[[[[[[)"),
  };
}

} // namespace troupe::fuzz
