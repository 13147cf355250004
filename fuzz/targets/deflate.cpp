// Decodes the input as a deflate stream with our own decoder, in pieces of random sizes, and with
// zlib: the verdict and the bytes must be the same.
#include <algorithm>
#include <vector>

#include "fuzz.h"
#include "support/random.h"

#include "espalier/codec/hash.h"
#include "espalier/foreign/zip/deflate_decoder.h"
#include "espalier/foreign/zip/inflate.h"

namespace {

using namespace espalier;

constexpr std::size_t kMost = std::size_t{1} << 16;  // bytes that are made

struct Outcome {
  bool is_bad = false;
  bool is_at_end = false;
  std::size_t taken = 0;
  std::vector<std::byte> made;
  bool operator==(const Outcome&) const = default;
};

Outcome by_zlib(ByteSpan packed) {
  Inflater inflater;
  Outcome outcome;
  outcome.made.resize(kMost);
  const auto progress = inflater.run(packed, outcome.made);
  outcome.is_bad = !progress;
  outcome.is_at_end = inflater.is_at_end();
  outcome.taken = progress ? progress->taken : 0;
  outcome.made.resize(progress ? progress->made : 0);
  return outcome;
}

Outcome by_decoder(ByteSpan packed, std::size_t most_in, std::size_t most_out,
                   testing::Random& random) {
  DeflateDecoder decoder;
  Outcome outcome;
  std::vector<std::byte> made(kMost);
  std::size_t end = 0;
  while (!decoder.is_bad() && !decoder.is_at_end()) {
    const ByteSpan in = packed.subspan(
        outcome.taken, std::min(packed.size() - outcome.taken,
                                1 + static_cast<std::size_t>(random.below(most_in))));
    const auto out = MutableByteSpan(made).subspan(
        end, std::min(made.size() - end, 1 + static_cast<std::size_t>(random.below(most_out))));
    const auto progress = decoder.run(in, out);
    fuzz::require(progress.taken <= in.size() && progress.made <= out.size(), "too much is taken");
    outcome.taken += progress.taken;
    end += progress.made;
    if (progress.taken == 0 && progress.made == 0) break;
  }
  outcome.is_bad = decoder.is_bad();
  outcome.is_at_end = decoder.is_at_end();
  if (outcome.is_bad) return {true, false, 0, {}};
  made.resize(end);
  outcome.made = std::move(made);
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto packed = fuzz::copy_input(data, size);
  testing::Random random(hash128(packed).low);
  Outcome expected = by_zlib(packed);
  // A cut code may be refused a few bits earlier or later, and bytes of it are taken or not.
  for (const auto& [most_in, most_out] :
       {std::pair(size + 1, kMost), std::pair(std::size_t{3}, kMost),
        std::pair(size + 1, std::size_t{300}), std::pair(std::size_t{50}, std::size_t{50})}) {
    const Outcome outcome = by_decoder(packed, most_in, most_out, random);
    if (!outcome.is_bad && !expected.is_bad) {
      fuzz::require(outcome.made == expected.made, "zlib makes other bytes");
    }
    fuzz::require((outcome.is_at_end == expected.is_at_end) || expected.made.size() == kMost,
                  "zlib sees the end elsewhere");
    if (outcome.is_at_end && expected.is_at_end) {
      fuzz::require(outcome.taken == expected.taken, "zlib takes other bytes");
    }
  }
  return 0;
}
