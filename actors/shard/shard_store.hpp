#pragma once

#include "troupe/actors/protocol/shard_copy_actor.hpp"
#include "troupe/actors/shard/shard_state.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// What travels beside a command in the log of a shard.
struct shard_content {
  shard_request_kind kind{};
  std::vector<std::uint8_t> body;
  tensors operands;
};

/// Returns the content of a command. @pre the payload was made of one.
inline std::shared_ptr<const shard_content>
content_of(const parameter_server::payload& from) {
  return std::static_pointer_cast<const shard_content>(from.tensors);
}

/// The parts of one copy of a shard, and the answers to commands that clients
/// may repeat. Copies that perform the same commands in the same order have the
/// same bits.
class shard_store {
public:
  explicit shard_store(std::uint32_t index) : index_{index} { clear(); }

  /// Performs a command, and keeps its answer. Forgets the answers that its
  /// client needs no more.
  /// @param is_alone no other copy performs the command. Then this copy goes on
  ///        if memory is lacking, and answers that the command is invalid.
  void apply(const parameter_server::command& command,
             const shard_content& content, bool is_alone = false);
  /// Returns the answer of a command that was performed.
  const shard_answer& answer(const parameter_server::command_id& id) const {
    return answers_.at(id);
  }
  bool has_answer(const parameter_server::command_id& id) const {
    return answers_.contains(id);
  }
  /// Says that a command would exceed a limit of memory. Empty: it would not.
  /// The bytes of a table differ between copies, so only the primary asks.
  /// Also empty if the part that it changes is not made yet.
  /// @param max_bytes zero: no limit.
  std::string limit_problem(const shard_content& content,
                            std::uint64_t max_bytes) const;
  /// Says why a training cannot begin. Empty: it can.
  std::string training_problem(const shard_content& content,
                               const parameter_server::training& of) const;
  /// Says why the gradient of a push does not fit its part, or would exceed a
  /// limit of memory. Empty: it fits.
  std::string gradient_problem(const parameter_server::push& given,
                               const tensors& operands,
                               std::uint64_t max_bytes) const;
  void forget(std::uint64_t client);
  /// Performs a read. The tensor of the answer is beside it.
  std::pair<shard_answer, tensors> read(const shard_content& content);
  void clear();
  /// Applies an update of the training.
  /// @errors as `shard_state::apply`
  void apply(const parameter_server::update& x) { state_.apply(x); }
  /// @errors as `shard_state::value_of`
  tensor value_of(std::uint32_t part, const tensor& rows) const {
    return state_.value_of(part, rows);
  }

  shard_image save(tensors& beside) const;
  /// @errors throws std::logic_error, and then nothing has changed.
  /// @param current the training, which the state machine keeps.
  void restore(const shard_image& from, std::span<const tensor> beside,
               const parameter_server::training& current = {});

  /// Takes the contents of another copy of the shard.
  void take(shard_store&& from);

private:
  std::pair<shard_answer, tensors>
  perform(const shard_content& content,
          const std::vector<parameter_server::training>& begins = {});

  const std::uint32_t index_; ///< Of the shard.
  shard_state state_;
  std::map<parameter_server::command_id, shard_answer> answers_;
};

} // namespace troupe
