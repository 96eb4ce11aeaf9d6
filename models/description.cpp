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

model_description parse(std::string_view text, std::string_view source) {
  const auto root = detail::parse_json(text, source);
  if (!root.is_object())
    throw std::invalid_argument(
      std::string{source} + ": a model is an object, "
      + R"({"version": 1, "name": ..., "input": [...], "layers": [...]}, not )"
      + detail::abbreviated(root));
  model_description out;
  detail::reader fields{root, std::string{source}, "", "a model", 0};
  check_version(fields);
  fields.name("name", out.name, true);
  std::vector<std::int64_t> input;
  fields.integers("input", input, 1, shape::max_rank - 1);
  std::int64_t elements = 1;
  for (const auto extent : input)
    if (elements *= extent; elements > max_example_elements)
      fields.refuse("input", "has more than "
                               + std::to_string(max_example_elements)
                               + " elements for one example; make it smaller");
  out.input = shape{input};
  fields.integer("categories", out.categories, {.high = max_categories});
  fields.layers("layers", out.layers);
  fields.finish();
  detail::network_plan{out, source};
  return out;
}

std::string to_json_text(const model_description& description) {
  detail::writer out{0};
  out.object["version"] = description_version;
  out.object["name"] = description.name;
  out.object["input"] = std::vector<std::int64_t>{description.input.begin(),
                                                  description.input.end()};
  if (description.categories != 0)
    out.object["categories"] = description.categories;
  auto layers = description.layers;
  out.layers("layers", layers);
  return detail::pretty(out.object);
}

model_description load(const std::filesystem::path& file) {
  const auto source = file.string();
  const auto fail = [&](const std::string& why) {
    throw std::runtime_error("cannot read the model " + source + ": " + why);
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    fail("it is a folder; give the JSON file in it");
  std::ifstream stream{file, std::ios::binary};
  if (!stream)
    fail(std::strerror(errno));
  std::string text(detail::max_text_bytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad())
    fail(std::strerror(errno));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return parse(text, source);
}

} // namespace troupe::models
