#include "troupe/actors/core/failure_text.hpp"
#include "troupe/net/codec/type_names.hpp"

#include <gtest/gtest.h>

#include <set>

// Compares the whole sentence of each kind of failure. Other tests compare
// reports, or parts of sentences.

namespace troupe {
namespace {

using kind = failure_kind;

/// A chief with replicas 0 and 1, and two workers with replicas 2 and 3, and 4.
const named_processes cluster{{"chief 0", "worker 1", "worker 2"},
                              placement{{{0, 1}, {2, 3}, {4}}},
                              "digits",
                              {"10.0.0.1:1", "10.0.0.2:1"},
                              1};
const named_processes single{{"this process"}, placement{4}};

const role_wait sum_wait{false, 0, activity::all_reduce, 2, {1}};

struct example {
  failure_report report;
  std::string sentence;
  const named_processes& processes = cluster;
};

const std::vector<example>& examples() {
  static const std::vector<example> all{
    {{.kind = kind::unspecified, .cause = "no such file"}, "no such file"},

    // -- operations that the user does not count ------------------------------
    {{.kind = kind::process_lost,
      .processes = {1},
      .step = 7,
      .cause = "closed",
      .operation = "evaluate"},
     "worker 1 was lost in evaluate (operation 7): closed"},
    {{.kind = kind::stalled, .step = 7, .timeout_ms = 500, .operation = "save"},
     "save (operation 7) stalled for 500 ms"},

    // -- failures of a replica ------------------------------------------------
    {{.kind = kind::step_failed,
      .replicas = {3},
      .step = 5,
      .cause = "no such file"},
     "replica 3 of worker 1 failed in step 5: no such file"},
    {{.kind = kind::step_failed,
      .replicas = {3},
      .step = 5,
      .cause = "no such file"},
     "no such file",
     single},
    {{.kind = kind::step_failed, .replicas = {3}, .step = 5},
     "replica 3 of worker 1 failed in step 5"},
    {{.kind = kind::step_failed, .replicas = {3}, .step = 5},
     "replica 3 failed in step 5",
     single},
    {{.kind = kind::wait_timed_out,
      .replicas = {0},
      .step = 1,
      .timeout_ms = 100,
      .waits = {sum_wait}},
     "replica 0 of chief 0 failed in step 1: replica 0 waited for the sum of "
     "bucket 2 in step 1 for 100 ms, the timeout of its call; it misses "
     "replica 1"},
    {{.kind = kind::wait_timed_out,
      .replicas = {0},
      .step = 1,
      .timeout_ms = 100,
      .waits = {{false, 0, activity::all_gather, 2, {}}}},
     "replica 0 waited for the gather of bucket 2 in step 1 for 100 ms, the "
     "timeout of its call",
     single},
    {{.kind = kind::peer_violation,
      .processes = {1},
      .replicas = {0},
      .step = 3,
      .cause = "packet 7 was sent twice",
      .waits = {sum_wait}},
     "replica 0 of chief 0 failed in step 3: worker 1 (replicas 2, 3) violated "
     "the protocol: packet 7 was sent twice, while replica 0 waited for the "
     "sum of bucket 2 in step 3"},
    {{.kind = kind::step_function_unknown,
      .replicas = {4},
      .step = 0,
      .cause = "run 7"},
     "replica 4 of worker 2 failed in step 0: replica 4 received a request to "
     "run the step function 'run 7', which is not registered in its process"},

    // -- losses ---------------------------------------------------------------
    {{.kind = kind::replica_lost,
      .replicas = {2},
      .step = 7,
      .cause = "exit_reason(kill)"},
     "replica 2 of worker 1 was lost in step 7: its actor ended "
     "(exit_reason(kill))"},
    {{.kind = kind::replica_lost, .replicas = {1}, .step = 7},
     "replica 1 was lost in step 7",
     single},
    {{.kind = kind::reducer_lost,
      .replicas = {1},
      .step = 5,
      .cause = "exit_reason(kill)"},
     "reducer 1 was lost in step 5: its actor ended (exit_reason(kill))",
     single},
    {{.kind = kind::process_lost,
      .processes = {1},
      .step = 7,
      .cause = "the peer has closed the connection",
      .waits = {sum_wait, {false, 1, activity::idle, 0, {}}}},
     "worker 1 was lost in step 7: the peer has closed the connection; replica "
     "0 waits for the sum of bucket 2, still missing replica 1; replica 1 has "
     "nothing to do"},
    {{.kind = kind::process_lost,
      .processes = {0},
      .step = 17,
      .cause = "closed",
      .later_cause = "no such file"},
     "chief 0, the leader, was lost in step 17: closed; no such file"},
    {{.kind = kind::process_lost, .processes = {0}, .step = 17},
     "chief 0, the leader, has shut down before the end of step 17"},
    {{.kind = kind::process_lost, .processes = {2}, .step = 17},
     "worker 2 has shut down before the end of step 17"},
    {{.kind = kind::process_lost_before_step,
      .processes = {2},
      .step = 6,
      .cause = "no byte for 1 s"},
     "worker 2 was lost before step 6: no byte for 1 s"},
    {{.kind = kind::process_lost_before_step, .processes = {2}, .step = 6},
     "worker 2 has shut down before step 6"},
    {{.kind = kind::process_lost_between_runs,
      .processes = {1},
      .cause = "closed"},
     "worker 1 was lost between two runs: closed"},
    {{.kind = kind::process_lost_between_runs, .processes = {0}},
     "chief 0, the leader, has shut down between two runs"},
    {{.kind = kind::lanes_lost,
      .processes = {1},
      .replicas = {0},
      .step = 1,
      .cause = "no byte for 1 s",
      .waits = {sum_wait}},
     "replica 0 of chief 0 has lost its lanes to worker 1 in step 1: no byte "
     "for 1 s; replica 0 waits for the sum of bucket 2, still missing replica "
     "1"},
    {{.kind = kind::lanes_lost, .processes = {0}, .replicas = {4}, .step = 1},
     "replica 4 of worker 2 has lost its lanes to chief 0 in step 1"},

    // -- stalls ---------------------------------------------------------------
    {{.kind = kind::stalled,
      .step = 6,
      .timeout_ms = 5000,
      .waits = {{false, 0, activity::all_reduce, 7, {}},
                {false, 2, activity::all_gather, 8, {1, 3}},
                {true, 3, activity::reducing, 7, {1}},
                {false, 3, activity::computing, 0, {}},
                {false, 4, activity::update, 1, {1}}},
      .unresponsive = {1}},
     "step 6 stalled for 5000 ms: replica 0 waits for the sum of bucket 7; "
     "replica 2 waits in the gather of bucket 8, still missing replicas 1, 3; "
     "reducer 3 cannot finish the sum of bucket 7, still missing replica 1; "
     "replica 3 is in its step function; replica 4 waits for the update, still "
     "missing replica 1; replica 1 does not answer: it is in the step "
     "function, or its process is stopped"},
    {{.kind = kind::stalled,
      .step = 6,
      .timeout_ms = 5000,
      .unresponsive = {0, 1},
      .inside = {1}},
     "step 6 stalled for 5000 ms: replicas 0, 1 do not answer: they are in the "
     "step function, or their processes are stopped; replica 1 is still inside "
     "the caller's function; keep the objects that it refers to"},
    {{.kind = kind::stalled, .step = 6, .waits = {sum_wait}},
     "step 6 stalled: replica 0 waits for the sum of bucket 2, still missing "
     "replica 1",
     single},
    {{.kind = kind::stalled, .step = 6}, "step 6 stalled"},
    {{.kind = kind::stalled,
      .step = 6,
      .waits = {sum_wait},
      .unlisted_waits = 12},
     "step 6 stalled: replica 0 waits for the sum of bucket 2, still missing "
     "replica 1; 12 more roles wait"},
    {{.kind = kind::stalled, .step = 6, .unlisted_waits = 1},
     "step 6 stalled: 1 more role waits"},
    {{.kind = kind::not_configured,
      .replicas = {0, 2},
      .step = 9,
      .generation = 3,
      .timeout_ms = 60000},
     "step 9 cannot begin: for 60000 ms replicas 0, 2 did not acknowledge "
     "generation 3 and may still be in an older step"},
    {{.kind = kind::chief_silent, .timeout_ms = 8000},
     "no message from the chief for 8000 ms"},
    {{.kind = kind::task_not_run, .replicas = {5}, .timeout_ms = 10},
     "for 10 ms replica 5 did not run the function given to for_each"},
    {{.kind = kind::task_failed,
      .replicas = {2},
      .cause = "no file",
      .inside = {0, 1}},
     "replica 2: no file; replicas 0, 1 are still inside the caller's "
     "function; keep the objects that it refers to"},

    // -- runs -----------------------------------------------------------------
    {{.kind = kind::replica_missing, .replicas = {2}},
     "replica 2 of worker 1 is lost; the group cannot run a step without it"},
    {{.kind = kind::reducer_missing, .replicas = {2}},
     "reducer 2 is lost; the group cannot reduce without it"},
    {{.kind = kind::step_not_granted, .replicas = {0}, .step = 4},
     "replica 0 of chief 0 reported step 4, which it was not granted"},
    {{.kind = kind::step_not_granted, .replicas = {9}, .step = 4},
     "replica 9 reported step 4, which it was not granted"},
    {{.kind = kind::run_left, .run = 1, .requests = {{1, 2, 0, 3}}},
     "worker 1 left run 1 and requests steps [0, 3) as its run 2; all workers "
     "must call run, fit, evaluate and save in the same order"},
    {{.kind = kind::runs_differ, .requests = {{1, 1, 0, 10}, {2, 1, 0, 11}}},
     "worker 1 requests steps [0, 10) as its run 1, but worker 2 requests "
     "steps [0, 11) as its run 1; all workers must call run, fit, evaluate and "
     "save in the same order"},
    {{.kind = kind::run_left,
      .run = 1,
      .requests = {{1, 2, 0, 3, {.name = "evaluate"}}}},
     "worker 1 left run 1 and called evaluate; all workers must call run, fit, "
     "evaluate and save in the same order"},
    {{.kind = kind::runs_differ,
      .requests = {{0, 1, 0, 1, {.name = "evaluate", .number = 4}},
                   {1, 1, 0, 1, {.name = "fit", .number = 4}}}},
     "chief 0 called evaluate, but worker 1 called fit; all workers must make "
     "the same calls in the same order"},
    {{.kind = kind::runs_differ,
      .requests = {{2, 1, 0, 1, {.name = "save", .number = 4}},
                   {1, 1, 0, 1, {.name = "save", .number = 5}}}},
     "worker 2 called save as call 4 of the job, but worker 1 called save as "
     "call 5 of the job; all workers must make the same calls in the same "
     "order"},
    {{.kind = kind::runs_differ,
      .requests = {{2, 1, 0, 1, {.name = "save", .number = 4}}, {1, 1, 8, 9}}},
     "worker 2 called save, but worker 1 requests steps [8, 9) as its run 1; "
     "all workers must make the same calls in the same order"},
    {{.kind = kind::runs_differ,
      .requests =
        {{0, 1, 0, 1, {.name = "save"}},
         {1, 1, 0, 1, {.name = "fit", .failure = "the disk is full"}}}},
     "a callback of worker 1 has thrown: the disk is full; chief 0 meanwhile "
     "called save"},
    {{.kind = kind::runs_differ,
      .requests = {{0, 1, 0, 10, {.name = "fit"}},
                   {1, 1, 0, 11, {.name = "fit"}}}},
     "chief 0 requests operations [0, 10) as its run 1, but worker 1 requests "
     "operations [0, 11) as its run 1; all workers must call run, fit, "
     "evaluate and save in the same order"},
    {{.kind = kind::runs_differ,
      .requests = {{0, 1, 0, 10, {.name = "fit", .user_step = 40}},
                   {1, 1, 0, 11, {.name = "fit", .user_step = 40}}}},
     "chief 0 requests steps [40, 50) as its run 1, but worker 1 requests "
     "steps [40, 51) as its run 1; all workers must call run, fit, evaluate "
     "and save in the same order"},
    {{.kind = kind::run_ended, .processes = {1}, .run = 3},
     "run 3 of worker 1 has ended for all other processes"},
    {{.kind = kind::run_not_joined,
      .processes = {1, 2},
      .timeout_ms = 1000,
      .requests = {{0, 1, 4, 5}}},
     "steps [4, 5) as its run 1 cannot begin: for 1000 ms worker 1 and worker "
     "2 did not join"},
    {{.kind = kind::run_not_joined,
      .processes = {1},
      .timeout_ms = 1000,
      .requests = {{0, 1, 4, 5, {.name = "save"}}}},
     "save: operations [4, 5) as its run 1 cannot begin: for 1000 ms worker 1 "
     "did not join"},
    {{.kind = kind::run_not_joined, .processes = {1}},
     "worker 1 did not join the run"},
    {{.kind = kind::job_not_joined, .processes = {1, 2}},
     "worker 1 and worker 2 did not join yet"},
    {{.kind = kind::metrics_differ, .replicas = {2}, .step = 7},
     "replica 2 of worker 1 reported another number of metrics of step 7 than "
     "the other replicas"},
    {{.kind = kind::no_replica},
     "job 'digits' cannot begin: no process hosts a replica; give one at least "
     "1"},
    {{.kind = kind::start_not_joined,
      .processes = {0, 2},
      .timeout_ms = 300,
      .cause = "; rejected: worker 2 has version 2.0, but chief 0 1.0"},
     "job 'digits' cannot begin: for 300 ms chief 0 and worker 2 did not join "
     "(10.0.0.1:1, ?); rejected: worker 2 has version 2.0, but chief 0 1.0"},
    {{.kind = kind::start_not_joined, .processes = {1}},
     "job 'digits' waits: worker 1 did not join (10.0.0.2:1)"},
    {{.kind = kind::lanes_not_open, .processes = {1, 2}},
     "worker 1 and worker 2 did not connect to all other processes in time"},
    {{.kind = kind::process_lost_in_start, .processes = {1}},
     "worker 1 was lost during the start: it has left"},
    {{.kind = kind::process_lost_in_start,
      .processes = {1},
      .cause = "the peer has closed the connection"},
     "worker 1 was lost during the start: the peer has closed the connection"},
    {{.kind = kind::join_rejected, .cause = "it is taken"},
     "chief 0 rejected worker 1: it is taken"},
    {{.kind = kind::leader_unreachable},
     "chief 0 at 10.0.0.1:1 did not answer"},
    {{.kind = kind::leader_unreachable,
      .timeout_ms = 300,
      .cause = "connection refused"},
     "worker 1 could not reach chief 0 at 10.0.0.1:1 for 300 ms: connection "
     "refused"},
    {{.kind = kind::leader_unreachable,
      .code = ec::refused,
      .timeout_ms = 300,
      .cause = "TLS: unknown authority"},
     "worker 1 could not reach chief 0 at 10.0.0.1:1: TLS: unknown authority"},
    {{.kind = kind::view_missing},
     "chief 0 did not send the members of the job in time"},
    {{.kind = kind::malformed_view},
     "chief 0 violated the protocol: it sent members of the job that cannot be "
     "right"},
    {{.kind = kind::start_missing},
     "chief 0 did not report in time that all are ready"},
    {{.kind = kind::commit_out_of_order,
      .processes = {0},
      .step = 17,
      .expected_step = 9},
     "chief 0, the leader, violated the protocol: it committed step 17 where "
     "step 9 is next"},
    {{.kind = kind::malformed_report, .processes = {0}},
     "chief 0, the leader, violated the protocol: it sent a malformed report "
     "of a failure"},
    {{.kind = kind::chief_terminated},
     "the chief of this replica group has terminated; the group can run no "
     "more steps"},

    // -- status ---------------------------------------------------------------
    {{.kind = kind::step_pending,
      .replicas = {0, 2},
      .step = 1,
      .waits = {sum_wait},
      .unresponsive = {2}},
     "replica 0 waits for the sum of bucket 2, still missing replica 1; "
     "replica 2 does not answer: it is in the step function, or its process is "
     "stopped; replica 0 of chief 0 has not reported it; replica 2 of worker 1 "
     "has not reported it"},
    {{.kind = kind::step_pending, .replicas = {0}, .waits = {sum_wait}},
     "replica 0 waits for the sum of bucket 2, still missing replica 1",
     single},
    {{.kind = kind::step_pending, .replicas = {0, 1}},
     "replica 0 has not reported it",
     single},
    {{.kind = kind::commits_not_taken, .processes = {1}, .step = 4},
     "worker 1 is still in the callbacks of step 4, and no further step is "
     "granted before they return"},
    {{.kind = kind::commits_not_taken, .processes = {0, 2}, .step = 4},
     "chief 0 and worker 2 are still in the callbacks of step 4, and no "
     "further step is granted before they return"},
    {{.kind = kind::view_not_agreed,
      .processes = {2},
      .generation = 3,
      .timeout_ms = 700},
     "the processes agree on view 3 for 700 ms; it goes on without worker 2"},
    {{.kind = kind::view_not_agreed, .generation = 3, .timeout_ms = 700},
     "the processes agree on view 3 for 700 ms"},
  };
  return all;
}

TEST(FailureText, IsOneSentenceForEachKind) {
  std::set<kind> seen;
  for (const auto& x : examples()) {
    EXPECT_EQ(describe(x.report, x.processes), x.sentence);
    seen.insert(x.report.kind);
  }
  for (std::uint8_t number = 0; net::is_enumerator<kind>(number); ++number)
    EXPECT_EQ(seen.count(kind{number}), 1u) << "kind " << int(number);
}

// A report of another process can be incomplete.
TEST(FailureText, OfAnEmptyReportReadsNothingOutOfBounds) {
  const named_processes none{{}, placement{std::vector<placement::id_list>{}}};
  for (std::uint8_t number = 1; net::is_enumerator<kind>(number); ++number) {
    const failure_report empty{.kind = kind{number}};
    for (const auto* processes : {&cluster, &single, &none})
      if (kind{number} != kind::step_pending) {
        EXPECT_NE(describe(empty, *processes), "") << "kind " << int(number);
      }
  }
}

TEST(FailureText, NamesUnknownProcessesByNumber) {
  EXPECT_EQ(describe({.kind = kind::process_lost,
                      .processes = {7},
                      .step = 1,
                      .cause = "closed"},
                     cluster),
            "process 7 was lost in step 1: closed");
}

} // namespace
} // namespace troupe
