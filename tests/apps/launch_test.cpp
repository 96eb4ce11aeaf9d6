#include "launches.hpp"
#include "troupe/net/cluster/tf_config.hpp"

#include <algorithm>
#include <set>

namespace {

using namespace troupe;

TEST_F(Launch, GivesEachProcessItsTaskInOneCluster) {
  script("echo \"$TF_CONFIG\"");
  const auto done = launch("-n 3");
  ASSERT_EQ(done.code, 0) << done.err;
  const auto outputs = output_by_name(done.out);
  ASSERT_EQ(outputs.size(), 3u) << done.out;
  const auto cluster = net::parse_tf_config(outputs.at("worker 0")).cluster;
  EXPECT_EQ(cluster.num_tasks("worker"), 3u);
  for (net::task_index i = 0; i < 3; ++i) {
    const auto x =
      net::parse_tf_config(outputs.at("worker " + std::to_string(i)));
    EXPECT_EQ(x.cluster, cluster);
    EXPECT_EQ(x.task_type, "worker");
    EXPECT_EQ(x.task_id, i);
  }
}

TEST_F(Launch, MakesTheFirstProcessChiefOnRequest) {
  script("echo \"$TF_CONFIG\"");
  const auto done = launch("-n 2 --chief");
  ASSERT_EQ(done.code, 0) << done.err;
  const auto said = output_by_name(done.out);
  const auto x = net::parse_tf_config(said.at("chief 0"));
  EXPECT_EQ(x.cluster.jobs(), (net::cluster_spec::list{"chief", "worker"}));
  EXPECT_EQ(x.cluster, net::parse_tf_config(said.at("worker 0")).cluster);
}

TEST_F(Launch, GivesAllProcessesOneNewSecretAndRemovesIt) {
  script("echo $TROUPE_SECRET_FILE; stat -c %a $TROUPE_SECRET_FILE\n"
         "stat -c %a $(dirname $TROUPE_SECRET_FILE)\n"
         "cat $TROUPE_SECRET_FILE");
  std::set<std::string> seen;
  for (int run = 0; run < 2; ++run) {
    const auto done = launch("-n 2");
    ASSERT_EQ(done.code, 0) << done.err;
    const auto said = output_by_name(done.out);
    EXPECT_EQ(said.at("worker 0"), said.at("worker 1"));
    std::istringstream in{said.at("worker 0")};
    std::string file, mode, folder_mode, secret;
    in >> file >> mode >> folder_mode >> secret;
    EXPECT_EQ(mode, "600");
    EXPECT_EQ(folder_mode, "700");
    EXPECT_EQ(secret.size(), 64u);
    EXPECT_FALSE(
      std::filesystem::exists(std::filesystem::path{file}.parent_path()));
    seen.insert(secret);
  }
  EXPECT_EQ(seen.size(), 2u);
}

TEST_F(Launch, HidesASecretOfTheEnvironment) {
  ::setenv("TROUPE_SECRET", "another job's", 1);
  script("echo \"<$TROUPE_SECRET>\"");
  const auto done = launch("-n 1");
  ::unsetenv("TROUPE_SECRET");
  EXPECT_EQ(done.out, "[worker 0] <>\n") << done.err;
}

TEST_F(Launch, ShowsWholeLinesOfBothStreams) {
  script("echo out; echo err >&2; echo; printf 'no break'");
  const auto done = launch("-n 2");
  EXPECT_EQ(done.code, 0) << done.err;
  for (const auto* name : {"worker 0", "worker 1"}) {
    EXPECT_EQ(output_by_name(done.out).at(name), "out\n\nno break\n");
    EXPECT_EQ(output_by_name(done.err).at(name), "err\n");
  }
}

TEST_F(Launch, SplitsLinesThatAreTooLong) {
  script("head -c 20000 /dev/zero | tr '\\0' x");
  const auto done = launch("-n 1");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(std::ranges::count(done.out, 'x'), 20000);
  EXPECT_EQ(std::ranges::count(done.out, '\n'), 3);
}

TEST_F(Launch, PassesTheProgramsArgumentsUnchanged) {
  put("words.sh", "for x in \"$@\"; do echo \"<$x>\"; done");
  const auto done =
    troupe("launch -n 1 -- sh words.sh -n [a,b] {} --grace '' -- launch");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(output_by_name(done.out).at("worker 0"),
            "<-n>\n<[a,b]>\n<{}>\n<--grace>\n<>\n<-->\n<launch>\n");
}

TEST_F(Launch, RejectsInvalidOptions) {
  expect_rejected("launch -n 2", 2, {"no program", "--"});
  expect_rejected("launch -n 2 --", 2, {"no program", "--"});
  expect_rejected("launch -- true", 2, {"-n"});
  expect_rejected("launch -n 0 -- true", 2, {"-n 0:", "from 1 to 128"});
  expect_rejected("launch -n 2 --grace -1 -- true", 2,
                  {"--grace -1:", "from 0 to"});
  expect_rejected("launch -n 2 -- ./nowhere", 2,
                  {"cannot run \"./nowhere\": No such file", "PATH"});
  expect_rejected("launch -n 2 -- /", 2,
                  {"cannot run \"/\": Permission denied"});
  expect_rejected("launch -n 2 true", 2, {"true"});
  expect_rejected("train -- true", 2, {"-- true:", "only troupe launch"});
}

} // namespace
