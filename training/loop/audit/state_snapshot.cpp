#include "troupe/training/loop/audit/state_snapshot.hpp"

#include "troupe/tensors/op_threads.hpp"
#include "troupe/training/support/block_hash.hpp"

#include <cstring>

namespace troupe {

namespace {

std::uint64_t hash_of(const tensor& part, std::uint64_t number) {
  const auto read = part.to({});
  return block_hash({read.raw(), read.bytes()}, number);
}

void copy(const tensor& from, tensor& to) {
  if (from.device().kind != device_kind::cpu)
    return to.copy_from(from);
  const auto* source = from.raw();
  auto* target = to.raw();
  constexpr std::size_t element = sizeof(float);
  for_elements(from.size(), [&](std::size_t begin, std::size_t end) {
    std::memcpy(target + begin * element, source + begin * element,
                (end - begin) * element);
  });
}

} // namespace

std::uint64_t hash_of_copy(const model_state& model, std::uint32_t copy) {
  // A sum, so that a change of a single word always changes the hash.
  auto out = hash_of(model.model_parameters.values(copy), 0);
  for (std::size_t s = 0; s < model.slots[copy].size(); ++s)
    out += hash_of(model.slots[copy][s], s + 1);
  return out;
}

void state_snapshot::take(const model_state& model, std::uint32_t copy_number,
                          std::uint64_t step, std::uint64_t hash) {
  if (step_ && hash_ == hash) {
    step_ = step;
    return;
  }
  step_.reset(); // while the copy is not complete
  const auto& slots = model.slots[copy_number];
  if (tensors_.empty())
    for (std::size_t i = 0; i < 1 + slots.size(); ++i)
      tensors_.push_back(
        tensor::zeros(model.model_parameters.values(0).dims()));
  copy(model.model_parameters.values(copy_number), tensors_[0]);
  for (std::size_t s = 0; s < slots.size(); ++s)
    copy(slots[s], tensors_[1 + s]);
  hash_ = hash;
  step_ = step;
}

bool state_snapshot::is_intact() const {
  if (!step_)
    return false;
  std::uint64_t found = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    found += hash_of(tensors_[i], i);
  return found == hash_;
}

void state_snapshot::restore(model_state& model) const {
  model.model_parameters.values(0).copy_from(tensors_.at(0));
  for (std::size_t s = 0; s < model.slots[0].size(); ++s)
    model.slots[0][s].copy_from(tensors_.at(1 + s));
  model.broadcast_copy(0);
}

void state_snapshot::take_sent(std::vector<tensor> sent, std::uint64_t step,
                               std::uint64_t hash) {
  tensors_ = std::move(sent);
  step_ = step;
  hash_ = hash;
}

} // namespace troupe
