#include "espalier/foreign/zip/deflate_decoder.h"

#include <algorithm>

#include "espalier/base/little_endian.h"

namespace espalier {
namespace {

constexpr unsigned kMostBits = 63;  // that are held: shifting by 64 is undefined
constexpr std::uint32_t kEndOfBlock = 256;

// A length or distance is `base`, and `extra` bits more.
struct Range {
  std::uint16_t base;
  std::uint16_t extra;
};

constexpr std::array<Range, 29> kLengths = {
    {{3, 0},  {4, 0},  {5, 0},  {6, 0},   {7, 0},   {8, 0},   {9, 0},   {10, 0},  {11, 1}, {13, 1},
     {15, 1}, {17, 1}, {19, 2}, {23, 2},  {27, 2},  {31, 2},  {35, 3},  {43, 3},  {51, 3}, {59, 3},
     {67, 4}, {83, 4}, {99, 4}, {115, 4}, {131, 5}, {163, 5}, {195, 5}, {227, 5}, {258, 0}}};

constexpr std::array<Range, 30> kDistances = {
    {{1, 0},     {2, 0},     {3, 0},     {4, 0},      {5, 1},      {7, 1},
     {9, 2},     {13, 2},    {17, 3},    {25, 3},     {33, 4},     {49, 4},
     {65, 5},    {97, 5},    {129, 6},   {193, 6},    {257, 7},    {385, 7},
     {513, 8},   {769, 8},   {1025, 9},  {1537, 9},   {2049, 10},  {3073, 10},
     {4097, 11}, {6145, 11}, {8193, 12}, {12289, 12}, {16385, 13}, {24577, 13}}};

// The order in which the lengths of the code for code lengths stand.
constexpr std::array<std::uint8_t, 19> kCodeLengthOrder = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                           11, 4,  12, 3, 13, 2, 14, 1, 15};

std::uint32_t low_bits(std::uint64_t bits, unsigned count) {
  return static_cast<std::uint32_t>(bits & ((std::uint64_t{1} << count) - 1));
}

}  // namespace

bool DeflateDecoder::Huffman::build(std::span<const std::uint8_t> lengths, bool is_strict) {
  counts_.fill(0);
  fast_.fill({});
  for (const std::uint8_t length : lengths) ++counts_[length];
  counts_[0] = 0;
  // Patterns of `length` bits that no shorter code begins.
  std::uint32_t left = 1;
  unsigned longest = 0;
  for (unsigned length = 1; length <= kLongestCode; ++length) {
    left <<= 1;
    if (counts_[length] > left) return false;
    left -= counts_[length];
    if (counts_[length] > 0) longest = length;
  }
  if (left > 0 && (is_strict || longest > 1)) return false;

  std::array<std::uint16_t, kLongestCode + 1> next_symbol{};
  std::array<std::uint16_t, kLongestCode + 1> next_code{};
  for (unsigned length = 1; length < kLongestCode; ++length) {
    next_symbol[length + 1] = static_cast<std::uint16_t>(next_symbol[length] + counts_[length]);
    next_code[length + 1] = static_cast<std::uint16_t>((next_code[length] + counts_[length]) << 1);
  }
  for (std::size_t symbol = 0; symbol < lengths.size(); ++symbol) {
    const std::uint8_t length = lengths[symbol];
    if (length == 0) continue;
    symbols_[next_symbol[length]++] = static_cast<std::uint16_t>(symbol);
    std::uint32_t code = next_code[length]++;
    if (length > kFastBits) continue;
    // Codes stand in the stream with their highest bit first.
    std::uint32_t reversed = 0;
    for (unsigned bit = 0; bit < length; ++bit, code >>= 1) reversed = reversed << 1 | (code & 1);
    for (std::size_t at = reversed; at < fast_.size(); at += std::size_t{1} << length) {
      fast_[at] = {static_cast<std::uint16_t>(symbol), length};
    }
  }
  return true;
}

DeflateDecoder::Code DeflateDecoder::Huffman::find(std::uint64_t bits) const {
  const Code fast = fast_[low_bits(bits, kFastBits)];
  if (fast.length > 0) return fast;
  std::uint32_t code = 0;
  std::uint32_t first = 0;  // code of this length
  std::uint32_t shorter = 0;
  for (std::uint16_t length = 1; length <= kLongestCode; ++length, bits >>= 1) {
    code = code << 1 | low_bits(bits, 1);
    first <<= 1;
    if (code - first < counts_[length]) return {symbols_[shorter + code - first], length};
    first += counts_[length];
    shorter += counts_[length];
  }
  return {};
}

DeflateDecoder::Progress DeflateDecoder::run(ByteSpan packed, MutableByteSpan out) {
  in_ = packed;
  taken_ = 0;
  out_ = out;
  made_ = 0;
  if (out.empty()) return {};
  while (step() == Step::kGoOn) continue;
  // Whole bytes that were pulled and are not used belong to what comes after: at the end of the
  // stream, or if `out` is full. If the input is used up, its last bits wait here.
  if (state_ == State::kEnd || made_ == out_.size()) {
    const std::size_t whole = std::min<std::size_t>(bit_count_ / 8, taken_);
    taken_ -= whole;
    bit_count_ -= static_cast<unsigned>(8 * whole);
  }
  bits_ &= (std::uint64_t{1} << bit_count_) - 1;
  remember();
  return {taken_, made_};
}

DeflateDecoder::Step DeflateDecoder::step() {
  switch (state_) {
    case State::kBlock:
      return begin_block();
    case State::kStored:
      return read_stored();
    case State::kStoredBytes:
      return copy_stored();
    case State::kCounts:
      return read_counts();
    case State::kCodeLengths:
      return read_code_lengths();
    case State::kLengths:
      return read_lengths();
    case State::kSymbols:
      return read_symbols();
    case State::kMatch:
      return copy_match();
    case State::kEnd:
    case State::kBad:
      break;
  }
  return Step::kWait;
}

DeflateDecoder::Step DeflateDecoder::bad() {
  state_ = State::kBad;
  return Step::kWait;
}

void DeflateDecoder::refill() {
  if (in_.size() - taken_ >= sizeof bits_) {
    // Bits above the count may be set then: those that come next, and are set again.
    bits_ |= load_le<std::uint64_t>(in_.data() + taken_) << bit_count_;
    const unsigned whole = (kMostBits - bit_count_) / 8;
    taken_ += whole;
    bit_count_ += 8 * whole;
    return;
  }
  while (bit_count_ + 8 <= kMostBits && taken_ < in_.size()) {
    bits_ |= std::to_integer<std::uint64_t>(in_[taken_++]) << bit_count_;
    bit_count_ += 8;
  }
}

bool DeflateDecoder::has(unsigned count) {
  if (bit_count_ < count) refill();
  return bit_count_ >= count;
}

std::uint32_t DeflateDecoder::take(unsigned count) {
  const std::uint32_t taken = low_bits(bits_, count);
  bits_ >>= count;
  bit_count_ -= count;
  return taken;
}

DeflateDecoder::Step DeflateDecoder::begin_block() {
  if (is_last_block_) {
    state_ = State::kEnd;
    return Step::kWait;
  }
  if (!has(3)) return Step::kWait;
  is_last_block_ = take(1) != 0;
  switch (take(2)) {
    case 0:
      take(bit_count_ % 8);
      state_ = State::kStored;
      return Step::kGoOn;
    case 1:
      std::fill_n(lengths_.begin(), 144, std::uint8_t{8});
      std::fill_n(lengths_.begin() + 144, 112, std::uint8_t{9});
      std::fill_n(lengths_.begin() + 256, 24, std::uint8_t{7});
      std::fill_n(lengths_.begin() + 280, 8, std::uint8_t{8});
      literals_.build(std::span(lengths_).first(kMostSymbols), true);
      std::fill_n(lengths_.begin(), kMostDistances, std::uint8_t{5});
      distances_.build(std::span(lengths_).first(kMostDistances), true);
      state_ = State::kSymbols;
      return Step::kGoOn;
    case 2:
      state_ = State::kCounts;
      return Step::kGoOn;
    default:
      return bad();
  }
}

DeflateDecoder::Step DeflateDecoder::read_stored() {
  if (!has(32)) return Step::kWait;
  stored_left_ = take(16);
  if (take(16) != (stored_left_ ^ 0xFFFF)) return bad();
  state_ = State::kStoredBytes;
  return Step::kGoOn;
}

DeflateDecoder::Step DeflateDecoder::copy_stored() {
  while (stored_left_ > 0) {
    if (made_ == out_.size() || !has(8)) return Step::kWait;
    put(static_cast<std::byte>(take(8)));
    --stored_left_;
  }
  state_ = State::kBlock;
  return Step::kGoOn;
}

DeflateDecoder::Step DeflateDecoder::read_counts() {
  if (!has(14)) return Step::kWait;
  literal_count_ = take(5) + 257;
  distance_count_ = take(5) + 1;
  code_length_count_ = take(4) + 4;
  if (literal_count_ > 286 || distance_count_ > 30) return bad();
  lengths_.fill(0);
  read_ = 0;
  state_ = State::kCodeLengths;
  return Step::kGoOn;
}

DeflateDecoder::Step DeflateDecoder::read_code_lengths() {
  for (; read_ < code_length_count_; ++read_) {
    if (!has(3)) return Step::kWait;
    lengths_[kCodeLengthOrder[read_]] = static_cast<std::uint8_t>(take(3));
  }
  if (!literals_.build(std::span(lengths_).first(kCodeLengthOrder.size()), true)) return bad();
  lengths_.fill(0);
  read_ = 0;
  state_ = State::kLengths;
  return Step::kGoOn;
}

DeflateDecoder::Step DeflateDecoder::read_lengths() {
  const std::uint32_t all = literal_count_ + distance_count_;
  while (read_ < all) {
    refill();
    const Code code = literals_.find(bits_);
    // 16 repeats the length before, 17 and 18 repeat none at all.
    const unsigned extra = code.symbol < 16 ? 0 : code.symbol == 16 ? 2 : code.symbol == 17 ? 3 : 7;
    if (bit_count_ < code.length + extra) return Step::kWait;
    take(code.length);
    if (extra == 0) {
      lengths_[read_++] = static_cast<std::uint8_t>(code.symbol);
      continue;
    }
    const std::uint32_t count = take(extra) + (code.symbol == 18 ? 11 : 3);
    if (count > all - read_ || (code.symbol == 16 && read_ == 0)) return bad();
    const std::uint8_t repeated = code.symbol == 16 ? lengths_[read_ - 1] : std::uint8_t{0};
    std::fill_n(lengths_.begin() + read_, count, repeated);
    read_ += count;
  }
  const auto lengths = std::span<const std::uint8_t>(lengths_);
  if (lengths[kEndOfBlock] == 0 || !literals_.build(lengths.first(literal_count_), false) ||
      !distances_.build(lengths.subspan(literal_count_, distance_count_), false)) {
    return bad();
  }
  state_ = State::kSymbols;
  return Step::kGoOn;
}

DeflateDecoder::Step DeflateDecoder::read_symbols() {
  for (;;) {
    // A match takes at most 48 bits, and 56 are there unless the input ends: all of it is taken, or
    // none.
    refill();
    const Code code = literals_.find(bits_);
    if (bit_count_ < code.length) return Step::kWait;
    if (code.length == 0) return bad();
    if (code.symbol < kEndOfBlock) {
      if (made_ == out_.size()) return Step::kWait;
      put(static_cast<std::byte>(code.symbol));
      take(code.length);
      continue;
    }
    if (code.symbol == kEndOfBlock) {
      take(code.length);
      state_ = State::kBlock;
      return Step::kGoOn;
    }
    if (code.symbol - kEndOfBlock > kLengths.size()) return bad();
    const Range& length = kLengths[code.symbol - kEndOfBlock - 1];
    unsigned used = code.length;
    match_left_ = length.base + low_bits(bits_ >> used, length.extra);
    used += length.extra;
    if (bit_count_ < used) return Step::kWait;
    const Code far = distances_.find(bits_ >> used);
    used += far.length;
    if (bit_count_ < used) return Step::kWait;
    if (far.length == 0 || far.symbol >= kDistances.size()) return bad();
    const Range& distance = kDistances[far.symbol];
    match_distance_ = distance.base + low_bits(bits_ >> used, distance.extra);
    used += distance.extra;
    if (bit_count_ < used) return Step::kWait;
    take(used);
    if (match_distance_ > window_bytes_ + made_) return bad();
    state_ = State::kMatch;
    if (copy_match() == Step::kWait) return Step::kWait;
  }
}

std::byte DeflateDecoder::before(std::size_t distance) const {
  if (distance <= made_) return out_[made_ - distance];
  return window_[(window_end_ + made_ - distance) % kWindow];
}

DeflateDecoder::Step DeflateDecoder::copy_match() {
  for (; match_left_ > 0; --match_left_) {
    if (made_ == out_.size()) return Step::kWait;
    put(before(match_distance_));
  }
  state_ = State::kSymbols;
  return Step::kGoOn;
}

// Adds what this call made to the window.
void DeflateDecoder::remember() {
  const std::size_t kept = std::min(made_, kWindow);
  for (std::size_t i = made_ - kept; i < made_; ++i) {
    window_[window_end_] = out_[i];
    window_end_ = (window_end_ + 1) % kWindow;
  }
  window_bytes_ = std::min(window_bytes_ + made_, kWindow);
}

}  // namespace espalier
