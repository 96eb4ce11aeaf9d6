#include "troupe/actors/faults/fault_plan_json.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

namespace troupe::injection {

namespace {

using json = nlohmann::ordered_json;
using std::chrono::nanoseconds;

constexpr std::size_t max_file_bytes = std::size_t{1} << 20;
constexpr std::size_t max_faults = 10'000;
constexpr int max_depth = 4;
constexpr double nanoseconds_per_millisecond = 1e6;

/// A kind and its keys. All kinds also have the key `kind`.
struct kind_keys {
  fault_kind kind;
  std::vector<std::string_view> keys;
};

const std::vector<kind_keys>& kinds() {
  using enum fault_kind;
  static const std::vector<kind_keys> all{
    {kill, {"process", "replica", "step", "message", "packet", "time_ms"}},
    {stop, {"process", "step", "message", "packet", "time_ms", "duration_ms"}},
    {disconnect, {"process", "step", "message", "packet", "time_ms"}},
    {cut, {"process", "peer", "step", "message", "packet", "time_ms"}},
    {partition, {"process", "step"}},
    {clog, {"process", "step", "factor"}},
    {slow,
     {"process", "step", "message", "packet", "time_ms", "delay_ms", "steps"}},
    {drop,
     {"process", "replica", "probability", "step", "message", "packet",
      "time_ms"}},
    {duplicate,
     {"process", "replica", "probability", "step", "message", "packet",
      "time_ms"}},
    {corrupt,
     {"process", "replica", "probability", "step", "message", "packet",
      "time_ms"}},
    {delay,
     {"process", "replica", "probability", "step", "message", "packet",
      "time_ms", "max_delay_ms"}}};
  return all;
}

constexpr std::array<std::string_view, 4> trigger_keys{"step", "message",
                                                       "packet", "time_ms"};

[[noreturn]] void refuse(const std::string& why) {
  throw std::invalid_argument(why);
}

/// Formats a value for an error message, in at most 63 bytes.
std::string shown(const json& value) {
  if (value.is_object())
    return "an object";
  if (value.is_array())
    return "a list";
  auto text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (constexpr std::size_t most = 60; text.size() > most)
    text = text.substr(0, most) + "...";
  return text;
}

template <class Names>
std::string listed(const Names& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0                  ? ""
             : i + 1 == names.size() ? " and "
                                     : ", ")
            + std::string{names[i]};
  return text;
}

/// Parses JSON. Rejects a key that appears twice in an object, because the
/// parser would keep one of its values.
json parse(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > max_depth)
      refuse("brackets are nested deeper than " + std::to_string(max_depth)
             + R"( levels; give {"faults": [{...}]})");
    if (event == json::parse_event_t::object_start)
      keys.emplace_back();
    if (event == json::parse_event_t::object_end)
      keys.pop_back();
    if (event == json::parse_event_t::key
        && !keys.back().insert(value.get_ref<const std::string&>()).second)
      refuse("the key " + shown(value)
             + " appears twice in one object; remove one");
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::parse_error& e) {
    refuse("this is not valid JSON at byte " + std::to_string(e.byte)
           + R"(; give {"faults": [{...}]})");
  } catch (const json::exception&) { // a number does not fit into a double
    refuse("a number is too large");
  }
}

template <class T>
T integer_at(const std::string& path, const json& value) {
  if (!value.is_number_unsigned()
      || value.get<std::uint64_t>() > std::numeric_limits<T>::max())
    refuse(path + " is " + shown(value) + "; give an integer from 0 to "
           + std::to_string(std::numeric_limits<T>::max()));
  return static_cast<T>(value.get<std::uint64_t>());
}

double number_at(const std::string& path, const json& value) {
  if (!value.is_number())
    refuse(path + " is " + shown(value) + "; give a number");
  return value.get<double>();
}

nanoseconds duration_at(const std::string& path, const json& value) {
  constexpr double max = 1e9; // 11 days, above all limits
  const auto x = number_at(path, value);
  if (!(x >= 0 && x <= max))
    refuse(path + " is " + shown(value)
           + "; give milliseconds from 0 to 86400000");
  return nanoseconds{std::llround(x * nanoseconds_per_millisecond)};
}

const kind_keys& kind_at(const std::string& path, const json& value) {
  std::vector<std::string_view> names;
  for (const auto& one : kinds()) {
    names.emplace_back(to_string(one.kind));
    if (value == names.back())
      return one;
  }
  refuse(path + " is " + shown(value) + "; the kinds are " + listed(names));
}

/// Reads the member of a fault that a key describes.
void read_member(fault& out, std::string_view key, const std::string& path,
                 const json& value) {
  if (key == "process")
    out.process = integer_at<std::uint32_t>(path, value);
  else if (key == "replica")
    out.replica = integer_at<std::uint32_t>(path, value);
  else if (key == "peer")
    out.peer = integer_at<std::uint32_t>(path, value);
  else if (key == "step")
    out.when = at_step{integer_at<std::uint64_t>(path, value)};
  else if (key == "message")
    out.when = at_message{integer_at<std::uint64_t>(path, value)};
  else if (key == "packet")
    out.when = at_packet{integer_at<std::uint64_t>(path, value)};
  else if (key == "time_ms")
    out.when = at_time{duration_at(path, value)};
  else if (key == "probability")
    out.probability = number_at(path, value);
  else if (key == "factor")
    out.factor = number_at(path, value);
  else if (key == "steps")
    out.steps = integer_at<std::uint64_t>(path, value);
  else // duration_ms, delay_ms or max_delay_ms
    out.duration = duration_at(path, value);
}

fault read_fault(const std::string& path, const json& object) {
  if (!object.is_object())
    refuse(path + " is " + shown(object)
           + R"(; give an object, as in {"kind": "kill", "process": 1, )"
             R"("step": 20})");
  if (!object.contains("kind"))
    refuse(path + ".kind is missing; give one, as in \"kind\": \"kill\"");
  const auto& rule = kind_at(path + ".kind", object["kind"]);
  fault out{.kind = rule.kind};
  std::string trigger_key;
  for (const auto& [key, value] : object.items()) {
    if (key == "kind")
      continue;
    const auto at = path + "." + key;
    if (std::ranges::find(rule.keys, key) == rule.keys.end())
      refuse(path + " has the key " + shown(json(key)) + ", which a "
             + to_string(rule.kind) + " does not have; its keys are kind, "
             + listed(rule.keys));
    if (std::ranges::find(trigger_keys, key) != trigger_keys.end()
        && !std::exchange(trigger_key, key).empty())
      refuse(at + " is given with another trigger; give one of "
             + listed(trigger_keys));
    read_member(out, key, at, value);
  }
  if (const auto problem = problem_of(out))
    refuse(path + "." + *problem);
  return out;
}

double to_milliseconds(nanoseconds x) {
  return static_cast<double>(x.count()) / nanoseconds_per_millisecond;
}

void write_trigger(json& object, const trigger& when) {
  struct {
    json& object;
    void operator()(const at_step& x) const { object["step"] = x.step; }
    void operator()(const at_message& x) const { object["message"] = x.number; }
    void operator()(const at_packet& x) const { object["packet"] = x.number; }
    void operator()(const at_time& x) const {
      object["time_ms"] = to_milliseconds(x.time);
    }
  } const write{object};
  std::visit(write, when);
}

json to_json(const fault& one) {
  json object{{"kind", to_string(one.kind)}};
  if (one.process)
    object["process"] = *one.process;
  if (one.replica)
    object["replica"] = *one.replica;
  if (one.peer)
    object["peer"] = *one.peer;
  if (one.when)
    write_trigger(object, *one.when);
  if (one.probability)
    object["probability"] = *one.probability;
  if (one.kind == fault_kind::stop)
    object["duration_ms"] = to_milliseconds(one.duration);
  if (one.kind == fault_kind::delay)
    object["max_delay_ms"] = to_milliseconds(one.duration);
  if (one.kind == fault_kind::slow) {
    object["delay_ms"] = to_milliseconds(one.duration);
    object["steps"] = one.steps;
  }
  if (one.kind == fault_kind::clog)
    object["factor"] = one.factor;
  return object;
}

} // namespace

std::string write_fault_plan(const faults& plan) {
  json list = json::array();
  for (const auto& one : plan.list())
    list.push_back(to_json(one));
  return json{{"seed", plan.seed()}, {"faults", std::move(list)}}.dump(2)
         + "\n";
}

faults read_fault_plan(std::string_view text) {
  const auto object = parse(text);
  if (!object.is_object())
    refuse("the plan is " + shown(object)
           + R"(; give an object, as in {"faults": [{...}]})");
  for (const auto& [key, value] : object.items())
    if (key != "seed" && key != "faults")
      refuse("the plan has the key " + shown(json(key))
             + ", which it does not have; its keys are seed and faults");
  if (!object.contains("faults"))
    refuse(R"(faults is missing; give a list, as in {"faults": [{...}]})");
  const auto& list = object["faults"];
  if (!list.is_array())
    refuse("faults is " + shown(list) + "; give a list of objects");
  if (list.size() > max_faults)
    refuse("faults has " + std::to_string(list.size())
           + " elements; give at most " + std::to_string(max_faults));
  faults out;
  if (object.contains("seed"))
    out.with_seed(integer_at<std::uint64_t>("seed", object["seed"]));
  for (std::size_t i = 0; i < list.size(); ++i)
    out.add(read_fault("faults[" + std::to_string(i) + "]", list[i]));
  return out;
}

faults load_fault_plan(const std::filesystem::path& file) {
  std::ifstream input{file, std::ios::binary};
  std::string text(max_file_bytes + 1, '\0');
  input.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(input.gcount()));
  if (!input.eof() && (input.bad() || text.size() <= max_file_bytes))
    throw std::runtime_error("cannot read the fault plan \"" + file.string()
                             + "\"");
  if (text.size() > max_file_bytes)
    refuse(file.string() + " has more than " + std::to_string(max_file_bytes)
           + " bytes; give a fault plan of at most 1 MiB");
  try {
    return read_fault_plan(text);
  } catch (const std::invalid_argument& e) {
    refuse(file.string() + ": " + e.what());
  }
}

faults load_fault_plan(const std::filesystem::path& file,
                       const plan_scope& scope) {
  auto plan = load_fault_plan(file);
  if (const auto problem = problem_of(plan, scope))
    refuse(file.string() + ": " + *problem);
  return plan;
}

} // namespace troupe::injection
