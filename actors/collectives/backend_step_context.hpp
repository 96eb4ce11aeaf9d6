#pragma once

#include "troupe/actors/collectives/collective_backend.hpp"
#include "troupe/actors/core/step.hpp"

#include <memory>

namespace troupe {

/// The step context of all groups: collectives of a backend, and a wait that
/// parks the fiber of the replica.
class backend_step_context : public step_context {
public:
  explicit backend_step_context(std::shared_ptr<collective_backend> backend);

  bool takes_device_tensors() const override {
    return backend_->takes_device_tensors();
  }
  void contribute(std::uint32_t bucket, const tensor& contribution) override;
  void contribute_in_place(std::uint32_t bucket,
                           const tensor& contribution) override;
  tensor sum(std::uint32_t bucket) override;
  tensors gather(std::uint32_t bucket, const tensor& contribution) override;
  pooled<std::uint64_t> barrier(std::uint32_t number,
                                std::uint64_t value) override;
  void begin_update() override;

  /// Waits until the collectives of the step have drained.
  void wait_until_drained();

  collective_backend& backend() const { return *backend_; }

protected:
  using wait_condition = collective_backend::wait_condition;
  using wait_status = collective_backend::wait_status;

  /// Waits until the condition holds.
  /// @errors throws `superseded` if the step is abandoned.
  virtual void wait_for(const wait_condition& condition) = 0;
  /// @errors throws `superseded` if the step is abandoned.
  virtual void check_superseded() {}
  /// Called when the update begins.
  virtual void on_update_begun() {}

private:
  tensors wait_for_gather(const wait_condition& condition);

  std::shared_ptr<collective_backend> backend_;
};

} // namespace troupe
