#include "espalier/foreign/json_tree.h"

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

TEST_CASE("Reals, and integers beyond 64 bits, which are reals") {
  const auto tree = JsonTree::parse("[9007199254740993.0, 18446744073709551616, 1, 8.5e-324]", 1);
  REQUIRE(tree);
  std::vector<std::optional<double>> reals;
  for (const JsonRef number : tree->root()) reals.push_back(number.real());
  CHECK(reals == std::vector<std::optional<double>>{9007199254740992.0, 18446744073709551616.0,
                                                    std::nullopt, 1e-323});
}

}  // namespace
}  // namespace espalier
