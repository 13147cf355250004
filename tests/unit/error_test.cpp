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

TEST_CASE("An error without a position is described by its message and code") {
  CHECK(Error{ErrorCode::kIoError, Error::kNoOffset, {}, "it broke"}.describe() ==
        "it broke (code io_error)");
}

// JavaScript describes errors in the same words: wasm/test/siblings.test.mjs.
TEST_CASE("An error names the file, the byte and the node") {
  CHECK(Error{ErrorCode::kIoError, 0, "c", "it broke", "b\n"}.describe() ==
        "it broke (code io_error, in file b\\x0a, at byte 0, in c)");
}

}  // namespace
}  // namespace espalier
