// Decodes deflate (RFC 1951) where there is no zlib: in WebAssembly, for a quarter of its download.
#ifndef ESPALIER_FOREIGN_ZIP_DEFLATE_DECODER_H_
#define ESPALIER_FOREIGN_ZIP_DEFLATE_DECODER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "espalier/bytes.h"

namespace espalier {

/// Decodes one raw deflate stream, in pieces of any size. Accepts and refuses what zlib does. Not
/// thread-safe.
class DeflateDecoder {
 public:
  struct Progress {
    std::size_t taken = 0;
    std::size_t made = 0;
  };

  /// Decodes from `packed` into `out` until either is used up, the stream ends, or it turns out to
  /// be bad, which is_bad() says.
  Progress run(ByteSpan packed, MutableByteSpan out);
  bool is_at_end() const { return state_ == State::kEnd; }
  bool is_bad() const { return state_ == State::kBad; }

 private:
  /// In bits.
  static constexpr unsigned kLongestCode = 15;
  /// Codes up to this length are looked up, longer ones are found bit by bit.
  static constexpr unsigned kFastBits = 10;
  static constexpr std::size_t kMostSymbols = 288;
  static constexpr std::size_t kMostDistances = 32;
  static constexpr std::size_t kWindow = 32 * 1024;

  struct Code {
    std::uint16_t symbol = 0;
    std::uint16_t length = 0;  // in bits; 0 if no symbol has this code
  };

  class Huffman {
   public:
    /// Builds the canonical code in which symbol i has lengths[i] bits, 0 for none. False if there
    /// is no such code. `is_strict`: it must use all bit patterns; otherwise a single code of one
    /// bit, or none at all, may leave some unused.
    bool build(std::span<const std::uint8_t> lengths, bool is_strict);
    /// The code at the low end of `bits`. Bits that have not come yet are zeros.
    Code find(std::uint64_t bits) const;

   private:
    std::array<Code, std::size_t{1} << kFastBits> fast_;
    std::array<std::uint16_t, kLongestCode + 1> counts_;  // of codes, by length
    std::array<std::uint16_t, kMostSymbols> symbols_;     // by code
  };

  enum class State : std::uint8_t {
    kBlock,        // the header of a block is next
    kStored,       // the lengths of a stored block
    kStoredBytes,  // its bytes
    kCounts,       // the numbers of code lengths
    kCodeLengths,  // the code in which code lengths stand
    kLengths,      // code lengths
    kSymbols,      // literals and matches
    kMatch,        // the rest of a match
    kEnd,
    kBad,
  };

  // What a step says: whether the next one can follow.
  enum class Step : bool { kWait, kGoOn };

  Step bad();
  // Pulls bytes until there are `count` bits; false if the input ends before.
  bool has(unsigned count);
  void refill();
  std::uint32_t take(unsigned count);
  void put(std::byte byte) { out_[made_++] = byte; }
  std::byte before(std::size_t distance) const;

  Step step();
  Step begin_block();
  Step read_stored();
  Step copy_stored();
  Step read_counts();
  Step read_code_lengths();
  Step read_lengths();
  Step read_symbols();
  Step copy_match();
  void remember();

  State state_ = State::kBlock;
  bool is_last_block_ = false;
  std::uint64_t bits_ = 0;  // those that were pulled and not used, the first one lowest
  unsigned bit_count_ = 0;

  // Of the current block.
  std::uint32_t stored_left_ = 0;
  std::uint32_t literal_count_ = 0;
  std::uint32_t distance_count_ = 0;
  std::uint32_t code_length_count_ = 0;
  std::uint32_t read_ = 0;  // of the lengths
  std::array<std::uint8_t, kMostSymbols + kMostDistances> lengths_{};
  Huffman literals_;  // also the code of code lengths, before
  Huffman distances_;
  std::uint32_t match_left_ = 0;
  std::uint32_t match_distance_ = 0;

  // Of this call.
  ByteSpan in_;
  std::size_t taken_ = 0;
  MutableByteSpan out_;
  std::size_t made_ = 0;

  // What was made before this call: a ring.
  std::vector<std::byte> window_ = std::vector<std::byte>(kWindow);
  std::size_t window_end_ = 0;
  std::size_t window_bytes_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ZIP_DEFLATE_DECODER_H_
