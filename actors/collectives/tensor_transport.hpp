#pragma once

#include "troupe/actors/collectives/tensor_message.hpp"
#include "troupe/actors/collectives/tensor_queue.hpp"

#include <caf/actor.hpp>
#include <caf/actor_addr.hpp>

#include <chrono>
#include <deque>
#include <vector>

namespace troupe {

/// Delivers tensor messages to replicas and reducers.
class transport {
public:
  virtual ~transport() = default;

  /// Delivers a message. Never blocks. A message that cannot be delivered is
  /// lost; a receiver that waits for it has a timeout.
  virtual void post(const party& to, letter&& x) = 0;
  /// Delivers a message after a delay. Never blocks.
  virtual void post_later(const party& to, letter&& x,
                          std::chrono::nanoseconds delay) = 0;
};

/// Delivers tensor messages inside a process, with tensors by reference: to a
/// replica through its tensor queue, to a reducer through its mailbox.
class direct_transport final : public transport {
public:
  /// @param via_mailbox messages to replicas go through their mailboxes, too.
  ///                    Tests of message schedules need this.
  direct_transport(std::uint32_t replicas, bool by_mail);

  /// Registers the actor of a replica or reducer. @pre no message was sent yet.
  void place(const party& who, const caf::actor& it);

  /// @returns the queue of a replica.
  port& port_of(std::uint32_t replica) { return places_[replica].letters; }
  bool by_mail() const { return by_mail_; }

  void post(const party& to, letter&& x) override;
  void post_later(const party& to, letter&& x,
                  std::chrono::nanoseconds delay) override;

private:
  struct place_of_replica {
    port letters;
    caf::actor_addr who; ///< Weak, so that a terminated actor is released.
  };
  caf::actor find(const party& x) const;
  void mail(const party& to, letter&& x, std::chrono::nanoseconds delay) const;

  bool by_mail_;
  std::deque<place_of_replica> places_;
  std::vector<caf::actor_addr> reducers_;
};

} // namespace troupe
