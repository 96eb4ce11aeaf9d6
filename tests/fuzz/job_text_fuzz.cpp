// training/job: the options of a run in a saved model, and the options given
// when it is resumed. An input is one text, or two separated by a line.
#include "troupe/tests/fuzz/fuzz.hpp"
#include "troupe/training/job/job.hpp"

#include <optional>
#include <stdexcept>

namespace troupe::fuzz {

namespace {

/// Checks a message that is shown on a terminal.
void check_text(const std::string& why) {
  require(!why.empty() && why.size() < 1000, "a refusal is a short sentence");
  for (const unsigned char c : why)
    require(c >= ' ' && c != 127, "a refusal is one line of text");
}

/// None: the text is rejected.
template <class Error, class F>
auto allowed(F fn) -> std::optional<decltype(fn())> {
  try {
    return fn();
  } catch (const Error& e) {
    check_text(e.what());
    return {};
  }
}

std::optional<job> read(const std::string& text) {
  std::optional<job> x;
  const auto peak = memory_of(
    [&] { x = allowed<std::runtime_error>([&] { return read_job(text); }); });
  require(peak <= 256 * text.size() + 16'384, "memory follows the text");
  if (x)
    require(read_job(write_job(*x)) == *x,
            "a written value is read as the same value");
  return x;
}

void check(const job& x) {
  const auto done = allowed<std::invalid_argument>([&] { return settle(x); });
  if (!done)
    return;
  require(done->batch >= done->replicas && done->replicas > 0
            && done->workers > 0 && done->replicas % done->workers == 0
            && done->replicas <= job_limits::replicas
            && done->workers <= job_limits::workers,
          "a settled job can be cut");
  require(done->devices.size() <= job_limits::replicas, "devices have a limit");
  const auto given = given_by(*done);
  require(given_by(settle(given)) == given, "settled options do not change");
  require(resumed(given, {}) == given, "a resumed run has the same options");
}

} // namespace

void try_one(view input) {
  const std::string all{reinterpret_cast<const char*>(input.data()),
                        input.size()};
  const auto line = std::min(all.find('\n'), all.size());
  const auto saved = read(all.substr(0, line));
  if (!saved)
    return;
  check(*saved);
  if (line == all.size())
    return;
  const auto given = read(all.substr(line + 1));
  if (!given)
    return;
  const auto both =
    allowed<std::invalid_argument>([&] { return resumed(*saved, *given); });
  if (both)
    require(both->seed == saved->seed && both->batch == saved->batch
              && both->model == saved->model && both->data == saved->data,
            "a resumed run is the same run");
}

std::vector<bytes> seeds() {
  const std::string all =
    R"({"model":"mlp","data":"digits","epochs":3,"batch":64,)"
    R"("optimizer":"sgd:momentum=0.9","learning-rate":0.1,)"
    R"("schedule":"cosine","seed":1,"threads":1,"patience":2,)"
    R"("on-nan":"skip")";
  return {
    of_text("{}"),
    of_text("[]"),
    of_text(all + "}"),
    of_text(all + R"(,"strategy":"mirrored","devices":["cpu:0","cpu:1"]})"),
    of_text(all + R"(,"workers":2,"replicas":4,"transport":"shm"})" + "\n"
            + R"({"strategy":"one_device","replicas":4,"epochs":9})"),
    of_text(R"({"replicas":3,"strategy":"one_device"})"
            "\n"
            R"({"workers":3})"),
    of_text(R"({"epochs":1e300,"batch":-1,"seed":18446744073709551615})"),
    of_text(R"({"model":3}[[[[[[[[[[[[[)"),
  };
}

} // namespace troupe::fuzz
