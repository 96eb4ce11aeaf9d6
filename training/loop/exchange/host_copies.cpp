#include "troupe/training/loop/exchange/host_copies.hpp"

#include <new>

namespace troupe {

host_copies::host_copies(const device& on) : on_{on} {
  if (on.kind != device_kind::cpu)
    copied_ = backend_of(on).make_event(on);
}

host_copies::~host_copies() {
  if (pending_.empty())
    return;
  try {
    record();
    wait();
  } catch (...) { // a device that has failed copies nothing more
  }
}

tensor host_copies::start(const tensor& x) {
  if (x.device().kind == device_kind::cpu)
    return x.detach();
  tensor out;
  try {
    out = tensor::pinned(x.spec(), on_.kind);
  } catch (const std::bad_alloc&) { // the copy is waited for
    return x.detach().to({});
  }
  pending_.push_back(out);
  if (x.bytes() > 0)
    backend_of(on_).start_copy({}, out.address(), on_, x.address(), x.bytes(),
                               device_backend::stream::compute);
  return out;
}

void host_copies::record() {
  if (copied_)
    copied_->record(device_backend::stream::compute);
}

void host_copies::wait() {
  if (pending_.empty())
    return;
  copied_->synchronize();
  pending_.clear();
}

} // namespace troupe
