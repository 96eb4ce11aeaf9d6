#pragma once

#include "troupe/training/loop/model_state.hpp"

#include <filesystem>
#include <memory>
#include <string>

namespace troupe {

/// The version of the file format that this Troupe writes; it reads all up to
/// it. docs/formats.md has the grammar and says when it grows.
inline constexpr std::uint32_t saved_model_version = 2;

/// Writes a model to a file, complete or not at all.
/// @errors throws std::runtime_error with a sentence that names the file.
void save_model(const model_state& x, const std::filesystem::path& file,
                const std::string& note);

/// Reads it back, into another strategy if need be.
/// @errors throws std::runtime_error with a sentence that names the file: it
///         cannot be read, is no saved model, is of a newer version, is cut
///         short or too long, is damaged, or needs a layer that this program
///         has not registered.
std::unique_ptr<model_state> load_model(const std::filesystem::path& file,
                                        std::shared_ptr<strategy_state> into);

/// The note alone, without the elements; they are not checked.
/// @errors likewise, as far as the header goes.
std::string saved_note(const std::filesystem::path& file);

} // namespace troupe
