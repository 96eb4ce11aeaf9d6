#pragma once

// What messages are made of besides plain structs: atoms, and the handles that
// local actors pass by reference.

#include "troupe/tensors/tensor.hpp"

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/atom.hpp>
#include <caf/type_id.hpp>

CAF_BEGIN_TYPE_ID_BLOCK(troupe_atoms, caf::first_custom_type_id)

  CAF_ADD_ATOM(troupe_atoms, troupe::atom, late, "late")

CAF_END_TYPE_ID_BLOCK(troupe_atoms)

// "Unsafe" is CAF's word for what it cannot serialize; a proxy sends the bytes.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::tensor)
