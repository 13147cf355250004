#include "espalier/read/strided_copy.h"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace espalier {
namespace {

TEST_CASE("Repetitions are joined, whatever order they come in") {
  std::vector<CopyLoop> loops;
  for (std::uint64_t to = 1; to < std::uint64_t{1} << 30; to *= 2) loops.push_back({2, 0, to});
  for (const bool is_reversed : {false, true}) {
    if (is_reversed) std::reverse(loops.begin(), loops.end());
    // Otherwise each byte would cost thirty loops.
    const StridedCopy copy(8, 0, 1, loops);
    REQUIRE(copy.loops().size() == 1);
    CHECK(copy.loops()[0].count == std::uint64_t{1} << 30);
    CHECK(copy.bytes() == std::uint64_t{1} << 30);
  }
  // A row of two that is used four times, and again.
  const StridedCopy copy(8, 1, 1, {{2, 1, 1}, {2, 0, 2}, {2, 0, 4}, {2, 3, 8}});
  std::string out(16, '-');
  copy.copy(0, as_bytes("?ab-cd"), std::as_writable_bytes(std::span(out)));
  CHECK(out == "ababababcdcdcdcd");
}

}  // namespace
}  // namespace espalier
