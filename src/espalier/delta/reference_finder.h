// Finds what of a tree lies in other files already, so that a save need not write it again.
//
//   ReferenceFinder finder(state, std::move(bases), rules);
//   while (finder.next()) {
//     for (std::size_t i = 0; i < finder.steps(); ++i) {
//       finder.step(i, host, scratch);  // on any threads, in any order
//     }
//   }
//   References references = finder.take();
#ifndef ESPALIER_DELTA_REFERENCE_FINDER_H_
#define ESPALIER_DELTA_REFERENCE_FINDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/checkpoint.h"
#include "espalier/codec/chunk_encoder.h"
#include "espalier/codec/compression_level.h"
#include "espalier/codec/hash.h"
#include "espalier/delta/reference_collector.h"
#include "espalier/dtype.h"
#include "espalier/error.h"
#include "espalier/format/element_layout.h"
#include "espalier/value.h"
#include "espalier/write/references.h"

namespace espalier {

/// What reads the bases, and makes patches if there are to be any. One per thread.
class FinderHost {
 public:
  using Patch = std::shared_ptr<const std::vector<std::byte>>;

  virtual ~FinderHost() = default;
  /// Returns chunk `i` of a tensor of base number `base`, checked; valid until the next call.
  [[nodiscard]] virtual Result<ByteSpan> read_chunk(std::size_t base, const TensorRef& tensor,
                                                    std::uint32_t i) = 0;
  /// Copies bytes of a file of a base to `out`, which has as many.
  [[nodiscard]] virtual Result<void> copy(const BaseExtent& from, MutableByteSpan out) = 0;
  /// Makes the patch that turns `before` into `now`; null if it is not worth it. Only asked for if
  /// FindRules::patches is true: so a program that makes none has no encoder of them.
  [[nodiscard]] virtual Result<Patch> make_patch(ByteSpan before, ByteSpan now,
                                                 ElementLayout layout);
};

/// As of SaveOptions.
struct FindRules {
  bool patches = false;
  double most_of_full = 1;
  int compression_level = kNoCompression;
};

/// The machine that finds References: the chunks of a state that are equal to those at the same key
/// path of one of several bases, the first that has the tensor with this dtype and size; and
/// patches of those that differ a little. Nothing if the file would take more than `most_of_full`.
/// Only hashes are compared, and of a base, its head is read and the chunks that are patched; a
/// base without hashes is read. Not looked for: streamed tensors, which can be read once, and what
/// a base does not hold as it is (compressed by an archive, with strides, in another byte order).
/// If a base turns out to be damaged, its chunks are written in full. A tensor without a
/// counterpart at its path is compared with the one that begins with the same chunk.
///
/// It does no I/O and holds no thread. It works in stages, each of steps that do not depend on each
/// other.
class ReferenceFinder {
 public:
  /// Memory and codecs for steps. One per thread.
  class Scratch {
   private:
    friend class ReferenceFinder;
    std::vector<std::byte> bytes_;
    std::optional<ChunkEncoder> encoder_;
  };

  /// Bytes that a step asks for.
  struct Need {
    /// Of this tensor of the state: its own bytes, as file 0. If null, those of base number `base`.
    const Tensor* tensor = nullptr;
    std::size_t base = 0;
    /// Of a base: the tensor whose bytes they are, packed, as file 0. If there is none, they are
    /// those of a file.
    std::optional<TensorRef> there = std::nullopt;
    Extent extent = {};
  };

  /// `state` must outlive it.
  ReferenceFinder(const Value& state, std::vector<ReferenceBase> bases, const FindRules& rules);

  /// Goes on to the next stage, once all steps of the one before are done. False after the last.
  bool next();
  /// How many steps the stage has: any number, also 0.
  std::size_t steps() const;
  /// Whether it is the one that compares tensors: the others take little time.
  bool is_comparing() const { return stage_ == Stage::kCompare; }
  /// Bytes of the state that a step compares: none in another stage.
  std::uint64_t step_bytes(std::size_t i) const;
  /// What step `i` reads, for hosts that have to bring it first.
  std::vector<Need> needs(std::size_t i) const;
  /// Thread-safe for different steps, hosts and scratches. kInvalidArgument for a base whose name
  /// is no is_file_label(), or two files of one name that differ. Errors of reading.
  [[nodiscard]] Result<void> step(std::size_t i, FinderHost& host, Scratch& scratch);
  /// What was found.
  References take() { return std::move(references_); }

 private:
  enum class Stage { kBegin, kFirstChunks, kCompare, kSample, kCollect, kEnd };

  // A tensor of the new tree, and the one at its place in a base.
  struct Pair {
    const Tensor* tensor;
    TensorRef there;
    std::size_t base;
  };
  // A tensor of a base.
  struct BaseTensor {
    std::size_t base;
    std::uint32_t number;
  };
  // A chunk that is compared.
  struct Place {
    std::size_t pair;
    std::uint32_t chunk;
  };
  // Part of a tensor that shows how small it gets.
  struct Sample {
    const Tensor* tensor;
    std::uint64_t offset;
    std::size_t length;
    std::size_t stored = 0;
  };
  using Found = std::optional<FoundChunk>;

  void match(const Value& state, std::size_t base);
  void add(const Tensor* tensor, const std::optional<TensorRef>& there, std::size_t base);
  void plan_first_chunks();
  void match_renamed();
  void plan_places();
  void plan_samples();
  bool is_worth_it() const;
  void plan_collecting();
  [[nodiscard]] Result<void> hash_first_chunk(std::size_t i, Scratch& scratch);
  [[nodiscard]] Result<void> compress(Sample& sample, Scratch& scratch) const;
  [[nodiscard]] Result<void> collect(FinderHost& host);
  [[nodiscard]] Result<Found> find(const Pair& pair, std::uint32_t i, FinderHost& host,
                                   Scratch& scratch) const;

  const std::vector<ReferenceBase> bases_;
  const FindRules rules_;
  Stage stage_ = Stage::kBegin;
  std::vector<const Tensor*> tensors_;  // of the state that have data, each once
  std::uint64_t all_bytes_ = 0;         // of these
  std::vector<Pair> pairs_;
  std::unordered_map<const Tensor*, std::size_t> known_;
  // Tensors without a counterpart, and the hashes of their first chunks; what begins in such a way.
  std::vector<const Tensor*> others_;
  std::vector<std::optional<Hash128>> first_hashes_;
  std::map<Hash128, BaseTensor, HashOrder> by_first_chunk_;
  std::vector<Place> places_;
  std::vector<std::vector<Found>> found_;  // by pair and chunk
  std::vector<Sample> samples_;
  std::vector<FoundTensor> worth_;  // what was found, if it is worth it
  References references_;
};

}  // namespace espalier

#endif  // ESPALIER_DELTA_REFERENCE_FINDER_H_
