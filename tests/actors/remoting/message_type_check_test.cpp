#include "troupe/actors/remoting/message_type_check.hpp"

#include <gtest/gtest.h>

#include <variant>

// [doc:begin message_struct]
#include <string>
#include <tuple>

namespace cache {

struct entry {
  std::string key;
  std::uint64_t version = 0;
  auto fields() { return std::tie(key, version); }
};

} // namespace cache
// [doc:end]

namespace cache {

struct entry_with_tensor {
  std::string key;
  troupe::tensor value;
  auto fields() { return std::tie(key, value); }
};

} // namespace cache

namespace troupe::detail {

static_assert(holds_no_tensor<cache::entry> && holds_no_tensor<tensor>);
static_assert(holds_no_tensor<tensors> && holds_no_tensor<atom::run>);
static_assert(!holds_no_tensor<cache::entry_with_tensor>);
static_assert(!holds_no_tensor<std::vector<cache::entry_with_tensor>>);
static_assert(holds_no_tensor<std::variant<bool, cache::entry>>);
static_assert(!holds_no_tensor<std::variant<bool, cache::entry_with_tensor>>);

TEST(MessageTypeCheck, AcceptsAStructOfAnotherNamespace) {
  EXPECT_TRUE(message_type_check<cache::entry>::is_valid);
  net::writer out;
  wire::put(out, cache::entry{"a", 7});
  const auto bytes = std::move(out).bytes();
  net::reader in{bytes};
  cache::entry received;
  wire::get(in, received);
  EXPECT_FALSE(in.finish());
  EXPECT_EQ(received.key, "a");
  EXPECT_EQ(received.version, 7u);
}

} // namespace troupe::detail
