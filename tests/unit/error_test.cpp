// Errors as people read them.
#include "espalier/error.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "espalier/foreign/common/flatten.h"
#include "espalier/notes.h"

namespace espalier {
namespace {

TEST_CASE("An error is one line that no terminal obeys") {
  const Error error{ErrorCode::kNotFound, 7, "a\nb\x1b[31m\x7f\xc2\x9b\u202e",
                    "no \t such \xc3\xa9"};
  CHECK(error.describe() ==
        "no \\t such \xc3\xa9 (code not_found, at byte 7, in a\\nb\\x1b[31m\\x7f\\u{9b}\\u{202e})");
}

TEST_CASE("An error without a position is described by its message and code") {
  CHECK(Error{ErrorCode::kIoError, Error::kNoOffset, {}, "it broke"}.describe() ==
        "it broke (code io_error)");
}

TEST_CASE("A result that failed throws its whole text when its value is asked for") {
  Result<int> failed = fail(ErrorCode::kNotFound, "no such key", 7, "a/b");
  CHECK_THROWS_WITH_AS(failed.value(), "no such key (code not_found, at byte 7, in a/b)",
                       FailedResult);
  CHECK_THROWS_AS(std::move(failed).value(), FailedResult);
  CHECK_THROWS_WITH(Result<void>(fail(ErrorCode::kIoError, "it broke")).value(),
                    "it broke (code io_error)");
  CHECK(Result<int>(7).value() == 7);
  Result<void>().value();
}

TEST_CASE("A result is made of a value, and never of whether another one failed") {
  static_assert(!std::is_constructible_v<Result<bool>, Result<std::string>&>);
  static_assert(!std::is_constructible_v<Result<bool>, tl::unexpected<std::string>>);
  const Result<bool> is_false = false;
  Result<bool> copy = is_false;
  const Result<bool> again(copy);
  REQUIRE(again);
  CHECK_FALSE(*again);
  // Of a type that converts, whichever way it went.
  const Result<std::string> text = Result<const char*>("a");
  CHECK(*text == "a");
  const Result<std::string> none = Result<const char*>(fail(ErrorCode::kIoError, "it broke"));
  CHECK(none.error().code == ErrorCode::kIoError);
  // Taken out of a temporary, not copied.
  CHECK(**Result<std::unique_ptr<int>>(std::make_unique<int>(7)) == 7);
  CHECK(*Result<std::unique_ptr<int>>(std::make_unique<int>(8)).value() == 8);
  const Result<std::size_t> size = text.map([](const std::string& t) { return t.size(); });
  CHECK(*size == 1);
}

// Names that a stranger chose: a window's title, colours, a forged line, bytes that are no text,
// and text that runs backwards or has no width.
const std::string kEvil =
    "\x1b]0;owned\x07\x1b[31m\r\n\t\x7f\xc2\x9b\xff\u061c\u200b\u200e\u202e\u2066\ufeff";
const std::string kShown =
    "\\x1b]0;owned\\x07\\x1b[31m\\x0d\\n\\t\\x7f\\u{9b}\\xff\\u{61c}\\u{200b}\\u{200e}"
    "\\u{202e}\\u{2066}\\u{feff}";

TEST_CASE("Messages are printable however they are made, and paths and files are exact") {
  const Error made{ErrorCode::kNotFound, 7, kEvil, "no " + kEvil, kEvil};
  const auto failed = Result<void>(fail(ErrorCode::kNotFound, "no " + kEvil, 7, kEvil));
  for (const Error& error : {made, failed.error()}) {
    CHECK(error.message == "no " + kShown);
    CHECK(error.path == kEvil);
  }
  CHECK(made.file == kEvil);
  CHECK(made.describe() ==
        "no " + kShown + " (code not_found, in file " + kShown + ", at byte 7, in " + kShown + ")");
  // What was escaped stays as it is.
  CHECK(Error(made.code, made.offset, {}, made.message).message == made.message);
  Notes notes;
  notes.add({.path = kEvil, .message = kEvil});
  CHECK(notes.listed().front().message == kShown);
  CHECK(notes.listed().front().path == kEvil);
  Losses losses;
  losses.add(kEvil, "an int64");
  CHECK(losses.to_string() == kShown + " (an int64)");
}

// JavaScript describes errors in the same words: wasm/test/siblings.test.mjs.
TEST_CASE("An error names the file, the byte and the node") {
  CHECK(Error{ErrorCode::kIoError, 0, "c", "it broke", "b\n"}.describe() ==
        "it broke (code io_error, in file b\\n, at byte 0, in c)");
}

}  // namespace
}  // namespace espalier
