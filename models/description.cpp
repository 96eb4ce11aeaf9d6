#include "troupe/models/description.hpp"

#include "troupe/models/detail/json.hpp"
#include "troupe/models/detail/names.hpp"
#include "troupe/models/detail/network_plan.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace troupe::models {

namespace {

void check_version(detail::reader& in) {
  std::int64_t version = 0;
  in.integer("version", version, {.required = true, .low = 1});
  if (version > description_version)
    in.refuse("version", "is " + std::to_string(version)
                           + ", but this Troupe reads versions up to "
                           + std::to_string(description_version)
                           + "; use a newer Troupe");
}

} // namespace

model_description parse(std::string_view text, std::string_view where) {
  const auto root = detail::parse_json(text, where);
  if (!root.is_object())
    throw std::invalid_argument(
      std::string{where} + ": a model is an object, "
      + R"({"version": 1, "name": ..., "input": [...], "layers": [...]}, not )"
      + detail::shown(root));
  model_description out;
  detail::reader in{root, std::string{where}, "", "a model", 0};
  check_version(in);
  in.name("name", out.name, true);
  std::vector<std::int64_t> input;
  in.integers("input", input, 1, shape::max_rank - 1);
  std::int64_t elements = 1;
  for (const auto extent : input)
    if (elements *= extent; elements > largest_example)
      in.refuse("input", "has more than " + std::to_string(largest_example)
                           + " elements for one example; make it smaller");
  out.input = shape{input};
  in.layers("layers", out.layers);
  in.finish();
  detail::plan{out, where};
  return out;
}

std::string to_json_text(const model_description& x) {
  detail::writer out{0};
  out.object["version"] = description_version;
  out.object["name"] = x.name;
  out.object["input"] =
    std::vector<std::int64_t>{x.input.begin(), x.input.end()};
  auto layers = x.layers;
  out.layers("layers", layers);
  return detail::pretty(out.object);
}

model_description load(const std::filesystem::path& file) {
  const auto where = file.string();
  const auto fail = [&](const std::string& why) {
    throw std::invalid_argument("cannot read the model " + where + ": " + why);
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    fail("it is a folder; give the JSON file in it");
  std::ifstream in{file, std::ios::binary};
  if (!in)
    fail(std::strerror(errno));
  std::string text(detail::largest_text + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad())
    fail(std::strerror(errno));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return parse(text, where);
}

} // namespace troupe::models
