#include "troupe/actors/protocol/server_status_actor.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

TEST(ServerStatus, IsATable) {
  const servers_summary x{2,
                          3,
                          {{"127.0.0.1:4100",
                            2,
                            1,
                            {.parts = 2,
                             .bytes = 3 << 19,
                             .updates = 1042,
                             .waiting = 1,
                             .gradients = 4,
                             .staleness_sum = 5,
                             .largest_staleness = 3}},
                           {"b:1", 1, 1, {.updates = 7}},
                           {"\x1b", 0, 0, {}}}};
  EXPECT_EQ(
    to_text(x),
    "3 parameter servers, 3 processes lost\n"
    "server  address         in sync  updates  staleness (mean, largest)  "
    "waiting  memory\n"
    "0       127.0.0.1:4100  2 of 2   1042     1.25, 3                    "
    "1        1.5 MiB\n"
    "1       b:1             1 of 2   7        -                          "
    "0        0.0 MiB\n"
    "2       ?               0 of 2   does not answer\n");
}

} // namespace
} // namespace troupe
