#pragma once

#include "troupe/actors/core/exception_handler.hpp"
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

class service_router;

/// Context in which a role is created.
struct role_context {
  caf::actor_system& system;
  /// Router of the node's incoming connections, for roles to which other
  /// processes connect. Expires with the node. Null: there is no router.
  std::weak_ptr<service_router> router{};
};

// -- the registry -------------------------------------------------------------

/// The roles that other processes may spawn in this process, by name.
/// Thread-safe.
class role_registry {
public:
  struct entry {
    role_fingerprint fingerprint;
    std::string arguments; ///< Schema of the arguments, for error texts.
    /// Decodes the arguments and creates the role.
    std::function<caf::expected<caf::actor>(const role_context&, net::reader&)>
      create;
    /// Spawns the skeleton of a role.
    caf::actor (*open_skeleton)(caf::actor_system&, const caf::actor& role,
                                std::shared_ptr<net::channel>,
                                const skeleton_options&);
  };

  /// Registers a role under a name.
  /// @errors throws std::logic_error if the name is registered already, empty,
  ///         longer than 64 characters, or has blanks or unprintable
  ///         characters.
  void add(const std::string& name, entry&& new_entry);

  /// Returns the role with this name. Null: no such role is registered.
  std::shared_ptr<const entry> find(const std::string& name) const;

  std::vector<std::string> names() const;

private:
  mutable std::mutex lock_;
  std::map<std::string, std::shared_ptr<const entry>, std::less<>> entries_;
};

namespace detail {

/// Spawns a role from its behavior, as a `responding_role`.
template <class Handle, class F, class... Args>
Handle spawn_role(caf::actor_system& sys, const F& fn, Args&&... args) {
  using base = caf::infer_impl_from_fun_t<F>;
  using role = responding_role<base>;
  caf::detail::init_fun_factory<base, F> factory;
  caf::actor_config config;
  config.init_fun = caf::actor_config::init_fun_type{
    [make = factory.make(fn, std::forward<Args>(args)...)](
      caf::local_actor* self) mutable {
      return static_cast<role*>(self)->initialize_with(*make);
    }};
  return sys.spawn_class<role, caf::no_spawn_options>(config);
}

template <class Handle, class F, class... Args>
caf::expected<caf::actor> create_role(const role_context& context,
                                      net::reader& in, const F& fn) {
  std::tuple<Args...> values;
  std::apply([&in](auto&... xs) { in(xs...); }, values);
  if (const auto fault = in.finish())
    return caf::make_error(ec::protocol,
                           "malformed arguments: " + to_string(*fault));
  return std::apply(
    [&](auto&... xs) -> caf::expected<caf::actor> {
      Handle handle;
      if constexpr (std::is_invocable_r_v<Handle, const F&, const role_context&,
                                          Args...>)
        handle = fn(context, std::move(xs)...);
      else if constexpr (std::is_invocable_r_v<Handle, const F&,
                                               caf::actor_system&, Args...>)
        handle = fn(context.system, std::move(xs)...);
      else
        handle = spawn_role<Handle>(context.system, fn, std::move(xs)...);
      if (!handle)
        return caf::make_error(ec::refused,
                               std::string{"the role was not created"});
      return caf::actor_cast<caf::actor>(handle);
    },
    values);
}

template <class Handle>
caf::actor open_role_skeleton(caf::actor_system& sys, const caf::actor& role,
                              std::shared_ptr<net::channel> channel,
                              const skeleton_options& options) {
  return caf::actor_cast<caf::actor>(spawn_skeleton(
    sys, caf::actor_cast<Handle>(role), std::move(channel), options));
}

} // namespace detail

/// Lets other processes spawn a role in this process:
/// `register_role<counter_actor, int>(runtime, "counter", counter)`.
/// @param fn the role's behavior, as `actor_system::spawn` takes it, or a
///        function that spawns the role: `Handle (caf::actor_system&, Args...)`
///        or `Handle (const role_context&, Args...)`. The node waits for the
///        function, so the function must return quickly. A role that is made
///        from its behavior responds to a request with the text of an
///        exception, and continues. A behavior that calls
///        `install_exception_handler(self)` ends instead. A role that the
///        function spawns itself keeps the exception handler that it sets.
/// @errors throws std::logic_error as `role_registry::add` does.
template <class Handle, net::encodable... Args, class F>
void register_role(role_registry& registry, const std::string& name, F fn) {
  // If a type is invalid, `fingerprint_of_role` reports that. The condition
  // avoids further errors within CAF and Cereal.
  if constexpr (!detail::interface<typename Handle::signatures>::is_valid)
    fingerprint_of_role<Handle, Args...>();
  else
    registry.add(
      name, {fingerprint_of_role<Handle, Args...>(), argument_schema<Args...>(),
             [fn](const role_context& at, net::reader& in) {
               return detail::create_role<Handle, F, Args...>(at, in, fn);
             },
             detail::open_role_skeleton<Handle>});
}

template <class Handle, net::encodable... Args, class F>
void register_role(runtime& actor_runtime, const std::string& name, F fn) {
  register_role<Handle, Args...>(*actor_runtime.roles(), name, std::move(fn));
}

} // namespace troupe
