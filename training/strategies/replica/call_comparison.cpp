#include "troupe/training/strategies/replica/call_comparison.hpp"

#include "troupe/strategies/spec_codec.hpp"
#include "troupe/training/strategies/replica/text_codec.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace troupe {

namespace {

/// A hash of numbers, FNV-1a.
struct number_hash {
  void add(std::uint64_t x) {
    constexpr std::uint64_t prime = 0x100000001b3;
    for (int i = 0; i < 8; ++i, x >>= 8)
      value = (value ^ (x & 0xff)) * prime;
  }
  std::uint64_t value = 0xcbf29ce484222325;
};

std::string text_of(const replica_call& call) {
  using enum replica_call::kind;
  switch (call.called) {
    case all_reduce:
      return std::string{"all_reduce("} + (call.op == mean ? "mean" : "sum")
             + ")";
    case all_gather:
      return "all_gather along axis " + std::to_string(call.axis);
    case all_gather_list:
      return "all_gather_list";
    case broadcast:
      break;
  }
  return "broadcast from replica " + std::to_string(call.root);
}

/// Names the tensors of a call of `all_reduce`.
/// @param differs index of the first one that another replica did not pass.
std::string tensors_of(const replica_call& call, std::size_t differs) {
  if (call.called != replica_call::kind::all_reduce)
    return "";
  if (call.specs.size() == 1)
    return " of " + to_string(call.specs.front());
  auto out = " of " + std::to_string(call.specs.size()) + " tensors";
  if (differs < call.specs.size())
    out += ", of which tensor " + std::to_string(differs) + " is "
           + to_string(call.specs[differs]);
  return out;
}

std::string encode_call(const replica_call& call) {
  std::vector<std::string> specs;
  for (const auto& x : call.specs) {
    const auto bytes = encode_spec(x);
    specs.emplace_back(reinterpret_cast<const char*>(bytes.data()),
                       bytes.size());
  }
  return encode_text(std::uint8_t(call.called), std::uint8_t(call.op == mean),
                     std::int32_t{call.axis}, call.root, specs);
}

std::optional<replica_call> decode_call(const std::string& text) {
  replica_call out;
  std::uint8_t called = 0, is_mean = 0;
  std::int32_t axis = 0;
  std::vector<std::string> specs;
  if (!decode_text(text, called, is_mean, axis, out.root, specs)
      || called > std::uint8_t(replica_call::kind::broadcast) || is_mean > 1)
    return std::nullopt;
  out.called = replica_call::kind{called};
  out.op = is_mean ? mean : sum;
  out.axis = axis;
  for (const auto& x : specs) {
    spec_bytes bytes;
    if (x.size() != bytes.size())
      return std::nullopt;
    std::memcpy(bytes.data(), x.data(), x.size());
    if (!decode_spec(bytes, std::numeric_limits<std::size_t>::max(),
                     out.specs.emplace_back()))
      return std::nullopt;
  }
  return out;
}

constexpr auto remedy =
  "; all replicas must call the same collectives with the "
  "same arguments, in the same order";

} // namespace

std::uint64_t hash_of(const replica_calls& calls) {
  number_hash out;
  for (const auto& call : calls) {
    out.add(std::uint64_t(call.called));
    out.add(call.op == mean);
    out.add(static_cast<std::uint64_t>(std::int64_t{call.axis}));
    out.add(call.root);
    out.add(call.specs.size());
    for (const auto& x : call.specs) {
      out.add(std::uint64_t(x.type));
      out.add(x.dims.rank());
      for (const auto extent : x.dims)
        out.add(static_cast<std::uint64_t>(extent));
    }
  }
  return out.value;
}

std::string encode_calls(const replica_calls& calls) {
  std::vector<std::string> texts;
  for (const auto& call : calls)
    texts.push_back(encode_call(call));
  return encode_text(texts);
}

std::optional<replica_calls> decode_calls(const std::string& text) {
  std::vector<std::string> texts;
  if (!decode_text(text, texts))
    return std::nullopt;
  replica_calls out;
  for (const auto& one : texts) {
    const auto call = decode_call(one);
    if (!call)
      return std::nullopt;
    out.push_back(*call);
  }
  return out;
}

void check_equal_calls(std::uint32_t replica, const replica_call& call,
                       std::uint32_t other, const replica_call& of_other,
                       std::size_t index) {
  if (call == of_other)
    return;
  const auto differs = std::size_t(
    std::ranges::mismatch(call.specs, of_other.specs).in1 - call.specs.begin());
  throw std::logic_error(
    "replica " + std::to_string(replica) + " called " + text_of(call)
    + tensors_of(call, differs) + " as collective " + std::to_string(index)
    + " of the step, but replica " + std::to_string(other) + ' '
    + text_of(of_other) + tensors_of(of_other, differs) + remedy);
}

void check_equal_calls(std::span<const std::string> texts) {
  pooled<replica_calls> all;
  for (const auto& text : texts) {
    auto calls = decode_calls(text);
    if (!calls)
      throw std::logic_error("a replica sent malformed calls of collectives");
    all.push_back(std::move(*calls));
  }
  for (std::uint32_t r = 1; r < all.size(); ++r)
    for (std::size_t i = 0; i < std::min(all[r].size(), all[0].size()); ++i)
      check_equal_calls(r, all[r][i], 0, all[0][i], i);
  for (std::uint32_t r = 1; r < all.size(); ++r)
    if (all[r].size() != all[0].size())
      throw std::logic_error("replica " + std::to_string(r) + " called "
                             + std::to_string(all[r].size())
                             + " collectives in the step, but replica 0 "
                             + std::to_string(all[0].size()) + remedy);
}

void call_comparison::on_call(std::uint64_t generation, std::uint64_t step,
                              std::uint32_t replica, std::size_t index,
                              const replica_call& call) {
  if (replicas_ == 1)
    return;
  const std::lock_guard hold{lock_};
  if (generation < generation_)
    return; // the step of this replica is abandoned
  if (generation > generation_) {
    generation_ = generation;
    calls_.clear();
  }
  const auto first = std::ranges::find_if(calls_, [&](const first_call& x) {
    return x.step == step && x.index == index;
  });
  if (first == calls_.end()) {
    calls_.push_back({step, index, replica, call});
    return;
  }
  check_equal_calls(replica, call, first->replica, first->call, index);
  if (++first->compared == replicas_) {
    std::swap(*first, calls_.back());
    calls_.pop_back();
  }
}

} // namespace troupe
