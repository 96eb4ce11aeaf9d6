#include "tool.hpp"
#include "troupe/net/tf_config.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sys/stat.h>
#include <sys/syscall.h>

namespace {

using namespace troupe;

/// Jobs of shell scripts, which know their task from TF_CONFIG. `is 1` is true
/// in the process with index 1; `stay` does not end by itself.
class Launch : public tool_test {
protected:
  Launch() { EXPECT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0); }

  void script(const std::string& text) const {
    put("job.sh",
        "is() { case $TF_CONFIG in *'\"index\":'$1,*) ;; *) false;; esac; }\n"
        "stay() { cat fifo & wait; wait; }\n"
          + text + "\n");
  }

  outcome launch(const std::string& options, child_options more = {}) const {
    return troupe("launch " + options + " -- sh job.sh", std::move(more));
  }

  /// What each process wrote, by its name.
  static std::map<std::string, std::string> by_name(const std::string& text) {
    std::map<std::string, std::string> all;
    std::istringstream in{text};
    for (std::string line; std::getline(in, line);) {
      const auto end = line.find("] ");
      EXPECT_EQ(line.rfind("[", 0), 0u) << line;
      EXPECT_NE(end, line.npos) << line;
      all[line.substr(1, end - 1)] += line.substr(end + 2) + "\n";
    }
    return all;
  }

  static std::string last_line_of(const std::string& text) {
    const auto whole = text.substr(0, text.find_last_not_of('\n') + 1);
    return whole.substr(whole.rfind('\n') + 1);
  }

  /// Waits until a process that may not be ours has ended.
  static void wait_for_end(pid_t id) {
    const auto life = static_cast<int>(::syscall(SYS_pidfd_open, id, 0));
    if (life < 0) {
      EXPECT_EQ(errno, ESRCH); // it is gone
      return;
    }
    pollfd end{life, POLLIN, 0};
    EXPECT_EQ(::poll(&end, 1, 30'000), 1) << "process " << id << " lives on";
    ::close(life);
  }

  /// Calls it once when all of `count` said "ready" on standard error.
  static child_options when_ready(std::ptrdiff_t count,
                                  std::function<void(pid_t)> what) {
    child_options options;
    options.on_error_output =
      [=, done = false](pid_t tool, const std::string& err) mutable {
        std::ptrdiff_t ready = 0;
        for (auto at = err.find("ready\n"); at != err.npos;
             at = err.find("ready\n", at + 1))
          ++ready;
        if (!std::exchange(done, done || ready >= count) && ready >= count)
          what(tool);
      };
    return options;
  }
};

TEST_F(Launch, GivesEachProcessItsTaskInOneCluster) {
  script("echo \"$TF_CONFIG\"");
  const auto done = launch("-n 3");
  ASSERT_EQ(done.code, 0) << done.err;
  const auto said = by_name(done.out);
  ASSERT_EQ(said.size(), 3u) << done.out;
  const auto cluster = net::parse_tf_config(said.at("worker 0")).cluster;
  EXPECT_EQ(cluster.num_tasks("worker"), 3u);
  for (net::task_index i = 0; i < 3; ++i) {
    const auto x = net::parse_tf_config(said.at("worker " + std::to_string(i)));
    EXPECT_EQ(x.cluster, cluster);
    EXPECT_EQ(x.task_type, "worker");
    EXPECT_EQ(x.task_id, i);
  }
}

TEST_F(Launch, MakesTheFirstProcessChiefOnRequest) {
  script("echo \"$TF_CONFIG\"");
  const auto done = launch("-n 2 --chief");
  ASSERT_EQ(done.code, 0) << done.err;
  const auto said = by_name(done.out);
  const auto x = net::parse_tf_config(said.at("chief 0"));
  EXPECT_EQ(x.cluster.jobs(), (net::cluster_spec::list{"chief", "worker"}));
  EXPECT_EQ(x.cluster, net::parse_tf_config(said.at("worker 0")).cluster);
}

TEST_F(Launch, GivesAllOneFreshSecretThatIsGoneAtTheEnd) {
  script("echo $TROUPE_SECRET_FILE; stat -c %a $TROUPE_SECRET_FILE\n"
         "stat -c %a $(dirname $TROUPE_SECRET_FILE)\n"
         "cat $TROUPE_SECRET_FILE");
  std::set<std::string> seen;
  for (int run = 0; run < 2; ++run) {
    const auto done = launch("-n 2");
    ASSERT_EQ(done.code, 0) << done.err;
    const auto said = by_name(done.out);
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

TEST_F(Launch, KeepsASecretOfTheEnvironmentFromThem) {
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
    EXPECT_EQ(by_name(done.out).at(name), "out\n\nno break\n");
    EXPECT_EQ(by_name(done.err).at(name), "err\n");
  }
}

TEST_F(Launch, CutsLinesThatDoNotEnd) {
  script("head -c 20000 /dev/zero | tr '\\0' x");
  const auto done = launch("-n 1");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(std::ranges::count(done.out, 'x'), 20000);
  EXPECT_EQ(std::ranges::count(done.out, '\n'), 3);
}

TEST_F(Launch, HandsTheProgramsWordsOnAsTheyAre) {
  put("words.sh", "for x in \"$@\"; do echo \"<$x>\"; done");
  const auto done =
    troupe("launch -n 1 -- sh words.sh -n [a,b] {} --grace '' -- launch");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(by_name(done.out).at("worker 0"),
            "<-n>\n<[a,b]>\n<{}>\n<--grace>\n<>\n<-->\n<launch>\n");
}

TEST_F(Launch, NamesWhoFailedFirstAndEndsTheOthers) {
  script("is 1 && exit 3; stay");
  const auto done = launch("-n 3 --grace 0");
  EXPECT_EQ(done.code, 3);
  EXPECT_EQ(last_line_of(done.err),
            "troupe: worker 1 failed first: exit code 3")
    << done.err;
}

TEST_F(Launch, NamesTheSignalThatKilledTheFirst) {
  script("is 0 && kill -9 $$; stay");
  const auto done = launch("-n 2 --grace 0");
  EXPECT_EQ(done.code, 137);
  EXPECT_EQ(last_line_of(done.err),
            "troupe: worker 0 failed first: signal 9 (Killed)")
    << done.err;
}

TEST_F(Launch, KnowsWhoWasFirstThoughItHearsOfBothAtOnce) {
  for (const auto* name : {"go0", "go1"})
    ASSERT_EQ(::mkfifo((folder / name).c_str(), 0600), 0);
  const auto go0 = ::open((folder / "go0").c_str(), O_RDWR);
  const auto go1 = ::open((folder / "go1").c_str(), O_RDWR);
  script("if is 0; then echo $$ >id0; echo ready >&2; read x <go0; exit 4; fi\n"
         "echo $$ >id1; echo ready >&2; read x <go1; exit 3");
  const auto both_end_while_it_is_stopped = [=, this](pid_t tool) {
    ::kill(tool, SIGSTOP);
    EXPECT_EQ(::write(go1, "on\n", 3), 3);
    wait_for_end(std::stoi(text_of("id1")));
    EXPECT_EQ(::write(go0, "on\n", 3), 3);
    wait_for_end(std::stoi(text_of("id0")));
    ::kill(tool, SIGCONT);
  };
  const auto done =
    launch("-n 2 --grace 100", when_ready(2, both_end_while_it_is_stopped));
  ::close(go0);
  ::close(go1);
  EXPECT_EQ(last_line_of(done.err),
            "troupe: worker 1 failed first: exit code 3")
    << done.err;
}

TEST_F(Launch, LetsTheOthersSayWhyTheyEndWithinTheGrace) {
  script("is 1 && exit 3; echo lost worker 1 >&2; exit 4");
  const auto done = launch("-n 2 --grace 100");
  EXPECT_NE(done.err.find("[worker 0] lost worker 1\n"), done.err.npos)
    << done.err;
}

TEST_F(Launch, KillsWhoDoesNotHearASignal) {
  script("is 1 && exit 3; trap '' TERM; stay");
  const auto done = launch("-n 2 --grace 0");
  EXPECT_EQ(done.code, 3) << done.err;
}

/// Worker 2 outlives SIGTERM, to see that worker 1 is gone before the others'
/// grace is over.
TEST_F(Launch, KillsWhoIsStoppedAfterOneGrace) {
  for (const auto* name : {"here", "there"})
    ASSERT_EQ(::mkfifo((folder / name).c_str(), 0600), 0);
  script("if is 0; then read x <here; read x <there; exit 3; fi\n"
         "if is 1; then echo $$ >id; echo on >here; kill -STOP $$; fi\n"
         "trap 'tail --pid=$(cat id) -f /dev/null; echo it is gone; exit 0' "
         "TERM\n"
         "echo on >there; stay");
  const auto done = launch("-n 3 --grace 4");
  EXPECT_EQ(done.code, 3) << done.err;
  EXPECT_EQ(by_name(done.out)["worker 2"], "it is gone\n");
}

TEST_F(Launch, PassesSignalsOn) {
  for (const auto& [number, name, code] : {std::tuple{SIGINT, "INT", 5},
                                           {SIGTERM, "TERM", 6},
                                           {SIGHUP, "HUP", 7}}) {
    SCOPED_TRACE(name);
    script("trap 'echo heard; exit " + std::to_string(code) + "' "
           + std::string{name} + "; echo ready >&2; stay");
    const auto done =
      launch("-n 2 --grace 100",
             when_ready(2, [=](pid_t tool) { ::kill(tool, number); }));
    EXPECT_EQ(done.code, code) << done.err;
    for (const auto* one : {"worker 0", "worker 1"})
      EXPECT_EQ(by_name(done.out)[one], "heard\n");
    EXPECT_NE(last_line_of(done.err).find("was passed on; worker "),
              done.err.npos)
      << done.err;
  }
}

TEST_F(Launch, EndsWellIfAllEndWellOnASignal) {
  script("trap 'exit 0' TERM; echo ready >&2; stay");
  const auto done =
    launch("-n 2", when_ready(2, [](pid_t tool) { ::kill(tool, SIGTERM); }));
  EXPECT_EQ(done.code, 0) << done.err;
}

TEST_F(Launch, TakesItsProcessesAlongIfItIsKilled) {
  ::setenv("TMPDIR", folder.c_str(), 1); // its secret outlives it
  script("is 1 && echo $$ > id; echo ready >&2; exec cat fifo");
  const auto done =
    launch("-n 2", when_ready(2, [](pid_t tool) { ::kill(tool, SIGKILL); }));
  ::unsetenv("TMPDIR");
  EXPECT_EQ(done.code, 137) << done.err;
  wait_for_end(std::stoi(text_of("id")));
}

TEST_F(Launch, LeavesNothingBehindOfWhatItsProcessesStarted) {
  script("cat fifo & echo $! > id");
  EXPECT_EQ(launch("-n 1").code, 0);
  wait_for_end(std::stoi(text_of("id")));
}

TEST_F(Launch, EndsItsProcessesIfNobodyTakesTheirWords) {
  script("echo word; stay");
  child_options options;
  options.out_file = "/dev/full";
  refuses("launch -n 2 --grace 0 -- sh job.sh", 1,
          {"cannot write what worker", "No space left"}, options);
}

TEST_F(Launch, RefusesWhatWillNotDo) {
  refuses("launch -n 2", 2, {"no program", "--"});
  refuses("launch -n 2 --", 2, {"no program", "--"});
  refuses("launch -- true", 2, {"-n"});
  refuses("launch -n 0 -- true", 2, {"-n 0:", "from 1 to 128"});
  refuses("launch -n 2 --grace -1 -- true", 2, {"--grace -1:", "from 0 to"});
  refuses("launch -n 2 -- ./nowhere", 2,
          {"cannot run \"./nowhere\": No such file", "PATH"});
  refuses("launch -n 2 -- /", 2, {"cannot run \"/\": Permission denied"});
  refuses("launch -n 2 true", 2, {"true"});
  refuses("train -- true", 2, {"-- true:", "only troupe launch"});
}

} // namespace
