#include "troupe/training/job/worker_task.hpp"

#include "troupe/training/job/job_json.hpp"

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace troupe {

namespace {

using json = nlohmann::ordered_json;

} // namespace

std::string write_worker_task(const worker_task& x) {
  const json object{{"options", json::parse(write_train_options(x.options))},
                    {"model", json::parse(models::to_json_text(x.model))},
                    {"data", x.data}};
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

worker_task read_worker_task(const std::string& text) {
  const auto object = json::parse(text, nullptr, false);
  const auto member = [&](const char* name, json::value_t type) {
    if (!object.is_object() || !object.contains(name)
        || object.at(name).type() != type)
      throw std::runtime_error("the chief has sent a task without \""
                               + std::string{name}
                               + "\"; use one version of Troupe in all tasks");
    return object.at(name);
  };
  constexpr auto map = json::value_t::object;
  return {.options = read_train_options(member("options", map).dump()),
          .model = models::parse(member("model", map).dump(),
                                 "the model of the chief"),
          .data = member("data", json::value_t::string).get<std::string>()};
}

} // namespace troupe
