#include "troupe/training/loop/audit/equal_copies.hpp"

#include "troupe/actors/core/failure_text.hpp"
#include "troupe/actors/core/job_error.hpp"
#include "troupe/net/base/text.hpp"
#include "troupe/training/strategies/calls/copy_audit.hpp"
#include "troupe/training/strategies/calls/host_collectives.hpp"
#include "troupe/training/strategies/replica/text_codec.hpp"
#include "troupe/training/support/sha256.hpp"

#include <cstring>
#include <sstream>
#include <stdexcept>

namespace troupe {

namespace {

/// Returns the values of one variable in one copy, on the CPU.
tensor values_of(const parameters& model_parameters, std::size_t variable,
                 std::uint32_t copy) {
  const auto begin = model_parameters.offset(variable);
  const auto count = model_parameters.variables()[variable].dims().elements();
  return model_parameters.values(copy).range(begin, begin + count).to({});
}

bool same_bytes(const tensor& a, const tensor& b) {
  return a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

/// Returns a hash of the values of a copy.
std::string fingerprint(const tensor& values) {
  sha256 hash;
  hash.add({values.raw(), values.bytes()});
  return to_hex(hash.finish());
}

[[noreturn]] void throw_difference(const std::string& variable,
                                   std::span<const std::uint32_t> differ,
                                   std::uint32_t first) {
  throw std::logic_error(
    "the copies of the variable \"" + variable + "\" differ: "
    + replica_list(differ) + (differ.size() == 1 ? " has" : " have")
    + " other values than replica " + std::to_string(first)
    + "; the causes can be gradients that were not reduced by all_reduce "
      "before "
      "an optimizer applied them, another learning rate or optimizer on one of "
      "the workers, or a variable that the program has written on some of "
      "them; "
      "if a step failed before, load the last saved file");
}

/// Compares the copies of a model in loops.
[[maybe_unused]] const bool is_check_set =
  set_copy_check([](placement_observer& owner) {
    if (const auto* const of_model = dynamic_cast<const model_state*>(&owner))
      check_equal_copies(*of_model, "run (the audit of its copies)",
                         of_model->strategy->callback_timeout);
  });

} // namespace

/// Each line of the text describes one variable: its name and its shape, then
/// the replica and the fingerprint of each copy, separated by tabs.
std::string describe_copies(const model_state& state) {
  const auto& placement = state.strategy->placement;
  std::ostringstream out;
  for (std::size_t v = 0; v < state.variables().size(); ++v) {
    out << state.variables()[v].name() << '\t'
        << to_string(state.variables()[v].dims());
    const auto first = values_of(state.model_parameters, v, 0);
    const auto first_fingerprint = fingerprint(first);
    // After a view change there may be more copies than replicas.
    const auto copies =
      std::min(state.model_parameters.copies(), placement.count());
    for (std::uint32_t c = 0; c < copies; ++c) {
      const auto values = values_of(state.model_parameters, v, c);
      out << '\t' << placement.replicas()[c] << '\t'
          << (same_bytes(values, first) ? first_fingerprint
                                        : fingerprint(values));
    }
    out << '\n';
  }
  return out.str();
}

namespace {

/// One line of a text of `describe_copies`. An empty name: there is none.
struct described_variable {
  std::string name, dims;
  std::istringstream copies;

  friend bool operator==(const described_variable& a,
                         const described_variable& b) {
    return a.name == b.name && a.dims == b.dims;
  }
};

described_variable next_variable(std::istringstream& text) {
  described_variable out;
  std::string line;
  if (!std::getline(text, line))
    return out;
  out.copies.str(line);
  std::getline(out.copies, out.name, '\t');
  std::getline(out.copies, out.dims, '\t');
  return out;
}

[[noreturn]] void throw_other_variables(const described_variable& other,
                                        const std::string& name_of_other,
                                        const described_variable& first,
                                        const std::string& name_of_first) {
  const auto text_of = [](const described_variable& x) {
    return x.name.empty() ? "no further variable"
                          : "the variable \"" + x.name + "\" " + x.dims;
  };
  throw std::logic_error(
    net::printable(name_of_other) + " has " + text_of(other) + " where "
    + net::printable(name_of_first) + " has " + text_of(first)
    + "; all workers must construct the same model and "
      "make the same calls with it");
}

} // namespace

void compare_copies(const std::vector<std::string>& texts,
                    const std::vector<std::string>& names) {
  std::vector<std::istringstream> streams;
  std::vector<std::string> known; // a process that joins has no copies yet
  for (std::size_t i = 0; i < texts.size(); ++i)
    if (!texts[i].empty()) {
      streams.emplace_back(texts[i]);
      known.push_back(names.at(i));
    }
  for (;;) {
    std::vector<described_variable> lines;
    for (auto& one : streams)
      lines.push_back(next_variable(one));
    for (std::size_t w = 1; w < lines.size(); ++w)
      if (lines[w] != lines[0])
        throw_other_variables(lines[w], known[w], lines[0], known[0]);
    if (lines.empty() || lines[0].name.empty())
      return;
    std::string expected, hash;
    std::uint32_t first = 0;
    std::vector<std::uint32_t> differ;
    for (auto& one : lines)
      for (std::uint32_t replica = 0; one.copies >> replica >> hash;)
        if (expected.empty()) {
          expected = hash;
          first = replica;
        } else if (hash != expected) {
          differ.push_back(replica);
        }
    if (!differ.empty())
      throw_difference(lines[0].name, differ, first);
  }
}

void check_equal_copies(const model_state& state, const std::string& call,
                        std::chrono::milliseconds join_timeout) {
  if (state.strategy->placement.job.processes() <= 1
      && state.model_parameters.copies() <= 1)
    return;
  const auto gathered = all_gather_text(
    state.strategy,
    [&] {
      return encode_text(state.strategy->own_name(), describe_copies(state));
    },
    {.join_timeout = join_timeout, .call = call});
  std::vector<std::string> names(gathered.size()), texts(gathered.size());
  for (std::size_t i = 0; i < gathered.size(); ++i)
    if (!decode_text(gathered[i], names[i], texts[i]))
      throw job_error(ec::protocol,
                      "a worker sent a malformed description of its copies");
  compare_copies(texts, names);
}

} // namespace troupe
