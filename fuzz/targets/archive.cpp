// Opens a .npy file or a zip archive, with the usual limits, with tight ones and over a network,
// and reads every tensor of it, from deflated entries too.
#include <string_view>

#include "fuzz.h"
#include "support/feed.h"

#include "espalier/codec/hash.h"
#include "espalier/foreign/any_opener.h"
#include "espalier/format/file_set.h"
#include "espalier/read/opening_machine.h"

namespace espalier::fuzz {
namespace {

// Beyond this, files are not made: an input of a few kilobytes can ask for megabytes.
constexpr std::uint64_t kMostMade = std::uint64_t{1} << 22;

Result<Checkpoint> open(ByteSpan file, const OpenOptions& options,
                        std::uint64_t piece = ~std::uint64_t{0}) {
  AnyOpener opener(options);
  if (auto ok = testing::feed_steps(opener, file, piece); !ok) return propagate(ok);
  return opener.finish();
}

// Makes a file of the checkpoint, in pieces of random sizes, and again in one: the verdict and the
// bytes must be the same.
void make(ByteSpan input, const FileEntry& entry, testing::Random& random) {
  if (entry.length > kMostMade) return;
  const auto run = [&](std::uint64_t most, std::vector<std::byte>& out) -> Result<void> {
    out.assign(static_cast<std::size_t>(entry.length), std::byte{0});
    const auto machine = entry.maker->start(out);
    while (!machine->needs().empty()) {
      Extent extent = machine->needs().front();
      require(extent.file == 0 && extent.offset <= input.size() &&
                  extent.length <= input.size() - extent.offset,
              "a maker asks for bytes past the end");
      extent.length = std::min(extent.length, 1 + random.below(most));
      auto ok = machine->feed(extent, input.subspan(static_cast<std::size_t>(extent.offset),
                                                    static_cast<std::size_t>(extent.length)));
      if (!ok) return ok;
    }
    return machine->finish();
  };
  std::vector<std::byte> whole;
  std::vector<std::byte> pieces;
  const auto a = run(~std::uint64_t{0} - 1, whole);
  const auto b = run(1 + random.below(1 + input.size()), pieces);
  require(a.has_value() == b.has_value(), "how a maker is fed changes whether it succeeds");
  if (a) require(whole == pieces, "how a maker is fed changes the bytes");
}

}  // namespace
}  // namespace espalier::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto file = fuzz::copy_input(data, size);
  const auto checkpoint = fuzz::check_opening(file, [&](const fuzz::Drive& drive) {
    return fuzz::open(file, {.file_size = size, .limits = drive.limits, .nest = drive.nest},
                      drive.piece);
  });
  if (!checkpoint) return 0;
  testing::Random random(hash128(file).high);
  if (random.one_in(3)) {
    const auto remote = fuzz::open(file, {.file_size = size, .is_remote = true});
    // A local header that puts the data elsewhere is read here, and refused there.
    constexpr std::string_view kElsewhere = "where no known writer puts them";
    fuzz::require(remote || remote.error().message.find(kElsewhere) != std::string::npos,
                  "what opens here does not open over a network");
    if (remote) fuzz::visit(*remote);
  }
  for (const FileEntry& entry : checkpoint->catalog().files()) {
    if (entry.maker) fuzz::make(file, entry, random);
  }
  return 0;
}
