#include "troupe/training/remote/step_snapshot.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/training/strategies/calls/result_codec.hpp"
#include "troupe/training/strategies/replica/text_codec.hpp"

#include <cstring>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace troupe {

namespace {

[[noreturn]] void throw_malformed() {
  throw job_error(ec::protocol,
                  "a worker sent a malformed snapshot of its step functions");
}

tensor bytes_of_size(std::size_t size) {
  return tensor::zeros({static_cast<std::int64_t>(size)}, dtype::uint8);
}

} // namespace

step_snapshot::step_snapshot(const step_functions& functions)
  : snapshot_{functions.snapshot}, restore_{functions.restore} {
  if (!snapshot_ || !restore_)
    throw std::invalid_argument("step_functions has only one of snapshot and "
                                "restore; set both of them, or none");
}

/// The function may return tensors that the program changes later.
void step_snapshot::keep_state() {
  kept_.emplace();
  for (const auto& one : snapshot_())
    kept_->push_back(one ? one.clone() : tensor{});
}

void step_snapshot::restore_state() {
  if (kept_)
    restore_(*kept_);
}

std::string step_snapshot::state_text() {
  detail::result_writer out{max_bytes};
  out.put(snapshot_());
  if (out.is_too_large())
    throw std::logic_error("step_functions::snapshot returned more than "
                           + std::to_string(max_bytes >> 20) + " MiB");
  const auto text = std::move(out).text();
  own_ = bytes_of_size(text.size());
  std::memcpy(own_.raw(), text.data(), text.size());
  return encode_text(std::uint64_t{text.size()});
}

std::vector<tensor> step_snapshot::state_tensors(const std::string& text) {
  std::uint64_t size = 0;
  if (!decode_text(text, size) || size == 0 || size > max_bytes)
    throw_malformed();
  received_ = size == own_.bytes() ? own_ : bytes_of_size(size);
  return {received_};
}

void step_snapshot::on_copied(const std::string&) {
  tensors values;
  detail::result_reader in{
    {reinterpret_cast<const char*>(std::as_const(received_).raw()),
     received_.bytes()}};
  if (!in.get(values) || !in.is_at_end())
    throw_malformed();
  restore_(values);
}

} // namespace troupe
