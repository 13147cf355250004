// The numbers of the codecs, and what a codec has to know of a chunk's elements.
#ifndef ESPALIER_CODEC_CODEC_H_
#define ESPALIER_CODEC_CODEC_H_

#include <cstddef>
#include <cstdint>

namespace espalier {

/// How the bytes of a chunk are stored. The numbers are those of the file format.
enum class Codec : std::uint8_t {
  kRaw = 0,     // as they are
  kZstd = 1,    // one zstd frame, sealed
  kPlanes = 2,  // the bytes of all elements sorted by significance; each plane as small as it gets
};

/// Bytes after each zstd frame: its seal, XXH3-64 of the frame. A frame has bits that nothing
/// depends on, and damage to them must show, too; and damage shows before it is decoded.
inline constexpr std::size_t kSealBytes = 8;

/// Widest element that can be taken apart, in bytes.
inline constexpr std::size_t kMaxElementWidth = 8;

/// How the elements of a chunk are built. A complex number counts as two elements.
struct ElementLayout {
  /// Bytes of an element: 1, 2, 4 or 8. Elements of one byte, or less, have no planes.
  std::uint8_t width = 1;
  /// Whether the highest bit is a sign and the exponent stands below it.
  bool is_float = false;

  bool has_planes() const { return width > 1; }

  friend bool operator==(const ElementLayout&, const ElementLayout&) = default;
};

}  // namespace espalier

#endif  // ESPALIER_CODEC_CODEC_H_
