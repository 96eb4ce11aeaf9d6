// Fuzzes net/cluster/tf_config with values of TF_CONFIG, and queries of the
// resulting cluster.
#include "troupe/net/cluster/tf_config.hpp"
#include "troupe/tests/fuzz/fuzz.hpp"

#include <stdexcept>

using namespace troupe::net;

namespace troupe::fuzz {

namespace {

/// Checks that an error message is one short line of printable characters.
void check_text(const std::string& why) {
  require(why.starts_with("TF_CONFIG: "), "a refusal names the variable");
  require(why.size() < 1000, "a refusal is short");
  for (const unsigned char c : why)
    require(c >= ' ' && c < 127, "a refusal is one line of text");
}

/// Calls all functions of cluster_task.hpp with a task that `parse_tf_config`
/// has accepted.
void ask(const cluster_spec& cluster, const cluster_task& task) {
  check_task(cluster, task);
  is_chief(cluster, task);
  const auto leader = collective_leader(cluster, task);
  if (leader && !cluster.empty())
    require(!cluster.task_address(leader->type, leader->id).empty(),
            "a leader has an address");
  coordination_leader(cluster);
  if (task.type != "ps")
    require(id_in_cluster(cluster, task) < worker_count(cluster, task),
            "ids are below the count");
}

void check(const tf_config_values& x) {
  for (const auto& job : x.cluster.jobs())
    require(x.cluster.num_tasks(job) > 0, "a job has tasks");
  require(x.task_type.has_value() == x.task_id.has_value(),
          "a task has a type and an index");
  if (!x.task_type)
    return;
  const cluster_task task{*x.task_type, *x.task_id};
  ask(x.cluster, task);
  const auto again = parse_tf_config(write_tf_config(x.cluster, task));
  require(again.cluster == x.cluster && again.task_type == x.task_type
            && again.task_id == x.task_id,
          "a written value is read as the same value");
}

} // namespace

void try_one(view input) {
  const std::string_view text{reinterpret_cast<const char*>(input.data()),
                              input.size()};
  tf_config_values x;
  const auto peak = memory_of([&] {
    try {
      x = parse_tf_config(text);
    } catch (const std::invalid_argument& e) {
      check_text(e.what());
    }
  });
  require(peak <= 256 * text.size() + 16384, "memory follows the text");
  check(x);
}

std::vector<bytes> seeds() {
  return {
    of_text(R"({"cluster":{"chief":["a:1"],"worker":["b:1","c:1"],)"
            R"("ps":["d:1"],"evaluator":["e:1"]},)"
            R"("task":{"type":"worker","index":1}})"),
    of_text(R"({"cluster":{"worker":["[::1]:7","h:8"]},)"
            R"("task":{"type":"evaluator","index":0}})"),
    of_text(R"({"task":{"type":"chief","index":0},"rpc_layer":"grpc",)"
            R"("environment":"cloud","session_master":"a:1"})"),
    of_text(R"({"cluster":{"worker":["a:1","a:1"]},"cluster":null})"),
    of_text(R"({"cluster":{"chief":["a:1","b:1"]},"task":{}})"),
    of_text(R"({"task":{"type":"worker","index":-1}})"),
    of_text(R"({"task":{"type":"\u00e9\ud83d\ude00","index":1e400}})"),
    of_text("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]"),
  };
}

} // namespace troupe::fuzz
