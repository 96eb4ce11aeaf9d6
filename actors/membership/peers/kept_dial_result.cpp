#include "troupe/actors/membership/peers/kept_dial_result.hpp"

#include <utility>
#include <variant>

namespace troupe {

std::shared_ptr<net::endpoint::dial_result>
keep_dial_result(net::endpoint::dial_result&& result) {
  const auto close_unused = [](net::endpoint::dial_result* x) {
    const std::unique_ptr<net::endpoint::dial_result> owned{x};
    const auto* const unused = connection_of(*owned);
    if (unused && *unused)
      (*unused)->close("the process does not need it any more");
  };
  return {new net::endpoint::dial_result{std::move(result)}, close_unused};
}

std::shared_ptr<net::connection>*
connection_of(net::endpoint::dial_result& result) {
  return result.connection
           ? std::get_if<std::shared_ptr<net::connection>>(&*result.connection)
           : nullptr;
}

} // namespace troupe
