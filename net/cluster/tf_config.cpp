#include "troupe/net/cluster/tf_config.hpp"

#include "troupe/net/base/address.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <system_error>

namespace troupe::net {

namespace {

using nlohmann::json;

constexpr std::array<const char*, 4> job_names{"chief", "worker", "ps",
                                               "evaluator"};

[[noreturn]] void refuse(const std::string& why) {
  throw std::invalid_argument("TF_CONFIG: " + why);
}

/// Formats a value for an error message, in at most 63 bytes.
std::string shown(const json& value) {
  if (value.is_object())
    return "an object";
  if (value.is_array())
    return "a list";
  auto text = value.dump(-1, ' ', true);
  if (constexpr std::size_t most = 60; text.size() > most)
    text = text.substr(0, most) + "...";
  return text;
}

bool is_job_name(const std::string& x) {
  return std::ranges::find(job_names, x) != job_names.end();
}

std::string counted(std::size_t n, const std::string& what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

/// Parses JSON. Rejects brackets that are nested too deeply, and a key that
/// appears twice in an object.
json parse(std::string_view text) {
  if (text.size() > tf_limits::max_bytes)
    refuse(std::to_string(text.size()) + " bytes are too many; give at most "
           + std::to_string(tf_limits::max_bytes));
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > tf_limits::max_depth)
      refuse("brackets are nested deeper than "
             + std::to_string(tf_limits::max_depth)
             + R"( levels; give {"cluster": {...}, "task": {...}})");
    if (event == json::parse_event_t::object_start)
      keys.emplace_back();
    if (event == json::parse_event_t::object_end)
      keys.pop_back();
    if (event == json::parse_event_t::key
        && !keys.back().insert(value.get_ref<const std::string&>()).second)
      refuse("the key " + shown(value)
             + " appears twice in one object; "
               "remove one");
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::parse_error& e) {
    refuse("this is not valid JSON at byte " + std::to_string(e.byte)
           + R"(; give {"cluster": {...}, "task": {...}})");
  } catch (const json::exception&) { // a number does not fit into a double
    refuse("a number is too large; indices are below 4294967296");
  }
}

/// Returns the member of an object with this key. Null: the member is missing
/// or is a JSON null.
const json* find(const json& in, const char* key) {
  const auto it = in.find(key);
  return it == in.end() || it->is_null() ? nullptr : &*it;
}

const json* find_object(const json& in, const char* key, const char* example) {
  const auto* x = find(in, key);
  if (x && !x->is_object())
    refuse(std::string{key} + " is " + shown(*x) + "; give an object, as in "
           + example);
  return x;
}

std::optional<std::string> text_of(const json& in, const char* key,
                                   const char* example) {
  const auto* value = find(in, key);
  if (!value)
    return {};
  if (!value->is_string())
    refuse(std::string{key} + " is " + shown(*value) + "; give a text, as in "
           + example);
  return value->get<std::string>();
}

bool is_address(const std::string& text) {
  try {
    return parse_address(text).port != 0;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

cluster_spec::list addresses_of(const std::string& key, const json& value) {
  if (!value.is_array())
    refuse(key + " is " + shown(value)
           + R"(; give a list of addresses, as in ["10.0.0.1:2222"])");
  if (value.empty())
    refuse(key + " has no addresses; give some, or leave it out");
  cluster_spec::list addresses;
  for (const auto& one : value) {
    if (!one.is_string() || !is_address(one.get_ref<const std::string&>()))
      refuse(key + "[" + std::to_string(addresses.size()) + "] is " + shown(one)
             + R"(; give an address with its port, as in "10.0.0.1:2222")");
    addresses.push_back(one.get<std::string>());
  }
  return addresses;
}

void check_differ(const std::map<std::string, cluster_spec::list>& jobs) {
  std::map<std::string, std::string> taken;
  for (const auto& [job, addresses] : jobs)
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const auto key = "cluster." + job + "[" + std::to_string(i) + "]";
      if (const auto [it, fresh] = taken.emplace(addresses[i], key); !fresh)
        refuse(key + " is " + shown(addresses[i]) + " like " + it->second
               + "; give each task an address of its own");
    }
}

net::cluster_spec cluster_of(const json& in) {
  const auto* jobs_value =
    find_object(in, "cluster", R"({"worker": ["10.0.0.1:2222"]})");
  if (!jobs_value)
    return {};
  std::map<std::string, cluster_spec::list> jobs;
  for (const auto& [job, tasks] : jobs_value->items()) {
    const auto key = "cluster." + job;
    if (!is_job_name(job))
      refuse("cluster has the job " + shown(job)
             + "; give chief, worker, ps or evaluator");
    jobs.emplace(job, addresses_of(key, tasks));
    if ((job == "chief" || job == "evaluator") && tasks.size() > 1)
      refuse(key + " has " + std::to_string(tasks.size())
             + " addresses; there must be at most one " + job);
  }
  check_differ(jobs);
  return net::cluster_spec{jobs};
}

task_index index_of(const json& task) {
  const auto* value = find(task, "index");
  if (!value)
    refuse("task.index is missing; give this process's, as in 0");
  if (const auto* whole = value->get_ptr<const json::number_unsigned_t*>();
      whole && *whole <= ~task_index{0})
    return static_cast<task_index>(*whole);
  // TensorFlow converts the value with int(), so a text of digits is one too.
  if (const auto* text = value->get_ptr<const json::string_t*>()) {
    task_index index = 0;
    const auto* const last = text->data() + text->size();
    const auto [end, error] = std::from_chars(text->data(), last, index);
    if (error == std::errc{} && end == last)
      return index;
  }
  refuse("task.index is " + shown(*value)
         + "; give a whole number from 0, as in 0 or \"0\"");
}

void check(const net::cluster_spec& cluster, const cluster_task& task) {
  const auto index = "task.index is " + std::to_string(task.id);
  if (cluster.has(task.type)) {
    if (const auto n = cluster.num_tasks(task.type); task.id >= n)
      refuse(index + ", but cluster." + task.type + " has " + counted(n, "task")
             + "; give 0" + (n == 1 ? "" : " to " + std::to_string(n - 1)));
  } else if (task.type == "evaluator") {
    if (task.id != 0)
      refuse(index + "; there must be at most one evaluator: give 0");
  } else if (!cluster.empty())
    refuse("task.type is \"" + task.type + "\", but cluster has no " + task.type
           + "; give one of its jobs, or add cluster." + task.type);
}

void read_task(const json& in, tf_config_values& values) {
  const auto* task =
    find_object(in, "task", R"({"type": "worker", "index": 0})");
  if (!task || task->empty())
    return;
  const auto* type = find(*task, "type");
  if (!type)
    refuse("task.type is missing; give chief, worker, ps or evaluator");
  if (!type->is_string() || !is_job_name(type->get_ref<const std::string&>()))
    refuse("task.type is " + shown(*type)
           + "; give chief, worker, ps or evaluator");
  values.task_type = type->get<std::string>();
  values.task_id = index_of(*task);
  check(values.cluster, {*values.task_type, *values.task_id});
}

} // namespace

tf_config_values parse_tf_config(std::string_view text) {
  const auto document = parse(text);
  if (!document.is_object())
    refuse("this is " + shown(document)
           + R"(; give an object, {"cluster": {...}, "task": {...}})");
  tf_config_values values;
  values.cluster = cluster_of(document);
  read_task(document, values);
  values.session_master =
    text_of(document, "session_master", R"("10.0.0.1:2222")");
  values.rpc_layer = text_of(document, "rpc_layer", R"("grpc")").value_or("");
  values.environment =
    text_of(document, "environment", R"("cloud")").value_or("");
  return values;
}

std::string write_tf_config(const net::cluster_spec& cluster,
                            const cluster_task& task) {
  json jobs = json::object();
  for (const auto& job : cluster.jobs())
    for (const auto& [index, address] : cluster.tasks(job))
      jobs[job].push_back(address);
  return json{{"cluster", jobs},
              {"task", {{"type", task.type}, {"index", task.id}}}}
    .dump();
}

} // namespace troupe::net
