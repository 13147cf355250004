// Errors at a character of a text that a person typed.
#ifndef ESPALIER_TREE_TEXT_ERROR_H_
#define ESPALIER_TREE_TEXT_ERROR_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "espalier/error.h"

namespace espalier {

/// kInvalidKeyPath or kInvalidPattern for what stands at byte `offset` of `text`, which is UTF-8
/// before it. The message quotes the first 200 bytes of the text, and gives the
/// character, counted from 1.
Error text_error(ErrorCode code, std::string_view text, std::size_t offset, const char* what);

}  // namespace espalier

#endif  // ESPALIER_TREE_TEXT_ERROR_H_
