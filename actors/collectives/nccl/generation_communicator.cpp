#include "troupe/actors/collectives/nccl/generation_communicator.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

generation_communicator::generation_communicator(
  const communicator_environment& environment, std::uint64_t generation,
  time_point now)
  : environment_{environment},
    generation_{generation},
    deadline_{now + environment.initialize_timeout} {
  if (environment_.rank != 0)
    return;
  made_id_ = std::make_shared<call_result<communicator_id>>();
  environment_.blocking->post(
    [result = made_id_, device = environment_.device] {
      try {
        const auto id = device->make_id();
        const std::lock_guard locked{result->lock};
        result->value = id;
        result->done = true;
      } catch (const std::exception& e) {
        const std::lock_guard locked{result->lock};
        result->error = e.what();
        result->done = true;
      }
    });
}

generation_communicator::state
generation_communicator::progress(time_point now) {
  try {
    if (state_ == state::exchanging_id)
      exchange_id();
    if (state_ == state::initializing)
      poll_initialization();
    if (state_ == state::ready
        && communicator_->status() == communicator_status::failed)
      fail(communicator_->error());
    if ((state_ == state::exchanging_id || state_ == state::initializing)
        && now >= deadline_)
      fail("not all " + std::to_string(environment_.ranks)
           + " ranks have joined the communicator of generation "
           + std::to_string(generation_) + " within "
           + std::to_string(environment_.initialize_timeout.count()) + " ms");
    if (state_ == state::finalizing) {
      const auto status = communicator_->status();
      if (status == communicator_status::ready) {
        // The destructor may block.
        environment_.blocking->post([owner = std::move(communicator_)] {});
        state_ = state::closed;
      } else if (status == communicator_status::failed || now >= deadline_) {
        abort();
      }
    }
  } catch (const device_error& e) {
    if (state_ == state::finalizing)
      abort();
    else
      fail(e.what());
  }
  poll_drain();
  return state_;
}

// -- initialisation -----------------------------------------------------------

void generation_communicator::exchange_id() {
  if (environment_.rank != 0) {
    if (const auto id = environment_.ids->find(generation_)) {
      made_id_ = std::make_shared<call_result<communicator_id>>();
      made_id_->value = id;
      initialize();
    }
    return;
  }
  std::unique_lock locked{made_id_->lock};
  if (!made_id_->done)
    return;
  if (!made_id_->value)
    return fail(made_id_->error);
  locked.unlock();
  environment_.ids->publish(generation_, *made_id_->value);
  initialize();
}

/// Posts the call that joins the communicator. If it returns after this object
/// has given up, the call aborts the communicator itself.
void generation_communicator::initialize() {
  state_ = state::initializing;
  initialized_ = std::make_shared<call_result<communicator_ptr>>();
  environment_.blocking->post(
    [result = initialized_, device = environment_.device, id = *made_id_->value,
     ranks = environment_.ranks, rank = environment_.rank] {
      communicator_ptr joined;
      std::string error;
      try {
        joined = device->initialize(id, ranks, rank);
      } catch (const std::exception& e) {
        error = e.what();
      }
      std::unique_lock locked{result->lock};
      result->done = true;
      result->error = std::move(error);
      if (!result->abandoned) {
        if (joined)
          result->value = std::move(joined);
        return;
      }
      locked.unlock();
      if (joined)
        joined->abort();
    });
}

void generation_communicator::poll_initialization() {
  if (!communicator_) {
    const std::lock_guard locked{initialized_->lock};
    if (!initialized_->done)
      return;
    if (!initialized_->value)
      return fail(initialized_->error);
    communicator_ = std::move(*initialized_->value);
  }
  const auto status = communicator_->status();
  if (status == communicator_status::ready)
    state_ = state::ready;
  else if (status == communicator_status::failed)
    fail(communicator_->error());
}

bool generation_communicator::accepts_group() {
  return state_ == state::ready
         && communicator_->status() == communicator_status::ready;
}

void generation_communicator::fail(std::string reason) {
  state_ = state::failed;
  error_ = std::move(reason);
}

// -- end ----------------------------------------------------------------------

void generation_communicator::close(bool work_left, guarded_memory guarded,
                                    time_point now) {
  guarded_ = std::move(guarded);
  if (initialized_ && !communicator_) {
    const std::lock_guard locked{initialized_->lock};
    initialized_->abandoned = true;
    if (initialized_->value)
      communicator_ = std::move(*initialized_->value);
  }
  if (!communicator_) { // no group was started
    state_ = state::draining;
    return poll_drain();
  }
  if (work_left || state_ != state::ready)
    return abort();
  state_ = state::finalizing;
  deadline_ = now + environment_.finalize_timeout;
  try {
    communicator_->finalize();
  } catch (const device_error&) {
    abort();
  }
}

void generation_communicator::abort() {
  state_ = state::aborting;
  aborted_ = std::make_shared<call_result<bool>>();
  environment_.blocking->post(
    [result = aborted_, communicator = std::move(communicator_)]() mutable {
      communicator->abort();
      communicator.reset();
      const std::lock_guard locked{result->lock};
      result->done = true;
    });
}

/// Releases the memory when the stream has drained. The event is recorded after
/// the abort, because a group can enter the stream until the abort returns.
void generation_communicator::poll_drain() {
  if (state_ == state::aborting) {
    const std::lock_guard locked{aborted_->lock};
    if (!aborted_->done)
      return;
    state_ = state::draining;
    try {
      guarded_.events.push_back(environment_.stream->record());
    } catch (const device_lost&) {
      return release();
    } catch (const device_error&) {
      state_ = state::aborting; // the memory is never used again
      return;
    }
  }
  if (state_ != state::draining)
    return;
  try {
    std::erase_if(guarded_.events, [](const device_event_ptr& event) {
      return event->is_complete();
    });
  } catch (const device_lost&) {
    return release(); // the device accesses no memory any more
  } catch (const device_error&) {
    return; // the memory is never used again
  }
  if (guarded_.events.empty())
    release();
}

void generation_communicator::release() {
  guarded_ = {};
  state_ = state::closed;
}

} // namespace troupe
