// Writes the contents of a file again. A file that opens and verifies must be what our writer would
// write, byte for byte, because every state has one file. For compressed files, only the state must
// be the same.
#include <algorithm>

#include "fuzz.h"
#include "support/memory_file.h"

#include "espalier/codec/codec.h"
#include "espalier/codec/compression_level.h"
#include "espalier/read/to_value.h"
#include "espalier/read/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto file = fuzz::copy_input(data, size);
  const auto checkpoint = testing::open_file(file);
  if (!checkpoint) return 0;
  Verify verify(*checkpoint);
  fuzz::require(verify.feed({0, 0, size}, file).has_value(), "verifying refuses the file");
  const auto report = verify.finish();
  if (!report || report->error_count != 0) return 0;
  const auto state = testing::load_tree(file, checkpoint->state());
  fuzz::require(state.has_value(), "what was verified cannot be loaded");
  const Tables& tables = checkpoint->catalog().tables();
  const bool compressed = std::ranges::any_of(tables.chunks, [](const ChunkRecord& chunk) {
    return chunk.codec != static_cast<std::uint8_t>(Codec::kRaw);
  });
  const WriteOptions options{.compression_level = compressed ? kFastCompression : kNoCompression};
  const auto again = testing::write_file(*state, to_value(checkpoint->metadata()), options);
  fuzz::require(again.has_value(), "what was loaded cannot be saved");
  if (!compressed) {
    fuzz::require(std::ranges::equal(*again, file), "a file is not the one that its state has");
    return 0;
  }
  const auto other = testing::open_file(*again);
  fuzz::require(other.has_value(), "what was saved cannot be opened");
  fuzz::require(other->catalog().tree_digest() == checkpoint->catalog().tree_digest(),
                "compressing again changes the state");
  fuzz::require(testing::load_tree(*again, other->state()).has_value(),
                "what was compressed cannot be loaded");
  return 0;
}
