#include "espalier/health/kinds.h"

#include <algorithm>
#include <string>

#include <doctest/doctest.h>

namespace espalier {
namespace {

// The kinds of the paths as numbers from 0 on, in the order in which they are met.
std::vector<std::size_t> numbers(const std::vector<std::string>& paths) {
  const std::vector<std::string_view> views(paths.begin(), paths.end());
  std::vector<std::uint64_t> met;
  std::vector<std::size_t> numbers;
  for (const PathKind& kind : find_kinds(views)) {
    const auto at = std::find(met.begin(), met.end(), kind.id);
    numbers.push_back(static_cast<std::size_t>(at - met.begin()));
    if (at == met.end()) met.push_back(kind.id);
  }
  return numbers;
}

using Numbers = std::vector<std::size_t>;

TEST_CASE("kinds: one number is left open, and not both") {
  std::vector<std::string> paths;
  Numbers expected;
  for (int layer = 0; layer < 5; ++layer) {
    for (const std::size_t part : {0U, 1U}) {
      paths.push_back("layers/" + std::to_string(layer) + "/fc" + std::to_string(part));
      expected.push_back(part);
    }
  }
  CHECK(numbers(paths) == expected);
}

TEST_CASE("kinds: all numbers are open where no single one has four") {
  CHECK(numbers({"a1.b1", "a2.b2", "a3.b3", "a4.b4", "c.d.e"}) == Numbers{0, 0, 0, 0, 1});
  CHECK(numbers({"a9.b", "a10.b", "a100.b", "a1000.b"}) == Numbers{0, 0, 0, 0});
}

TEST_CASE("kinds: a whole segment is open where there are no numbers") {
  const std::vector<std::string> paths = {"encoder/first/up",   "encoder/second/up",
                                          "encoder/third/up",   "encoder/last/up",
                                          "encoder/first/norm", "up"};
  CHECK(numbers(paths) == Numbers{0, 0, 0, 0, 1, 2});
  const std::vector<std::string_view> views(paths.begin(), paths.end());
  CHECK(find_kinds(views)[0].is_by_word);
  CHECK(!find_kinds(views)[4].is_by_word);
}

TEST_CASE("kinds: names of one segment are not all alike") {
  CHECK(numbers({"alpha", "beta", "gamma", "delta", "epsilon"}) == Numbers{0, 1, 2, 3, 4});
  // A number that counts most tensors of a file tells no kind.
  CHECK(numbers({"p0", "p1", "p2", "p3"}) == Numbers{0, 1, 2, 3});
  CHECK(numbers({"p0", "p1", "p2", "p3", "a", "b", "c", "d"}) == Numbers{0, 0, 0, 0, 1, 2, 3, 4});
}

TEST_CASE("kinds: a path of very many segments takes no longer than others") {
  std::string path;
  for (int i = 0; i < 200; ++i) path += std::to_string(i) + "/";
  CHECK(numbers({path, path + "a", path + "b"}) == Numbers{0, 1, 2});
}

}  // namespace
}  // namespace espalier
