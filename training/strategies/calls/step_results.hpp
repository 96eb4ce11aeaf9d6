#pragma once

#include "troupe/training/strategies/calls/result_codec.hpp"
#include "troupe/training/strategies/replica/per_replica.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

struct strategy_state;

/// What the function of a step has returned on each replica of the job. In a
/// job of several processes, all processes get the results that can be encoded.
class step_results {
public:
  /// Maximum size of an encoded result.
  static constexpr std::size_t max_bytes = std::size_t{1} << 20;

  /// How a result is encoded: this byte, and then the value, if it has one.
  enum class form : char {
    value,
    nothing,    ///< The function returns nothing.
    too_large,  ///< The value takes more than `max_bytes`.
    other_type, ///< The type is no `encodable_result`.
  };

  /// @param step number of the call of `run`, from 0.
  step_results(std::weak_ptr<strategy_state> state, std::uint64_t step)
    : state_{std::move(state)}, step_{step} {}
  virtual ~step_results() = default;

  /// Forgets all results: the step is made anew.
  virtual void clear() {}

  /// Encodes the result of a replica of this process.
  virtual std::string encoded(std::uint32_t replica) const {
    (void)replica;
    return std::string(1, char(form::nothing));
  }

  /// Sets the encoded results of all replicas of the job.
  void set_gathered(std::vector<std::string> texts) {
    gathered_ = std::move(texts);
  }

protected:
  bool hosts(std::uint32_t replica) const;
  form form_of(std::uint32_t replica) const;
  /// Null: the value is not known.
  const std::string* gathered(std::uint32_t replica) const {
    return form_of(replica) == form::value ? &gathered_[replica] : nullptr;
  }
  /// @errors throws `job_error`: the result is lost, or malformed.
  [[noreturn]] void throw_unknown(std::uint32_t replica,
                                  const char* call) const;

private:
  const std::weak_ptr<strategy_state> state_;
  const std::uint64_t step_;
  std::vector<std::string> gathered_; ///< By replica. Empty: none.
};

/// The results of a function that returns a `T`.
template <class T>
class typed_step_results final : public step_results, public value_source<T> {
public:
  typed_step_results(std::weak_ptr<strategy_state> state, std::uint64_t step,
                     std::uint32_t replicas)
    : step_results{std::move(state), step}, own_(replicas) {}

  /// A replica of this process has returned. Several replicas may call it at
  /// the same time.
  void set(std::uint32_t replica, T value) { own_[replica] = std::move(value); }

  /// Takes the results of the replicas of this process. A result that is not
  /// known is left out.
  static per_replica<T> take(const std::shared_ptr<typed_step_results>& from,
                             const std::vector<std::uint32_t>& replicas) {
    std::vector<T> values;
    std::vector<std::uint32_t> ids;
    for (const auto id : replicas) {
      auto& own = from->own_[id];
      if (!own && !from->gathered(id))
        continue;
      values.push_back(own ? std::move(*own) : from->make(id, "run"));
      ids.push_back(id);
      own.reset();
    }
    return per_replica<T>{std::move(values), std::move(ids), from};
  }

  /// Returns the gathered result of any replica of the job.
  /// @param call name of the user's call that needs the value, for the error.
  /// @errors throws `job_error` if the result is not known in this process.
  T gathered_value(std::uint32_t replica, const char* call) const {
    return make(replica, call);
  }

  void clear() override {
    for (auto& one : own_)
      one.reset();
  }

  std::string encoded(std::uint32_t replica) const override {
    if constexpr (detail::encodable_result<T>) {
      detail::result_writer out{max_bytes};
      out.put(*own_[replica]);
      if (out.is_too_large())
        return std::string(1, char(form::too_large));
      return char(form::value) + std::move(out).text();
    } else {
      return std::string(1, char(form::other_type));
    }
  }

  bool provides(std::uint32_t replica) const override { return hosts(replica); }

private:
  T make(std::uint32_t replica, const char* call) const override {
    if constexpr (detail::encodable_result<
                    T> && std::default_initializable<T>) {
      if (const auto* text = gathered(replica)) {
        T value{};
        detail::result_reader in{std::string_view{*text}.substr(1)};
        if (in.get(value) && in.is_at_end())
          return value;
      }
    }
    throw_unknown(replica, call);
  }

  /// By replica of the job. None: it is in another process, or has not
  /// returned.
  std::vector<std::optional<T>> own_;
};

} // namespace troupe
