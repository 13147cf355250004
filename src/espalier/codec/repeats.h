// Predicts whether a search for matches finds any. Internal to the codecs.
//
// Computed in integer arithmetic, so the results are the same on every machine. All functions are
// thread-safe.
#ifndef ESPALIER_CODEC_REPEATS_H_
#define ESPALIER_CODEC_REPEATS_H_

#include <cstddef>

#include "espalier/bytes.h"

namespace espalier {

/// Number of neighbouring elements that has_repeated_elements() looks at together.
inline constexpr std::size_t kRunElements = 16;

/// Whether at least one word in some hundred occurs again, at any distance that is a multiple of 64
/// bytes. Looks at 5 in 21 words of 8 bytes that begin at such multiples. The words of
/// trained or random elements do not repeat that much by chance; those of unused, shared or
/// constant rows do.
bool has_repeated_words(ByteSpan bytes);

/// The same for words of 16 bytes, for a plane of exponents: 8 bytes of these repeat by chance.
bool has_repeated_long_words(ByteSpan bytes);

/// Whether more than one element in 32 equals one of the four before it. Then the bytes of an
/// element depend on each other, and matches of whole elements may save more than planes do.
/// `runs` holds runs of kRunElements neighbouring elements of `width` bytes.
bool has_repeated_elements(ByteSpan runs, std::size_t width);

}  // namespace espalier

#endif  // ESPALIER_CODEC_REPEATS_H_
