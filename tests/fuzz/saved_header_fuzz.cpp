// Fuzzes training/checkpoint/saved_header: the JSON header of a saved model
// from an untrusted source.
#include "troupe/models/zoo.hpp"
#include "troupe/tests/fuzz/fuzz.hpp"
#include "troupe/training/checkpoint/saved_header.hpp"
#include "troupe/training/checkpoint/saved_model.hpp"

#include <stdexcept>

namespace troupe::fuzz {

namespace {

constexpr std::string_view source_name = "\"x.troupe\"";

/// Checks that an error message names the file, and is one short line without
/// control characters.
void check_text(const std::string& why) {
  require(why.find(source_name) != why.npos, "a refusal names the file");
  require(why.size() < 1000, "a refusal is short");
  for (const unsigned char c : why)
    require(c >= ' ' && c != 127, "a refusal is one line of text");
}

void check(const saved_header& x) {
  const auto written = write_header(x);
  const auto again =
    read_header(written, saved_model_version, std::string{source_name});
  require(write_header(again) == written,
          "a written value is read as the same value");
  require(again.fit.has_value() == x.fit.has_value(), "a fit stays one");
  for (const auto& one : x.parameters)
    require(one.dims.elements() <= std::size_t{1} << 62, "shapes are possible");
}

saved_header some(const char* model) {
  saved_header x;
  x.model = models::find_model(model);
  x.parameters = {{"dense/weight", shape{64, 10}}, {"dense/bias", shape{10}}};
  x.loss = "cross_entropy";
  x.optimizer = "adam";
  x.optimizer_numbers = {{"learning_rate", 0.001}, {"beta1", 0.9}};
  x.seed = 7;
  x.steps = 12;
  x.note = "{\"model\":\"mlp\"}";
  return x;
}

} // namespace

void try_one(view input) {
  const std::string_view text{reinterpret_cast<const char*>(input.data()),
                              input.size()};
  const std::uint32_t version = text.find("passes") == text.npos     ? 1
                                : text.find("\"sums\"") == text.npos ? 2
                                                                     : 3;
  std::optional<saved_header> x;
  const auto peak = memory_of([&] {
    try {
      x = read_header(text, version, std::string{source_name});
    } catch (const std::invalid_argument& e) {
      check_text(e.what());
    } catch (const std::runtime_error& e) {
      check_text(e.what());
    }
  });
  require(peak <= 512 * text.size() + 262'144, "memory follows the text");
  if (x)
    check(*x);
}

std::vector<bytes> seeds() {
  std::vector<bytes> inputs;
  for (const char* model : {"mlp", "lenet"}) {
    auto x = some(model);
    inputs.push_back(of_text(write_header(x)));
    x.next_epoch = 6;
    x.fit.emplace();
    x.fit->next_batch.epoch = 5;
    x.fit->first_epoch = 3;
    x.fit->epochs.resize(2);
    x.best_weights = true;
    inputs.push_back(of_text(write_header(x)));
  }
  inputs.push_back(of_text(R"({"model":[[[[[[[[[[[[[[[[[[[[1)"));
  inputs.push_back(of_text(R"({"model":{"troupe":1},"seed":-1})"));
  return inputs;
}

} // namespace troupe::fuzz
