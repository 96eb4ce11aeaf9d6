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

/// Where a role is made.
struct role_place {
  caf::actor_system& system;
  /// Where the node's process is dialed: for roles that meet those of other
  /// nodes. Gone when the node is, and null where there is none.
  std::weak_ptr<door> at{};
};

// -- the registry -------------------------------------------------------------

/// The roles that other processes may spawn here, by name. Safe to use from any
/// thread.
class role_registry {
public:
  struct entry {
    role_form form;
    std::string arguments; ///< Their types, for people.
    std::function<caf::expected<caf::actor>(const role_place&, net::reader&)>
      make;
    /// Spawns the gateway that speaks to it.
    caf::actor (*open)(caf::actor_system&, const caf::actor& role,
                       std::shared_ptr<net::link>, const gateway_options&);
  };

  /// @errors throws std::logic_error if the name is taken, empty, longer than
  ///         64 or not printable.
  void add(const std::string& name, entry&& x);

  /// @returns null: there is none.
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
    return caf::make_error(ec::protocol, "its arguments, " + to_string(*fault));
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
        return caf::make_error(ec::refused, std::string{"nothing was made"});
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

/// Lets other processes spawn a role here: `register_role<counter_actor,
/// int>(runtime, "counter", counter)`. @param fn the role's behaviour, as
/// `actor_system::spawn` takes it, or what spawns it:
/// `Handle (caf::actor_system&, Args...)` or `Handle (const role_place&,
/// Args...)`, quickly, as a node waits for it.
/// @errors throws std::logic_error if the name is taken or no name.
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
