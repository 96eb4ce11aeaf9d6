#include "troupe/training/support/resident_tensor.hpp"

#include <algorithm>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

namespace troupe {

tensor resident_tensor(const shape& dims, const device& on) {
  if (on.kind != device_kind::cpu)
    return tensor{tensor_spec{dims}, on};
  constexpr std::size_t min_bytes_of_thread = std::size_t{2} << 20;
  constexpr std::size_t max_threads = 8;
  tensor out{dims};
  const auto bytes = out.bytes();
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto touch = [first = out.raw(), page](std::size_t begin,
                                               std::size_t end) {
    for (auto at = begin; at < end; at += page)
      const_cast<volatile std::byte&>(first[at]) = std::byte{};
    const_cast<volatile std::byte&>(first[end - 1]) = std::byte{};
  };
  const auto threads =
    std::min<std::size_t>({bytes / min_bytes_of_thread, max_threads,
                           std::thread::hardware_concurrency()});
  if (threads < 2)
    return out;
  std::vector<std::jthread> others;
  try {
    for (std::size_t t = 1; t < threads; ++t)
      others.emplace_back(touch, bytes * t / threads,
                          bytes * (t + 1) / threads);
  } catch (const std::system_error&) {
    return out; // no thread: the first use provides the other pages
  }
  touch(0, bytes / threads);
  return out;
}

} // namespace troupe
