#include "troupe/training/strategies/replica/worker_difference.hpp"

#include "troupe/net/base/text.hpp"

#include <sstream>

namespace troupe {

std::string difference(const std::string& worker, const std::string& a,
                       const std::string& b) {
  std::istringstream in_a{a}, in_b{b};
  for (std::string line_a, line_b;;) {
    const bool more_a = bool(std::getline(in_a, line_a));
    const bool more_b = bool(std::getline(in_b, line_b));
    if (!more_a && !more_b)
      return "";
    if (line_a != line_b || more_a != more_b)
      return (more_b ? "\"" + net::printable(line_b) + "\"" : "nothing")
             + ", but " + worker + " has "
             + (more_a ? "\"" + net::printable(line_a) + "\"" : "nothing");
  }
}

} // namespace troupe
