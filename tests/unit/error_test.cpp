// Errors as people read them.
#include "espalier/base/error.h"

#include <doctest/doctest.h>

namespace espalier {
namespace {

TEST_CASE("An error is one line that no terminal obeys") {
  const Error error{ErrorCode::kNotFound, 7, "a\nb\x1b[31m\x7f\xc2\x9b", "no \t such \xc3\xa9"};
  CHECK(error.describe() ==
        "no \\x09 such \xc3\xa9 (code not_found, at byte 7, in a\\x0ab\\x1b[31m\\x7f\\u{9b})");
}

TEST_CASE("An error without a place says its sentence and its code") {
  CHECK(Error{ErrorCode::kIoError, Error::kNoOffset, {}, "it broke"}.describe() ==
        "it broke (code io_error)");
}

}  // namespace
}  // namespace espalier
