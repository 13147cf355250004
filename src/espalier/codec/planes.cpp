#include "espalier/codec/planes.h"

#include <algorithm>
#include <cstdint>

namespace espalier {
namespace {

// The compilers turn the loops below into vector instructions. GCC has to be told that what a loop
// writes is nothing that it reads; Clang looks when the program runs. The bytes are the same with
// and without.
#if defined(__GNUC__) && !defined(__clang__)
#define ESPALIER_NO_OVERLAP _Pragma("GCC ivdep")
#else
#define ESPALIER_NO_OVERLAP
#endif

// s eeeeeeee mmmmmmm becomes eeeeeeee s mmmmmmm, for the upper 16 bits of an element.
template <class Word>
constexpr Word move_sign_down(Word word) {
  constexpr int kShift = 8 * sizeof(Word) - 16;
  constexpr Word kExponent = Word{0x7F80} << kShift;
  constexpr Word kSign = Word{0x8000} << kShift;
  constexpr auto kRest = static_cast<Word>(~(kExponent | kSign));
  return static_cast<Word>(((word & kExponent) << 1) | ((word & kSign) >> 8) | (word & kRest));
}

template <class Word>
constexpr Word move_sign_up(Word word) {
  constexpr int kShift = 8 * sizeof(Word) - 16;
  constexpr Word kExponent = Word{0xFF00} << kShift;
  constexpr Word kSign = Word{0x80} << kShift;
  constexpr auto kRest = static_cast<Word>(~(kExponent | kSign));
  return static_cast<Word>(((word & kExponent) >> 1) | ((word & kSign) << 8) | (word & kRest));
}

template <class Word, bool is_float>
void split(ByteSpan elements, const PlanePointers<std::byte>& planes) {
  const std::byte* __restrict from = elements.data();
  const PlanePointers<std::byte> to = planes;  // a copy that no store into a plane can change
  const std::size_t n = elements.size() / sizeof(Word);
  ESPALIER_NO_OVERLAP
  for (std::size_t i = 0; i < n; ++i) {
    auto word = load_le<Word>(from + i * sizeof(Word));
    if constexpr (is_float) word = move_sign_down(word);
    for (std::size_t k = 0; k < sizeof(Word); ++k) {
      to[k][i] = static_cast<std::byte>(word >> (8 * k));
    }
  }
}

template <class Word, bool is_float>
void merge(const PlanePointers<const std::byte>& planes, MutableByteSpan elements) {
  std::byte* __restrict to = elements.data();
  const PlanePointers<const std::byte> from = planes;
  const std::size_t n = elements.size() / sizeof(Word);
  ESPALIER_NO_OVERLAP
  for (std::size_t i = 0; i < n; ++i) {
    Word word = 0;
    for (std::size_t k = 0; k < sizeof(Word); ++k) {
      word = static_cast<Word>(word | Word{std::to_integer<std::uint8_t>(from[k][i])} << (8 * k));
    }
    if constexpr (is_float) word = move_sign_up(word);
    store_le(to + i * sizeof(Word), word);
  }
}

template <class Word>
void split_words(bool is_float, ByteSpan elements, const PlanePointers<std::byte>& planes) {
  is_float ? split<Word, true>(elements, planes) : split<Word, false>(elements, planes);
}

template <class Word>
void merge_words(bool is_float, const PlanePointers<const std::byte>& planes,
                 MutableByteSpan elements) {
  is_float ? merge<Word, true>(planes, elements) : merge<Word, false>(planes, elements);
}

}  // namespace

void split_planes(ElementLayout layout, ByteSpan elements, const PlanePointers<std::byte>& planes) {
  switch (layout.width) {
    case 2:
      return split_words<std::uint16_t>(layout.is_float, elements, planes);
    case 4:
      return split_words<std::uint32_t>(layout.is_float, elements, planes);
    case 8:
      return split_words<std::uint64_t>(layout.is_float, elements, planes);
    default:
      std::copy(elements.begin(), elements.end(), planes[0]);
  }
}

void merge_planes(ElementLayout layout, const PlanePointers<const std::byte>& planes,
                  MutableByteSpan elements) {
  switch (layout.width) {
    case 2:
      return merge_words<std::uint16_t>(layout.is_float, planes, elements);
    case 4:
      return merge_words<std::uint32_t>(layout.is_float, planes, elements);
    case 8:
      return merge_words<std::uint64_t>(layout.is_float, planes, elements);
    default:
      std::copy_n(planes[0], elements.size(), elements.begin());
  }
}

}  // namespace espalier
