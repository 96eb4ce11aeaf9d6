#include "troupe/tensors/ops/dropout.hpp"

#include "troupe/tensors/cuda/elementwise.cuh"
#include "troupe/tensors/cuda/ops/kernels.hpp"
#include "troupe/tensors/random.hpp"

namespace troupe::cuda {

namespace {

struct philox_words {
  std::uint32_t word[4];
};

/// Philox4x32-10, as `philox` of random.hpp.
__device__ philox_words philox(std::uint64_t block, std::uint32_t high0,
                               std::uint32_t high1, std::uint32_t key0,
                               std::uint32_t key1) {
  auto c0 = static_cast<std::uint32_t>(block),
       c1 = static_cast<std::uint32_t>(block >> 32), c2 = high0, c3 = high1;
  for (int round = 0; round < 10; ++round) {
    const auto a = std::uint64_t{0xD2511F53} * c0;
    const auto b = std::uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<std::uint32_t>(b >> 32) ^ c1 ^ key0;
    c1 = static_cast<std::uint32_t>(b);
    c2 = static_cast<std::uint32_t>(a >> 32) ^ c3 ^ key1;
    c3 = static_cast<std::uint32_t>(a);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return {{c0, c1, c2, c3}};
}

/// The stream of random words of a key, as `random_stream`. A graph has one
/// kernel for all steps, so there the kernel reads the step.
struct device_random_stream {
  philox_words name{};                ///< Of the key.
  const std::int64_t* step = nullptr; ///< Null: `name` is known.
  random_key key{};

  __device__ philox_words block(std::uint64_t i) const {
    const auto of_key =
      step ? philox(static_cast<std::uint64_t>(*step), key.replica, key.op,
                    static_cast<std::uint32_t>(key.seed),
                    static_cast<std::uint32_t>(key.seed >> 32))
           : name;
    return philox(i, of_key.word[2], of_key.word[3], of_key.word[0],
                  of_key.word[1]);
  }
};

device_random_stream random_stream_of(const device& on, const random_key& key) {
  if (auto* const capture = find_capture(on)) {
    ++capture->random_ops;
    return {.step = capture->step, .key = key};
  }
  const random_stream stream{key};
  const auto name = stream.key();
  const auto high = stream.upper_counter();
  return {.name = {{name[0], name[1], high[0], high[1]}}};
}

/// Writes `lanes` elements of the mask and of the result, from element i on.
/// @param limit the bits of a kept element are below.
template <int lanes, class T>
__device__ void drop(std::size_t i, const std::uint32_t* bits,
                     std::uint64_t limit, float kept, const T* x, float* mask,
                     T* y) {
  const auto from = pack_at<lanes>(x, i);
  pack<float, lanes> factors;
  pack<T, lanes> results;
  for (int k = 0; k < lanes; ++k) {
    factors.lane[k] = bits[k] < limit ? kept : 0.0f;
    put(results.lane[k], flushed(number(from.lane[k])) * factors.lane[k],
        false);
  }
  pack_at<lanes>(mask, i) = factors;
  pack_at<lanes>(y, i) = results;
}

/// Draws the mask that the CPU draws.
template <class T>
void forward(op_call& c) {
  const auto [rate, key] = c.options.as<ops::dropped>();
  c.saved.push_back(tensor{{c.out[0].dims(), dtype::float32}, c.on});
  auto* const mask = mutable_elements<float>(c.saved[0]);
  const auto* const x = elements<T>(c.in[0]);
  auto* const y = mutable_elements<T>(c.out[0]);
  const auto n = c.out[0].size();
  const auto stream = random_stream_of(c.on, key);
  const auto limit =
    static_cast<std::uint64_t>((1.0 - double(rate)) * 0x1p32 + 0.5);
  const float kept = 1 / (1 - rate);
  constexpr int drawn = 4; // words of one block of the generator
  const bool is_packed = are_aligned<drawn>(x, y) && are_aligned<drawn>(mask);
  run(c, (n + drawn - 1) / drawn, [=] __device__(std::size_t block) {
    const auto words = stream.block(block);
    const auto first = block * drawn;
    if (is_packed && first + drawn <= n)
      return drop<drawn>(first, words.word, limit, kept, x, mask, y);
    for (int k = 0; k < drawn && first + k < n; ++k)
      drop<1>(first + k, words.word + k, limit, kept, x, mask, y);
  });
}

template <class T>
void backward(op_call& c) {
  if (!c.wants(0))
    return;
  transform(
    c, c.grad_in[0].size(), mutable_elements<T>(c.grad_in[0]), c.accumulates(0),
    [] __device__(number_of<T> gy, float factor) { return gy * factor; },
    whole<T>(c.grad_out[0]), whole<float>(c.saved[0]));
}

constexpr std::array rows{
  op_kernels{dtype::float32, forward<float>, backward<float>,
             device_kind::cuda},
  op_kernels{dtype::float64, forward<double>, backward<double>,
             device_kind::cuda},
  op_kernels{dtype::bfloat16, forward<bfloat16>, backward<bfloat16>,
             device_kind::cuda},
};

} // namespace

std::span<const kernels_of_op> dropout_kernels() {
  static const std::array list{kernels_of_op{&ops::dropout, rows}};
  return list;
}

} // namespace troupe::cuda
