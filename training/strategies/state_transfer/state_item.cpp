#include "troupe/training/strategies/state_transfer/state_item.hpp"

#include "troupe/training/strategies/replica/text_codec.hpp"
#include "troupe/training/support/block_hash.hpp"

#include <cstring>

namespace troupe {

namespace {

constexpr std::size_t max_header_bytes = 4096;

std::uint64_t hash_of(const tensor& part) {
  return part ? block_hash({part.raw(), part.bytes()}, 0) : 0;
}

bool has_elements(state_item::kind what) {
  return what == state_item::kind::values || what == state_item::kind::sums;
}

} // namespace

bool state_item::is_last() const {
  if (!has_elements(what))
    return true;
  return first + std::uint64_t{part.size()} == total
         && (what == kind::sums || tensor + 1 == tensors);
}

tensors to_transfer(const state_item& x) {
  const auto text =
    encode_text(static_cast<std::uint8_t>(x.what), x.call, x.steps, x.tensor,
                x.tensors, x.first, x.total, x.examples, x.learning_rate,
                x.waiting, x.text, hash_of(x.part));
  tensor header{{static_cast<std::int64_t>(text.size())}, dtype::uint8};
  std::memcpy(header.raw(), text.data(), text.size());
  tensors out;
  out.push_back(std::move(header));
  if (x.part)
    out.push_back(x.part);
  return out;
}

std::variant<state_item, std::string> read_item(const tensors& transfer) {
  if (transfer.empty() || transfer.size() > 2
      || transfer[0].type() != dtype::uint8
      || transfer[0].bytes() > max_header_bytes)
    return "a part of the state is malformed";
  const std::string text{reinterpret_cast<const char*>(transfer[0].raw()),
                         transfer[0].bytes()};
  state_item x;
  std::uint8_t what = 0;
  std::uint64_t hash = 0;
  if (!decode_text(text, what, x.call, x.steps, x.tensor, x.tensors, x.first,
                   x.total, x.examples, x.learning_rate, x.waiting, x.text,
                   hash)
      || what > static_cast<std::uint8_t>(state_item::kind::ended))
    return "a part of the state has a malformed header";
  x.what = static_cast<state_item::kind>(what);
  if (has_elements(x.what) != (transfer.size() == 2))
    return "a part of the state has no elements, or too many";
  if (transfer.size() == 2) {
    x.part = transfer[1];
    if (x.part.type() != dtype::float32 || x.part.dims().rank() != 1
        || x.part.size() == 0 || x.part.size() > x.total
        || x.first > x.total - x.part.size())
      return "a part of the state has elements that it cannot have";
    if (hash_of(x.part) != hash)
      return "a part of the state was damaged on its way";
  }
  return x;
}

} // namespace troupe
