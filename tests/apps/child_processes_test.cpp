#include "troupe/apps/troupe/launcher/child_processes.hpp"
#include "troupe/tests/support/scratch.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace {

using namespace std::chrono_literals;

/// The workers of a job as shell scripts.
struct worker_scripts {
  void start(const std::string& name, const std::string& text) {
    children.start({name, {"/bin/bash", "-c", text}});
  }

  std::map<std::string, std::string> last_line;
  std::vector<std::string> unreachable;
  child_processes children{
    {.grace_period = 0ms,
     .is_job = true,
     .on_unreachable =
       [this](const std::string& name) { unreachable.push_back(name); },
     .on_line = [this](const std::string& name, bool,
                       std::string_view line) { last_line[name] = line; }}};
};

/// Shell scripts as child processes, and the last line that each script has
/// written.
struct scripts {
  void start(const std::string& name, const std::string& text) {
    children.start({name, {"/bin/bash", "-c", text}});
  }
  /// Polls until the script has written this line.
  void wait_for(const std::string& name, const std::string& line) {
    while (last_line[name] != line && children.running())
      children.poll_once(60s);
  }
  void wait_for_end() {
    while (children.running())
      children.poll_once(60s);
  }

  std::map<std::string, std::string> last_line;
  child_processes children{
    {.grace_period = 0ms,
     .on_line = [this](const std::string& name, bool, std::string_view line) {
       last_line[name] = line;
     }}};
};

constexpr auto stay = "while :; do :; done";

} // namespace

TEST(ChildProcesses, HaveNoDeadlineAfterSend) {
  scripts started;
  started.start("a", std::string{"trap 'for i in $(seq 500); do echo $i; done; "
                                 "exit 5' INT; echo ready; "}
                       + stay);
  started.wait_for("a", "ready");
  started.children.send(SIGINT);
  started.wait_for_end();
  EXPECT_EQ(started.last_line["a"], "500");
  ASSERT_EQ(started.children.ended().size(), 1u);
  EXPECT_EQ(started.children.ended()[0].code, 5);
  EXPECT_EQ(started.children.ended()[0].signal, 0);
}

TEST(ChildProcesses, EndWithinTheGracePeriodOfAFailureAfterSend) {
  scripts started;
  started.start("a", std::string{"trap 'exit 5' INT; echo ready; "} + stay);
  started.start("b", std::string{"trap '' INT TERM; echo ready; "} + stay);
  started.wait_for("a", "ready");
  started.wait_for("b", "ready");
  started.children.send(SIGINT);
  started.wait_for_end();
  ASSERT_EQ(started.children.ended().size(), 2u);
  EXPECT_EQ(started.children.ended()[0].name, "a");
  EXPECT_EQ(started.children.ended()[0].code, 5);
  EXPECT_EQ(started.children.ended()[1].signal, SIGKILL);
}

TEST(ChildProcesses, EndWithinTheGracePeriodAfterSignal) {
  scripts started;
  started.start("a", std::string{"trap '' INT TERM; echo ready; "} + stay);
  started.wait_for("a", "ready");
  started.children.signal(SIGINT);
  started.wait_for_end();
  ASSERT_TRUE(started.children.first_failure());
  EXPECT_EQ(started.children.first_failure()->signal, SIGKILL);
}

TEST(ChildProcesses, KillAWorkerThatAnotherOneReports) {
  worker_scripts job;
  job.start("stopped", "echo $$; kill -STOP $$");
  while (job.last_line["stopped"].empty())
    job.children.poll_once(60s);
  job.start("other", "echo unreachable " + job.last_line["stopped"]
                       + " >&$TROUPE_LAUNCHER; " + stay);
  while (job.children.ended().empty())
    job.children.poll_once(60s);
  EXPECT_EQ(job.unreachable, std::vector<std::string>{"stopped"});
  EXPECT_EQ(job.children.ended()[0].name, "stopped");
  EXPECT_EQ(job.children.ended()[0].signal, SIGKILL);
  EXPECT_TRUE(job.children.running());
}

/// The workers of a job, of which one asks which of them live.
struct job_with_question : worker_scripts {
  /// Starts a worker that writes its number. @returns this number.
  std::string start_worker(const std::string& name, const std::string& text) {
    start(name, "echo $$; " + text);
    while (last_line[name].empty())
      children.poll_once(60s);
    return last_line[name];
  }
  /// Starts a worker that is killed. @returns its number.
  std::string start_killed(const std::string& name,
                           const std::string& reports_before = {}) {
    const auto number = start_worker(name, reports_before + "kill -KILL $$");
    while (children.ended().empty())
      children.poll_once(60s);
    return number;
  }
  /// Starts the worker that asks. It writes the answer, or "end", and whether
  /// the process with the number `watched` lives at that time.
  void ask(const std::string& words, const std::string& reports_before = {},
           const std::string& watched = "-1") {
    start("asker", "trap '' INT; echo begun >&$TROUPE_LAUNCHER; "
                     + reports_before + "echo survivors " + words
                     + " >&$TROUPE_LAUNCHER; echo asked; "
                       "read -u $TROUPE_LAUNCHER line; "
                       "if [ -d /proc/"
                     + watched
                     + " ]; then line+=' while it lives'; fi; echo $line; "
                     + stay);
    while (last_line["asker"].empty())
      children.poll_once(60s);
    children.poll_once(0ms); // reads the question
  }
  /// Sends `end`, and returns what the asker has read first.
  std::string first_answer() {
    children.send("asker", SIGINT);
    while (last_line["asker"] == "asked")
      children.poll_once(60s);
    return last_line["asker"];
  }
};

constexpr auto begin = "echo begun >&$TROUPE_LAUNCHER; ";

/// Reports the worker itself as a candidate, by its number and start time.
constexpr auto report_self = "set -- $(sed 's/.*) //' /proc/$$/stat); "
                             "echo candidate $$ ${20} >&$TROUPE_LAUNCHER; ";

TEST(ChildProcesses, SayWhichWorkersLive) {
  job_with_question job;
  const auto killed = job.start_killed("killed", report_self);
  const auto named = job.start_worker("named", begin + std::string{stay});
  job.start_worker("left", std::string{begin} + "echo left >&$TROUPE_LAUNCHER; "
                             + stay);
  const auto completed =
    job.start_worker("completed", begin + std::string{stay});
  const auto starting =
    job.start_worker("starting", report_self + std::string{stay});
  job.ask("5 " + named + " / " + named + " " + killed + " / " + completed, {},
          starting);
  while (job.last_line["asker"] == "asked")
    job.children.poll_once(60s);
  EXPECT_EQ(job.last_line["asker"], "survivors 5");
  ASSERT_EQ(job.children.ended().size(), 2u);
  EXPECT_FALSE(job.children.ended()[0].was_superseded);
  EXPECT_EQ(job.children.ended()[1].name, "starting");
  EXPECT_TRUE(job.children.ended()[1].was_superseded);
}

TEST(ChildProcesses, KillAWorkerThatAnotherOneDoesNotName) {
  job_with_question job;
  const auto killed = job.start_killed("killed");
  const auto other = job.start_worker("other", begin + std::string{stay});
  job.ask("1 / " + killed + " " + other + " /", {}, other);
  while (job.last_line["asker"] == "asked")
    job.children.poll_once(60s);
  EXPECT_EQ(job.last_line["asker"], "survivors 1");
  EXPECT_EQ(job.unreachable, std::vector<std::string>{"other"});
}

TEST(ChildProcesses, DoNotSayWhichWorkersLiveWhileMoreLiveThanAreNamed) {
  job_with_question job;
  const auto killed = job.start_killed("killed");
  const auto other = job.start_worker("other", begin + std::string{stay});
  job.start_worker("third", begin + std::string{stay});
  const auto starting = job.start_worker("starting", stay);
  job.ask("1 / " + killed + " /", {}, other);
  EXPECT_TRUE(job.unreachable.empty());
  EXPECT_EQ(job.children.ended().size(), 1u);
  job.children.send("other", SIGKILL);
  while (job.last_line["asker"] == "asked")
    job.children.poll_once(60s);
  EXPECT_EQ(job.last_line["asker"], "survivors 1");
}

/// None of the three can have a majority, so the first that has asked goes on.
TEST(ChildProcesses, DecideForTheFirstQuestionIfAllThatLiveAsk) {
  job_with_question job;
  const auto later = begin
                     + std::string{"trap 'echo survivors 1 / / "
                                   ">&$TROUPE_LAUNCHER; echo asked' USR1; "}
                     + stay;
  const auto second = job.start_worker("second", later);
  const auto third = job.start_worker("third", later);
  job.ask("1 / " + second + " " + third + " /");
  ::kill(std::stoi(second), SIGUSR1);
  while (job.last_line["second"] != "asked")
    job.children.poll_once(60s);
  job.children.poll_once(0ms);
  EXPECT_TRUE(job.unreachable.empty());
  ::kill(std::stoi(third), SIGUSR1);
  while (job.last_line["asker"] == "asked")
    job.children.poll_once(60s);
  EXPECT_EQ(job.last_line["asker"], "survivors 1");
  EXPECT_EQ(job.unreachable, (std::vector<std::string>{"second", "third"}));
}

/// It has been stopped for as long as the launcher considers a question.
TEST(ChildProcesses, DecideIfAllOthersAreStopped) {
  job_with_question job;
  std::string members;
  for (const auto* name : {"a", "b"}) {
    const auto number = job.start_worker(name, begin + std::string{stay});
    members += number + " ";
    ::kill(std::stoi(number), SIGSTOP);
  }
  job.ask("1 / " + members + "/");
  EXPECT_TRUE(job.unreachable.empty());
  while (job.last_line["asker"] == "asked")
    job.children.poll_once(60s);
  EXPECT_EQ(job.last_line["asker"], "survivors 1");
  EXPECT_EQ(job.unreachable.size(), 2u);
}

TEST(ChildProcesses, DoNotSayWhichWorkersLiveIfOthersMayBelongToTheJob) {
  // The last one has the number of a worker that has ended, but is another
  // process.
  for (const auto* candidate : {"0 0", "1 1", "x", "$PPID 1", "$dead 1"}) {
    job_with_question job;
    const auto killed = job.start_killed("killed");
    job.ask("1 / " + killed + " /", "dead=" + killed + "; echo candidate "
                                      + std::string{candidate}
                                      + " >&$TROUPE_LAUNCHER; ");
    while (job.last_line["asker"] == "asked")
      job.children.poll_once(60s);
    EXPECT_EQ(job.last_line["asker"], "undecided 1") << candidate;
  }
  job_with_question job;
  job.ask("1 / 1 /"); // a member that it has not started
  while (job.last_line["asker"] == "asked")
    job.children.poll_once(60s);
  EXPECT_EQ(job.last_line["asker"], "undecided 1");
}

TEST(ChildProcesses, KnowTheCandidatesOfAWorkerThatWasKilled) {
  job_with_question job;
  const auto killed =
    job.start_killed("killed", "echo candidate 1 1 >&$TROUPE_LAUNCHER; ");
  job.ask("1 / " + killed + " /");
  while (job.last_line["asker"] == "asked")
    job.children.poll_once(60s);
  EXPECT_EQ(job.last_line["asker"], "undecided 1");
}

TEST(ChildProcesses, ForgetAQuestionThatIsWithdrawnOrMalformed) {
  for (const auto* words : {"1 / 1", "x / /", "0 / /", "", "1 x / /"}) {
    job_with_question job;
    job.ask(words);
    EXPECT_EQ(job.first_answer(), "end") << words;
  }
  job_with_question job;
  const auto other = job.start_worker("other", begin + std::string{stay});
  job.start_worker("third", begin + std::string{stay});
  job.start("asker", std::string{"trap '' INT; "} + begin
                       + "echo survivors 1 / / >&$TROUPE_LAUNCHER; "
                         "echo withdrawn >&$TROUPE_LAUNCHER; echo asked; "
                         "read -u $TROUPE_LAUNCHER line; echo $line; "
                       + stay);
  while (job.last_line["asker"].empty())
    job.children.poll_once(60s);
  job.children.poll_once(0ms);
  job.children.send("other", SIGKILL);
  while (job.children.ended().empty())
    job.children.poll_once(60s);
  EXPECT_EQ(job.first_answer(), "end");
}

using ChildProcessesWithFiles = troupe::scratch_test;

TEST_F(ChildProcessesWithFiles, KillOneOfTwoWorkersThatReportEachOther) {
  worker_scripts job;
  // Each waits until it knows the number of the other one.
  const auto script = [](const std::string& own, const std::string& other) {
    return "echo $$ > " + own + ".tmp; mv " + own + ".tmp " + own
           + "; until [ -e " + other + " ]; do :; done; "
           + "echo unreachable $(cat " + other + ") >&$TROUPE_LAUNCHER; "
           + stay;
  };
  const auto a = (folder / "a").string(), b = (folder / "b").string();
  job.start("a", script(a, b));
  job.start("b", script(b, a));
  while (job.children.ended().empty())
    job.children.poll_once(60s);
  for (int i = 0; i < 3; ++i) // reads the other report, too
    job.children.poll_once(100ms);
  EXPECT_EQ(job.unreachable.size(), 1u);
  EXPECT_EQ(job.children.ended().size(), 1u);
}

TEST(ChildProcesses, IgnoreReportsThatNameNoWorker) {
  worker_scripts job;
  job.start("a", "for x in 1 0 -1 $$ x 99999999999999999999 ''; do "
                 "echo unreachable $x >&$TROUPE_LAUNCHER; done; "
                 "echo other >&$TROUPE_LAUNCHER; exit 0");
  while (job.children.running())
    job.children.poll_once(60s);
  EXPECT_TRUE(job.unreachable.empty());
  EXPECT_EQ(job.children.ended()[0].code, 0);
}

TEST(ChildProcesses, AWorkerThatHasLeftDoesNotEndTheJob) {
  worker_scripts job;
  job.start("other", std::string{"echo ready; read x <&$TROUPE_LAUNCHER; "
                                 "echo $x; exit 3"});
  while (job.last_line["other"] != "ready")
    job.children.poll_once(60s);
  job.start("left", "echo left >&$TROUPE_LAUNCHER; exit 0");
  while (job.children.ended().empty())
    job.children.poll_once(60s);
  const auto& left = job.children.ended().front();
  EXPECT_EQ(left.name, "left");
  EXPECT_TRUE(left.left);
  EXPECT_FALSE(left.completed());
  EXPECT_EQ(left.code, 0);
  // The grace period of a completed job would have ended at once.
  for (int i = 0; i < 3; ++i)
    job.children.poll_once(50ms);
  EXPECT_TRUE(job.children.running());
  EXPECT_EQ(job.last_line["other"], "ready");
  job.start("done", "exit 0");
  while (job.children.running())
    job.children.poll_once(60s);
  EXPECT_FALSE(job.children.first_failure());
}

/// One that is stopped may go on later: it is no reason to kill it.
TEST(ChildProcesses, AWorkerThatHasLeftByAnErrorEndsNoStoppedOne) {
  worker_scripts job;
  job.start("stopped", "echo $$; kill -STOP $$; exit 0");
  while (job.last_line["stopped"].empty())
    job.children.poll_once(60s);
  job.start("left", "echo left >&$TROUPE_LAUNCHER; exit 1");
  while (job.children.ended().empty())
    job.children.poll_once(60s);
  EXPECT_FALSE(job.children.first_failure());
  for (int i = 0; i < 3; ++i)
    job.children.poll_once(50ms);
  EXPECT_TRUE(job.children.running());
  ::kill(std::stoi(job.last_line["stopped"]), SIGCONT);
  while (job.children.running())
    job.children.poll_once(60s);
  EXPECT_TRUE(job.children.is_job_done());
}

/// The grace period of the others is a minute.
TEST(ChildProcesses, EndOneThatJoinsWhenTheJobIsComplete) {
  std::map<std::string, std::string> last_line;
  child_processes children{
    {.grace_period = 60s,
     .is_job = true,
     .on_line = [&](const std::string& name, bool, std::string_view line) {
       last_line[name] = line;
     }}};
  children.start({.name = "joins",
                  .command = {"/bin/bash", "-c", stay},
                  .may_fail = true,
                  .joins = true});
  children.start({"begun",
                  {"/bin/bash", "-c",
                   std::string{"trap 'exit 0' TERM; echo begun "
                               ">&$TROUPE_LAUNCHER; echo ready; "}
                     + stay}});
  while (last_line["begun"] != "ready")
    children.poll_once(60s);
  children.start({"done", {"/bin/bash", "-c", "exit 0"}});
  while (children.ended().size() < 2)
    children.poll_once(10s);
  EXPECT_EQ(children.ended()[0].name, "done");
  EXPECT_EQ(children.ended()[1].name, "joins");
  EXPECT_EQ(children.ended()[1].signal, SIGTERM);
  EXPECT_TRUE(children.running());
  children.send("begun", SIGTERM);
  while (children.running())
    children.poll_once(60s);
}

TEST(ChildProcesses, GoOnIfAFailureIsALoss) {
  std::vector<std::string> asked;
  child_processes children{{.grace_period = 0ms,
                            .is_job = true,
                            .is_loss = [&](const process_exit& x) {
                              asked.push_back(x.name);
                              EXPECT_FALSE(x.had_begun);
                              EXPECT_TRUE(x.job_had_begun);
                              return x.name == "loss";
                            }}};
  const auto start = [&](const std::string& name, const std::string& text) {
    children.start({name, {"/bin/bash", "-c", text}});
    while (!children.has_begun())
      children.poll_once(60s);
  };
  start("begun", begin + std::string{stay});
  start("killed", "kill -9 $$");
  start("loss", "exit 1");
  while (children.ended().size() < 2)
    children.poll_once(60s);
  EXPECT_FALSE(children.first_failure());
  start("failure", "exit 2");
  while (children.running())
    children.poll_once(60s);
  ASSERT_TRUE(children.first_failure());
  EXPECT_EQ(children.first_failure()->name, "failure");
  EXPECT_EQ(asked, (std::vector<std::string>{"loss", "failure"}));
}

TEST(ChildProcesses, CompleteAJobOnlyWithItsChief) {
  std::string last_line;
  child_processes children{
    {.grace_period = 0ms,
     .is_job = true,
     .chief = "chief",
     .on_line = [&](const std::string&, bool, std::string_view line) {
       last_line = line;
     }}};
  const auto start = [&](const std::string& name, const std::string& text) {
    children.start({name, {"/bin/bash", "-c", text}});
  };
  start("server", std::string{"echo ready; "} + stay);
  while (last_line != "ready")
    children.poll_once(60s);
  start("worker", "exit 0");
  while (children.ended().empty())
    children.poll_once(60s);
  // The grace period of a completed job would have ended at once.
  for (int i = 0; i < 3; ++i)
    children.poll_once(50ms);
  EXPECT_EQ(children.ended().size(), 1u);
  start("chief", "exit 0");
  while (children.running())
    children.poll_once(60s);
  ASSERT_EQ(children.ended().size(), 3u);
  EXPECT_EQ(children.ended().back().name, "server");
  EXPECT_FALSE(children.first_failure());
}

TEST(ChildProcesses, AreToldThatTheJobEndsBeforeTheSignal) {
  scripts started;
  started.start("a", std::string{"trap 'read x <&${TROUPE_LAUNCHER%:*}; "
                                 "echo \"told $x\"; exit 0' TERM; echo ready; "}
                       + stay);
  started.wait_for("a", "ready");
  started.children.send(SIGTERM);
  started.wait_for_end();
  EXPECT_EQ(started.last_line["a"], "told end");
  EXPECT_EQ(started.children.ended()[0].code, 0);
}

/// Processes that are not workers of one job do not end each other.
TEST(ChildProcesses, IgnoreReportsThatTheyDoNotAskFor) {
  scripts started;
  started.start("a", std::string{"echo $$; "} + stay);
  while (started.last_line["a"].empty())
    started.children.poll_once(60s);
  started.start("b", "echo unreachable " + started.last_line["a"]
                       + " >&${TROUPE_LAUNCHER%:*}; echo $TROUPE_LAUNCHER");
  while (started.children.ended().empty())
    started.children.poll_once(60s);
  EXPECT_EQ(started.children.ended()[0].name, "b");
  EXPECT_TRUE(started.last_line["b"].ends_with(":no-witness"));
  for (int i = 0; i < 3; ++i)
    started.children.poll_once(50ms);
  EXPECT_EQ(started.children.ended().size(), 1u);
}
