#include "troupe/apps/troupe/launcher/fault_report.hpp"

#include "troupe/actors/faults/fault_notes.hpp"
#include "troupe/actors/faults/fault_plan_json.hpp"
#include "troupe/actors/faults/process_fault_injector.hpp"
#include "troupe/net/base/descriptor.hpp"
#include "troupe/net/io/temporary_folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <stdexcept>
#include <system_error>

using namespace troupe;
namespace fs = std::filesystem;

fault_report::fault_report(const std::string& file,
                           const injection::plan_scope& scope) {
  if (file.empty())
    return;
  plan_ = injection::load_fault_plan(file, scope);
  auto name = (net::temporary_folder() / "troupe-faults-XXXXXX").string();
  if (const net::descriptor made{::mkstemp(name.data())}; !made)
    throw std::runtime_error("cannot create the file \"" + name
                             + "\": " + std::strerror(errno));
  file_ = fs::absolute(file);
  notes_ = name;
}

fault_report::~fault_report() {
  std::error_code ignored;
  if (!notes_.empty())
    fs::remove(notes_, ignored);
}

void fault_report::add_to(environment_changes& variables) const {
  if (file_.empty())
    return;
  variables[injection::plan_location::variable] = file_.string();
  variables[injection::fault_notes::variable] = notes_.string();
}

void fault_report::print() const {
  if (file_.empty())
    return;
  const auto fired = injection::fault_notes{notes_}.read();
  const auto& list = plan_.list();
  std::cerr << "faults: " << fired.size() << " of " << list.size()
            << " occurred, seed " << plan_.seed();
  const char* separator = "; did not occur: ";
  for (std::size_t i = 0; i < list.size(); ++i)
    if (!fired.contains(i))
      std::cerr << std::exchange(separator, "; ") << "faults[" << i << "], "
                << to_string(list[i]);
  std::cerr << '\n';
}
