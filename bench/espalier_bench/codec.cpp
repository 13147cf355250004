// Times compression in memory: our codec, or zstd alone in the same chunks and with the same hash.
#include "espalier/codec/codec.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "command.h"
#include "report.h"
#include <zstd.h>

#include "espalier/checkpoint_file.h"
#include "espalier/codec/chunk_decoder.h"
#include "espalier/codec/chunk_encoder.h"
#include "espalier/codec/hash.h"
#include "espalier/format/element_layout.h"
#include "espalier/walker.h"
#include "files/os/parallel.h"

namespace espalier::bench {
namespace {

struct Chunk {
  ByteSpan logical;
  ElementLayout layout;
  Hash128 hash;
  Codec codec = Codec::kRaw;
  std::vector<std::byte> stored;
};

// One thread's encoder and decoder.
class Coder {
 public:
  virtual ~Coder() = default;
  /// The bytes are valid until the next call.
  virtual ByteSpan encode(Chunk& chunk) = 0;
  virtual void decode(const Chunk& chunk, MutableByteSpan out) = 0;
};

class OurCoder final : public Coder {
 public:
  explicit OurCoder(int level) : encoder_(level) {}

  ByteSpan encode(Chunk& chunk) override {
    const auto encoded = must(encoder_.encode(chunk.logical, chunk.layout));
    chunk.codec = encoded.codec;
    return encoded.bytes;
  }

  void decode(const Chunk& chunk, MutableByteSpan out) override {
    if (chunk.codec == Codec::kRaw) {
      std::memcpy(out.data(), chunk.stored.data(), out.size());
    } else {
      must(decoder_.decode(chunk.codec, chunk.layout, chunk.stored, out));
    }
  }

 private:
  ChunkEncoder encoder_;
  ChunkDecoder decoder_;
};

class ZstdCoder final : public Coder {
 public:
  explicit ZstdCoder(int level) : level_(level), buffer_(ZSTD_compressBound(kChunkBytes)) {}

  ByteSpan encode(Chunk& chunk) override {
    return {buffer_.data(),
            checked(ZSTD_compressCCtx(encoder_.get(), buffer_.data(), buffer_.size(),
                                      chunk.logical.data(), chunk.logical.size(), level_))};
  }

  void decode(const Chunk& chunk, MutableByteSpan out) override {
    checked(ZSTD_decompressDCtx(decoder_.get(), out.data(), out.size(), chunk.stored.data(),
                                chunk.stored.size()));
  }

 private:
  static std::size_t checked(std::size_t result) {
    if (ZSTD_isError(result) == 0) return result;
    std::fprintf(stderr, "espalier_bench: zstd: %s\n", ZSTD_getErrorName(result));
    std::exit(1);
  }

  int level_;
  std::vector<std::byte> buffer_;
  std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> encoder_{ZSTD_createCCtx(), ZSTD_freeCCtx};
  std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> decoder_{ZSTD_createDCtx(), ZSTD_freeDCtx};
};

// All chunks of all tensors; `keepers` holds their bytes.
std::vector<Chunk> chunks_of(const CheckpointFile& file, std::vector<TensorView>& keepers) {
  std::vector<Chunk> chunks;
  for (Walker walk(file.state()); walk.next();) {
    const auto tensor = walk.node().tensor();
    if (!tensor) continue;
    keepers.push_back(must(file.view(*tensor)));
    const auto bytes = keepers.back().bytes();
    ByteSpan rest = bytes;
    while (!rest.empty()) {
      const ByteSpan logical = rest.first(std::min<std::size_t>(rest.size(), kChunkBytes));
      chunks.push_back({logical, element_layout(tensor->dtype()), {}, Codec::kRaw, {}});
      chunks.back().stored.reserve(ZSTD_compressBound(kChunkBytes));
      rest = rest.subspan(logical.size());
    }
  }
  return chunks;
}

}  // namespace

void codec(const Options& options) {
  const CheckpointFile file = must(CheckpointFile::open(options.file, {.access = Access::kRead}));
  std::vector<TensorView> keepers;
  std::vector<Chunk> chunks = chunks_of(file, keepers);
  std::vector<std::unique_ptr<Coder>> coders;
  for (unsigned i = 0; i < options.threads; ++i) {
    if (options.zstd) {
      coders.push_back(std::make_unique<ZstdCoder>(options.level));
    } else {
      coders.push_back(std::make_unique<OurCoder>(options.level));
    }
  }
  std::vector<std::byte> decoded(chunks.size() * kChunkBytes);
  Samples compress_ns, decode_ns;
  for (std::uint64_t i = 0; i < options.repeat; ++i) {
    auto start = Clock::now();
    must(parallel_for(chunks.size(), options.threads, [&](unsigned worker, std::size_t c) {
      Chunk& chunk = chunks[c];
      chunk.hash = hash128(chunk.logical);
      const ByteSpan encoded = coders[worker]->encode(chunk);
      chunk.stored.assign(encoded.begin(), encoded.end());
      return Result<void>();
    }));
    compress_ns.push_back(nanoseconds_since(start));
    start = Clock::now();
    must(parallel_for(chunks.size(), options.threads, [&](unsigned worker, std::size_t c) {
      const MutableByteSpan out(decoded.data() + c * kChunkBytes, chunks[c].logical.size());
      coders[worker]->decode(chunks[c], out);
      if (hash128(out) != chunks[c].hash) std::exit(3);
      return Result<void>();
    }));
    decode_ns.push_back(nanoseconds_since(start));
  }
  std::uint64_t raw = 0, stored = 0;
  for (const Chunk& chunk : chunks) {
    raw += chunk.logical.size();
    stored += chunk.stored.size();
  }
  Report("codec", options.file)
      .with("threads", options.threads)
      .with("level", options.level)
      .with("zstd", options.zstd)
      .with("raw_bytes", raw)
      .with("stored_bytes", stored)
      .with("compress_ns", compress_ns)
      .with("decode_ns", decode_ns)
      .print();
}

}  // namespace espalier::bench
