#include "espalier/base/json_tree.h"

#include <array>
#include <cstdio>
#include <limits>

#include <doctest/doctest.h>

namespace espalier {
namespace {

TEST_CASE("Only objects have members") {
  const auto tree =
      JsonTree::parse(R"({"a": {"b": 1}, "list": ["b", 1], "text": "b", "b": null})", 3);
  REQUIRE(tree);
  const JsonRef root = tree->root();
  CHECK(root.size() == 4);
  CHECK(root.member("a")->member("b")->int64() == 1);
  CHECK(root.member("b")->is_null());
  CHECK_FALSE(root.member("c"));
  for (const char* name : {"list", "text", "b"}) CHECK_FALSE(root.member(name)->member("b"));
}

TEST_CASE("Members come in the order of the text, also twice") {
  const auto tree = JsonTree::parse(R"({"b": [1, {"c": 2}], "a": {}, "b": 0.1})", 3);
  REQUIRE(tree);
  const auto members = tree->root().members();
  REQUIRE(members.size() == 3);
  CHECK(members[0].name == "b");
  CHECK(members[0].value.size() == 2);
  CHECK(members[1].name == "a");
  CHECK(members[1].value.members().empty());
  CHECK(members[2].name == "b");
  CHECK(members[2].value.real() == 0.1);
  CHECK(members[0].value.members().empty());
}

TEST_CASE("Integers of 64 bits, and reals") {
  const auto tree = JsonTree::parse(
      "[-0, -9223372036854775808, 9223372036854775807, 18446744073709551615, 18446744073709551616, "
      "-9223372036854775809, 9007199254740993.0, 8.5e-324, 1e-400, -2E+2]",
      1);
  REQUIRE(tree);
  std::vector<std::optional<std::int64_t>> integers;
  std::vector<std::optional<double>> reals;
  std::size_t beyond_int64 = 0;
  for (const JsonRef number : tree->root()) {
    if (number.int64()) {
      integers.push_back(number.int64());
    } else if (number.uint64()) {
      CHECK(*number.uint64() == 18446744073709551615U);
      ++beyond_int64;
    } else {
      reals.push_back(number.real());
    }
  }
  CHECK(integers ==
        std::vector<std::optional<std::int64_t>>{0, std::numeric_limits<std::int64_t>::min(),
                                                 std::numeric_limits<std::int64_t>::max()});
  CHECK(beyond_int64 == 1);
  CHECK(reals == std::vector<std::optional<double>>{18446744073709551616.0, -9223372036854775808.0,
                                                    9007199254740992.0, 1e-323, 0.0, -200.0});
  for (const char* text :
       {"[1e400]", "[9e308]", "[01]", "[1.]", "[.5]", "[+1]", "[0x10]", "[1e]", "[nan]"}) {
    CHECK_MESSAGE(!JsonTree::parse(text, 1), text);
  }
}

TEST_CASE("Reals are the nearest to their digits") {
  for (int i = 1; i <= 1000; ++i) {
    const double real = 1e-7 / i;
    std::array<char, 40> digits = {};
    std::snprintf(digits.data(), digits.size(), "[%.17g]", real);
    const auto tree = JsonTree::parse(digits.data(), 1);
    REQUIRE(tree);
    for (const JsonRef number : tree->root()) CHECK(number.real() == real);
  }
}

}  // namespace
}  // namespace espalier
