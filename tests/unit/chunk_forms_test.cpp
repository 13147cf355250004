// The promise of docs/compression.md: a chunk takes the smallest of the forms that it could have.
#include "support/chunk_forms.h"

#include <cstdint>
#include <string>

#include "support/ten_kinds.h"
#include <doctest/doctest.h>

#include "espalier/codec/chunk_encoder.h"

namespace espalier {
namespace {

TEST_CASE("The chosen form is at most a hundredth larger than the smallest, for ten kinds") {
  const auto kinds = testing::ten_kinds();
  for (const int level : {1, 2, 5}) {
    ChunkEncoder encoder(level);
    for (const auto& [name, layout, bytes] : kinds) {
      const auto forms = testing::measure_forms(bytes, layout, level);
      REQUIRE(forms);
      const auto chosen = encoder.encode(bytes, layout);
      REQUIRE(chosen);
      const std::string sizes =
          "level " + std::to_string(level) + ", " + name + ": chosen " +
          std::to_string(chosen->bytes.size()) + ", raw " + std::to_string(forms->raw) + ", zstd " +
          std::to_string(forms->zstd) + ", planes " + std::to_string(forms->planes);
      CHECK_MESSAGE(chosen->bytes.size() <= forms->best + forms->best / 100, sizes);
    }
  }
}

}  // namespace
}  // namespace espalier
