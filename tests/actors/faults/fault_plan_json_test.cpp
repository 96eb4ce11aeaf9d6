#include "../../support/scratch.hpp"
#include "troupe/actors/faults/fault_plan_json.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace troupe::injection {
namespace {

using namespace std::chrono_literals;

faults all_kinds() {
  return faults{}
    .with_seed(~std::uint64_t{0})
    .kill(replica{2}, at_step{17})
    .kill(process{1}, at_message{400})
    .stop(process{0}, at_packet{30}, 250ms)
    .disconnect(process{2}, at_time{1001ns})
    .cut(process{1}, process{0}, at_step{3})
    .partition(process{1}, at_step{4})
    .clog(process{1}, at_step{5}, 2.5)
    .slow(process{2}, at_step{6}, 3ms, 10)
    .slow(process{2}, at_step{6}, 1ns)
    .drop(0.01)
    .drop(replica{1}, 1.0 / 3)
    .drop(process{1}, at_packet{9})
    .duplicate(0.5)
    .corrupt(process{0}, at_packet{10})
    .delay(0.1, 100ms)
    .delay(process{1}, at_time{0ns}, 1234567ns);
}

std::string error_of(const std::string& text) {
  try {
    read_fault_plan(text);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "no error";
}

/// Error of a plan with one fault.
std::string error_of_fault(const std::string& members) {
  return error_of(R"({"faults": [{)" + members + "}]}");
}

TEST(FaultPlanJson, ReadsWhatItWrites) {
  const auto plan = all_kinds();
  const auto text = write_fault_plan(plan);
  EXPECT_EQ(read_fault_plan(text), plan) << text;
  EXPECT_EQ(write_fault_plan(read_fault_plan(text)), text);
  EXPECT_EQ(read_fault_plan(R"({"faults": []})"), faults{});
}

TEST(FaultPlanJson, ReadsTheExampleOfTheDocumentation) {
  EXPECT_EQ(read_fault_plan(R"({"seed": 7, "faults": [
      {"kind": "kill", "process": 1, "step": 200},
      {"kind": "stop", "process": 0, "step": 300, "duration_ms": 200},
      {"kind": "delay", "probability": 0.05, "max_delay_ms": 2}]})"),
            faults{}
              .with_seed(7)
              .kill(process{1}, at_step{200})
              .stop(process{0}, at_step{300}, 200ms)
              .delay(0.05, 2ms));
}

TEST(FaultPlanJson, NamesUnknownKeysWithTheirPath) {
  EXPECT_EQ(error_of(R"({"faults": [], "sed": 1})"),
            "the plan has the key \"sed\", which it does not have; its keys "
            "are seed and faults");
  EXPECT_EQ(error_of(R"({"faults": [{"kind": "partition", "process": 1,
                        "step": 1}, {"kind": "partition", "process": 1,
                        "step": 1, "factor": 2}]})"),
            "faults[1] has the key \"factor\", which a partition does not "
            "have; its keys are kind, process and step");
}

TEST(FaultPlanJson, NamesTheValueThatIsWrong) {
  const std::pair<const char*, const char*> cases[]{
    {R"("kind": "explode", "process": 1)",
     "faults[0].kind is \"explode\"; the kinds are kill, stop, disconnect, "
     "cut, partition, clog, slow, drop, duplicate, corrupt and delay"},
    {R"("process": 1)",
     "faults[0].kind is missing; give one, as in \"kind\": \"kill\""},
    {R"("kind": "kill", "process": -1, "step": 1)",
     "faults[0].process is -1; give an integer from 0 to 4294967295"},
    {R"("kind": "kill", "process": 1.5, "step": 1)",
     "faults[0].process is 1.5; give an integer from 0 to 4294967295"},
    {R"("kind": "kill", "process": 1)",
     "faults[0].step is missing; give one of step, message, packet and "
     "time_ms"},
    {R"("kind": "kill", "step": 1)",
     "faults[0].process is missing; give the number of a process"},
    {R"("kind": "kill", "process": 1, "replica": 1, "step": 1)",
     "faults[0].replica is given with process; give one of them"},
    {R"("kind": "kill", "replica": 1, "packet": 1)",
     "faults[0].step is missing; a fault of the simulator occurs at a step"},
    {R"("kind": "kill", "process": 1, "step": 1, "time_ms": 2)",
     "faults[0].time_ms is given with another trigger; give one of step, "
     "message, packet and time_ms"},
    {R"("kind": "kill", "process": 1, "packet": 0)",
     "faults[0].packet is 0; they are counted from 1"},
    {R"("kind": "kill", "process": 1, "time_ms": -2)",
     "faults[0].time_ms is -2; give milliseconds from 0 to 86400000"},
    {R"("kind": "kill", "process": 1, "time_ms": 1e8)",
     "faults[0].time_ms is 1e+08; give a number from 0 to 86400000"},
    {R"("kind": "stop", "process": 1, "step": 1)",
     "faults[0].duration_ms is 0; give milliseconds from 1 to 3600000"},
    {R"("kind": "stop", "process": 1, "step": 1, "duration_ms": "long")",
     "faults[0].duration_ms is \"long\"; give a number"},
    {R"("kind": "cut", "process": 1, "step": 1)",
     "faults[0].peer is missing; give the number of another process"},
    {R"("kind": "cut", "process": 1, "peer": 1, "step": 1)",
     "faults[0].peer is 1; give the number of another process"},
    {R"("kind": "clog", "process": 1, "step": 1, "factor": 0.5)",
     "faults[0].factor is 0.5; give a number from 1 to 1e9"},
    {R"("kind": "slow", "process": 1, "step": 1, "delay_ms": 4e6)",
     "faults[0].delay_ms is 4e+06; give milliseconds from 1e-06 to 3600000"},
    {R"("kind": "drop", "probability": 1.5)",
     "faults[0].probability is 1.5; give a number from 0 to 1"},
    {R"("kind": "drop")",
     "faults[0].probability is missing; give probability, or one of step, "
     "message, packet and time_ms"},
    {R"("kind": "drop", "probability": 1, "step": 1, "process": 0)",
     "faults[0].probability is given with a trigger; give probability, or one "
     "of step, message, packet and time_ms"},
    {R"("kind": "drop", "packet": 4)",
     "faults[0].process is missing; name the process that sends the message"},
    {R"("kind": "delay", "probability": 1, "max_delay_ms": 0)",
     "faults[0].max_delay_ms is 0; give milliseconds from 1e-06 to 3600000"},
  };
  for (const auto& [members, expected] : cases)
    EXPECT_EQ(error_of_fault(members), expected) << members;
}

TEST(FaultPlanJson, RejectsTextsThatAreNoPlans) {
  EXPECT_EQ(error_of("[]"),
            "the plan is a list; give an object, as in {\"faults\": [{...}]}");
  EXPECT_EQ(error_of("{}"),
            "faults is missing; give a list, as in {\"faults\": [{...}]}");
  EXPECT_EQ(error_of(R"({"faults": 3})"),
            "faults is 3; give a list of objects");
  EXPECT_EQ(error_of(R"({"faults": [3]})"),
            "faults[0] is 3; give an object, as in {\"kind\": \"kill\", "
            "\"process\": 1, \"step\": 20}");
  EXPECT_EQ(error_of(R"({"faults": [], "seed": -1})"),
            "seed is -1; give an integer from 0 to 18446744073709551615");
  EXPECT_EQ(error_of(R"({"faults": [], "faults": []})"),
            "the key \"faults\" appears twice in one object; remove one");
  EXPECT_NE(error_of(R"({"faults": [)").find("not valid JSON at byte"),
            std::string::npos);
  EXPECT_NE(error_of("").find("not valid JSON"), std::string::npos);
  EXPECT_NE(error_of(R"({"faults": [[[[[[]]]]]]})").find("nested deeper"),
            std::string::npos);
}

TEST(FaultPlanJson, RefusesOrReadsEveryChangedText) {
  const auto text = write_fault_plan(all_kinds());
  std::size_t refused = 0;
  const auto try_one = [&](const std::string& changed) {
    try {
      const auto plan = read_fault_plan(changed);
      EXPECT_EQ(read_fault_plan(write_fault_plan(plan)), plan) << changed;
    } catch (const std::invalid_argument& e) {
      EXPECT_LT(std::string{e.what()}.size(), 500u);
      ++refused;
    }
  };
  for (std::size_t i = 0; i < text.size(); i += 3) {
    if (i % 16 == 0)
      try_one(text.substr(0, i));
    for (const char c : {'0', '"', 'x', '-', '}', '\xFF', '\0'}) {
      auto changed = text;
      changed[i] = c;
      try_one(changed);
    }
  }
  EXPECT_GT(refused, text.size());
}

TEST(FaultPlanJson, SaysWhatDoesNotExistInTheJob) {
  using enum plan_scope::place;
  const auto problem = [](const faults& plan, plan_scope scope) {
    return problem_of(plan, scope).value_or("none");
  };
  EXPECT_EQ(
    problem(faults{}.drop(0.1).kill(process{3}, at_step{1}), {processes, 3, 6}),
    "faults[1].process is 3; the job has the processes 0 to 2");
  EXPECT_EQ(problem(faults{}.cut(process{0}, process{5}, at_step{1}),
                    {processes, 3, 6}),
            "faults[0].peer is 5; the job has the processes 0 to 2");
  EXPECT_EQ(problem(faults{}.drop(replica{6}, 0.1), {processes, 3, 6}),
            "faults[0].replica is 6; the job has the replicas 0 to 5");
  EXPECT_EQ(problem(faults{}.kill(replica{1}, at_step{1}), {processes, 3, 6}),
            "faults[0].replica is 1; only the simulator kills a replica; give "
            "the number of a process");
  EXPECT_NE(problem(faults{}.partition(process{1}, at_step{1}), {processes})
              .find("faults[0].kind is \"partition\", which only the"),
            std::string::npos);
  EXPECT_NE(problem(faults{}.kill(process{1}, at_step{1}), {simulator})
              .find("the simulator does not run kill of process 1 at step 1"),
            std::string::npos);
  EXPECT_EQ(problem(all_kinds(), {processes}).find("faults[0].replica"), 0u);
  EXPECT_EQ(
    problem(faults{}.drop(0.1).disconnect(process{1}, at_step{1}), {simulator}),
    "none");
}

TEST(FaultPlanJson, SaysWhatAJobWithParameterServersDoesNotRun) {
  const auto problem = [](const faults& plan) {
    return problem_of(plan, scope_with_servers(2, 2)).value_or("none");
  };
  const auto expect = [&](const faults& plan,
                          std::initializer_list<const char*> texts) {
    for (const auto* text : texts)
      EXPECT_NE(problem(plan).find(text), std::string::npos) << problem(plan);
  };
  using namespace std::chrono_literals;
  EXPECT_EQ(problem(faults{}
                      .kill(process{0}, at_time{1ms})
                      .kill(process{2}, at_step{1})
                      .stop(process{3}, at_message{1}, 1ms)
                      .disconnect(process{4}, at_time{1ms})
                      .slow(process{1}, at_time{1ms}, 1ms)
                      .cut(process{4}, process{1}, at_step{1})
                      .cut(process{0}, process{4}, at_time{1ms})),
            "none");
  expect(faults{}.kill(process{5}, at_time{1ms}),
         {"faults[0].process is 5; the job has the processes 0 to 4"});
  expect(faults{}.drop(0.1), {"faults[0].kind is \"drop\"", "give kill"});
  expect(faults{}.corrupt(process{1}, at_step{1}), {"kind is \"corrupt\""});
  expect(faults{}.clog(process{1}, at_step{1}, 2), {"kind is \"clog\""});
  expect(faults{}.kill(replica{1}, at_step{1}), {"replica is 1"});
  expect(faults{}.cut(process{1}, process{2}, at_step{1}),
         {"faults[0].peer is 2; two workers have no connection"});
  expect(faults{}.cut(process{3}, process{4}, at_message{1}),
         {"peer is 4; two servers"});
  expect(faults{}.slow(process{3}, at_message{1}, 1ms),
         {"process is 3, which has no steps", "1 to 2"});
  expect(faults{}.kill(process{0}, at_step{1}),
         {"step cannot be given: process 0", "give time_ms"});
  expect(faults{}.kill(process{4}, at_step{1}),
         {"step cannot be given: process 4", "give message or time_ms"});
  expect(faults{}.cut(process{1}, process{0}, at_step{1}),
         {"step cannot be given: process 0"});
  expect(faults{}.kill(process{1}, at_message{1}),
         {"message cannot be given: process 1", "give step or time_ms"});
  expect(faults{}.kill(process{0}, at_message{1}),
         {"message cannot be given: process 0", "give time_ms"});
  expect(faults{}.kill(process{1}, at_packet{1}),
         {"packet cannot be given: process 1"});
}

class FaultPlanFile : public scratch_test {};

TEST_F(FaultPlanFile, IsNamedInErrors) {
  const auto file = folder / "plan.json";
  put("plan.json", R"({"faults": [{"kind": "kill"}]})");
  try {
    load_fault_plan(file);
    ADD_FAILURE() << "no error";
  } catch (const std::invalid_argument& e) {
    EXPECT_EQ(std::string{e.what()},
              file.string()
                + ": faults[0].process is missing; give the number of a "
                  "process");
  }
  put("plan.json", write_fault_plan(all_kinds()));
  EXPECT_EQ(load_fault_plan(file), all_kinds());
  EXPECT_THROW(load_fault_plan(file, {plan_scope::place::processes, 2, 2}),
               std::invalid_argument);
  EXPECT_THROW(load_fault_plan(folder / "none.json"), std::runtime_error);
  put("plan.json", std::string((1 << 20) + 1, ' '));
  EXPECT_THROW(load_fault_plan(file), std::invalid_argument);
}

} // namespace
} // namespace troupe::injection
