// Checks the error of a failed Result.
#ifndef ESPALIER_TESTS_SUPPORT_CHECK_ERROR_H_
#define ESPALIER_TESTS_SUPPORT_CHECK_ERROR_H_

#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "espalier/error.h"

namespace espalier::testing {

/// That a Result has an error with this code and path, and a message that contains this text.
template <class T>
void check_error(const Result<T>& result, ErrorCode code, std::string_view path,
                 std::string_view message) {
  REQUIRE_FALSE(result);
  CHECK(to_string(result.error().code) == to_string(code));
  CHECK(result.error().path == path);
  CHECK_MESSAGE(result.error().message.find(message) != std::string::npos, result.error().message);
}

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_SUPPORT_CHECK_ERROR_H_
