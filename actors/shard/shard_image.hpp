#pragma once

#include "troupe/actors/protocol/shard_copy_actor.hpp"
#include "troupe/actors/shard/shard_state.hpp"

#include <span>

namespace troupe {

/// Returns what a shard holds, without answers, and appends its tensors to
/// `beside`. They share their elements with the shard until the next change.
/// @cost a copy of all rows of tables.
shard_image save_shard(const shard_state& from, tensors& beside);

/// Makes a shard from what was saved.
/// @param beside exactly the tensors of the image.
/// @errors throws std::logic_error that says what is missing or impossible.
shard_state restore_shard(std::uint32_t index, const shard_image& from,
                          std::span<const tensor> beside);

} // namespace troupe
