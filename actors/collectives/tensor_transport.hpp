#pragma once

#include "troupe/actors/collectives/tensor_message.hpp"
#include "troupe/actors/collectives/tensor_queue.hpp"

#include <caf/actor.hpp>
#include <caf/actor_addr.hpp>

#include <chrono>
#include <deque>
#include <vector>

namespace troupe {

/// How letters get to a replica or a reducer.
class transport {
public:
  virtual ~transport() = default;

  /// Never blocks. What cannot be delivered is lost: whoever waits for it has a
  /// deadline.
  virtual void post(const party& to, letter&& x) = 0;
  virtual void post_later(const party& to, letter&& x,
                          std::chrono::nanoseconds delay) = 0;
};

/// Inside a process: tensors go by reference, to a replica through its port and
/// to a reducer by mail.
class direct_transport final : public transport {
public:
  /// @param by_mail letters to replicas are mail too: where the schedule of
  ///                messages is what is tested.
  direct_transport(std::uint32_t replicas, bool by_mail);

  /// Says where somebody is. @pre before the first letter to anybody.
  void place(const party& who, const caf::actor& it);

  port& port_of(std::uint32_t replica) { return places_[replica].letters; }
  bool by_mail() const { return by_mail_; }

  void post(const party& to, letter&& x) override;
  void post_later(const party& to, letter&& x,
                  std::chrono::nanoseconds delay) override;

private:
  struct place_of_replica {
    port letters;
    caf::actor_addr who; ///< Weak: the dead must not be held.
  };
  caf::actor find(const party& x) const;
  void mail(const party& to, letter&& x, std::chrono::nanoseconds delay) const;

  bool by_mail_;
  std::deque<place_of_replica> places_;
  std::vector<caf::actor_addr> reducers_;
};

} // namespace troupe
