#pragma once

#include "troupe/training/checkpoint/saved_header.hpp"
#include "troupe/training/loop/model/model_state.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// Latest version of the file format. This Troupe reads all versions up to this
/// version. docs/formats.md has the grammar and the rules for a new version.
inline constexpr std::uint32_t saved_model_version = 4;

/// Writes a model to a file, which appears complete or not at all. Keeps a file
/// that the same job has saved at a later position, after it has excluded this
/// process. A file that cannot be read is replaced, with a warning.
/// @returns false if the file was kept.
/// @errors throws std::runtime_error that names the file.
bool save_model(const model_state& state, const std::filesystem::path& file,
                const std::string& note);

/// Returns about how many bytes a saved model has, without the best weights of
/// an interrupted fit with early stopping.
std::uint64_t saved_bytes(const models::model_description& net,
                          const update_rule& rule);

/// Reads a saved model. The model belongs to the strategy `target`, which may
/// differ from the strategy that saved it.
/// @errors throws std::runtime_error that names the file. Causes: the file
///         cannot be read, is no saved model, has a newer version, or is
///         truncated, too long or damaged. Another cause is a layer that this
///         program has not registered.
std::unique_ptr<model_state> load_model(const std::filesystem::path& file,
                                        std::shared_ptr<strategy_state> target);

/// A variable of a saved model.
struct saved_weight {
  std::string name;
  tensor value; ///< float32, on the CPU.
};

/// Returns all variables of a saved model, in the order of the file.
/// @errors as `load_model`.
std::vector<saved_weight> saved_weights(const std::filesystem::path& file);

/// Returns the header of a saved model, without reading or checking the
/// elements of its tensors.
/// @errors throws std::runtime_error that names the file if the header cannot
///         be read or is invalid.
saved_header header_of(const std::filesystem::path& file);

/// Returns the note of a saved model, without reading or checking the elements
/// of its tensors.
/// @errors throws std::runtime_error that names the file if the header cannot
///         be read or is invalid.
std::string saved_note(const std::filesystem::path& file);

} // namespace troupe
