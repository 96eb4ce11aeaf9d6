#pragma once

#include "troupe/models/settings.hpp"
#include "troupe/tensors/base/shape.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace troupe::models {

/// Describes a model as data: its layers and shapes, but not its weights. A
/// description suffices to build the model in any process. docs/models.md
/// defines the JSON form.
struct model_description {
  std::string name;
  shape input; ///< Shape of one example, without the batch axis.
  /// Layers in sequence. Copies of a description share the layers, so do not
  /// change a layer after it is part of a description.
  layer_list layers;
  /// Number of categories of one example, such as a country and a product. They
  /// are integers, which the layers read beside the input. Zero: none.
  std::int64_t categories = 0;
};

/// Maximum number of categories of one example.
inline constexpr std::int64_t max_categories = 65'536;

/// Version of the JSON form that this Troupe writes. This Troupe reads this
/// version and all older versions.
inline constexpr int description_version = 1;

/// Reads a description and checks that a network can be built from it.
/// @param source name of the text in error messages, such as a file name.
/// @errors throws std::invalid_argument with one sentence: the source, the path
///         of the value ("layers[2].units"), the value and the valid range.
///         `parse` checks each size in the text before it allocates that much
///         memory.
model_description parse(std::string_view text, std::string_view source);

/// Returns the description as JSON. `parse` restores an equal description from
/// this text. For that description, `to_json_text` returns the same bytes.
std::string to_json_text(const model_description& description);

/// Reads a description from a file of at most 1 MiB.
/// @errors throws std::runtime_error if the file cannot be read, and as `parse`
///         if it rejects the text.
model_description load(const std::filesystem::path& file);

} // namespace troupe::models
