#pragma once

#include "troupe/actors/remoting/role_fingerprint.hpp"
#include "troupe/actors/remoting/skeleton.hpp"
#include "troupe/actors/runtime/runtime.hpp"

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>
#include <caf/expected.hpp>

#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace troupe {

class door;

/// Context in which a role is created.
struct role_place {
  caf::actor_system& system;
  /// Router of the node's incoming connections, for roles that connect to roles
  /// of other nodes. Expires with the node. Null: there is no router.
  std::weak_ptr<door> at{};
};

// -- the registry -------------------------------------------------------------

/// The roles that other processes may spawn in this one, by name. It is safe to
/// use from any thread.
class role_registry {
public:
  struct entry {
    role_form form;
    std::string arguments; ///< Schema of the arguments, for error texts.
    /// Decodes the arguments and creates the role.
    std::function<caf::expected<caf::actor>(const role_place&, net::reader&)>
      make;
    /// Spawns the skeleton of a role.
    caf::actor (*open)(caf::actor_system&, const caf::actor& role,
                       std::shared_ptr<net::link>, const gateway_options&);
  };

  /// @errors throws std::logic_error if the name is registered already, empty,
  ///         longer than 64 characters, or has blanks or unprintable
  ///         characters.
  void add(const std::string& name, entry&& x);

  /// @returns null if there is no such role.
  std::shared_ptr<const entry> find(const std::string& name) const;

  std::vector<std::string> names() const;

private:
  mutable std::mutex lock_;
  std::map<std::string, std::shared_ptr<const entry>, std::less<>> entries_;
};

namespace detail {

template <class Handle, class F, class... Args>
caf::expected<caf::actor> make_role(const role_place& at, net::reader& from,
                                    const F& fn) {
  std::tuple<Args...> values;
  std::apply([&from](auto&... xs) { from(xs...); }, values);
  if (const auto fault = from.finish())
    return caf::make_error(ec::protocol,
                           "malformed arguments: " + to_string(*fault));
  return std::apply(
    [&](auto&... xs) -> caf::expected<caf::actor> {
      Handle it;
      if constexpr (std::is_invocable_r_v<Handle, const F&, const role_place&,
                                          Args...>)
        it = fn(at, std::move(xs)...);
      else if constexpr (std::is_invocable_r_v<Handle, const F&,
                                               caf::actor_system&, Args...>)
        it = fn(at.system, std::move(xs)...);
      else
        it = at.system.spawn(fn, std::move(xs)...);
      if (!it)
        return caf::make_error(ec::refused,
                               std::string{"the role was not created"});
      return caf::actor_cast<caf::actor>(it);
    },
    values);
}

template <class Handle>
caf::actor open_role(caf::actor_system& sys, const caf::actor& role,
                     std::shared_ptr<net::link> out,
                     const gateway_options& options) {
  return caf::actor_cast<caf::actor>(sys.spawn(
    gateway<Handle>, caf::actor_cast<Handle>(role), std::move(out), options));
}

} // namespace detail

/// Lets other processes spawn a role in this one:
/// `register_role<counter_actor, int>(runtime, "counter", counter)`.
/// @param fn the role's behavior, as `actor_system::spawn` takes it, or a
///        function that spawns the role: `Handle (caf::actor_system&, Args...)`
///        or `Handle (const role_context&, Args...)`. The node waits for the
///        function, so it must return quickly.
/// @errors throws std::logic_error as `role_registry::add` does.
template <class Handle, net::encodable... Args, class F>
void register_role(role_registry& in, const std::string& name, F fn) {
  in.add(name, {form_of_role<Handle, Args...>(), text_of_arguments<Args...>(),
                [fn](const role_place& at, net::reader& from) {
                  return detail::make_role<Handle, F, Args...>(at, from, fn);
                },
                detail::open_role<Handle>});
}

template <class Handle, net::encodable... Args, class F>
void register_role(runtime& in, const std::string& name, F fn) {
  register_role<Handle, Args...>(*in.roles(), name, std::move(fn));
}

} // namespace troupe
