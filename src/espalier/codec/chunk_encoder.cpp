#include "espalier/codec/chunk_encoder.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/base/little_endian.h"
#include "espalier/codec/chunk_decoder.h"
#include "espalier/codec/frame_encoder.h"
#include "espalier/codec/planes.h"
#include "espalier/codec/repeats.h"
#include "espalier/codec/sample.h"

namespace espalier {
namespace {

// A smaller saving (one part in this many) is not worth the time to decode.
constexpr std::size_t kLeastSaving = 100;

// The largest compressed size for `size` bytes that is worth it.
std::size_t worthwhile(std::size_t size) { return size - size / kLeastSaving - 1; }

}  // namespace

Result<void> check_compression_level(int level) {
  if (level >= kNoCompression && level <= kMaxCompression) return {};
  return fail(ErrorCode::kInvalidArgument, "there is no compression level " +
                                               std::to_string(level) +
                                               ": it is 1 (fast) to 9 (thorough), or 0 for none");
}

class ChunkEncoder::Coder {
 public:
  explicit Coder(int level)
      : thorough_(level > kFastCompression),
        entropy_(FrameEncoder::entropy_only()),
        local_(FrameEncoder::local_entropy_only()),
        quick_(FrameEncoder::with_matches(1)),
        strong_(FrameEncoder::with_matches(zstd_level(level))) {}

  Result<Encoded> encode(ByteSpan logical, ElementLayout layout) {
    best_ = {Codec::kRaw, logical};
    if (logical.size() < kSmallest) return best_;
    const ChunkSample sample = take_sample(logical, layout);
    // Data other than floats may be anything: text, for example, does not repeat whole words.
    repeats_ = sample.repeats || (!layout.is_float && sample.any_uneven());
    try_matches_ = thorough_ || repeats_;
    if (sample.any_uneven() || try_matches_) {
      if (layout.has_planes()) {
        if (auto ok = try_planes(logical, layout, sample); !ok) return propagate(ok);
      } else if (sample.uneven[0]) {
        if (auto ok = try_frame(entropy_for(sample, 0), logical); !ok) return propagate(ok);
      }
      if (try_matches_) {
        if (auto ok = try_matches(logical); !ok) return propagate(ok);
      }
    }
    if (auto ok = check(logical, layout); !ok) return propagate(ok);
    return best_;
  }

 private:
  // A frame has some ten bytes of overhead.
  static constexpr std::size_t kSmallest = 64;

  FrameEncoder& entropy_for(const ChunkSample& sample, std::size_t plane) {
    return sample.local[plane] ? local_ : entropy_;
  }

  // Room for a candidate of at most `most` bytes. A better one replaces the best so far, in its
  // buffer.
  MutableByteSpan trial(std::size_t chunk, std::size_t most) {
    trial_.resize(chunk);
    return MutableByteSpan(trial_).first(std::min(worthwhile(chunk), most));
  }
  MutableByteSpan better_trial(std::size_t chunk) {
    return trial(chunk, std::max<std::size_t>(best_.bytes.size(), 1) - 1);
  }
  void take_trial(Codec codec, std::size_t size) {
    std::swap(trial_, kept_);
    best_ = {codec, ByteSpan(kept_).first(size)};
  }

  Result<void> try_frame(FrameEncoder& encoder, ByteSpan logical) {
    const auto size = encoder.encode(logical, better_trial(logical.size()));
    if (!size) return propagate(size);
    if (*size) take_trial(Codec::kZstd, **size);
    return {};
  }

  // Trained numbers have no matches, and a long search for them takes time. So zstd's level 1 goes
  // first. Stronger levels follow where it comes near the best so far, or where there are repeats.
  Result<void> try_matches(ByteSpan logical) {
    constexpr std::size_t kNear = 16;  // one part in this many
    const std::size_t best = best_.bytes.size();
    const auto size = quick_.encode(logical, trial(logical.size(), best + best / kNear));
    if (!size) return propagate(size);
    const bool near = size->has_value();
    if (near && **size < best) take_trial(Codec::kZstd, **size);
    if (!thorough_ || !(near || repeats_)) return {};
    return try_frame(strong_, logical);
  }

  // Whether any plane has repeats. Those of noise would show in whole elements.
  bool planes_repeat(const PlanePointers<std::byte>& planes, std::size_t n,
                     const ChunkSample& sample) const {
    if (repeats_) return true;
    for (std::size_t k = 0; k < kMaxElementWidth; ++k) {
      if (!sample.uneven[k] || sample.constant[k]) continue;
      const ByteSpan plane(planes[k], n);
      if (sample.varied[k] ? has_repeated_words(plane) : has_repeated_long_words(plane)) {
        return true;
      }
    }
    return false;
  }

  Result<void> try_planes(ByteSpan logical, ElementLayout layout, const ChunkSample& sample) {
    const std::size_t width = layout.width;
    const std::size_t n = logical.size() / width;
    const std::size_t lengths = width * sizeof(std::uint32_t);
    const MutableByteSpan out = better_trial(logical.size());
    if (out.size() <= lengths) return {};
    parted_.resize(logical.size());
    PlanePointers<std::byte> planes = {};
    // Noise is copied straight into place, as long as its offset is known.
    std::size_t at = lengths;
    std::size_t placed = 0;
    for (std::size_t k = 0; k < width; ++k) {
      const bool noise = !sample.uneven[k] && !try_matches_;
      if (noise && placed == k && n <= out.size() - at) {
        planes[k] = out.data() + at;
        at += n;
        ++placed;
      } else {
        planes[k] = parted_.data() + k * n;
      }
    }
    split_planes(layout, logical, planes);
    const bool repeats = planes_repeat(planes, n, sample);
    for (std::size_t k = 0; k < width; ++k) {
      std::size_t length = n;
      if (k >= placed) {
        FrameEncoder* const entropy = sample.uneven[k] ? &entropy_for(sample, k) : nullptr;
        const auto size =
            encode_plane({planes[k], n}, entropy, repeats || sample.constant[k], out.subspan(at));
        if (!size) return propagate(size);
        if (!*size) return {};
        length = **size;
        at += length;
      }
      store_le(out.data() + k * sizeof(std::uint32_t), static_cast<std::uint32_t>(length));
    }
    take_trial(Codec::kPlanes, at);
    return {};
  }

  // Puts the frame of a plane into `out` if it is smaller than the `best` one there now. Returns
  // whether it is smaller, or not much larger.
  Result<bool> attempt(FrameEncoder& encoder, ByteSpan plane, MutableByteSpan out,
                       std::optional<std::size_t>& best) {
    constexpr std::size_t kNear = 32;  // one part in this many
    if (!best) {
      const auto size =
          encoder.encode(plane, out.first(std::min(out.size(), worthwhile(plane.size()))));
      if (!size) return propagate(size);
      best = *size;
      return best.has_value();
    }
    plane_.resize(*best + *best / kNear);
    const auto size = encoder.encode(plane, plane_);
    if (!size) return propagate(size);
    if (!*size) return false;
    if (**size < *best) {
      best = *size;
      std::memcpy(out.data(), plane_.data(), *best);
    }
    return true;
  }

  // Puts a plane into `out` in its smallest form and returns its length; nullopt if it does not
  // fit. `entropy` is null for noise. `repeats` if the chunk's planes have any.
  Result<std::optional<std::size_t>> encode_plane(ByteSpan plane, FrameEncoder* entropy,
                                                  bool repeats, MutableByteSpan out) {
    if (out.empty()) return std::optional<std::size_t>();
    if (std::memcmp(plane.data(), plane.data() + 1, plane.size() - 1) == 0) {
      out[0] = plane[0];
      return std::optional<std::size_t>(1);
    }
    std::optional<std::size_t> best;
    if (entropy != nullptr) {
      if (auto ok = attempt(*entropy, plane, out, best); !ok) return propagate(ok);
    }
    if (try_matches_ || repeats) {
      const auto near = attempt(quick_, plane, out, best);
      if (!near) return propagate(near);
      if (thorough_ && (*near || repeats)) {
        if (auto ok = attempt(strong_, plane, out, best); !ok) return propagate(ok);
      }
    }
    if (best) return best;
    if (plane.size() > out.size()) return std::optional<std::size_t>();
    std::memcpy(out.data(), plane.data(), plane.size());
    return std::optional(plane.size());
  }

  // zstd 1.5.4 can corrupt data at its strong levels (zstd pull request 3517). So the result is
  // decoded, and stored raw if it differs.
  Result<void> check(ByteSpan logical, ElementLayout layout) {
    if (!thorough_ || best_.codec == Codec::kRaw) return {};
    checked_.resize(logical.size());
    auto decoded = decoder_.decode(best_.codec, layout, best_.bytes, checked_);
    if (!decoded && decoded.error().code == ErrorCode::kOutOfMemory) return decoded;
    if (!decoded || !std::equal(logical.begin(), logical.end(), checked_.begin())) {
      best_ = {Codec::kRaw, logical};
    }
    return {};
  }

  bool thorough_;
  // Of the chunk at hand:
  bool repeats_ = false;
  bool try_matches_ = false;
  FrameEncoder entropy_;
  FrameEncoder local_;
  FrameEncoder quick_;
  FrameEncoder strong_;
  ChunkDecoder decoder_;
  Encoded best_;
  std::vector<std::byte> trial_;
  std::vector<std::byte> kept_;
  std::vector<std::byte> parted_;
  std::vector<std::byte> plane_;
  std::vector<std::byte> checked_;
};

std::size_t ChunkEncoder::memory_bytes(int level) {
  // Measured with zstd 1.5.4 for windows of 1 MiB: the contexts of all frame encoders together.
  constexpr std::array<std::size_t, kMaxCompression> kContextsMiB = {2,  4,  6,  9, 15,
                                                                     15, 19, 19, 20};
  const bool thorough = level > kFastCompression;
  const auto i = static_cast<std::size_t>(std::clamp(level, kFastCompression, kMaxCompression) - 1);
  // The vectors of a Coder: `plane_` takes a little more than half a chunk. A decoder has another.
  const std::size_t chunks = thorough ? 6 : 4;
  return (kContextsMiB[i] + chunks) << 20;
}

ChunkEncoder::ChunkEncoder(int level) : coder_(std::make_unique<Coder>(level)) {}
ChunkEncoder::~ChunkEncoder() = default;
ChunkEncoder::ChunkEncoder(ChunkEncoder&&) noexcept = default;
ChunkEncoder& ChunkEncoder::operator=(ChunkEncoder&&) noexcept = default;

Result<ChunkEncoder::Encoded> ChunkEncoder::encode(ByteSpan logical, ElementLayout layout) {
  return coder_->encode(logical, layout);
}

}  // namespace espalier
