#include "files/os/ordered_section.h"

#include <atomic>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include "files/os/parallel.h"

namespace espalier {
namespace {

TEST_CASE("Turns come in order, whichever is ready first") {
  OrderedSection turns;
  std::vector<std::size_t> order;
  const auto done = parallel_for(500, 8, [&](unsigned, std::size_t i) -> Result<void> {
    OrderedSection::Turn turn(turns, i);
    CHECK(turn.take([&] {
      order.push_back(i);
      return true;
    }));
    return {};
  });
  CHECK(done);
  REQUIRE(order.size() == 500);
  for (std::size_t i = 0; i < order.size(); ++i) CHECK(order[i] == i);
}

TEST_CASE("A task that ends without its turn sends all later ones away, and its error wins") {
  for (const bool throws : {false, true}) {
    CAPTURE(throws);
    OrderedSection turns;
    std::atomic<std::size_t> taken = 0;
    const auto run = [&] {
      return parallel_for(500, 8, [&](unsigned, std::size_t i) -> Result<void> {
        OrderedSection::Turn turn(turns, i);
        if (i == 37 && throws) throw 37;
        if (i == 37) return fail(ErrorCode::kIoError, "the cable is out");
        // Those before must not suffer from it, even if it is known before they are ready.
        if (i > 37) return fail(ErrorCode::kInvalidTree, "not the first");
        if (!turn.take([&] { return ++taken > 0; }))
          return fail(ErrorCode::kIncomplete, "sent away");
        return {};
      });
    };
    if (throws) {
      CHECK_THROWS_AS((void)run(), int);
    } else {
      const auto failed = run();
      REQUIRE_FALSE(failed);
      CHECK(failed.error().code == ErrorCode::kIoError);
    }
    CHECK(taken == 37);
  }
}

}  // namespace
}  // namespace espalier
