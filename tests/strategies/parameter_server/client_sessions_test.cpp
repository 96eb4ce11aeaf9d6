#include "troupe/strategies/parameter_server/client_sessions.hpp"

#include <gtest/gtest.h>

namespace troupe::parameter_server {

namespace {

using state = client_sessions::state;

command command_of(std::uint64_t client, std::uint64_t number,
                   std::uint64_t answered_below = 0) {
  return {{client, number}, answered_below};
}

TEST(ClientSessions, RemembersWhatHasTakenEffectUntilItsClientHasTheAnswer) {
  client_sessions all{{}};
  EXPECT_EQ(all.find(command_of(7, 0)), state::is_new);
  all.add(command_of(7, 0), 1);
  all.add(command_of(7, 2), 2);
  EXPECT_EQ(all.find(command_of(7, 0)), state::done);
  EXPECT_EQ(all.find(command_of(7, 1)), state::is_new);
  EXPECT_EQ(all.find(command_of(7, 2)), state::done);
  EXPECT_EQ(all.find(command_of(8, 0)), state::is_new);
  all.add(command_of(7, 3, 2), 3);
  EXPECT_EQ(all.find(command_of(7, 0)), state::forgotten);
  EXPECT_EQ(all.find(command_of(7, 1)), state::forgotten);
  EXPECT_EQ(all.find(command_of(7, 2)), state::done);
  EXPECT_EQ(all.save()[0].done, (std::vector<std::uint64_t>{2, 3}));
}

TEST(ClientSessions, LimitsTheCommandsThatAClientMayRepeat) {
  client_sessions all{{.max_open_commands = 3}};
  EXPECT_EQ(all.find(command_of(7, 2)), state::is_new);
  EXPECT_EQ(all.find(command_of(7, 3)), state::ahead);
  EXPECT_EQ(all.find(command_of(7, 1, 2)), state::forgotten); // a broken client
  all.add(command_of(7, 0), 1);
  EXPECT_EQ(all.find(command_of(7, 3)), state::ahead);
  EXPECT_EQ(all.find(command_of(7, 3, 1)), state::is_new);
}

TEST(ClientSessions, ForgetsTheClientThatWasSilentLongest) {
  client_sessions all{{.max_clients = 2}};
  all.add(command_of(7, 0), 1);
  all.add(command_of(8, 0), 2);
  EXPECT_TRUE(all.add(command_of(7, 1, 1), 3).empty());
  EXPECT_EQ(all.add(command_of(9, 0), 4), std::vector<std::uint64_t>{8});
  EXPECT_EQ(all.clients(), 2u);
  EXPECT_EQ(all.find(command_of(8, 1, 1)), state::forgotten);
  EXPECT_EQ(all.find(command_of(7, 1, 1)), state::done);
}

TEST(ClientSessions, RestoresWhatWasSavedAndRejectsTheImpossible) {
  client_sessions all{{.max_clients = 2, .max_open_commands = 3}};
  all.add(command_of(7, 4), 5); // another copy may have larger limits
  const std::vector<client_session> saved{{7, 2, 9, {2, 4}}, {8, 0, 10, {}}};
  ASSERT_TRUE(all.restore(saved, 10));
  EXPECT_EQ(all.save(), saved);
  EXPECT_EQ(all.find(command_of(7, 4, 2)), state::done);
  const auto rejects = [&](auto change) {
    auto wrong = saved;
    change(wrong);
    return !all.restore(wrong, 10) && all.save() == saved;
  };
  EXPECT_TRUE(rejects([](auto& x) { x[0].done = {4, 2}; }));
  EXPECT_TRUE(rejects([](auto& x) { x[0].done = {4, 4}; }));
  EXPECT_TRUE(rejects([](auto& x) { x[0].done = {1, 2}; }));
  EXPECT_TRUE(rejects([](auto& x) { x[0].done = {2, 3, 4, 5}; }));
  EXPECT_TRUE(rejects([](auto& x) { x[0].client = 8; }));
  EXPECT_TRUE(rejects([](auto& x) { x[1].last_record = 11; }));
  EXPECT_TRUE(rejects([](auto& x) { x[1].last_record = 0; }));
  EXPECT_TRUE(rejects([](auto& x) { x.push_back({9, 0, 1, {}}); }));
}

} // namespace

} // namespace troupe::parameter_server
