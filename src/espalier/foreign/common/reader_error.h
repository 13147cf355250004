// Errors of a TableBuilder as those of a reader.
#ifndef ESPALIER_FOREIGN_COMMON_READER_ERROR_H_
#define ESPALIER_FOREIGN_COMMON_READER_ERROR_H_

#include <string>

#include "espalier/error.h"

namespace espalier {

/// A TableBuilder says kInvalidTree, as writers do: of what is over a limit, and of what the format
/// cannot hold. To a reader, the first is kLimitExceeded and the second kForeignInvalid.
inline void make_reader_error(Error& error) {
  if (error.code != ErrorCode::kInvalidTree) return;
  const bool names_limit = error.message.find("(Limits::") != std::string::npos;
  error.code = names_limit ? ErrorCode::kLimitExceeded : ErrorCode::kForeignInvalid;
}

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_COMMON_READER_ERROR_H_
