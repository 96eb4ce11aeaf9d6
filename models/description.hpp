#pragma once

#include "troupe/models/settings.hpp"
#include "troupe/tensors/shape.hpp"

#include <filesystem>
#include <string>
#include <string_view>

namespace troupe::models {

/// A model as data: enough to build it anywhere, nothing about its weights.
/// docs/models.md says how it is written as JSON.
struct model_description {
  std::string name;
  shape input;       ///< Of one example, without the batch.
  layer_list layers; ///< In a row. What stands here is shared, not copied: a
                     ///< layer in a description is not changed any more.
};

/// The version of the JSON form that this Troupe writes; it reads all up to it.
inline constexpr int description_version = 1;

/// Reads a description, and makes sure that a network can be built from it.
/// @param where  what an error calls the text: a file's name.
/// @errors throws std::invalid_argument with one sentence: where, the path of
///         the value ("layers[2].units"), the value, what would do. Nothing is
///         allocated by what the text claims before the claim is checked.
model_description parse(std::string_view text, std::string_view where);

/// The description as JSON. `parse` makes the same of it: written again, it has
/// the same bytes.
std::string to_json_text(const model_description& x);

/// Reads a description from a file of at most 1 MiB.
/// @errors as `parse`; also if the file cannot be read.
model_description load(const std::filesystem::path& file);

} // namespace troupe::models
