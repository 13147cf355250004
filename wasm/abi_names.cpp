// The part of abi.h that names dtypes and kinds. JavaScript has the names itself, and its tests
// compare them with these.
#include <cstdint>
#include <optional>
#include <string_view>

#include "abi.h"
#include "failure.h"

#include "espalier/dtype.h"
#include "espalier/error.h"
#include "espalier/kind.h"

namespace espalier::abi {

void espalier_error_name(std::uint32_t code, Text* out) {
  *out = text_of(to_string(static_cast<ErrorCode>(code)));
}

void espalier_dtype_name(std::uint32_t dtype, Text* out) {
  const auto known =
      dtype < 256 ? dtype_from_number(static_cast<std::uint8_t>(dtype)) : std::nullopt;
  *out = text_of(known ? dtype_name(*known) : std::string_view());
}

std::uint32_t espalier_dtype_bits(std::uint32_t dtype) {
  const auto known =
      dtype < 256 ? dtype_from_number(static_cast<std::uint8_t>(dtype)) : std::nullopt;
  return known ? dtype_bits(*known) : 0;
}

void espalier_kind_name(std::uint32_t kind, Text* out) {
  *out = text_of(kind > 0 && kind <= kLastKind ? kind_name(static_cast<Kind>(kind))
                                               : std::string_view());
}

}  // namespace espalier::abi
