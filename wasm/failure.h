// Converts the core's errors and texts to the records of abi.h.
#ifndef ESPALIER_WASM_FAILURE_H_
#define ESPALIER_WASM_FAILURE_H_

#include <string_view>
#include <utility>

#include "abi.h"

#include "espalier/bytes.h"
#include "espalier/error.h"

namespace espalier::abi {

inline Text text_of(std::string_view text) {
  return {text.data(), static_cast<std::uint32_t>(text.size())};
}
inline Text text_of(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), static_cast<std::uint32_t>(bytes.size())};
}

/// A view of `error`, valid as long as that.
Failure failure_of(const Error& error);

/// Keeps `error` for espalier_last_error() and returns its code.
Status set_failure(Error error);

template <class T>
Status status_of(Result<T> result) {
  return result ? 0 : set_failure(std::move(result.error()));
}

}  // namespace espalier::abi

#endif  // ESPALIER_WASM_FAILURE_H_
