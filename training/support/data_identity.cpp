#include "troupe/training/support/data_identity.hpp"

#include "troupe/training/support/sha256.hpp"

#include <exception>
#include <span>

namespace troupe {

namespace {

/// Batches whose rows are counted. More of them have an unknown number.
constexpr std::uint64_t max_counted = std::uint64_t{1} << 22;
constexpr std::string_view unreadable = "cannot be read: ";

std::optional<std::uint64_t> examples_of(const data::dataset& batches) {
  const auto count = batches.size();
  if (!count || *count > max_counted)
    return std::nullopt;
  std::uint64_t out = 0;
  for (std::uint64_t i = 0; i < *count; ++i) {
    const auto rows = batches.batch_rows({0, i});
    if (!rows)
      return std::nullopt;
    out += *rows;
  }
  return out;
}

} // namespace

std::string hash_of_batch(const data::dataset& batches,
                          const data::position& at) {
  try {
    const auto found = batches.prefetch(0).iterate(at).next();
    if (!found)
      return "none";
    sha256 hash;
    found->for_each([&](std::string_view name, const tensor& one) {
      const auto type = to_string(one.spec());
      hash.add(std::as_bytes(std::span{name}))
        .add(std::as_bytes(std::span{type}))
        .add({one.raw(), one.bytes()});
    });
    const auto rows = found->rows();
    return std::to_string(rows) + (rows == 1 ? " example, " : " examples, ")
           + to_hex(hash.finish());
  } catch (const std::exception& e) {
    return std::string{unreadable} + e.what();
  }
}

bool is_unreadable(const std::string& hash) {
  return hash.starts_with(unreadable);
}

data_identity identify(const data::dataset& batches) {
  data_identity out{
    batches.size(), examples_of(batches), hash_of_batch(batches, {}), {}};
  if (out.batches && *out.batches > 0)
    out.last_batch = hash_of_batch(batches, {0, *out.batches - 1});
  return out;
}

std::string describe(const data_identity& x, std::string_view of) {
  const auto number = [](const auto& n, const char* none) {
    return n ? std::to_string(*n) : std::string{none};
  };
  const std::string end{of};
  return "batches per epoch" + end + ": " + number(x.batches, "endless")
         + "\nexamples per epoch" + end + ": " + number(x.examples, "unknown")
         + "\nhash of the first batch" + end + ": " + x.first_batch
         + "\nhash of the last batch" + end + ": " + x.last_batch + '\n';
}

} // namespace troupe
