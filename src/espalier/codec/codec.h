// The numbers of the codecs, and the element layout that codecs use.
#ifndef ESPALIER_CODEC_CODEC_H_
#define ESPALIER_CODEC_CODEC_H_

#include <cstddef>
#include <cstdint>

namespace espalier {

/// How the bytes of a chunk are stored. The numbers are those of the file format.
enum class Codec : std::uint8_t {
  kRaw = 0,   // as they are
  kZstd = 1,  // one zstd frame, sealed
  kPlanes =
      2,       // the elements' bytes sorted by significance; each plane stored in its smallest form
  kPatch = 3,  // the elements that differ from those of another chunk, its base
};

/// Bytes after each zstd frame: its seal, XXH3-64 of the frame. The seal detects damage before
/// decoding, and also in bits of the frame that do not affect the result.
inline constexpr std::size_t kSealBytes = 8;

/// Widest element that can be split into planes, in bytes.
inline constexpr std::size_t kMaxElementWidth = 8;

/// The layout of a chunk's elements. A complex number counts as two elements.
struct ElementLayout {
  /// Bytes of an element: 1, 2, 4 or 8. Elements of one byte, or less, have no planes.
  std::uint8_t width = 1;
  /// Whether the highest bit is a sign and the exponent follows it.
  bool is_float = false;

  bool has_planes() const { return width > 1; }

  friend bool operator==(const ElementLayout&, const ElementLayout&) = default;
};

}  // namespace espalier

#endif  // ESPALIER_CODEC_CODEC_H_
