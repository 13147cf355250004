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

}  // namespace
}  // namespace espalier
