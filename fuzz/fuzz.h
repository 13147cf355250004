// Shared by the fuzz targets: makes a checkpoint from an input, and checks its invariants.
#ifndef ESPALIER_FUZZ_FUZZ_H_
#define ESPALIER_FUZZ_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "support/random.h"

#include "espalier/bytes.h"
#include "espalier/checkpoint.h"
#include "espalier/error.h"
#include "espalier/limits.h"

/// The entry point that libFuzzer and the replay driver call. Returns 0.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace espalier::fuzz {

/// Ends the program with `what` (a finding) unless `holds`.
void require(bool holds, std::string_view what);

/// A copy of the input in a block of exactly its size, so that a sanitizer sees the end of it.
std::vector<std::byte> copy_input(const std::uint8_t* data, std::size_t size);

/// Opens a file of any known format from memory, fed whole.
Result<Checkpoint> open_any(ByteSpan file);

/// Whether all tensors lie in the input itself: none in a file that is made of it.
bool is_one_file(const Checkpoint& checkpoint);

/// Calls every accessor of every node and tensor. After a successful open all of them must succeed,
/// and each printed key path must lead back to its node.
void visit(const Checkpoint& checkpoint);

/// Limits, some so low that small files exceed them.
Limits tight_limits(testing::Random& random);

/// How an opener is driven: `piece` bytes at most are fed at once.
struct Drive {
  Limits limits = {};
  bool nest = false;
  std::uint64_t piece = ~std::uint64_t{0};
};

/// Opens an input as usual and in one other way, which its hash chooses: with tight limits, in
/// pieces, or nested. Checks that the verdicts agree, visits what opens, and reads every tensor of
/// it that lies in the input. Gives the checkpoint.
Result<Checkpoint> check_opening(ByteSpan input,
                                 const std::function<Result<Checkpoint>(const Drive&)>& open);

/// Checks that tighter limits turn a verdict into kLimitExceeded or leave it unchanged.
void check_limited(const Result<Checkpoint>& verdict, const Result<Checkpoint>& limited);

}  // namespace espalier::fuzz

#endif  // ESPALIER_FUZZ_FUZZ_H_
