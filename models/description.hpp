#pragma once

#include "troupe/models/settings.hpp"
#include "troupe/tensors/shape.hpp"

#include <filesystem>
#include <string>
#include <string_view>

namespace troupe::models {

/// Describes a model as data: its layers and shapes, but not its weights. It is
/// enough to build the model in any process. docs/models.md defines its JSON
/// form.
struct model_description {
  std::string name;
  shape input; ///< Shape of one example, without the batch axis.
  /// Layers in sequence; shared, not copied. Do not change a layer after it is
  /// part of a description.
  layer_list layers;
};

/// Version of the JSON form that this Troupe writes. It reads this version and
/// all older ones.
inline constexpr int description_version = 1;

/// Reads a description and checks that a network can be built from it.
/// @param source Name of the text in error messages: a file name.
/// @errors throws std::invalid_argument with one sentence: the source, the path
///         of the value ("layers[2].units"), the value and the valid range. No
///         size that the text declares is allocated before it is checked.
model_description parse(std::string_view text, std::string_view source);

/// Writes the description as JSON. `parse` restores an equal description, which
/// is written as the same bytes.
std::string to_json_text(const model_description& description);

/// Reads a description from a file of at most 1 MiB.
/// @errors as `parse`. Throws std::invalid_argument also if the file cannot be
///         read.
model_description load(const std::filesystem::path& file);

} // namespace troupe::models
