#pragma once

// What messages are made of besides plain structs: atoms, and the handles that
// local actors pass by reference.

#include "troupe/actors/core/error_code.hpp"
#include "troupe/actors/core/step.hpp"
#include "troupe/tensors/tensor.hpp"

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/atom.hpp>
#include <caf/type_id.hpp>

namespace troupe {

/// A step function, as those who run it hold it. What crosses a process is its
/// name; one without a name cannot.
struct step_ref {
  std::shared_ptr<const step_function> it;
  std::string name;
};

/// Why work ends, or does not begin, without its owner.
inline constexpr const char* chief_is_gone =
  "the chief of this crew has ended; the crew can do no more work";

/// Who asked a crew for work: called on the roles' threads, must not block.
/// Each run has a number, from 1; what comes of an older one is ignored.
class work_listener {
public:
  virtual ~work_listener() = default;
  virtual void committed(std::uint64_t run, commit_record&& x) = 0;
  virtual void ended(std::uint64_t run, std::uint64_t next) = 0;
  virtual void given_up(std::uint64_t run, ec code, std::string&& why) = 0;
  /// Nothing more will come of anything, for this reason.
  virtual void no_more(ec code, const std::string& why) = 0;
  /// A replica was visited. @param problem empty: none.
  virtual void visited(std::uint64_t visit, std::uint32_t replica,
                       std::string&& problem) = 0;
};

/// Something to call outside any step, and who hears that it was.
struct visit_ref {
  std::shared_ptr<const std::function<void(std::uint32_t)>> it;
  std::shared_ptr<work_listener> by;
  std::uint64_t number = 0; ///< Of the visit.
};

} // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_atoms, caf::first_custom_type_id)

  CAF_ADD_ATOM(troupe_atoms, troupe::atom, absent, "absent")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, ended, "ended")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, flush, "flush")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, late, "late")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, next, "next")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, run, "run")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, spawn, "spawn")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, status, "status")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, stop, "stop")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, wake, "wake")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, who, "who")

CAF_END_TYPE_ID_BLOCK(troupe_atoms)

// "Unsafe" is CAF's word for what it cannot serialize; a proxy sends the bytes.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::tensor)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::tensors)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::step_ref)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::visit_ref)
